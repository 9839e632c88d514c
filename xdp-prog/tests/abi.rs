//! `abi.h` against its mirrors in Rust: `sip::class`, name by name and number by number, and `xdp_prog::abi`.

use std::collections::BTreeMap;

use sip::class::{self, Class, MarkerForm, Method, Reason, Verdict};

const HEADER: &str = include_str!("../abi.h");

/// Every `NAME = number,` and `#define NAME number` of the header.
fn numbers() -> BTreeMap<&'static str, usize> {
    let defined = HEADER.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let is_define = words.next() == Some("#define");
        let (name, number) = (words.next()?, words.next()?);
        is_define.then_some(())?;
        Some((name, number.parse().ok()?))
    });
    let listed = HEADER.lines().filter_map(|line| {
        let (name, rest) = line.trim().split_once(" = ")?;
        Some((name, rest.split(',').next()?.parse().ok()?))
    });
    defined.chain(listed).collect()
}

/// The header's names with this prefix, without it and in small letters, by number.
fn header_enum(prefix: &str) -> Vec<(usize, String)> {
    let mut found: Vec<_> = numbers()
        .into_iter()
        .filter_map(|(name, number)| Some((number, name.strip_prefix(prefix)?.to_lowercase())))
        .collect();
    found.sort();
    found
}

fn rust_enum(names: impl Iterator<Item = (u8, &'static str)>) -> Vec<(usize, String)> {
    names.map(|(number, name)| (usize::from(number), name.to_owned())).collect()
}

#[test]
fn every_class_verdict_reason_and_method_has_one_name_and_one_number() {
    assert_eq!(header_enum("CLASS_"), rust_enum(Class::ALL.iter().map(|&x| (x as u8, x.name()))));
    assert_eq!(header_enum("VERDICT_"), rust_enum(Verdict::ALL.iter().map(|&x| (x as u8, x.name()))));
    assert_eq!(header_enum("REASON_"), rust_enum(Reason::ALL.iter().map(|&x| (x as u8, x.name()))));
    assert_eq!(header_enum("METHOD_"), rust_enum(Method::ALL.iter().map(|&x| (x as u8, x.name()))));
    assert_eq!(header_enum("MARKER_"), rust_enum(MarkerForm::ALL.iter().map(|&x| (x as u8, x.name()))));
}

#[test]
fn tables_have_one_size_on_both_sides() {
    let numbers = numbers();
    let sizes = [
        ("CLASSES", class::CLASSES, xdp_prog::abi::CLASSES),
        ("VERDICTS", class::VERDICTS, xdp_prog::abi::VERDICTS),
        ("REASONS", class::REASONS, xdp_prog::abi::REASONS),
        ("RINGS", class::RINGS, xdp_prog::abi::RINGS),
        ("SERVICES_MAX", class::SERVICES_MAX, xdp_prog::abi::SERVICES_MAX),
        ("QUEUES_MAX", class::QUEUES_MAX, xdp_prog::abi::QUEUES_MAX),
    ];
    for (name, in_sip, in_loader) in sizes {
        assert_eq!((numbers[name], numbers[name]), (in_sip, in_loader), "{name}");
    }
    assert_eq!(numbers["METHODS"], class::METHODS);
}

#[test]
fn the_loader_knows_the_numbers_it_names() {
    assert_eq!(xdp_prog::abi::VERDICT_PASS, Verdict::Pass as u8);
    assert_eq!(xdp_prog::abi::VERDICT_DROP, Verdict::Drop as u8);
    assert_eq!(xdp_prog::abi::CLASS_FRAGMENT, Class::Fragment as u8);
    assert_eq!(xdp_prog::abi::REASON_MONITORED, Reason::Monitored as u8);
}
