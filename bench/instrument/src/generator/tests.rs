//! Frames of the loaded program, one by one, checked by another library. Need root.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::select;

use super::{Generator, Slot, Stream};
use crate::frame::{Flow, Request, Template};

fn flow(v6: bool) -> Flow {
    let (source, destination): (IpAddr, SocketAddr) = if v6 {
        ("fd88::".parse().expect("an address"), "[fd77::2]:5060".parse().expect("an address"))
    } else {
        ("10.88.0.0".parse().expect("an address"), "10.77.0.2:5060".parse().expect("an address"))
    };
    Flow { source_mac: [2, 0x88, 0, 0, 0, 0], destination_mac: [2, 0x77, 0, 0, 0, 2], source, destination }
}

fn template(index: u8, v6: bool, method: &str, marker: &str, frame_len: usize) -> Template {
    let request = Request { method: method.to_owned(), marker: marker.to_owned(), frame_len };
    Template::new(index, &flow(v6), &request).expect("it fits")
}

fn fresh(template: u8) -> Slot {
    Slot { template, copy_of: None }
}

fn copy(template: u8, back: u32) -> Slot {
    Slot { template, copy_of: Some(back) }
}

fn load(templates: Vec<Template>, pattern: Vec<Slot>, sources: u32) -> Generator {
    Generator::load(&Stream { templates, pattern, sources }, "lo", 0).expect("loaded")
}

