//! The memory formula of `docs/operations.md` against what the kernel says of a running sipweir.
//!
//! The bytes of each part are read from the document's own tables, and how many there are is computed from the
//! configuration, as the document says. Compared are differences between two configurations: what a process has anyway
//! (code, stacks, heap arenas) is in both. A part that grows makes the document wrong here if that is more than the
//! comparisons may be off; [`UNNOTICED`] are the parts too small for it. Not here: the buffers of the embedded
//! hand-off.

use std::fmt::Write as _;

use sipweir::config::{Frames, Reply, Transactions};
use sipweir_tests::{LinkPlan, Sipweir, turn};

use crate::topology::Topology;

const OPERATIONS: &str = include_str!("../../docs/operations.md");

const KIB: f64 = 1024.0;

/// A difference may be off by this share of what was expected of all but the frames, and by this much.
const SHARE_OFF_MAX: f64 = 0.03;
const KIB_OFF_MAX: f64 = 256.0;
/// What is resident may be off by so much more: it depends on pages that other things have touched, and a dev build
/// keeps some 2 MiB for each worker.
const RESIDENT_KIB_OFF_MAX: f64 = 3072.0;

/// Parts that may be twice as large without any comparison noticing it.
const UNNOTICED: [&str; 4] =
    ["Account of a frame", "Entry of an RX or TX ring", "Entry of a fill or completion ring", "Source"];

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
    /// One service, and all else as sipweir has it by default.
    fn default() -> Self {
        let (frames, reply) = (Frames::default(), Reply::default());
        Self {
            services: 1,
            count: frames.count.into(),
            size: frames.size.into(),
            ring_control: frames.ring_control.into(),
            ring_new: frames.ring_new.into(),
            ring_retransmission: frames.ring_retransmission.into(),
            ring_reject: frames.ring_reject.into(),
            ring_tx: frames.ring_tx.into(),
            ring_fill: frames.ring_fill.into(),
            large: frames.large.into(),
            table_mib: Transactions::default().memory_mib.into(),
            rate: reply.rate.into(),
            per_destination: reply.per_destination.into(),
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

    /// The rows of a queue.
    fn queue(&self) -> [Part; 10] {
        let rx_rings = self.ring_control + self.ring_new + self.ring_retransmission + self.ring_reject;
        let places = self.count - rx_rings - 2 * self.ring_tx - self.ring_fill - number_of("In hand");
        let index = self.services * (2 * places / self.services).next_power_of_two();
        [
            Part::of(FRAME, self.count * self.size / 2048),
            Part::of("Account of a frame", self.count),
            Part::of("Entry of an RX or TX ring", rx_rings + 2 * self.ring_tx),
            Part::of("Entry of a fill or completion ring", self.ring_fill + 2 * self.ring_tx),
            Part::of("Place for a waiting message", places),
            Part::of("Bucket of the index of calls", index),
            Part { is_untouched: true, ..Part::of("Admitted call", self.services * 65_536) },
            Part { is_untouched: true, ..Part::of("Source", self.services * 4096) },
            Part { is_untouched: true, ..Part::of("Destination", self.services * self.destinations()) },
            Part::of("Captured message", self.captured.unwrap_or(0)),
        ]
    }

    /// The rows of the instance, however many queues it has.
    fn instance(&self) -> [Part; 2] {
        [
            Part::of("MiB of the transaction table, with its filter", self.table_mib),
            Part::of("Large buffer", self.large + 1),
        ]
    }

    /// Places of a service's table of destinations.
    fn destinations(&self) -> u64 {
        (4 * self.rate / self.per_destination).clamp(1 << 12, 1 << 22).next_power_of_two()
    }

    /// The rows of an instance with one queue.
    fn all(&self) -> Vec<Part> {
        self.queue().into_iter().chain(self.instance()).collect()
    }
}

const FRAME: &str = "Frame";

/// A row of the document's tables.
#[derive(Debug, Clone, Copy)]
struct Part {
    name: &'static str,
    kib: f64,
    /// All zero before the first packet, and not resident until then.
    is_untouched: bool,
}

impl Part {
    fn of(name: &'static str, count: u64) -> Self {
        Self { name, kib: (number_of(name) * count) as f64 / KIB, is_untouched: false }
    }
}

fn sum_kib(parts: &[Part]) -> f64 {
    parts.iter().map(|part| part.kib).sum()
}

fn frames_kib(parts: &[Part]) -> f64 {
    parts.iter().filter(|part| part.name == FRAME).map(|part| part.kib).sum()
}

/// The number behind this name in a table of the document.
fn number_of(name: &str) -> u64 {
    let head = format!("| {name} | ");
    let row = OPERATIONS.lines().find_map(|line| line.strip_prefix(&head));
    let row = row.unwrap_or_else(|| panic!("docs/operations.md has no row {name:?}"));
    let digits: String = row.chars().take_while(|c| *c != '|').filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("no number in the row {name:?} of docs/operations.md: {row}"))
}

/// KiB of address space of one queue with these keys, also what is touched only when it is used; no heap by chance.
#[track_caller]
fn mapped_kib(keys: &Keys) -> f64 {
    let topology = Topology::new(&LinkPlan { queues: 1, ..LinkPlan::default() });
    memory_kib("VmSize:", Sipweir::start_with_one_heap(&topology.server, &keys.configuration()))
}

/// KiB in memory of a sipweir with these keys.
#[track_caller]
fn resident_kib(keys: &Keys, queues: u32) -> f64 {
    let topology = Topology::new(&LinkPlan { queues, ..LinkPlan::default() });
    memory_kib("VmRSS:", Sipweir::start(&topology.server, &keys.configuration()))
}

