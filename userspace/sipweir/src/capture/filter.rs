//! Which packets a capture is of: what a client asks for, and the same as bits for the packet path.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use sip::{Class, Reason};

use crate::counters::{Ending, Outcome};

/// What became of a packet, in four words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Refused because the server cannot take it, answered or not; copies of what was refused, too.
    Shed,
    /// Ended here since something else serves it: copies of what waits, copies in excess or too late, ACKs to answers of sipweir.
    Absorbed,
    /// Dropped for another reason: a denied source, damaged, no SIP, no room.
    Dropped,
    /// Given to the server.
    Served,
}

impl Fate {
    /// The word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shed => "shed",
            Self::Absorbed => "absorbed",
            Self::Dropped => "dropped",
            Self::Served => "served",
        }
    }

    /// Of a message that a worker had.
    #[must_use]
    pub const fn of_outcome(outcome: Outcome) -> Self {
        match (outcome.ending(), outcome) {
            (_, Outcome::HandedOver) => Self::Served,
            (Ending::Refused, _) => Self::Shed,
            (
                _,
                Outcome::CopyAbsorbed
                | Outcome::CopyExcess
                | Outcome::AckAbsorbed
                | Outcome::CopyStale
                | Outcome::CopyOutdated,
            ) => Self::Absorbed,
            _ => Self::Dropped,
        }
    }

    /// Of a packet that the XDP program has dropped.
    #[must_use]
    pub const fn of_drop(reason: Reason) -> Self {
        match reason {
            Reason::ShareOutside | Reason::GateDiscard | Reason::OriginalShed => Self::Shed,
            Reason::OriginalWaits | Reason::CopyExcess => Self::Absorbed,
            _ => Self::Dropped,
        }
    }
}

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// None: whatever became of it.
    pub verdict: Option<Fate>,
    /// An outcome of a worker, or a reason of the XDP program.
    pub reason: Option<String>,
    /// A class.
    pub class: Option<String>,
    /// A service by its name.
    pub service: Option<String>,
    /// One of so many.
    pub one_in: u32,
}

/// The same as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bits {
    /// By outcome, of workers.
    pub outcomes: u64,
    /// By reason, of the XDP program.
    pub reasons: u64,
    /// By class.
    pub classes: u64,
    /// By service, in the order of their names.
    pub services: u64,
    /// A random number of 32 bits is to be below it.
    pub share: u32,
}

const fn bit(number: usize, is_set: bool) -> u64 {
    if is_set { 1 << number } else { 0 }
}

impl Filter {
    /// The filter as bits. `services` are the names of the services in order.
    ///
    /// # Errors
    ///
    /// Which word is none, and which there are; or that no packet can be both.
    pub fn bits(&self, services: &[&str]) -> Result<Bits, String> {
        let is_reason = |name: &str| self.reason.as_ref().is_none_or(|reason| reason == name);
        let is_fate = |fate| self.verdict.is_none_or(|verdict| verdict == fate);
        let is_class = |class: Class| self.class.as_ref().is_none_or(|name| name == class.name());
        let outcomes = || Outcome::ALL.into_iter().filter(|outcome| is_reason(outcome.name()));
        let reasons = || Reason::ALL.into_iter().filter(|reason| is_reason(reason.name()));
        if outcomes().next().is_none() && reasons().next().is_none() {
            let reason = self.reason.as_deref().unwrap_or_default();
            return Err(format!(
                "there is no reason {reason:?}; docs/status.md lists them, as OUTCOME and REASON"
            ));
        }
        let classes: u64 = Class::ALL.into_iter().map(|class| bit(class as usize, is_class(class))).sum();
        if classes == 0 {
            let there: Vec<&str> = Class::ALL.iter().map(|class| class.name()).collect();
            let class = self.class.as_deref().unwrap_or_default();
            return Err(format!("there is no class {class:?}; there are {}", there.join(", ")));
        }
        let wanted = services.iter().map(|name| self.service.as_ref().is_none_or(|service| service == name));
        let wanted: u64 = wanted.enumerate().map(|(index, is_wanted)| bit(index, is_wanted)).sum();
        if wanted == 0 {
            let service = self.service.as_deref().unwrap_or_default();
            return Err(format!("there is no service {service:?}; there are {}", services.join(", ")));
        }
        let outcomes: u64 =
            outcomes().map(|outcome| bit(outcome as usize, is_fate(Fate::of_outcome(outcome)))).sum();
        let reasons: u64 = reasons()
            .map(|reason| bit(reason as usize, reason != Reason::Unset && is_fate(Fate::of_drop(reason))))
            .sum();
        if outcomes == 0 && reasons == 0 {
            let (verdict, reason) =
                (self.verdict.map_or("", Fate::name), self.reason.as_deref().unwrap_or_default());
            return Err(format!("no packet is both {verdict} and {reason}; leave --verdict out"));
        }
        if self.one_in == 0 {
            return Err("a sample is one of 1 or more packets".to_owned());
        }
        Ok(Bits { outcomes, reasons, classes, services: wanted, share: u32::MAX / self.one_in })
    }
}

