//! The memory formula of `docs/operations.md` against what the kernel says of a running sipweir.
//!
//! The bytes of each part are read from the document's own tables, so a part that grows makes them wrong here. How many there are is
//! computed from the configuration, as the document says. Compared are differences between two configurations: what a process has
//! anyway (code, stacks, heap arenas) is in both.

use std::fmt::Write as _;

use sipweir_tests::{LinkPlan, Sipweir, turn};

use crate::topology::Topology;

const OPERATIONS: &str = include_str!("../../docs/operations.md");

const KIB: f64 = 1024.0;

/// A difference may be off by this share of what was expected of it, and by this much.
const SHARE_OFF_MAX: f64 = 0.03;
const KIB_OFF_MAX: f64 = 256.0;
/// What is resident depends on pages that other things have touched.
const RESIDENT_SHARE_OFF_MAX: f64 = 0.1;

/// The keys that the formula has.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Keys {
    services: u64,
    count: u64,
    size: u64,
    ring_control: u64,
    ring_new: u64,
    ring_retransmission: u64,
    ring_reject: u64,
    ring_tx: u64,
    ring_fill: u64,
    large: u64,
    table_mib: u64,
    rate: u64,
    per_destination: u64,
    /// None: no `[capture]`.
    captured: Option<u64>,
}

impl Default for Keys {
    /// As in `docs/example.toml`.
    fn default() -> Self {
        Self {
            services: 1,
            count: 16_384,
            size: 2048,
            ring_control: 512,
            ring_new: 1024,
            ring_retransmission: 64,
            ring_reject: 512,
            ring_tx: 512,
            ring_fill: 2048,
            large: 256,
            table_mib: 16,
            rate: 50_000,
            per_destination: 5000,
            captured: None,
        }
    }
}

impl Keys {
    fn configuration(&self) -> String {
        let mut text = format!(
            "interface = \"eth0\"\n[transactions]\nmemory_mib = {}\n[frames]\ncount = {}\nsize = {}\nring_control = {}\n\
             ring_new = {}\nring_retransmission = {}\nring_reject = {}\nring_tx = {}\nring_fill = {}\nlarge = {}\n",
            self.table_mib,
            self.count,
            self.size,
            self.ring_control,
            self.ring_new,
            self.ring_retransmission,
            self.ring_reject,
            self.ring_tx,
            self.ring_fill,
            self.large
        );
        if let Some(messages) = self.captured {
            writeln!(text, "[capture]\ncollector = \"10.77.0.1:9060\"\nmessages = {messages}")
                .expect("writing to a String");
        }
        for number in 0..self.services {
            writeln!(
                text,
                "[service.s{number}]\nlisten = \"10.77.0.2:{}\"\nhandoff = \"kernel\"\nreply.rate = {}\n\
                 reply.per_destination = {}",
                5060 + number,
                self.rate,
                self.per_destination
            )
            .expect("writing to a String");
        }
        text
    }

    /// KiB of a queue.
    fn queue_kib(&self) -> f64 {
        let rx_rings = self.ring_control + self.ring_new + self.ring_retransmission + self.ring_reject;
        let places = self.count - rx_rings - 2 * self.ring_tx - self.ring_fill - number_of("In hand");
        let parts = [
            ("Frame", self.count * self.size / 2048),
            ("Account of a frame", self.count),
            ("Entry of an RX or TX ring", rx_rings + 2 * self.ring_tx),
            ("Entry of a fill or completion ring", self.ring_fill + 2 * self.ring_tx),
            ("Place for a waiting message", places),
            (
                "Bucket of the index of calls",
                self.services * (2 * places / self.services).next_power_of_two(),
            ),
            ("Admitted call", self.services * 65_536),
            ("Source", self.services * 4096),
            ("Destination", self.services * self.destinations()),
            ("Captured message", self.captured.unwrap_or(0)),
        ];
        sum_kib(&parts)
    }

    /// KiB of a queue's tables that are all zero before the first packet, and not resident until then.
    fn untouched_kib(&self) -> f64 {
        let parts = [
            ("Admitted call", self.services * 65_536),
            ("Source", self.services * 4096),
            ("Destination", self.services * self.destinations()),
        ];
        sum_kib(&parts)
    }

    /// Places of a service's table of destinations.
    fn destinations(&self) -> u64 {
        (4 * self.rate / self.per_destination).clamp(1 << 12, 1 << 22).next_power_of_two()
    }

    /// KiB of the instance, however many queues it has.
    fn instance_kib(&self) -> f64 {
        let parts = [("MiB of the transaction table", self.table_mib), ("Large buffer", self.large + 1)];
        sum_kib(&parts)
    }
}

fn sum_kib(parts: &[(&str, u64)]) -> f64 {
    parts.iter().map(|(name, count)| (number_of(name) * count) as f64 / KIB).sum()
}

