//! `[source.NAME]` and `[node.NAME]`: where calls come from and who serves them.

use std::collections::BTreeMap;

use overload::Nanos;
use serde::Deserialize;

use super::PlanError;
use super::mechanism::MechanismTable;
use super::notation::{RateValue, span};
use crate::simulate::{Law, Node, Route, Source, State, Timers};

/// `[source.NAME]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SourceTable {
    /// λ: a number, `"steps …"` or `"mmpp …"`.
    rate_per_s: RateValue,
    /// Times between calls. Default exponential.
    #[serde(default)]
    law: LawName,
    /// Squared coefficient of variation of a gamma law. Default 1.
    cv2: Option<f64>,
    /// How its clients send again. Default invite.
    #[serde(default)]
    timers: TimersName,
    /// A node, or nodes with their shares.
    to: Ways,
    /// Time to that node. Default 0.
    #[serde(default)]
    hop_ms: f64,
}

impl SourceTable {
    pub(super) fn source(&self, name: &str, index: &BTreeMap<&str, usize>) -> Result<Source, PlanError> {
        let key = format!("source.{name}");
        Ok(Source {
            name: name.to_owned(),
            rate: self.rate_per_s.0.clone(),
            law: self.law.law(&key, self.cv2)?,
            timers: self.timers.timers(),
            routes: self.to.routes(&key, span(&key, "hop_ms", self.hop_ms)?, index)?,
        })
    }
}

/// `[node.NAME]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeTable {
    /// μ: a number, `"steps …"` or `"mmpp …"`.
    rate_per_s: RateValue,
    /// Service times. Default exponential.
    #[serde(default)]
    law: LawName,
    /// Squared coefficient of variation of a gamma law. Default 1.
    cv2: Option<f64>,
    /// What is done with served requests where there is a way on. Default stateless.
    #[serde(default)]
    state: StateName,
    /// A node, or nodes with their shares. None for a server, which answers.
    to: Option<Ways>,
    /// Time to that node. Default 0.
    #[serde(default)]
    hop_ms: f64,
    /// Whether the compared mechanism's `control` works here. Default false.
    #[serde(default)]
    controlled: bool,
    /// Gate and line of its own, instead of those of the compared mechanism.
    own: Option<MechanismTable>,
}

impl NodeTable {
    pub(super) fn node(
        &self,
        name: &str,
        mechanism_key: &str,
        shared: &MechanismTable,
        index: &BTreeMap<&str, usize>,
    ) -> Result<Node, PlanError> {
        let key = format!("node.{name}");
        let own_key = format!("{key}.own");
        let (mechanism, gate_key) =
            self.own.as_ref().map_or((shared, mechanism_key), |own| (own, own_key.as_str()));
        let gate = mechanism.gate.config(gate_key)?;
        let capacity = mechanism.capacity(gate_key, &gate)?;
        let hop_ns = span(&key, "hop_ms", self.hop_ms)?;
        let routes = self.to.as_ref().map(|to| to.routes(&key, hop_ns, index)).transpose()?;
        let control = shared.control(mechanism_key)?.filter(|_| self.controlled);
        let announced = shared.announces(mechanism_key)?;
        Ok(Node {
            name: name.to_owned(),
            rate: self.rate_per_s.0.clone(),
            law: self.law.law(&key, self.cv2)?,
            gate,
            capacity,
            max_wait_ns: mechanism.max_wait_ms.map(|ms| span(gate_key, "max_wait_ms", ms)).transpose()?,
            refusal_ns: span(gate_key, "refusal_ms", mechanism.refusal_ms)?,
            announces: mechanism.announces(gate_key)?.map(|table| table.config(gate_key)).transpose()?,
            state: match self.state {
                StateName::Stateless => State::Stateless,
                StateName::Stateful => State::Stateful,
            },
            controller: control
                .map(|control| control.maker(mechanism_key, announced.as_ref()))
                .transpose()?,
            routes: routes.unwrap_or_default(),
        })
    }
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LawName {
    #[default]
    Exponential,
    Deterministic,
    Gamma,
}

impl LawName {
    fn law(self, key: &str, cv2: Option<f64>) -> Result<Law, PlanError> {
        match (self, cv2) {
            (Self::Gamma, cv2) => Ok(Law::Gamma { cv2: cv2.unwrap_or(1.0) }),
            (_, Some(_)) => Err(PlanError(format!("{key}.cv2: only law = \"gamma\" has it; remove it"))),
            (Self::Exponential, None) => Ok(Law::Exponential),
            (Self::Deterministic, None) => Ok(Law::Deterministic),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TimersName {
    #[default]
    Invite,
    Other,
    Once,
}

impl TimersName {
    const fn timers(self) -> Timers {
        match self {
            Self::Invite => Timers::Invite,
            Self::Other => Timers::Other,
            Self::Once => Timers::Once,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StateName {
    #[default]
    Stateless,
    Stateful,
}

/// A node, or nodes with their shares.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a node such as \"core\", or shares such as { core1 = 0.5, core2 = 0.5 }")]
enum Ways {
    One(String),
    Shares(BTreeMap<String, f64>),
}

impl Ways {
    fn routes(
        &self,
        key: &str,
        delay_ns: Nanos,
        index: &BTreeMap<&str, usize>,
    ) -> Result<Vec<Route>, PlanError> {
        let route = |(name, probability): (&str, f64)| match index.get(name) {
            Some(&to) => Ok(Route { to, probability, delay_ns }),
            None => {
                let known: Vec<_> = index.keys().copied().collect();
                Err(PlanError(format!("{key}.to: there is no node {name:?}; there are {}", known.join(", "))))
            }
        };
        match self {
            Self::One(name) => Ok(vec![route((name, 1.0))?]),
            Self::Shares(shares) => shares.iter().map(|(name, share)| route((name, *share))).collect(),
        }
    }
}