#[cfg(test)]
mod tests {
    use super::{Bits, Fate, Filter, Outcome, Reason};
    use sip::Class;

    const ALL: Filter = Filter { verdict: None, reason: None, class: None, service: None, one_in: 1 };

    #[test]
    fn nothing_asked_for_is_everything() {
        let bits = ALL.bits(&["a", "b"]).expect("valid");
        let outcomes = (1 << Outcome::ALL.len()) - 1;
        assert_eq!((bits.outcomes, bits.classes, bits.services, bits.share), (outcomes, 0xffff, 3, u32::MAX));
        assert_eq!(bits.reasons & 1, 0, "the reason that is never counted");
    }

    #[test]
    fn each_word_narrows_it() {
        let shed = Filter { verdict: Some(Fate::Shed), ..ALL };
        let bits = shed.bits(&["main"]).expect("valid");
        assert_eq!(bits.outcomes & 1 << Outcome::HandedOver as u64, 0);
        assert_ne!(bits.outcomes & 1 << Outcome::SilentOverBudget as u64, 0);
        assert_eq!(
            bits.reasons,
            1 << Reason::ShareOutside as u64
                | 1 << Reason::GateDiscard as u64
                | 1 << Reason::OriginalShed as u64
        );
        let narrow = Filter {
            reason: Some("copy_excess".into()),
            class: Some("copy".into()),
            service: Some("b".into()),
            one_in: 4,
            ..ALL
        };
        let expected = Bits {
            outcomes: 1 << Outcome::CopyExcess as u64,
            reasons: 1 << Reason::CopyExcess as u64,
            classes: 1 << Class::Copy as u64,
            services: 2,
            share: u32::MAX / 4,
        };
        assert_eq!(narrow.bits(&["a", "b"]), Ok(expected));
    }

    #[test]
    fn words_that_do_not_exist_are_refused_with_those_that_do() {
        for (filter, said) in [
            (Filter { reason: Some("spite".into()), ..ALL }, "no reason \"spite\""),
            (Filter { class: Some("invite".into()), ..ALL }, "there are response, ack"),
            (Filter { service: Some("b".into()), ..ALL }, "there are main"),
            (Filter { one_in: 0, ..ALL }, "1 or more"),
            (
                Filter { verdict: Some(Fate::Served), reason: Some("rejected".into()), ..ALL },
                "no packet is both served and rejected",
            ),
        ] {
            let error = filter.bits(&["main"]).expect_err("refused");
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn every_drop_of_a_gate_is_shed_and_every_fate_has_outcomes() {
        for fate in [Fate::Shed, Fate::Absorbed, Fate::Dropped, Fate::Served] {
            assert!(Outcome::ALL.into_iter().any(|outcome| Fate::of_outcome(outcome) == fate), "{fate:?}");
        }
        assert_eq!(Fate::of_drop(Reason::BadStartLine), Fate::Dropped);
    }
}