/// The number behind this name in a table of the document.
fn number_of(name: &str) -> u64 {
    let head = format!("| {name} | ");
    let row = OPERATIONS.lines().find_map(|line| line.strip_prefix(&head));
    let row = row.unwrap_or_else(|| panic!("docs/operations.md has no row {name:?}"));
    let digits: String = row.chars().take_while(|c| *c != '|').filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("no number in the row {name:?} of docs/operations.md: {row}"))
}

/// What the kernel says of a sipweir with this configuration that has served nobody yet.
#[derive(Debug, Clone, Copy)]
struct Memory {
    /// Address space: also what is touched only when it is used.
    mapped_kib: f64,
    resident_kib: f64,
}

impl Memory {
    #[track_caller]
    fn of(keys: &Keys, queues: u32) -> Self {
        let topology = Topology::new(&LinkPlan { queues, ..LinkPlan::default() });
        let mut sipweir = Sipweir::start(&topology.server, &keys.configuration());
        let status = std::fs::read_to_string(format!("/proc/{}/status", sipweir.id())).expect("it runs");
        let kib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let value = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<f64>().ok());
            value.unwrap_or_else(|| panic!("no {name} in {status}"))
        };
        let memory = Self { mapped_kib: kib("VmSize:"), resident_kib: kib("VmRSS:") };
        assert!(sipweir.terminate().success(), "{}", sipweir.describe());
        memory
    }
}

fn is_near(measured_kib: f64, expected_kib: f64, share: f64) -> bool {
    (measured_kib - expected_kib).abs() <= KIB_OFF_MAX + share * expected_kib.abs()
}

#[track_caller]
fn assert_near(what: &str, measured_kib: f64, expected_kib: f64) {
    println!("{what}: {measured_kib:.0} KiB, by the formula {expected_kib:.0} KiB");
    assert!(
        is_near(measured_kib, expected_kib, SHARE_OFF_MAX),
        "{what}: {measured_kib:.0} KiB, by docs/operations.md {expected_kib:.0} KiB"
    );
}

/// Two threads that ask the C library for memory at the same moment have it map a heap more, 64 MiB of addresses,
/// whatever the configuration. So what is mapped is the least of so many starts.
const STARTS: usize = 3;

/// What is mapped by one queue with these keys, and no heap by chance.
fn least_mapped_kib(keys: &Keys) -> f64 {
    (0..STARTS).map(|_| Memory::of(keys, 1).mapped_kib).fold(f64::INFINITY, f64::min)
}

/// Compares what one queue with these keys maps more than another one.
#[track_caller]
fn assert_difference(what: &str, (base, base_kib): (&Keys, f64), keys: &Keys) {
    let of = |keys: &Keys| keys.queue_kib() + keys.instance_kib();
    assert_near(what, least_mapped_kib(keys) - base_kib, of(keys) - of(base));
}

#[test]
fn each_key_takes_the_memory_that_the_formula_says() {
    let _alone = turn::alone();
    let default = Keys::default();
    let plain = least_mapped_kib(&default);
    for (what, keys) in [
        ("frames.count = 32768", Keys { count: 32_768, ..default }),
        ("frames.size = 4096", Keys { size: 4096, ..default }),
        ("larger rings", Keys { ring_new: 8192, ring_tx: 4096, ring_fill: 16_384, count: 49_152, ..default }),
        ("four services", Keys { services: 4, ..default }),
        ("500,000 replies/s, 10 for each", Keys { rate: 500_000, per_destination: 10, ..default }),
        ("transactions.memory_mib = 64", Keys { table_mib: 64, ..default }),
        ("frames.large = 1024", Keys { large: 1024, ..default }),
    ] {
        assert_difference(what, (&default, plain), &keys);
    }
    // With one more thread on both sides.
    let capturing = Keys { captured: Some(1024), ..default };
    let plain = least_mapped_kib(&capturing);
    let keys = Keys { captured: Some(16_384), ..default };
    assert_difference("capture.messages = 16384", (&capturing, plain), &keys);
}

#[test]
fn another_queue_takes_the_memory_that_the_formula_says() {
    let _alone = turn::alone();
    let keys = Keys { services: 2, ..Keys::default() };
    // Resident, since a thread maps a stack and a heap of which it uses next to nothing.
    let measured = Memory::of(&keys, 2).resident_kib - Memory::of(&keys, 1).resident_kib;
    let expected = keys.queue_kib() - keys.untouched_kib();
    println!("another queue, resident: {measured:.0} KiB, by the formula {expected:.0} KiB");
    // A dev build keeps some 2 MiB more.
    assert!(
        is_near(measured, expected, RESIDENT_SHARE_OFF_MAX),
        "{measured:.0} KiB, expected {expected:.0} KiB"
    );
}
