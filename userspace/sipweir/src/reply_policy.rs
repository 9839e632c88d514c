//! What the shed ones of a service are told at one worker, and how often.
//!
//! Holds the pure parts together: codes by peer prefix, the budget for all replies, the cap for each destination
//! (`overload`). Not here: how a reply is written (`sip`) and how it leaves (`worker/answer.rs`).

use std::net::IpAddr;

use overload::{DestinationCap, Feedback, GateWord, TokenBucket};
use sip::{OverloadControl, Refusal, ReplyLine, RetryAfter, Seed, address_key};

use crate::config;
use crate::prefix::{Prefix, PrefixTable};

/// The budget may be spent in bursts of this part of a second.
const BURSTS_PER_S: u32 = 20;

/// Tells the key of a destination from those of sources (`limits`); a worker keeps them in tables of their own anyway.
const DESTINATION: u32 = u8::MAX as u32;

/// What one peer is told.
#[derive(Debug, Clone, Copy)]
struct Peer {
    /// The status line; `None` is silence.
    line: Option<ReplyLine>,
    /// Replies per second, and as many at once.
    per_s: u32,
}

/// Why a message that was shed gets no answer though one could be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// The configuration says so.
    ByChoice,
    /// The budget for all replies is used up.
    OverBudget,
    /// That for its destination is.
    OverDestinationCap,
}

/// The right to send one reply.
#[derive(Debug, Clone, Copy)]
pub struct Permit {
    /// What it says.
    pub refusal: Refusal,
    destination: u64,
    per_s: u32,
}

/// Who is told what.
#[derive(Debug, Clone)]
struct Told {
    others: Peer,
    peers: PrefixTable<Peer>,
    retry_after_register: Option<RetryAfter>,
}

impl Told {
    fn answers_anybody(&self) -> bool {
        self.others.line.is_some() || self.peers.values().any(|peer| peer.line.is_some())
    }
}

/// The configured side of a policy: what a reload changes.
#[derive(Debug)]
pub struct ReplyRules {
    told: Told,
    /// Of the budget for all replies.
    rate: u32,
    validity_ms: u32,
    destinations: DestinationCap,
}

impl ReplyRules {
    /// Those of a configuration. Prefixes that are none, which `check` has reported, are left out.
    #[must_use]
    pub fn new(config: &config::Reply) -> Self {
        let others = Peer { line: ReplyLine::of_code(config.code), per_s: config.per_destination };
        let peers = config.peers.iter().filter_map(|(text, peer)| {
            let line = peer.code.map_or(others.line, ReplyLine::of_code);
            let per_s = peer.per_destination.unwrap_or(others.per_s);
            Some((text.parse::<Prefix>().ok()?, Peer { line, per_s }))
        });
        let peers = PrefixTable::new(peers);
        let slowest = peers.values().map(|peer| peer.per_s).fold(others.per_s, u32::min);
        let retry = config.retry_after_register.map(|[min_s, max_s]| RetryAfter { min_s, max_s });
        Self {
            told: Told { others, peers, retry_after_register: retry },
            rate: config.rate,
            // `check` bounds it, so it fits.
            validity_ms: (config.oc_validity.nanos() / 1_000_000) as u32,
            destinations: DestinationCap::new(config.rate, slowest),
        }
    }

    /// Those of a service. The baselines refuse silently: that is what makes them baselines.
    #[must_use]
    pub fn of_service(service: &config::Service) -> Self {
        if service.gate.kind.is_control() {
            return Self::new(&service.reply);
        }
        Self::new(&config::Reply { code: 0, ..config::Reply::default() })
    }

    /// Whether anybody is answered at all.
    #[must_use]
    pub fn answers_anybody(&self) -> bool {
        self.told.answers_anybody()
    }

    const fn burst(&self) -> u32 {
        let rate = if self.rate < BURSTS_PER_S { BURSTS_PER_S } else { self.rate };
        rate / BURSTS_PER_S
    }
}

