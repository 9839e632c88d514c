use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::class::MarkerForm;
use crate::message::classify;

const SEED: Seed = Seed([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 42, 4711]);
const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

fn key() -> TransactionKey {
    TransactionKey::new(&SEED)
}

/// The definition, half-word by half-word, over a copy of the canonical bytes; sums in 128 bits, cut at the end.
fn naive_hash(seed: &Seed, source: IpAddr, canonical: &[u8]) -> u64 {
    let address = match source {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    let mut halves = vec![0_u32; 2 * 514];
    for (i, byte) in canonical.iter().enumerate() {
        halves[i / 4] |= u32::from(*byte) << (8 * (i % 4));
    }
    for (i, byte) in address.iter().enumerate() {
        halves[2 * 512 + i / 4] |= u32::from(*byte) << (8 * (i % 4));
    }
    let key = TransactionKey::new(seed);
    let used = canonical.len().div_ceil(8);
    let sum_from = |first: usize| {
        let sum = (0..used).chain(512..514).fold(0_u128, |sum, i| {
            let add = |half: usize| {
                (u128::from(halves[2 * i + half]) + u128::from(key.words()[2 * (i + first) + half]))
                    % (1 << 32)
            };
            sum + add(0) * add(1)
        });
        (sum % (1 << 64)) as u64
    };
    let word = |position: usize| {
        u64::from(key.words()[2 * position + 1]) << 32 | u64::from(key.words()[2 * position])
    };
    let mut finisher = SipHash::<1, 3>::new(word(520), word(521));
    finisher.write(&sum_from(0).to_le_bytes());
    finisher.write(&sum_from(1).to_le_bytes());
    finisher.write(&(canonical.len() as u64).to_le_bytes()[..7]);
    match finisher.finish() {
        0 => 1,
        hash => hash,
    }
}

fn hash_of(datagram: &[u8]) -> u64 {
    let message = classify(datagram);
    transaction_hash(&key(), SOURCE, 0, datagram, usize::from(message.start), message.marker)
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

/// A request of 96 bytes whose words all differ.
fn request() -> Vec<u8> {
    (0..96_u32).map(|i| (i * 37 % 251) as u8).collect()
}

fn flipped(bytes: &[u8], bits: &[usize]) -> Vec<u8> {
    let mut other = bytes.to_vec();
    for bit in bits {
        other[bit / 8] ^= 1 << (bit % 8);
    }
    other
}

#[test]
fn differences_that_would_cancel_in_a_chain_of_multiplications_and_rotations_do_not_collide() {
    let key = key();
    let hash = |datagram: &[u8]| transaction_hash(&key, SOURCE, 0, datagram, 0, None);
    let request = request();
    for block in 0..5 {
        // Bit 63 of a word, and where a rotation by 29 or by 31 would take it in the next word of the lane.
        for (byte, bit, next, next_bit) in [(7, 7, 3, 4), (15, 7, 11, 6)] {
            let bits = [8 * (16 * block + byte) + bit, 8 * (16 * (block + 1) + next) + next_bit];
            assert_ne!(hash(&flipped(&request, &bits)), hash(&request), "{bits:?}");
        }
    }
}

#[test]
fn no_one_or_two_bits_of_address_and_neighbouring_words_make_the_same_hash() {
    let key = key();
    let address: [u8; 16] = std::array::from_fn(|i| 0x20 + i as u8);
    // Address and datagram as one string of bits.
    let hash = |joined: &[u8]| {
        let (address, datagram) = joined.split_first_chunk::<16>().unwrap();
        transaction_hash(&key, IpAddr::from(*address), 0, datagram, 0, None)
    };
    // Four words in front, and the address: all pairs of their bits.
    let joined = [&address[..], &request()[..32]].concat();
    let bits = 8 * joined.len();
    let mut seen = std::collections::HashSet::from([hash(&joined)]);
    for first in 0..bits {
        assert!(seen.insert(hash(&flipped(&joined, &[first]))), "bit {first}");
        for second in 0..first {
            assert!(seen.insert(hash(&flipped(&joined, &[first, second]))), "bits {first}, {second}");
        }
    }
}

#[test]
fn an_address_cannot_be_made_up_for_by_bytes_of_the_datagram() {
    let key = key();
    let datagram = request();
    let plain = transaction_hash(&key, SOURCE, 0, &datagram, 0, None);
    let other = Ipv4Addr::new(192, 0, 2, 200);
    let difference = u32::from_be_bytes(other.octets()) ^ u32::from_be_bytes([192, 0, 2, 7]);
    for at in 0..datagram.len() - 4 {
        let mut moved = datagram.clone();
        for (byte, differs) in moved[at..].iter_mut().zip(difference.to_be_bytes()) {
            *byte ^= differs;
        }
        assert_ne!(transaction_hash(&key, IpAddr::V4(other), 0, &moved, 0, None), plain, "at {at}");
    }
}

#[test]
fn every_position_has_a_key_of_its_own_and_counts_up_to_the_longest_datagram() {
    let key = key();
    let positions: std::collections::HashSet<_> = key.words().as_chunks::<2>().0.iter().collect();
    assert_eq!(positions.len(), HASH_KEY_WORDS / 2);
    for len in [4087, 4088, 4095, 4096, 4097, 5000, 65_487] {
        let datagram = vec![b'x'; len];
        let hash = |datagram: &[u8]| transaction_hash(&key, SOURCE, 0, datagram, 0, None);
        let plain = hash(&datagram);
        for bit in [0, 8 * len / 2, 8 * len - 1] {
            assert_ne!(hash(&flipped(&datagram, &[bit])), plain, "{len}: bit {bit}");
        }
        assert_ne!(
            transaction_hash(&key, IpAddr::V6(Ipv6Addr::LOCALHOST), 0, &datagram, 0, None),
            plain,
            "{len}"
        );
        // The way across the bound is by the length without the marker.
        let marked = [&datagram[..100], b" rtx=0", &datagram[100..]].concat();
        let marker = Marker { form: MarkerForm::Field, copy: 0, offset: 100, len: 6 };
        assert_eq!(transaction_hash(&key, SOURCE, 0, &marked, 0, Some(marker)), plain, "{len}");
    }
}

#[test]
fn the_source_address_counts_and_a_mapped_one_is_its_ipv4_address() {
    let datagram = b"OPTIONS sip:a@b SIP/2.0\r\n\r\n";
    let from = |source| transaction_hash(&key(), source, 0, datagram, 0, None);
    assert_ne!(from(SOURCE), from(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 8))));
    let mapped = Ipv4Addr::new(192, 0, 2, 7).to_ipv6_mapped();
    assert_eq!(from(SOURCE), from(IpAddr::V6(mapped)));
    assert_ne!(from(IpAddr::V6(Ipv6Addr::LOCALHOST)), from(IpAddr::V6(Ipv6Addr::UNSPECIFIED)));
}

