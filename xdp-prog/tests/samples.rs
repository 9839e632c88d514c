//! Copies of what the program drops, for captures. Needs root.

mod support;

use afxdp::MappedWords;
use sip::class::{Class, Reason, Verdict};
use support::{ANY_PORT, CALLER_V4, DISCARD, OVERLOAD, PORT, Packet, classifier, decide, gate, set_gates};
use xdp_prog::{Classifier, List, SAMPLING_WORDS, SampleReader, SamplingWord};

/// The service of this port owes no replies, so what its gate sheds is dropped.
const SILENT: u8 = 2;

/// A program that sheds everything, its words and its ring.
struct Sampled {
    classifier: Classifier,
    words: MappedWords,
    reader: SampleReader,
}

impl Sampled {
    fn new() -> Self {
        let mut classifier = classifier();
        set_gates(&mut classifier, gate(DISCARD, 0));
        let words = MappedWords::map(classifier.sampling_fd(), SAMPLING_WORDS).expect("mapped");
        let reader = classifier.samples().expect("a descriptor").reader().expect("a reader");
        Self { classifier, words, reader }
    }

    fn want(&self, reasons: u64, services: u64, classes: u64, share: u64) {
        for (word, value) in [
            (SamplingWord::Services, services),
            (SamplingWord::Classes, classes),
            (SamplingWord::Share, share),
            (SamplingWord::Reasons, reasons),
        ] {
            self.words.store(word as usize, value);
        }
    }

    /// Class, reason, service, length and bytes of what lies in the ring.
    fn drain(&mut self) -> Vec<(u8, u8, u8, u16, Vec<u8>)> {
        let mut seen = Vec::new();
        let drained: Result<(), ()> = self.reader.drain(1000, |sample| {
            assert!(sample.at_ns > 0);
            let bytes = sample.bytes.to_vec();
            seen.push((sample.class, sample.reason, sample.service, sample.packet_len, bytes));
            Ok(())
        });
        drained.expect("nothing fails");
        seen
    }
}

fn silent() -> Packet {
    Packet { destination_port: ANY_PORT, ..Packet::default() }
}

const ALL: u64 = !1;
const ALWAYS: u64 = u32::MAX as u64;

#[test]
fn what_is_dropped_is_copied_while_it_is_wanted() {
    let mut sampled = Sampled::new();
    let dropped = (Class::Original, Reason::GateDiscard, Verdict::Drop);
    assert_eq!(decide(&sampled.classifier, &silent()), dropped);
    assert_eq!(sampled.drain(), [], "nobody asked");

    sampled.want(ALL, ALL, ALL, ALWAYS);
    assert_eq!(decide(&sampled.classifier, &silent()), dropped, "the verdict is the same");
    let bytes = silent().bytes();
    let len = u16::try_from(bytes.len()).expect("short");
    let expected = (Class::Original as u8, Reason::GateDiscard as u8, SILENT, len, bytes);
    assert_eq!(sampled.drain(), [expected]);
    // What goes to a ring is the worker's to copy.
    let owed = Packet { destination_port: PORT, ..Packet::default() };
    assert_eq!(decide(&sampled.classifier, &owed).2, Verdict::RingReject);
    assert_eq!(sampled.drain(), []);

    sampled.words.store(SamplingWord::Reasons as usize, 0);
    assert_eq!(decide(&sampled.classifier, &silent()), dropped);
    assert_eq!(sampled.drain(), []);
}

#[test]
fn each_word_of_the_filter_is_asked() {
    let mut sampled = Sampled::new();
    let (reason, service, class) =
        (1 << Reason::GateDiscard as u64, 1 << SILENT, 1 << Class::Original as u64);
    for (reasons, services, classes, share, count) in [
        (reason, service, class, ALWAYS, 1),
        (ALL & !reason, service, class, ALWAYS, 0),
        (reason, ALL & !service, class, ALWAYS, 0),
        (reason, service, ALL & !class, ALWAYS, 0),
    ] {
        sampled.want(reasons, services, classes, share);
        decide(&sampled.classifier, &silent());
        assert_eq!(sampled.drain().len(), count, "{reasons:x} {services:x} {classes:x}");
    }
    set_gates(&mut sampled.classifier, gate(OVERLOAD, 0));
    sampled.want(1 << Reason::ShareOutside as u64, ALL, ALL, ALWAYS);
    decide(&sampled.classifier, &silent());
    assert_eq!(sampled.drain().len(), 1);
    // One in four, of 2,000: 500, with a deviation of 19.
    sampled.want(ALL, ALL, ALL, ALWAYS / 4);
    let mut seen = 0;
    for _ in 0..20 {
        for _ in 0..100 {
            decide(&sampled.classifier, &silent());
        }
        seen += sampled.drain().len();
    }
    assert!((400..600).contains(&seen), "{seen}");
}

#[test]
fn a_long_packet_is_cut_and_a_full_ring_loses_and_counts() {
    let mut sampled = Sampled::new();
    sampled.want(ALL, ALL, ALL, ALWAYS);
    let mut long = silent();
    // Just within the frames of most instances.
    long.datagram.resize(2048 - long.headers_len(), b'x');
    decide(&sampled.classifier, &long);
    let seen = sampled.drain();
    let len = long.bytes().len();
    assert_eq!((usize::from(seen[0].3), seen[0].4.as_slice()), (len, &long.bytes()[..2000]));
    assert_eq!(len, 2048);
    for _ in 0..200 {
        decide(&sampled.classifier, &silent());
    }
    let (kept, lost) = (sampled.drain().len() as u64, sampled.words.load(SamplingWord::Lost as usize));
    assert!((100..200).contains(&kept), "{kept}");
    assert_eq!(kept + lost, 200);
    decide(&sampled.classifier, &silent());
    assert_eq!(sampled.drain().len(), 1, "it goes on when there is room");
}

#[test]
fn what_a_denied_source_sends_is_copied_too() {
    let mut sampled = Sampled::new();
    let mut lists = sampled.classifier.take_source_lists().expect("the lists");
    lists.enter(List::Deny, CALLER_V4.into(), 32).expect("entered");
    sampled.want(1 << Reason::SourceDenied as u64, ALL, ALL, ALWAYS);
    let dropped = (Class::Undecided, Reason::SourceDenied, Verdict::Drop);
    assert_eq!(decide(&sampled.classifier, &silent()), dropped);
    let seen = sampled.drain();
    assert_eq!((seen[0].1, seen[0].2), (Reason::SourceDenied as u8, SILENT));
    assert_eq!(seen[0].4, silent().bytes());
}