/// The replies of one service at one worker.
#[derive(Debug, Clone)]
pub struct ReplyPolicy {
    told: Told,
    budget: TokenBucket,
    /// Tokens at which a silence ends.
    enough: u32,
    is_silent: bool,
    destinations: DestinationCap,
    feedback: Feedback,
}

impl ReplyPolicy {
    /// The policy of a configuration. `epoch_ns` is the time of day at which the clock of `now_ns` stood at 0.
    #[must_use]
    pub fn new(rules: ReplyRules, epoch_ns: u64, now_ns: u64) -> Self {
        let burst = rules.burst();
        let ReplyRules { told, rate, validity_ms, destinations } = rules;
        Self {
            told,
            budget: TokenBucket::new(rate, burst, now_ns),
            enough: burst.div_ceil(2),
            is_silent: false,
            destinations,
            feedback: Feedback::new(validity_ms, epoch_ns),
        }
    }

    /// Goes on by other rules, and leaves the old ones there. What was spent stays spent; only where the rates are so
    /// different that another table of destinations is needed, each of them may get a second's worth once more.
    pub fn change(&mut self, rules: &mut ReplyRules, now_ns: u64) {
        let burst = rules.burst();
        self.budget.change(rules.rate, burst, now_ns);
        self.enough = burst.div_ceil(2);
        self.feedback.set_validity_ms(rules.validity_ms);
        std::mem::swap(&mut self.told, &mut rules.told);
        if self.destinations.places() != rules.destinations.places() {
            std::mem::swap(&mut self.destinations, &mut rules.destinations);
        }
    }

    /// Whether anybody is answered at all.
    #[must_use]
    pub fn answers_anybody(&self) -> bool {
        self.told.answers_anybody()
    }

    /// What a peer is told while the gate says `word`; `None` is silence.
    #[must_use]
    pub fn refusal(&mut self, peer: IpAddr, word: GateWord, now_ns: u64) -> Option<Refusal> {
        let line = self.peer(peer).line?;
        Some(self.refusal_of(line, word, now_ns))
    }

    fn peer(&self, peer: IpAddr) -> Peer {
        self.told.peers.find(peer).unwrap_or(self.told.others)
    }

    fn refusal_of(&mut self, line: ReplyLine, word: GateWord, now_ns: u64) -> Refusal {
        let advice = self.feedback.advise(word, now_ns);
        let control =
            OverloadControl { percent: advice.percent, validity_ms: advice.validity_ms, seq: advice.seq };
        Refusal { line, retry_after_register: self.told.retry_after_register, control: Some(control) }
    }

    /// The right to answer a peer once, for [`ReplyPolicy::spend`] to be called with when the answer is on its way:
    /// what cannot be answered costs nobody a token.
    ///
    /// # Errors
    ///
    /// Why there shall be no answer.
    pub fn permit(
        &mut self,
        seed: &Seed,
        peer: IpAddr,
        word: GateWord,
        now_ns: u64,
    ) -> Result<Permit, Silence> {
        let Peer { line, per_s } = self.peer(peer);
        let line = line.ok_or(Silence::ByChoice)?;
        if self.budget.available(now_ns) == 0 {
            return Err(Silence::OverBudget);
        }
        let destination = address_key(seed, peer, DESTINATION);
        if !self.destinations.has_token(destination, per_s, now_ns) {
            return Err(Silence::OverDestinationCap);
        }
        Ok(Permit { refusal: self.refusal_of(line, word, now_ns), destination, per_s })
    }

    /// Whether nobody is answered now, because the budget is used up. Then the XDP program need not bring what would
    /// get no answer. It lasts until half a burst is there again, so that the word does not change with every packet.
    pub fn keeps_silent(&mut self, now_ns: u64) -> bool {
        let available = self.budget.available(now_ns);
        self.is_silent = available < if self.is_silent { self.enough } else { 1 };
        self.is_silent
    }

