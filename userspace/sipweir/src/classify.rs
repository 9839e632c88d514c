//! `sipweir classify`: what would sipweir do with this traffic?
//!
//! Every packet goes, in order, through the real XDP program (`BPF_PROG_TEST_RUN`) and through the
//! user-space classifier, and both answers are printed. The program's gates are set to "overload, admit all",
//! since it reads headers only while a gate is not open: so it says all that it can, and sheds nothing.

mod reply;
mod source;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args as ClapArgs;
use overload::{GateState, GateWord};
use serde::Serialize;
use sip::{Class, Reason, Seed, Services, Verdict};

use crate::config::{Config, Listen};
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

/// What user space makes of a packet.
#[derive(Debug, PartialEq, Eq)]
struct UserAnswer {
    answer: Answer,
    method: Option<&'static str>,
    marker: Option<MarkerAnswer>,
}

fn user_space(packet: &[u8], services: &Services) -> UserAnswer {
    match sip::parse_packet(packet, services, FRAME_BYTES_MAX as usize) {
        Err((class, reason)) => {
            UserAnswer { answer: Answer::new(class, Verdict::Pass, reason), method: None, marker: None }
        }
        Ok((datagram, _service)) => {
            let message = sip::classify(datagram.payload(packet));
            let request =
                !matches!(message.class, Class::Response | Class::Keepalive | Class::Stun | Class::NotSip);
            UserAnswer {
                answer: Answer::new(message.class, sip::verdict_of(message.class), message.reason),
                method: request.then(|| message.method.name()),
                marker: message
                    .marker
                    .map(|marker| MarkerAnswer { form: marker.form.name(), copy: marker.copy }),
            }
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
    let mut replies = args.reply.then(|| Replies::new(config.as_ref(), &endpoints, Seed(SEED)));
    let services = Services::new(endpoints.iter().copied());
    let kernel = match load(&endpoints) {
        Ok(kernel) => Some(kernel),
        Err(error) => {
            eprintln!("sipweir: without the XDP program's answers (\"kernel\": null): {error}");
            None
        }
    };
    let mut failed = false;
    for file in &args.files {
        let name = file.display().to_string();
        let result = source::packets(file, &endpoints, &mut |index, packet| {
            let user = user_space(packet, &services);
            let fits = packet.len() <= TEST_RUN_BYTES_MAX;
            let kernel = kernel.as_ref().filter(|_| fits).and_then(|kernel| kernel.test_run(packet).ok());
            print_row(
                args.json,
                &Row {
                    source: &name,
                    index,
                    kernel: kernel.as_ref().and_then(kernel_answer),
                    user: user.answer,
                    method: user.method,
                    marker: user.marker,
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

fn load(endpoints: &[(Option<IpAddr>, u16)]) -> Result<xdp_prog::Classifier, xdp_prog::Error> {
    let address = |(ip, port): &(Option<IpAddr>, u16)| xdp_prog::ServiceAddress {
        ip: *ip,
        port: *port,
        reply_owed: true,
    };
    let mut classifier = xdp_prog::Classifier::load(&xdp_prog::Settings {
        seed: SEED,
        services: endpoints.iter().map(address).collect(),
        max_frame_len: FRAME_BYTES_MAX,
        // A recording may be of any host.
        link_addresses: None,
        vlans: None,
        not_sip_drop: false,
        single_ring: false,
        transaction_buckets: 0,
    })?;
    for service in 0..endpoints.len() {
        classifier.publish_gate(service, 0, GateWord::new(GateState::Overload, u32::MAX).bits())?;
    }
    Ok(classifier)
}

fn print_row(json: bool, row: &Row<'_>) {
    if json {
        match serde_json::to_string(row) {
            Ok(line) => println!("{line}"),
            Err(error) => eprintln!("sipweir: {error}"),
        }
        return;
    }
    let answer = |answer: Answer| format!("{}/{}/{}", answer.class, answer.verdict, answer.reason);
    let marker =
        row.marker.map_or(String::new(), |marker| format!("  rtx={} ({})", marker.copy, marker.form));
    println!(
        "{}#{}  {}  kernel {}  user {}{marker}",
        row.source,
        row.index,
        row.method.unwrap_or("-"),
        row.kernel.map_or("-".into(), answer),
        answer(row.user),
    );
    if let Some(answer) = &row.reply {
        reply::print(answer);
    }
}

#[cfg(test)]
mod tests;
