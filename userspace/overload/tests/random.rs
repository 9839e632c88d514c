//! The random gate against theory, and behind its own published word as it runs live.
//!
//! With w = 1 the line before the gate is a birth-death chain: up at λ·(1 − P(n)), down at μ. The exact values are those
//! of the literature for M|M|1, B = 100 (Tmin/Tmax = 25/80 and 15/100, P0 = .16, ρ = 1.1).
//!
//! Behind a word, as in the data path, requests that the word sheds never reach the gate; it and its word are brought up
//! to date only once in a turn of the worker. What the gate then admits must be what it admits when it sees all.

use overload::{Decision, Gate, GateState, GateWord, Random, RandomConfig, Threshold};
use proptest::prelude::{prop_assert, proptest};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

const SERVICE_RATE_PER_S: f64 = 1000.0;
const SECOND_NS: u64 = 1_000_000_000;

fn config(low: u32, high: u32, weight: f64, initial_probability: f64) -> RandomConfig {
    let [low, high, buffer] = [low, high, 100].map(Threshold::Messages);
    RandomConfig { low, high, buffer, weight, initial_probability }
}

fn gate(config: &RandomConfig) -> Random {
    Random::new(config, 100, SERVICE_RATE_PER_S).expect("valid")
}

/// The share of requests that a gate with w = 1 admits when they find `n` others, from its answers alone.
fn admitted_share(config: &RandomConfig, n: usize) -> f64 {
    let is_admitted = |hash| gate(config).arrive(0, hash, n) == Decision::Admit;
    if is_admitted(u32::MAX) {
        return 1.0;
    }
    // The first hash that is refused.
    let (mut from, mut to) = (0, u32::MAX);
    while from < to {
        let middle = from + (to - from) / 2;
        if is_admitted(middle) { from = middle + 1 } else { to = middle }
    }
    f64::from(from) / 4_294_967_296.0
}

/// Rejected share and mean number in the system of the birth-death chain on 0..=100.
fn chain(load: f64, admitted: impl Fn(usize) -> f64) -> (f64, f64) {
    let mut weights = vec![1.0];
    for n in 0..100 {
        weights.push(weights[n] * load * admitted(n));
    }
    let total: f64 = weights.iter().sum();
    let mean = |value: &dyn Fn(usize) -> f64| {
        weights.iter().enumerate().map(|(n, weight)| weight / total * value(n)).sum::<f64>()
    };
    (mean(&|n| 1.0 - admitted(n)), mean(&|n| n as f64))
}

/// 1 − P(n) as the definition has it.
fn defined_share(low: u32, high: u32, initial: f64, n: usize) -> f64 {
    let (low, high, q) = (f64::from(low), f64::from(high), n as f64);
    match q {
        _ if n >= 100 || q > high => 0.0,
        _ if q < low => 1.0,
        _ => 1.0 - ((q - low) * (1.0 - initial) / (high - low) + initial),
    }
}

/// (Tmin, Tmax, rejected share, E[N]).
const LITERATURE: [(u32, u32, f64, f64); 2] = [(25, 80, 0.096191, 21.9753), (15, 100, 0.105160, 14.3875)];

#[test]
fn the_chain_that_the_gate_makes_has_the_values_of_the_literature() {
    for (low, high, rejected, mean) in LITERATURE {
        let config = config(low, high, 1.0, 0.16);
        let found = chain(1.1, |n| admitted_share(&config, n));
        assert!((found.0 - rejected).abs() < 6e-7, "{found:?}");
        assert!((found.1 - mean).abs() < 6e-5, "{found:?}");
    }
}

/// How requests reach the gate.
#[derive(Debug, Clone, Copy)]
enum Path {
    /// All of them, at once.
    Direct,
    /// Through the word that was published last; the gate sees what is let through in turns of this length.
    BehindWord { turn_ns: u64 },
}

/// What was seen of a run.
#[derive(Debug, Default)]
struct Seen {
    offered: u64,
    refused: u64,
    /// Requests that were judged by the gate itself.
    judged: u64,
    n_ns: f64,
    n_squared_ns: f64,
    span_ns: f64,
}

impl Seen {
    fn rejected(&self) -> f64 {
        self.refused as f64 / self.offered as f64
    }

    fn mean(&self) -> f64 {
        self.n_ns / self.span_ns
    }

    fn deviation(&self) -> f64 {
        (self.n_squared_ns / self.span_ns - self.mean().powi(2)).sqrt()
    }
}

