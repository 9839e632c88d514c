//! What the program costs: nanoseconds a packet by `BPF_PROG_TEST_RUN`, and its size. Needs root.
//!
//! `cargo run --release -p sipweir-xdp-prog --example program_cost` prints the table of
//! `docs/journal/2026-11-30-xdp-program-cost.md`. Each number is the best of several series, because a shared machine only
//! ever adds time. The packet is the same in each repetition, so caches are warm and branches are known: compare
//! the numbers with one another, not with a NIC.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::Duration;

use sip::{Seed, TransactionKey};
use xdp_prog::{Classifier, Error, HashKey, ServiceAddress, Settings};

const SERIES: usize = 15;
const RUNS_A_SERIES: u32 = 200_000;

const SERVICE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
const PORT: u16 = 5060;

const OVERLOAD: u64 = 1 << 32;
const DISCARD: u64 = 2 << 32;

/// 16 MiB.
const BUCKETS: u32 = 1 << 18;

/// Headers of a plain INVITE, with a body that fills the datagram.
const HEADERS: &str = "Via: SIP/2.0/UDP 198.51.100.7:5060;branch=z9hG4bK776asdhds\r\n\
Max-Forwards: 70\r\n\
From: Alice <sip:alice@example.net>;tag=1928301774\r\n\
To: Bob <sip:bob@example.com>\r\n\
Call-ID: a84b4c76e66710@pc33.example.net\r\n\
CSeq: 314159 INVITE\r\n\
Contact: <sip:alice@198.51.100.7:5060>\r\n\
Allow: INVITE, ACK, CANCEL, OPTIONS, BYE\r\n\
User-Agent: example/1.0 (a telephone)\r\n\
Content-Length: 0\r\n\r\n";

fn main() -> Result<(), Error> {
    let mut classifier = load(0)?;
    print_size(&classifier);
    let invite = |line: &str| packet(SERVICE, PORT, &[line, "\r\n", HEADERS].concat());
    let plain = invite("INVITE sip:bob@example.com SIP/2.0");
    let with_parameter = invite("INVITE sip:bob@example.com;transport=udp SIP/2.0");
    println!("INVITE: {} bytes of datagram", plain.len() - 42);
    println!("| packet | gate | ns |\n|---|---|---:|");

    let elsewhere = packet(SERVICE, 4000, HEADERS);
    let rows: [(&str, &str, u64, &[u8]); 13] = [
        ("not IP (ARP)", "normal", 0, &[&[2; 12][..], &[8, 6], &[0; 46]].concat()),
        ("UDP to another port", "normal", 0, &elsewhere),
        (
            "UDP to the port, another address",
            "normal",
            0,
            &packet(Ipv4Addr::new(192, 0, 2, 11), PORT, HEADERS),
        ),
        ("response", "normal", 0, &invite("SIP/2.0 200 OK")),
        ("ACK", "normal", 0, &invite("ACK sip:bob@example.com SIP/2.0")),
        ("INVITE", "normal", 0, &plain),
        ("INVITE, one URI parameter", "normal", 0, &with_parameter),
        ("copy, marker field", "normal", 0, &invite("INVITE sip:bob@example.com SIP/2.0 rtx=1")),
        ("copy, marker in the URI", "normal", 0, &invite("INVITE sip:bob@example.com;rtx=1 SIP/2.0")),
        ("INVITE, shed", "discard", DISCARD, &plain),
        ("INVITE, shed", "overload", OVERLOAD, &plain),
        ("INVITE, admitted", "overload", OVERLOAD | 0xffff_ffff, &plain),
        ("INVITE rtx=0, shed", "overload", OVERLOAD, &invite("INVITE sip:bob@example.com SIP/2.0 rtx=0")),
    ];
    for (name, gate, word, packet) in rows {
        classifier.publish_gate(0, 0, word)?;
        println!("| {name} | {gate} | {} |", best(&classifier, packet)?.as_nanos());
    }
    drop(classifier);
    with_transactions(&plain)
}

/// The same INVITE with a table of 16 MiB: unknown; known, from whichever state; shed, which enters it.
fn with_transactions(plain: &[u8]) -> Result<(), Error> {
    let mut classifier = load(BUCKETS)?;
    print_size(&classifier);
    println!("| packet | gate | ns |\n|---|---|---:|");
    let row = |name: &str, gate: &str, classifier: &Classifier| -> Result<(), Error> {
        println!("| {name} | {gate} | {} |", best(classifier, plain)?.as_nanos());
        Ok(())
    };
    row("INVITE, unknown", "normal", &classifier)?;
    classifier.publish_gate(0, 0, OVERLOAD | 0xffff_ffff)?;
    row("INVITE, unknown, admitted", "overload", &classifier)?;
    // The first one is entered as shed, the rest are its copies, in excess from the seventh on.
    classifier.publish_gate(0, 0, DISCARD)?;
    row("INVITE, copy from the table", "discard", &classifier)
}

fn load(transaction_buckets: u32) -> Result<Classifier, Error> {
    let seed = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 0x1357_9bdf_0246_8ace, 0xeca8_6420_fdb9_7531];
    let hash_key = HashKey(Box::new(*TransactionKey::new(&Seed(seed)).words()));
    let service = ServiceAddress { ip: Some(IpAddr::V4(SERVICE)), port: PORT, reply_owed: true };
    Classifier::load(&Settings {
        link_addresses: Some(vec![[2, 0, 0, 0, 0, 1]]),
        vlans: Some([].into()),
        transaction_buckets,
        ..Settings::new(hash_key, vec![service])
    })
}

fn best(classifier: &Classifier, packet: &[u8]) -> Result<Duration, Error> {
    let mut best = Duration::MAX;
    for _ in 0..SERIES {
        best = best.min(classifier.time_run(packet, RUNS_A_SERIES)?);
    }
    Ok(best)
}

/// Sizes and verified instructions as the kernel tells them.
fn print_size(classifier: &Classifier) {
    let path = format!("/proc/self/fdinfo/{}", classifier.program_fd().as_raw_fd());
    let info = std::fs::read_to_string(path).unwrap_or_default();
    let field =
        |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("unknown").trim();
    println!("verified instructions: {}", field("verified_insns:"));
    let shown = Command::new("bpftool").args(["prog", "show", "id", field("prog_id:")]).output();
    if let Ok(shown) = shown {
        let text = String::from_utf8_lossy(&shown.stdout);
        println!("{}", text.lines().find(|line| line.contains("xlated")).unwrap_or("sizes: unknown").trim());
    }
}

fn packet(destination: Ipv4Addr, port: u16, datagram: &str) -> Vec<u8> {
    let udp_len = u16::try_from(datagram.len() + 8).unwrap_or(u16::MAX);
    let mut bytes = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0].to_vec();
    bytes.extend([0x45, 0]);
    bytes.extend((udp_len + 20).to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    bytes.extend([198, 51, 100, 7]);
    bytes.extend(destination.octets());
    bytes.extend(5060_u16.to_be_bytes());
    bytes.extend(port.to_be_bytes());
    bytes.extend(udp_len.to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(datagram.as_bytes());
    bytes
}
