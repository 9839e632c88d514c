//! The targets of the coverage-guided fuzzer, in ordinary tests: over the corpora, and over made and mutated messages.

use fuzz::case::Case;
use fuzz::corpus;
use fuzz::grammar::write_message;
use fuzz::mutate::mutate;
use fuzz::random::Random;
use fuzz::targets::{reply, scanner, worker};

/// A request that can be answered, with a place for anything.
fn answerable(random: &mut Random, odd: &[u8]) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = vec![
        b"Via: SIP/2.0/UDP 198.51.100.7:5062;branch=z9hG4bKa;rport, SIP/2.0/UDP b",
        b"v: SIP/2.0/TCP c;branch=\"q,;\"",
        b"From: \"A\" <sip:a@b>;tag=1",
        b"To: <sip:b@c>",
        b"Call-ID: 1@a",
        b"CSeq: 1 OPTIONS",
        b"User-Agent: a telephone on a desk, with a long name that leaves room for a reply",
        b"Contact: <sip:a@198.51.100.7>",
    ];
    lines.insert(random.below(lines.len() + 1), odd);
    let mut request = b"OPTIONS sip:b@c SIP/2.0 rtx=1\r\n".to_vec();
    for line in lines {
        request.extend_from_slice(line);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    request
}

#[test]
fn the_scanner_keeps_its_promises() {
    let corpus = corpus::load(&corpus::folder()).expect("the corpora");
    corpus.iter().for_each(|message| scanner(message));
    let mut case = Case::default();
    for index in 0..60_000 {
        case.make(11, index, &corpus);
        scanner(&case.datagram);
    }
}

#[test]
fn datagrams_of_every_length_and_of_random_bytes_are_scanned_and_answered_or_not() {
    let mut random = Random::of(12, 0);
    for len in 0..=2048 {
        let noise: Vec<u8> = (0..len).map(|_| random.byte()).collect();
        scanner(&noise);
        scanner(&vec![b'\n'; len]);
        scanner(&vec![b' '; len]);
        reply(&noise);
    }
}

#[test]
fn the_reply_builder_keeps_its_promises() {
    let corpus = corpus::load(&corpus::folder()).expect("the corpora");
    for message in &corpus {
        reply(&[message.as_slice(), b"\x05\x07\x13\x00"].concat());
    }
    let mut odd = Vec::new();
    for index in 0..60_000 {
        let random = &mut Random::of(13, index);
        write_message(random, &mut odd);
        let len = random.below(odd.len());
        let mut request = answerable(random, &odd[..len]);
        if random.once_in(2) {
            mutate(&mut request, &odd, random);
        }
        let source = [random.byte(), random.byte(), random.byte(), random.byte()];
        reply(&[&request[..], &source].concat());
    }
}

#[test]
fn the_worker_keeps_its_promises() {
    for index in 0..400 {
        let random = &mut Random::of(14, index);
        let len = random.below(1500);
        let bytes: Vec<u8> = (0..len).map(|_| random.byte()).collect();
        worker(&bytes);
    }
}

/// Kinds of a worker with large frames.
const LARGE_FRAMES: u8 = 64 + 2;

#[test]
fn datagrams_of_every_length_go_through_the_worker() {
    for first in (0..=2048_u16).step_by(64) {
        for byte in [b'A', b'\n', 0, 0xff] {
            let mut steps = vec![LARGE_FRAMES];
            for len in first..(first + 64).min(2049) {
                // Step 9 repeats a byte; then as the program would deliver it; step 13 lets 4 ms pass.
                let (eights, ones) = if len == 2048 { (255, 8) } else { (len / 8, len % 8) };
                steps.extend([9, byte, eights as u8, ones as u8, 0, 200, 13, 4, 2]);
            }
            worker(&steps);
        }
    }
}

#[test]
fn random_bytes_of_every_length_go_through_the_worker() {
    let mut random = Random::of(15, 0);
    for first in (0..=255_u8).step_by(16) {
        let mut steps = vec![LARGE_FRAMES];
        for len in first..=first + 15 {
            // Step 8 takes bytes as they are.
            steps.extend([8, len]);
            steps.extend((0..len).map(|_| random.byte()));
            steps.extend([1, 200, 13, 4, 2]);
        }
        worker(&steps);
    }
}