/// What the kernel says under this name of a sipweir that has served nobody yet, which ends then.
#[track_caller]
fn memory_kib(name: &str, mut sipweir: Sipweir) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", sipweir.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let value = line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok());
    let kib = value.unwrap_or_else(|| panic!("no {name} in {status}"));
    assert!(sipweir.terminate().success(), "{}", sipweir.describe());
    kib
}

/// How much a comparison may be off in which so much is expected, frames aside.
fn off_max_kib(beside_frames_kib: f64) -> f64 {
    KIB_OFF_MAX + SHARE_OFF_MAX * beside_frames_kib.abs()
}

#[track_caller]
fn assert_near(what: &str, measured_kib: f64, expected_kib: f64, off_max_kib: f64) {
    println!("{what}: {measured_kib:.0} KiB, by the formula {expected_kib:.0} ± {off_max_kib:.0} KiB");
    assert!(
        (measured_kib - expected_kib).abs() <= off_max_kib,
        "{what}: {measured_kib:.0} KiB, by docs/operations.md {expected_kib:.0} ± {off_max_kib:.0} KiB"
    );
}

/// Two configurations, of which the second takes more.
struct Comparison {
    what: &'static str,
    base: Keys,
    keys: Keys,
}

impl Comparison {
    /// What is expected of the difference, and how much it may be off.
    fn expected_kib(&self) -> (f64, f64) {
        let (base, all) = (self.base.all(), self.keys.all());
        let expected = sum_kib(&all) - sum_kib(&base);
        (expected, off_max_kib(expected - (frames_kib(&all) - frames_kib(&base))))
    }

    /// Whether this part could not be twice as large, or missing, without failing the comparison.
    fn notices(&self, name: &str) -> bool {
        let kib = |keys: &Keys| {
            keys.all().iter().filter(|part| part.name == name).map(|part| part.kib).sum::<f64>()
        };
        (kib(&self.keys) - kib(&self.base)).abs() > self.expected_kib().1
    }
}

fn comparisons() -> Vec<Comparison> {
    let base = Keys::default();
    let capturing = Keys { captured: Some(1024), ..base };
    let of = |what, keys| Comparison { what, base, keys };
    vec![
        of("frames.count = 32768", Keys { count: 32_768, ..base }),
        of("frames.size = 4096", Keys { size: 4096, ..base }),
        of("larger rings", Keys { ring_new: 8192, ring_tx: 4096, ring_fill: 16_384, count: 49_152, ..base }),
        of("four services", Keys { services: 4, ..base }),
        of("500,000 replies/s, 10 for each", Keys { rate: 500_000, per_destination: 10, ..base }),
        of("transactions.memory_mib = 64", Keys { table_mib: 64, ..base }),
        of("frames.large = 1024", Keys { large: 1024, ..base }),
        // With one more thread on both sides.
        Comparison {
            what: "capture.messages = 16384",
            base: capturing,
            keys: Keys { captured: Some(16_384), ..capturing },
        },
    ]
}

#[test]
fn each_key_takes_the_memory_that_the_formula_says() {
    let _alone = turn::alone();
    let mut plain: Vec<(Keys, f64)> = Vec::new();
    for comparison in comparisons() {
        let Comparison { what, base, keys } = &comparison;
        let measured = plain.iter().find(|(keys, _)| keys == base).map(|(_, kib)| *kib);
        let base_kib = measured.unwrap_or_else(|| {
            let kib = mapped_kib(base);
            plain.push((*base, kib));
            kib
        });
        let (expected, off_max) = comparison.expected_kib();
        assert_near(what, mapped_kib(keys) - base_kib, expected, off_max);
    }
}

#[test]
fn a_part_that_is_twice_as_large_as_the_document_says_is_noticed_but_for_small_ones() {
    let comparisons = comparisons();
    let unnoticed = |part: &Part| !comparisons.iter().any(|comparison| comparison.notices(part.name));
    let found: Vec<_> =
        Keys::default().all().iter().filter(|part| unnoticed(part)).map(|part| part.name).collect();
    assert_eq!(found, UNNOTICED);
}

#[test]
fn the_document_adds_the_defaults_up() {
    let (queue, instance) = (Keys::default().queue(), Keys::default().instance());
    let [queue, frames, instance] =
        [sum_kib(&queue), frames_kib(&queue), sum_kib(&instance)].map(|kib| (kib / KIB).round());
    let text = OPERATIONS.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    let sentence = format!(
        "a queue takes {queue} MiB, of which the frames are {frames}, and the instance {instance} MiB more."
    );
    assert!(text.contains(&sentence), "docs/operations.md does not say: {sentence}");
}

#[test]
fn another_queue_takes_the_memory_that_the_formula_says() {
    let _alone = turn::alone();
    let keys = Keys { services: 2, ..Keys::default() };
    // Resident, since a thread maps a stack and a heap of which it uses next to nothing.
    let measured = resident_kib(&keys, 2) - resident_kib(&keys, 1);
    let touched: Vec<_> = keys.queue().into_iter().filter(|part| !part.is_untouched).collect();
    let expected = sum_kib(&touched);
    let off_max = off_max_kib(expected - frames_kib(&touched)) + RESIDENT_KIB_OFF_MAX;
    assert_near("another queue, resident", measured, expected, off_max);
}

#[test]
fn large_buffers_are_not_resident_before_a_large_message_comes() {
    let _alone = turn::alone();
    let [few, many] = [256, 1024].map(|large| resident_kib(&Keys { large, ..Keys::default() }, 1));
    assert_near("768 large buffers, resident", many - few, 0.0, RESIDENT_KIB_OFF_MAX);
}