/// Source address and datagram, after every length and checksum was found right.
fn opened(frame: &[u8]) -> (IpAddr, Vec<u8>) {
    let packet = SlicedPacket::from_ethernet(frame).expect("headers");
    let Some(TransportSlice::Udp(udp)) = &packet.transport else { panic!("not UDP") };
    let (source, expected) = match packet.net.as_ref().expect("IP") {
        NetSlice::Ipv4(ip) => {
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            let sum = udp.to_header().calc_checksum_ipv4(&header, udp.payload()).expect("a sum");
            (IpAddr::V4(ip.header().source_addr()), sum)
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header().to_header();
            let sum = udp.to_header().calc_checksum_ipv6(&header, udp.payload()).expect("a sum");
            (IpAddr::V6(ip.header().source_addr()), sum)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(udp.checksum(), expected, "UDP checksum");
    assert_eq!(usize::from(udp.length()), 8 + udp.payload().len());
    (source, udp.payload().to_vec())
}

#[test]
fn a_request_is_whole_and_its_body_as_long_as_it_says() {
    let mut generator = load(vec![template(0, false, "INVITE", "", 600)], vec![fresh(0)], 1);
    let frame = generator.next_frame();
    assert_eq!(frame.len(), 600);
    let (_, datagram) = opened(&frame);
    let text = String::from_utf8(datagram).expect("ASCII");
    let (head, body) = text.split_once("\r\n\r\n").expect("an empty line");
    let length: usize =
        head.rsplit_once("Content-Length: ").and_then(|(_, length)| length.parse().ok()).expect("a length");
    assert_eq!(length, body.len());
    assert!(head.starts_with(
        "INVITE sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/UDP 10.88.0.0:5060;rport;branch=z9hG4bK"
    ));
    assert_eq!(head.matches("aaaaaaaa").count(), 3, "number 0 thrice: {head}");
}

#[test]
fn requests_differ_and_copies_are_the_same_bytes_from_the_same_source() {
    let pattern = vec![fresh(0), fresh(0), copy(0, 1), copy(0, 0), fresh(0), copy(0, 2)];
    let mut generator = load(vec![template(0, false, "INVITE", "", 600)], pattern, 256);
    let frames: Vec<Vec<u8>> = (0..12).map(|_| generator.next_frame()).collect();
    for first in [0, 6] {
        assert_eq!(frames[first], frames[first + 2], "the copy of the request before the last");
        assert_eq!(frames[first + 1], frames[first + 3]);
        assert_eq!(frames[first], frames[first + 5]);
    }
    let distinct: HashSet<&Vec<u8>> = frames.iter().collect();
    assert_eq!(distinct.len(), 6);
    assert_eq!(generator.sent().expect("counted")[0], 12);
}

#[test]
fn a_marked_copy_differs_from_its_original_in_the_marker_alone() {
    let templates =
        vec![template(0, false, "INVITE", " rtx=0", 600), template(1, false, "INVITE", " rtx=1", 600)];
    let mut generator = load(templates, vec![fresh(0), copy(1, 0)], 256);
    for _ in 0..3 {
        let (original, copy) = (opened(&generator.next_frame()), opened(&generator.next_frame()));
        assert_eq!(original.0, copy.0);
        let differing = original.1.iter().zip(&copy.1).filter(|(a, b)| a != b).count();
        assert_eq!((differing, original.1.len()), (1, copy.1.len()));
    }
}

#[test]
fn a_range_is_gone_through_again_with_the_same_bytes() {
    let mut generator = load(vec![template(0, true, "MESSAGE", "", 600)], vec![fresh(0)], 65_536);
    generator.go_round(1000, 4).expect("a range");
    let frames: Vec<Vec<u8>> = (0..8).map(|_| generator.next_frame()).collect();
    assert_eq!(frames[..4], frames[4..]);
    assert_eq!(frames.iter().collect::<HashSet<_>>().len(), 4);
    generator.go_round(1004, 4).expect("a range");
    assert!(!frames.contains(&generator.next_frame()), "another range holds other requests");
}

#[test]
fn sources_are_as_many_as_asked_for() {
    let mut generator = load(vec![template(0, false, "INVITE", "", 600)], vec![fresh(0)], 8);
    let sources: HashSet<IpAddr> = (0..32).map(|_| opened(&generator.next_frame()).0).collect();
    let expected = (0..8).map(|last| IpAddr::from([10, 88, 0, last])).collect();
    assert_eq!(sources, expected);
}

#[test]
fn streams_that_cannot_be_meant_are_refused_with_the_reason() {
    let invite = |len| template(0, false, "INVITE", "", len);
    let refusal = |stream: &Stream| Generator::load(stream, "lo", 0).expect_err("refused").to_string();
    let stream = Stream { templates: vec![invite(600)], pattern: vec![fresh(0)], sources: 1 };
    assert!(refusal(&Stream { sources: 3, ..stream.clone() }).contains("power of two"));
    assert!(refusal(&Stream { pattern: vec![fresh(1)], ..stream.clone() }).contains("not there"));
    assert!(refusal(&Stream { pattern: vec![fresh(0); 65], ..stream.clone() }).contains("1 to 64"));
    assert!(
        refusal(&Stream { templates: vec![invite(600), invite(602)], ..stream }).contains("equally long")
    );
}

fn shape() -> impl Strategy<Value = (bool, &'static str, &'static str, usize)> {
    let methods = select(vec!["INVITE", "OPTIONS", "REGISTER", "MESSAGE"]);
    (any::<bool>(), methods, select(vec!["", " rtx=0", " rtx=7"]), 460_usize..1000)
}

proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(40))]
    #[test]
    fn every_length_and_checksum_is_right_whatever_the_frame_held_before(
        a in shape(), b in shape(), base in any::<u32>(), sources in 0_u32..=16,
    ) {
        // Two templates in turn, over the same frame: each run finds its own first frame, not the other's.
        let templates = vec![
            template(0, a.0, a.1, a.2, a.3),
            template(1, b.0, b.1, b.2, a.3),
        ];
        let mut generator = load(templates, vec![fresh(0), fresh(1), copy(1, 0)], 1 << sources);
        generator.go_round(base, 1 << 20).expect("a range");
        let frames: Vec<Vec<u8>> = (0..6).map(|_| generator.next_frame()).collect();
        for (index, frame) in frames.iter().enumerate() {
            let (source, datagram) = opened(frame);
            prop_assert_eq!(frame.len(), a.3);
            let v6 = if index % 3 == 0 { a.0 } else { b.0 };
            prop_assert_eq!(source.is_ipv6(), v6);
            let method = if index % 3 == 0 { a.1 } else { b.1 };
            prop_assert!(datagram.starts_with(method.as_bytes()));
        }
        prop_assert_eq!(&frames[1], &frames[2]);
    }
}