#[test]
fn the_same_request_has_a_hash_for_each_service_and_one_share() {
    let key = key();
    for len in [100, 5000] {
        let datagram = vec![b'x'; len];
        let hashes: Vec<u64> = (0..=u8::MAX)
            .map(|service| transaction_hash(&key, SOURCE, service, &datagram, 0, None))
            .collect();
        // 42 bits are the fingerprint of the transaction table.
        let fingerprints: std::collections::HashSet<u64> = hashes.iter().map(|hash| hash >> 22).collect();
        assert_eq!(fingerprints.len(), 256);
        for (service, hash) in (0..=u8::MAX).zip(&hashes) {
            assert_eq!(share_hash(*hash, service), share_hash(hashes[0], 0), "service {service}");
        }
    }
}

#[test]
fn each_word_of_the_seed_counts() {
    let datagram = b"OPTIONS sip:a@b SIP/2.0\r\n\r\n";
    let expected = transaction_hash(&key(), SOURCE, 0, datagram, 0, None);
    for i in 0..4 {
        let mut seed = SEED;
        seed.0[i] ^= 1 << 40;
        assert_ne!(
            transaction_hash(&TransactionKey::new(&seed), SOURCE, 0, datagram, 0, None),
            expected,
            "word {i}"
        );
    }
}

#[test]
fn a_marker_outside_the_datagram_cuts_nothing_out() {
    let datagram = b"0123456789";
    let plain = transaction_hash(&key(), SOURCE, 0, datagram, 2, None);
    for (offset, len) in [(0, 1), (11, 1), (9, 2), (65535, 255)] {
        let marker = Some(Marker { form: MarkerForm::Field, copy: 1, offset, len });
        assert_eq!(transaction_hash(&key(), SOURCE, 0, datagram, 2, marker), plain, "{offset} {len}");
    }
    assert_ne!(transaction_hash(&key(), SOURCE, 0, datagram, 70_000, None), plain);
}

#[test]
fn the_admitted_share_is_the_share_of_transactions() {
    let half = u32::MAX / 2;
    let admitted = (0..10_000u32)
        .filter(|i| share_hash(hash_of(format!("INVITE sip:{i}@b SIP/2.0\r\n\r\n").as_bytes()), 0) < half)
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
        let key = TransactionKey::new(&seed);
        let marker = Marker {
            form: MarkerForm::Uri,
            copy: 1,
            offset: u16::try_from(front.len()).unwrap(),
            len: u8::try_from(cut).unwrap(),
        };
        let datagram = [&front[..], &vec![b'x'; cut], &back].concat();
        prop_assert_eq!(
            transaction_hash(&key, source, 0, &datagram, 0, Some(marker)),
            naive_hash(&seed, source, &[front, back].concat()),
        );
        prop_assert_eq!(
            transaction_hash(&key, source, 0, &datagram, 0, None),
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
    for kind in [1, 1 << 8, 1 << 31] {
        assert_ne!(key("192.0.2.7"), address_key(&seed, "192.0.2.7".parse().unwrap(), kind));
    }
}
