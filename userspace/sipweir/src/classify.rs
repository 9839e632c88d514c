//! `sipweir classify`: what would sipweir do with this traffic?
//!
//! Every packet goes, in order, through the real XDP program (`BPF_PROG_TEST_RUN`) and through the
//! user-space classifier, and both answers are printed. The program's gates are set to "overload, admit all",
//! since it reads headers only while a gate is not open: so it says all that it can, and sheds nothing. Every request
//! is taken to be handed over at once, so that the next one with its bytes is its copy (`classify/memory.rs`).

mod memory;
mod reply;
mod source;

use std::io::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use afxdp::MappedWords;
use clap::Args as ClapArgs;
use overload::{GateState, GateWord};
use serde::Serialize;
use sip::{Class, Reason, Seed, Services, TransactionKey, Verdict};

use crate::config::{Config, Listen, Privileges};
use crate::privileged::Privileged;
use memory::Memory;
use reply::{Replies, ReplyAnswer};

/// Longest packet that fits a frame of the default size; the XDP program passes longer ones.
const FRAME_BYTES_MAX: u32 = 2048 - afxdp::XDP_HEADROOM;

/// Longest packet that a test run shows the program in one piece: a page less headroom (256) and `skb_shared_info`
/// (320), `bpf_prog_test_run_xdp` in net/bpf/test_run.c. Of a longer one the program would see the first part only
/// and call it truncated; a driver without fragments never delivers one.
const TEST_RUN_BYTES_MAX: usize = 4096 - 256 - 320;

/// Any seed will do, but always the same, so that two runs can be compared.
const SEED: [u64; 4] = [1, 2, 3, 4];

/// Arguments of the command.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// SIP messages (.sip, .dat, .txt: one datagram a file) and captures (pcap, pcapng).
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
    /// Addresses that count as services, such as 192.0.2.1:5060 or *:5060.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "*:5060", conflicts_with = "config")]
    listen: Vec<Listen>,
    /// Take the services from this configuration instead.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Show for each request the reply that it would get if the gate shed it.
    #[arg(long)]
    reply: bool,
}

/// One packet, as printed.
#[derive(Debug, Serialize)]
struct Row<'a> {
    source: &'a str,
    index: usize,
    kernel: Option<Answer>,
    user: Answer,
    method: Option<&'static str>,
    marker: Option<MarkerAnswer>,
    /// Hash of the transaction, hexadecimal, of requests that the table remembers.
    txn: Option<String>,
    /// The original, if this is its copy: its place among all packets of the run, from 0.
    copy_of: Option<usize>,
    /// A request inside a dialog.
    dialog: bool,
    /// An emergency call.
    emergency: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply: Option<ReplyAnswer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct Answer {
    class: &'static str,
    verdict: &'static str,
    reason: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct MarkerAnswer {
    form: &'static str,
    copy: u8,
}

impl Answer {
    fn new(class: Class, verdict: Verdict, reason: Reason) -> Self {
        Self { class: class.name(), verdict: verdict.name(), reason: reason.name() }
    }
}

/// What user space makes of a packet by itself.
#[derive(Debug, PartialEq, Eq)]
struct UserAnswer {
    answer: Answer,
    method: Option<&'static str>,
    marker: Option<MarkerAnswer>,
    dialog: bool,
    /// The message, and the hash of its transaction if the table remembers it.
    message: Option<(sip::Message, Option<u64>)>,
}

fn user_space(
    packet: &[u8],
    services: &Services,
    privileged: &Privileged,
    key: &TransactionKey,
) -> UserAnswer {
    match sip::parse_packet(packet, services, FRAME_BYTES_MAX as usize) {
        Err((class, reason)) => UserAnswer {
            answer: Answer::new(class, Verdict::Pass, reason),
            method: None,
            marker: None,
            dialog: false,
            message: None,
        },
        Ok((datagram, service)) => {
            let payload = datagram.payload(packet);
            let message = privileged.raise(sip::classify(payload), payload, datagram.source.ip());
            let start = usize::from(message.start);
            let hash = Memory::remembers(message.class).then(|| {
                sip::transaction_hash(key, datagram.source.ip(), service, payload, start, message.marker)
            });
            let request =
                !matches!(message.class, Class::Response | Class::Keepalive | Class::Stun | Class::NotSip);
            UserAnswer {
                answer: Answer::new(message.class, sip::verdict_of(message.class), message.reason),
                method: request.then(|| message.method.name()),
                marker: message
                    .marker
                    .map(|marker| MarkerAnswer { form: marker.form.name(), copy: marker.copy }),
                dialog: is_in_dialog(payload, &message),
                message: Some((message, hash)),
            }
        }
    }
}

/// Whether a request is inside a dialog; of a marked copy the marker has said less than its headers do.
fn is_in_dialog(payload: &[u8], message: &sip::Message) -> bool {
    match message.marker.filter(|_| message.class == Class::Copy) {
        None => message.class == Class::InDialog,
        Some(marker) => {
            let (front, back) = payload.split_at(usize::from(marker.offset));
            let unmarked = [front, back.get(usize::from(marker.len)..).unwrap_or(&[])].concat();
            sip::classify(&unmarked).class == Class::InDialog
        }
    }
}

/// Runs the command. Exit status 2 if a file could not be read, after the others were done.
#[must_use]
pub fn main(args: &Args) -> ExitCode {
    let config = match args.config.as_deref().map(Config::read).transpose() {
        Ok(config) => config,
        Err(error) => {
            eprintln!("sipweir: {error}");
            return ExitCode::from(2);
        }
    };
    let endpoints: Vec<(Option<IpAddr>, u16)> = match &config {
        None => args.listen.iter().flat_map(|listen| listen.0.iter().copied()).collect(),
        Some(config) => config.service.values().flat_map(|service| service.listen.0.clone()).collect(),
    };
    let seed = config.as_ref().and_then(|config| config.seed.as_ref()).map_or(SEED, |seed| seed.0);
    let mut replies = args.reply.then(|| Replies::new(config.as_ref(), &endpoints, Seed(seed)));
    let services = Services::new(endpoints.iter().copied());
    let privileges = config.as_ref().map(|config| config.privileges.clone()).unwrap_or_default();
    let privileged = Privileged::new(&privileges);
    let key = TransactionKey::new(&Seed(seed));
    let kernel = match load(&endpoints, &key, &privileges) {
        Ok(kernel) => Some(kernel),
        Err(error) => {
            eprintln!("sipweir: without the XDP program's answers (\"kernel\": null): {error}");
            None
        }
    };
    let table = kernel.as_ref().and_then(|kernel| {
        MappedWords::map(kernel.transactions_fd(), memory::BUCKETS as usize * overload::SLOTS).ok()
    });
    let mut memory = Memory::new(table);
    // Packets of all files, and the time of the last one that had a time.
    let (mut number, mut at_ns) = (0, 0);
    let mut failed = false;
    for file in &args.files {
        let name = file.display().to_string();
        let result = source::packets(file, &endpoints, &mut |recorded| {
            let source::Recorded { index, packet, .. } = recorded;
            at_ns = recorded.at_ns.unwrap_or(at_ns);
            let user = user_space(packet, &services, &privileged, &key);
            let hash = user.message.and_then(|(_, hash)| hash);
            let seen = user
                .message
                .zip(hash)
                .map(|((message, _), hash)| memory.recall(&message, hash, number, at_ns));
            let fits = packet.len() <= TEST_RUN_BYTES_MAX;
            let kernel = kernel.as_ref().filter(|_| fits).and_then(|kernel| kernel.test_run(packet).ok());
            if let Some(hash) = hash {
                memory.handed_over(hash, at_ns);
            }
            number += 1;
            print_row(
                args.json,
                &Row {
                    source: &name,
                    index,
                    kernel: kernel.as_ref().and_then(kernel_answer),
                    user: seen.map_or(user.answer, |seen| {
                        let (class, verdict, reason) = seen.answer;
                        Answer::new(class, verdict, reason)
                    }),
                    method: user.method,
                    marker: user.marker,
                    txn: hash.map(|hash| format!("{hash:016x}")),
                    copy_of: seen.and_then(|seen| seen.copy_of),
                    dialog: user.dialog,
                    emergency: user.message.is_some_and(|(message, _)| message.class == Class::Emergency),
                    reply: replies.as_mut().map(|replies| replies.answer(packet)),
                },
            );
        });
        if let Err(error) = result {
            eprintln!("sipweir: {}: {error}", display(file));
            failed = true;
        }
    }
    if failed { ExitCode::from(2) } else { ExitCode::SUCCESS }
}

fn kernel_answer(run: &xdp_prog::TestRun) -> Option<Answer> {
    Some(Answer::new(
        Class::from_u8(run.class)?,
        Verdict::from_u8(run.verdict)?,
        Reason::from_u8(run.reason)?,
    ))
}

fn display(file: &Path) -> std::path::Display<'_> {
    file.display()
}