    /// What [`Self::keeps_silent`] said last.
    #[must_use]
    pub const fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// Counts an answer that was sent.
    pub fn spend(&mut self, permit: &Permit, now_ns: u64) {
        // Both were there when the permit was given, and nobody else takes from them.
        let _budget = self.budget.take(now_ns);
        let _destination = self.destinations.take(permit.destination, permit.per_s, now_ns);
    }
}

#[cfg(test)]
mod tests {
    use overload::{GateState, GateWord};
    use sip::Seed;

    use super::{ReplyPolicy, ReplyRules, Silence};
    use crate::config::{Config, Peer, Reply};

    const SEED: Seed = Seed([1, 2, 3, 4]);

    fn config() -> Reply {
        let peer = |code, per_destination| Peer { code, per_destination };
        let peers = [
            ("10.0.0.0/8", peer(Some(480), None)),
            ("10.9.0.0/16", peer(Some(0), None)),
            ("192.0.2.0/24", peer(None, Some(1000))),
        ];
        Reply {
            peers: peers.map(|(text, peer)| (text.to_owned(), peer)).into(),
            per_destination: 10,
            ..Reply::default()
        }
    }

    fn permit(policy: &mut ReplyPolicy, peer: &str) -> Result<u16, Silence> {
        let permit = policy.permit(&SEED, peer.parse().expect("address"), GateWord::OPEN, 0)?;
        policy.spend(&permit, 0);
        Ok(permit.refusal.line.code)
    }

    #[test]
    fn each_peer_gets_the_code_of_its_longest_prefix() {
        let mut policy = ReplyPolicy::new(ReplyRules::new(&config()), 0, 0);
        assert_eq!(permit(&mut policy, "198.51.100.1"), Ok(503));
        assert_eq!(permit(&mut policy, "10.1.0.1"), Ok(480));
        assert_eq!(permit(&mut policy, "10.9.0.1"), Err(Silence::ByChoice));
        assert_eq!(permit(&mut policy, "192.0.2.1"), Ok(503), "only its cap is its own");
        assert_eq!(permit(&mut policy, "2001:db8::1"), Ok(503));
        assert!(policy.answers_anybody());
        let only = Reply { code: 0, ..config() };
        assert!(ReplyPolicy::new(ReplyRules::new(&only), 0, 0).answers_anybody());
    }

    #[test]
    fn only_gates_that_control_answer() {
        let kinds = [("hysteretic", true), ("random", true), ("tail_drop", false), ("fifo", false)];
        for (kind, answers) in kinds {
            let text = format!(
                "interface = \"eth0\"\n[service.main]\nlisten = \"*:5060\"\nhandoff = \"kernel\"\n\
                 [service.main.gate]\nkind = \"{kind}\"\n[service.main.reply.peers]\n\"10.0.0.0/8\" = 480\n"
            );
            let config = Config::parse("test.toml", &text).expect("valid");
            let policy = ReplyRules::of_service(&config.service["main"]);
            assert_eq!(policy.answers_anybody(), answers, "{kind}");
        }
    }

    #[test]
    fn one_destination_is_capped_and_a_peer_may_have_a_cap_of_its_own() {
        let mut policy = ReplyPolicy::new(ReplyRules::new(&config()), 0, 0);
        let granted =
            |policy: &mut ReplyPolicy, peer| (0..2000).filter(|_| permit(policy, peer).is_ok()).count();
        assert_eq!(granted(&mut policy, "198.51.100.1"), 10);
        assert_eq!(permit(&mut policy, "198.51.100.1"), Err(Silence::OverDestinationCap));
        assert_eq!(granted(&mut policy, "192.0.2.1"), 1000);
        assert_eq!(permit(&mut policy, "198.51.100.2"), Ok(503), "others are not concerned");
    }

