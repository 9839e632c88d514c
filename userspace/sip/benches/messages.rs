//! Steps on one message: scan, classify, hash, call key, reply. Named action/class.

use std::hint::black_box;
use std::net::SocketAddr;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use sip::{ReplyLine, Seed, StartLine, TransactionKey};

const SEED: Seed = Seed([11, 22, 33, 44]);
const SOURCE: &str = "198.51.100.7:5060";

/// A message of about 600 bytes, as a phone behind one proxy sends it.
fn message(start_line: &str, to_tag: &str, method: &str) -> Vec<u8> {
    let head = format!(
        "{start_line}\r\nVia: SIP/2.0/UDP 198.51.100.7:5060;rport;branch=z9hG4bK776asdhds\r\n\
         Via: SIP/2.0/UDP 192.0.2.44:5062;branch=z9hG4bKnashds8;received=192.0.2.44\r\nMax-Forwards: 69\r\n\
         From: \"Alice\" <sip:alice@example.net>;tag=1928301774\r\nTo: Bob <sip:bob@example.com>{to_tag}\r\n\
         Call-ID: a84b4c76e66710@pc33.example.net\r\nCSeq: 314159 {method}\r\nContact: <sip:alice@192.0.2.44>\r\n\
         Content-Type: application/sdp\r\nContent-Length: 140\r\n\r\n"
    );
    let mut bytes = head.into_bytes();
    bytes.resize(bytes.len() + 140, b'v');
    bytes
}

/// By class.
fn messages() -> Vec<(&'static str, Vec<u8>)> {
    let request = |method: &str, marker: &str, to_tag: &str| {
        message(&format!("{method} sip:bob@example.com SIP/2.0{marker}"), to_tag, method)
    };
    vec![
        ("invite", request("INVITE", "", "")),
        ("marked_copy", request("INVITE", " rtx=1", "")),
        ("reinvite", request("INVITE", "", ";tag=314")),
        ("register", request("REGISTER", "", "")),
        ("ack", request("ACK", "", ";tag=314")),
        ("bye", request("BYE", "", ";tag=314")),
        ("response", message("SIP/2.0 200 OK", ";tag=314", "INVITE")),
        ("not_sip", vec![b'x'; 600]),
    ]
}

fn scan(c: &mut Criterion) {
    let mut group = c.benchmark_group("scan");
    for (class, bytes) in messages() {
        group.bench_with_input(BenchmarkId::from_parameter(class), &bytes, |b, bytes| {
            b.iter(|| StartLine::scan(black_box(bytes)));
        });
    }
}

fn classify(c: &mut Criterion) {
    let mut group = c.benchmark_group("classify");
    for (class, bytes) in messages() {
        group.bench_with_input(BenchmarkId::from_parameter(class), &bytes, |b, bytes| {
            b.iter(|| sip::classify(black_box(bytes)));
        });
    }
}

fn hash(c: &mut Criterion) {
    let source: SocketAddr = SOURCE.parse().expect("an address");
    let mut group = c.benchmark_group("transaction_hash");
    for (class, bytes) in messages() {
        if !["invite", "marked_copy"].contains(&class) {
            continue;
        }
        let marker = sip::classify(&bytes).marker;
        let key = TransactionKey::new(&SEED);
        group.bench_with_input(BenchmarkId::from_parameter(class), &bytes, |b, bytes| {
            b.iter(|| sip::transaction_hash(&key, source.ip(), 0, black_box(bytes), 0, marker));
        });
    }
}

fn call_key(c: &mut Criterion) {
    let (_, invite) = messages().swap_remove(0);
    c.bench_function("call_key/invite", |b| b.iter(|| sip::call_key(&SEED, black_box(&invite))));
}

fn reply(c: &mut Criterion) {
    let source: SocketAddr = SOURCE.parse().expect("an address");
    let mut group = c.benchmark_group("reply");
    for (class, bytes) in messages() {
        if !["invite", "register"].contains(&class) {
            continue;
        }
        let mut out = [0; 2048];
        sip::write_reply(&bytes, source, &SEED, ReplyLine::default(), &mut out).expect("it gets a reply");
        group.bench_with_input(BenchmarkId::from_parameter(class), &bytes, |b, bytes| {
            b.iter(|| sip::write_reply(black_box(bytes), source, &SEED, ReplyLine::default(), &mut out));
        });
    }
}

criterion_group!(benches, scan, classify, hash, call_key, reply);
criterion_main!(benches);