fn load(
    endpoints: &[(Option<IpAddr>, u16)],
    key: &TransactionKey,
    privileges: &Privileges,
) -> Result<xdp_prog::Classifier, xdp_prog::Error> {
    let address = |(ip, port): &(Option<IpAddr>, u16)| xdp_prog::ServiceAddress {
        ip: *ip,
        port: *port,
        reply_owed: true,
    };
    // Any link: a recording may be of any host.
    let mut classifier = xdp_prog::Classifier::load(&xdp_prog::Settings {
        max_frame_len: FRAME_BYTES_MAX,
        emergency_numbers: privileges.number_keys(),
        probers: privileges.networks(),
        transaction_buckets: memory::BUCKETS,
        ..xdp_prog::Settings::new(
            xdp_prog::HashKey(Box::new(*key.words())),
            endpoints.iter().map(address).collect(),
        )
    })?;
    for service in 0..endpoints.len() {
        classifier.publish_gate(service, 0, GateWord::new(GateState::Overload, u32::MAX).bits())?;
    }
    Ok(classifier)
}

fn print_row(json: bool, row: &Row<'_>) {
    if json {
        match serde_json::to_string(row) {
            Ok(line) => say(&line),
            Err(error) => eprintln!("sipweir: {error}"),
        }
        return;
    }
    let answer = |answer: Answer| format!("{}/{}/{}", answer.class, answer.verdict, answer.reason);
    let marker =
        row.marker.map_or(String::new(), |marker| format!("  rtx={} ({})", marker.copy, marker.form));
    let copy = row.copy_of.map_or(String::new(), |original| format!("  copy of packet {original}"));
    say(&format!(
        "{}#{}  {}  kernel {}  user {}{marker}{copy}",
        row.source,
        row.index,
        row.method.unwrap_or("-"),
        row.kernel.map_or("-".into(), answer),
        answer(row.user),
    ));
    if let Some(answer) = &row.reply {
        reply::print(answer);
    }
}

/// Prints a line; a reader that has seen enough (`| head`) ends the command, and well.
pub(super) fn say(line: &str) {
    if writeln!(std::io::stdout(), "{line}")
        .is_err_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    {
        std::process::exit(0);
    }
}

#[cfg(test)]
mod tests;