    #[test]
    fn a_silence_begins_with_the_last_token_and_ends_with_half_a_burst() {
        let rate = 2000;
        let mut policy =
            ReplyPolicy::new(ReplyRules::new(&Reply { rate, per_destination: 1000, ..config() }), 0, 0);
        let burst = u64::from(rate) / 20;
        for _ in 0..burst {
            assert!(!policy.keeps_silent(0));
            assert_eq!(permit(&mut policy, "198.51.100.1"), Ok(503));
        }
        assert!(policy.keeps_silent(0) && policy.is_silent());
        let half_ns = burst / 2 * 1_000_000_000 / u64::from(rate);
        assert!(policy.keeps_silent(half_ns - 1));
        assert!(!policy.keeps_silent(half_ns) && !policy.is_silent());
        let mut never = ReplyPolicy::new(ReplyRules::new(&Reply { rate: 0, ..config() }), 0, 0);
        assert!(!never.keeps_silent(0));
        assert_eq!(permit(&mut never, "198.51.100.1"), Ok(503), "its only one");
        assert!(never.keeps_silent(0) && never.keeps_silent(u64::MAX));
    }

    #[test]
    fn the_budget_limits_all_together_and_an_answer_that_was_not_sent_costs_nothing() {
        let mut policy = ReplyPolicy::new(ReplyRules::new(&Reply { rate: 100, ..config() }), 0, 0);
        for _ in 0..100 {
            assert!(policy.permit(&SEED, [198, 51, 100, 1].into(), GateWord::OPEN, 0).is_ok());
        }
        for host in 1..=5 {
            assert!(permit(&mut policy, &format!("198.51.100.{host}")).is_ok());
        }
        assert_eq!(permit(&mut policy, "198.51.100.6"), Err(Silence::OverBudget));
    }

    #[test]
    fn clients_are_told_what_the_gate_sheds() {
        let mut policy = ReplyPolicy::new(ReplyRules::new(&config()), 1_000_000_000, 0);
        let peer = [198, 51, 100, 1].into();
        let mut control = |state, now_ns| {
            let word = GateWord::new(state, 1 << 30);
            policy.refusal(peer, word, now_ns).expect("answered").control.expect("told")
        };
        let (normal, overload) = (control(GateState::Normal, 0), control(GateState::Overload, 0));
        assert_eq!((normal.percent, normal.validity_ms, normal.seq), (0, 0, 100_000));
        assert_eq!((overload.percent, overload.validity_ms, overload.seq), (75, 500, 100_001));
        assert_eq!(control(GateState::Discard, 1_000_000_000).seq, 200_000);
    }

    #[test]
    fn a_change_gives_nobody_a_second_budget_and_says_the_new_code() {
        let mut policy = ReplyPolicy::new(ReplyRules::new(&config()), 0, 0);
        (0..10).for_each(|_| assert_eq!(permit(&mut policy, "198.51.100.1"), Ok(503)));
        let mut next = ReplyRules::new(&Reply { code: 480, ..config() });
        policy.change(&mut next, 0);
        assert_eq!(permit(&mut policy, "198.51.100.1"), Err(Silence::OverDestinationCap));
        assert_eq!(permit(&mut policy, "198.51.100.2"), Ok(480));
        let seq = |policy: &mut ReplyPolicy| {
            let word = GateWord::new(GateState::Discard, 0);
            let told =
                policy.refusal([198, 51, 100, 2].into(), word, 0).expect("answered").control.expect("told");
            (told.seq, told.validity_ms)
        };
        let before = seq(&mut policy);
        let oc_validity = crate::config::Span::from_millis(700);
        policy.change(&mut ReplyRules::new(&Reply { rate: 100, oc_validity, ..config() }), 0);
        assert!(seq(&mut policy) > before && seq(&mut policy).1 == 700);
        // At most a burst of the new rate, whatever was there.
        (1..=5).for_each(|host| assert!(permit(&mut policy, &format!("203.0.113.{host}")).is_ok()));
        assert_eq!(permit(&mut policy, "203.0.113.6"), Err(Silence::OverBudget));
    }
}
