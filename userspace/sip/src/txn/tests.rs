use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::class::MarkerForm;
use crate::message::classify;

const SEED: Seed = Seed([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 42, 4711]);
const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

/// The definition, word by word, over a copy of the canonical bytes.
fn naive_hash(seed: &Seed, source: IpAddr, canonical: &[u8]) -> u64 {
    let address = match source {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    let word = |bytes: &[u8]| (0..).zip(bytes).fold(0, |word, (i, byte)| word | u64::from(*byte) << (8 * i));
    let mut a = seed.0[0] ^ word(&address[..8]);
    let mut b = seed.0[1] ^ word(&address[8..]);
    for (i, bytes) in canonical.chunks(8).enumerate() {
        if i % 2 == 0 {
            a = (a ^ word(bytes)).wrapping_mul(seed.0[2] | 1).rotate_left(29);
        } else {
            b = (b ^ word(bytes)).wrapping_mul(seed.0[3] | 1).rotate_left(31);
        }
    }
    let len = canonical.len() as u64;
    match mix64(a ^ b.rotate_left(32) ^ len.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
        0 => 1,
        hash => hash,
    }
}

fn hash_of(datagram: &[u8]) -> u64 {
    let message = classify(datagram);
    transaction_hash(&SEED, SOURCE, datagram, usize::from(message.start), message.marker)
}

#[test]
fn a_request_and_its_copies_have_one_hash_at_every_marker_position_and_parity() {
    for user in 1..40 {
        let user = "u".repeat(user);
        let plain = format!("INVITE sip:{user}@h;lr SIP/2.0\r\nCall-ID: {user}\r\n\r\n");
        let expected = hash_of(plain.as_bytes());
        assert_eq!(expected, naive_hash(&SEED, SOURCE, plain.as_bytes()));
        for copy in [0, 1, 9, 10, 99] {
            let field = plain.replacen("SIP/2.0", &format!("SIP/2.0 rtx={copy}"), 1);
            let behind = plain.replacen(";lr", &format!(";lr;rtx={copy}"), 1);
            let between = plain.replacen(";lr", &format!(";rtx={copy};lr"), 1);
            for marked in [field, behind, between] {
                assert!(classify(marked.as_bytes()).marker.is_some(), "{marked}");
                assert_eq!(hash_of(marked.as_bytes()), expected, "{marked}");
                assert_eq!(hash_of(format!("\r\n\n{marked}").as_bytes()), expected, "{marked}");
            }
        }
    }
}

#[test]
fn any_other_byte_makes_another_transaction() {
    let plain = b"OPTIONS sip:a@b SIP/2.0\r\nVia: x\r\n\r\n".to_vec();
    let expected = hash_of(&plain);
    for i in 0..plain.len() {
        let mut other = plain.clone();
        other[i] ^= 0x40;
        assert_ne!(hash_of(&other), expected, "byte {i}");
    }
    assert_ne!(hash_of(&[&plain[..], &[0]].concat()), expected, "a zero byte at the end");
}

#[test]
fn the_source_address_counts_and_a_mapped_one_is_its_ipv4_address() {
    let datagram = b"OPTIONS sip:a@b SIP/2.0\r\n\r\n";
    let from = |source| transaction_hash(&SEED, source, datagram, 0, None);
    assert_ne!(from(SOURCE), from(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 8))));
    let mapped = Ipv4Addr::new(192, 0, 2, 7).to_ipv6_mapped();
    assert_eq!(from(SOURCE), from(IpAddr::V6(mapped)));
    assert_ne!(from(IpAddr::V6(Ipv6Addr::LOCALHOST)), from(IpAddr::V6(Ipv6Addr::UNSPECIFIED)));
}

#[test]
fn each_word_of_the_seed_counts() {
    let datagram = b"OPTIONS sip:a@b SIP/2.0\r\n\r\n";
    let expected = transaction_hash(&SEED, SOURCE, datagram, 0, None);
    for i in 0..4 {
        let mut seed = SEED;
        seed.0[i] ^= 1 << 40;
        assert_ne!(transaction_hash(&seed, SOURCE, datagram, 0, None), expected, "word {i}");
    }
}

#[test]
fn a_marker_outside_the_datagram_cuts_nothing_out() {
    let datagram = b"0123456789";
    let plain = transaction_hash(&SEED, SOURCE, datagram, 2, None);
    for (offset, len) in [(0, 1), (11, 1), (9, 2), (65535, 255)] {
        let marker = Some(Marker { form: MarkerForm::Field, copy: 1, offset, len });
        assert_eq!(transaction_hash(&SEED, SOURCE, datagram, 2, marker), plain, "{offset} {len}");
    }
    assert_ne!(transaction_hash(&SEED, SOURCE, datagram, 70_000, None), plain);
}

#[test]
fn the_admitted_share_is_the_share_of_transactions() {
    let half = u32::MAX / 2;
    let admitted = (0..10_000u32)
        .filter(|i| share_hash(hash_of(format!("INVITE sip:{i}@b SIP/2.0\r\n\r\n").as_bytes())) < half)
        .count();
    // Five standard deviations of a fair coin.
    assert!((4750..=5250).contains(&admitted), "{admitted}");
}

proptest! {
    #[test]
    fn the_hash_is_its_definition(
        seed: [u64; 4],
        address: [u8; 16],
        front in proptest::collection::vec(any::<u8>(), 0..100),
        back in proptest::collection::vec(any::<u8>(), 0..100),
        cut in 0usize..9,
    ) {
        let (seed, source) = (Seed(seed), IpAddr::from(address));
        let marker = Marker {
            form: MarkerForm::Uri,
            copy: 1,
            offset: u16::try_from(front.len()).unwrap(),
            len: u8::try_from(cut).unwrap(),
        };
        let datagram = [&front[..], &vec![b'x'; cut], &back].concat();
        prop_assert_eq!(
            transaction_hash(&seed, source, &datagram, 0, Some(marker)),
            naive_hash(&seed, source, &[front, back].concat()),
        );
        prop_assert_eq!(
            transaction_hash(&seed, source, &datagram, 0, None),
            naive_hash(&seed, source, &datagram),
        );
    }
}

#[test]
fn a_peer_is_an_ipv4_address_or_an_ipv6_subnet_and_each_use_has_its_own_key() {
    let seed = Seed([1, 2, 3, 4]);
    let key = |text: &str| address_key(&seed, text.parse().unwrap(), 0);
    assert_eq!(key("192.0.2.7"), key("::ffff:192.0.2.7"));
    assert_ne!(key("192.0.2.7"), key("192.0.2.8"));
    assert_eq!(key("2001:db8:1:2::7"), key("2001:db8:1:2:ffff::1"));
    assert_ne!(key("2001:db8:1:2::7"), key("2001:db8:1:3::7"));
    assert_ne!(key("192.0.2.7"), address_key(&Seed([9, 2, 3, 4]), "192.0.2.7".parse().unwrap(), 0));
    assert_ne!(key("192.0.2.7"), address_key(&seed, "192.0.2.7".parse().unwrap(), 1));
}