/// Poisson requests, the gate, and an exponential server.
struct Station {
    gate: Random,
    word: GateWord,
    path: Path,
    in_system: usize,
    ring: Vec<u32>,
    random: Pcg64,
    now: u64,
    next_arrival: u64,
    next_departure: u64,
    next_turn: u64,
    seen: Seen,
}

impl Station {
    fn new(config: &RandomConfig, path: Path, seed: u64) -> Self {
        Self {
            gate: gate(config),
            word: GateWord::OPEN,
            path,
            in_system: 0,
            ring: Vec::new(),
            random: Pcg64::seed_from_u64(seed),
            now: 0,
            next_arrival: 0,
            next_departure: u64::MAX,
            next_turn: if matches!(path, Path::Direct) { u64::MAX } else { 0 },
            seen: Seen::default(),
        }
    }

    fn after(&mut self, rate_per_s: f64) -> u64 {
        let uniform = ((self.random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        self.now + (-uniform.ln() / rate_per_s * SECOND_NS as f64) as u64
    }

    /// Runs for a span with Poisson requests at `rate_per_s` from now on; what was seen in it.
    fn run(&mut self, rate_per_s: f64, span_ns: u64) -> Seen {
        self.seen = Seen::default();
        self.next_arrival = self.after(rate_per_s);
        let until = self.now + span_ns;
        loop {
            let at = self.next_arrival.min(self.next_departure).min(self.next_turn);
            let (span, n) = ((at.min(until) - self.now) as f64, self.in_system as f64);
            self.seen.span_ns += span;
            self.seen.n_ns += span * n;
            self.seen.n_squared_ns += span * n * n;
            self.now = at.min(until);
            if at >= until {
                return std::mem::take(&mut self.seen);
            }
            if at == self.next_departure {
                self.depart();
            } else if at == self.next_arrival {
                self.next_arrival = self.after(rate_per_s);
                self.arrive();
            } else {
                self.turn();
            }
        }
    }

    fn arrive(&mut self) {
        let hash = self.random.next_u32();
        self.seen.offered += 1;
        match self.path {
            Path::Direct => self.judge(hash),
            Path::BehindWord { .. } if self.word.decide(hash) == Decision::Admit => self.ring.push(hash),
            Path::BehindWord { .. } => self.seen.refused += 1,
        }
    }

    fn judge(&mut self, hash: u32) {
        self.seen.judged += 1;
        if self.gate.arrive(self.now, hash, self.in_system) != Decision::Admit {
            self.seen.refused += 1;
            return;
        }
        self.in_system += 1;
        if self.in_system == 1 {
            self.next_departure = self.after(SERVICE_RATE_PER_S);
        }
    }

    fn depart(&mut self) {
        self.in_system -= 1;
        self.next_departure = if self.in_system > 0 { self.after(SERVICE_RATE_PER_S) } else { u64::MAX };
        if matches!(self.path, Path::Direct) {
            self.gate.depart(self.now, self.in_system);
        }
    }

    /// What a worker does: judge what has come, note what has left, publish what has changed.
    fn turn(&mut self) {
        let Path::BehindWord { turn_ns } = self.path else { return };
        for hash in std::mem::take(&mut self.ring) {
            self.judge(hash);
        }
        self.gate.depart(self.now, self.in_system);
        if self.word != self.gate.word() {
            self.word = self.gate.word();
            self.gate.published(self.word);
        }
        self.next_turn = self.now + turn_ns;
    }
}

/// Ten runs of a minute each, with seeds of their own.
fn replicate(config: &RandomConfig, path: Path, load: f64) -> Vec<Seen> {
    let run = |seed| {
        let mut station = Station::new(config, path, seed);
        let _warm_up = station.run(load * SERVICE_RATE_PER_S, 2 * SECOND_NS);
        station.run(load * SERVICE_RATE_PER_S, 60 * SECOND_NS)
    };
    (0..10).map(run).collect()
}

/// Mean of a figure over the runs, and its standard error.
fn estimate(runs: &[Seen], figure: fn(&Seen) -> f64) -> (f64, f64) {
    let count = runs.len() as f64;
    let mean = runs.iter().map(figure).sum::<f64>() / count;
    let variance = runs.iter().map(|seen| (figure(seen) - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, (variance / count).sqrt())
}

/// The stated tolerance of simulations: four standard errors and 2 %.
fn agree(what: &str, (mean, error): (f64, f64), expected: f64) {
    println!("{what}: {mean:.5} ± {error:.5}, expected {expected:.5}");
    assert!(
        (mean - expected).abs() <= 4.0 * error + 0.02 * expected,
        "{what}: {mean} ± {error}, not {expected}"
    );
}

#[test]
fn the_simulated_gate_has_the_values_of_the_literature() {
    for (low, high, rejected, mean) in LITERATURE {
        let runs = replicate(&config(low, high, 1.0, 0.16), Path::Direct, 1.1);
        agree("rejected", estimate(&runs, Seen::rejected), rejected);
        agree("E[N]", estimate(&runs, Seen::mean), mean);
    }
}

/// A turn of a tenth of a service time: a worker with other things to do. With little to do it turns at each packet.
const BEHIND_WORD: Path = Path::BehindWord { turn_ns: 100_000 };

#[test]
fn behind_its_word_the_gate_admits_what_it_admits_when_it_sees_all_requests() {
    for (low, high, rejected, mean) in LITERATURE {
        let runs = replicate(&config(low, high, 1.0, 0.16), BEHIND_WORD, 1.1);
        agree("rejected", estimate(&runs, Seen::rejected), rejected);
        agree("E[N]", estimate(&runs, Seen::mean), mean);
    }
    for (weight, load) in [(0.4, 1.1), (0.4, 3.0), (0.05, 1.5), (1.0, 3.0), (0.4, 40.0)] {
        let config = config(25, 80, weight, 0.16);
        let (direct, behind) =
            (replicate(&config, Path::Direct, load), replicate(&config, BEHIND_WORD, load));
        for (name, figure) in [("rejected", Seen::rejected as fn(&Seen) -> f64), ("E[N]", Seen::mean)] {
            let what = format!("{name} at w = {weight}, rho = {load}");
            agree(&what, estimate(&behind, figure), estimate(&direct, figure).0);
        }
    }
}

#[test]
fn the_word_keeps_most_of_a_flood_from_the_worker() {
    let mut station = Station::new(&config(25, 80, 0.4, 0.16), BEHIND_WORD, 1);
    let _warm_up = station.run(40.0 * SERVICE_RATE_PER_S, SECOND_NS);
    let seen = station.run(40.0 * SERVICE_RATE_PER_S, 10 * SECOND_NS);
    let judged = seen.judged as f64 / seen.offered as f64;
    // The share of the server is a fortieth, that of the sample a sixteenth.
    assert!((1.0 / 40.0..1.5 / 16.0).contains(&judged), "{judged}");
}

#[test]
fn an_overload_that_has_ended_costs_no_later_caller() {
    for weight in [0.01, 0.4, 1.0] {
        let config = config(25, 80, weight, 0.16);
        let mut station = Station::new(&config, BEHIND_WORD, 1);
        let flood = station.run(20.0 * SERVICE_RATE_PER_S, 2 * SECOND_NS);
        assert!(flood.rejected() > 0.5, "{flood:?}");
        let _quiet = station.run(1.0, 2 * SECOND_NS);
        assert_eq!(station.gate.state(), GateState::Normal, "w = {weight}");
        assert_eq!(station.run(100.0, 10 * SECOND_NS).refused, 0, "w = {weight}");
    }
}

#[test]
fn a_small_weight_makes_the_line_swing_as_published() {
    let deviation =
        |weight| estimate(&replicate(&config(25, 80, weight, 0.16), Path::Direct, 1.5), Seen::deviation).0;
    let stable = [0.4, 0.6, 0.8, 1.0].map(deviation);
    assert!(stable.iter().all(|d| (d / stable[3] - 1.0).abs() < 0.1), "{stable:?}");
    let slow = deviation(0.005);
    assert!(slow > 1.5 * stable[0], "{slow} {stable:?}");
}

proptest! {
    #[test]
    fn any_gate_at_weight_one_makes_the_chain_of_the_definition(
        low in 1_u32..60, gap in 1_u32..40, initial in 0.0..=1.0_f64, load in 0.1..5.0_f64,
    ) {
        let config = config(low, low + gap, 1.0, initial);
        let found = chain(load, |n| admitted_share(&config, n));
        let defined = chain(load, |n| defined_share(low, low + gap, initial, n));
        prop_assert!((found.0 - defined.0).abs() < 1e-6, "{found:?} {defined:?}");
        prop_assert!((found.1 - defined.1).abs() < 1e-6 * defined.1.max(1.0), "{found:?} {defined:?}");
    }
}
