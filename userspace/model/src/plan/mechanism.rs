//! `[mechanism.NAME]`: what is compared, a gate with its line and, at the edges, a controller.

use overload::{Discipline, GateConfig, HystereticConfig, QueueCapacity, RandomConfig, Threshold};
use serde::Deserialize;
use toml::Table;

use super::PlanError;
use super::control::{AnnouncesTable, ControlTable};
use super::notation::ThresholdValue;

/// `[mechanism.NAME]` and `[node.NAME.own]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MechanismTable {
    pub(super) gate: GateTable,
    /// Control at the nodes that are `controlled`.
    control: Option<Table>,
    /// Originals that can wait, and as many copies. Default: the gate's largest number.
    pub(super) room: Option<u32>,
    /// Originals that have waited longer are refused. Default never.
    pub(super) max_wait_ms: Option<f64>,
    /// What a refusal costs the server. Default 0.
    #[serde(default)]
    pub(super) refusal_ms: f64,
    /// What responses say about overload. Default: nothing.
    announces: Option<Table>,
}

impl MechanismTable {
    /// Control, where there is some, of the mechanism with this key.
    pub(super) fn control(&self, key: &str) -> Result<Option<ControlTable>, PlanError> {
        self.control.clone().map(|table| ControlTable::read(&format!("{key}.control"), table)).transpose()
    }

    /// The announcements, where there are some.
    pub(super) fn announces(&self, key: &str) -> Result<Option<AnnouncesTable>, PlanError> {
        self.announces
            .clone()
            .map(|table| AnnouncesTable::read(&format!("{key}.announces"), table))
            .transpose()
    }

    pub(super) fn capacity(&self, key: &str, gate: &GateConfig) -> Result<QueueCapacity, PlanError> {
        let room = match (self.room, self.gate.buffer.0) {
            (Some(room), _) | (None, Threshold::Messages(room)) => room,
            (None, Threshold::Time(_)) => {
                return Err(PlanError(format!(
                    "{key}.room: missing; with a buffer in time say how many messages can wait"
                )));
            }
        };
        let copy = if gate.discipline() == Discipline::Fifo { 0 } else { room };
        Ok(QueueCapacity { control: 0, new: room, copy })
    }
}

/// The keys of `[service.NAME.gate]` in the configuration of `sipweir run`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GateTable {
    kind: GateName,
    /// L, H; Tmin, Tmax.
    low: Option<ThresholdValue>,
    high: Option<ThresholdValue>,
    /// B.
    buffer: ThresholdValue,
    /// q.
    admit: Option<f64>,
    /// w.
    weight: Option<f64>,
    /// P0.
    initial_probability: Option<f64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum GateName {
    Hysteretic,
    Random,
    TailDrop,
    Fifo,
}

impl GateTable {
    pub(super) fn config(&self, key: &str) -> Result<GateConfig, PlanError> {
        let buffer = self.buffer.0;
        let kind = match self.kind {
            GateName::Hysteretic => "hysteretic",
            GateName::Random => "random",
            GateName::TailDrop => "tail_drop",
            GateName::Fifo => "fifo",
        };
        let needed = |name: &str| PlanError(format!("{key}.gate.{name}: missing; the gate {kind} needs it"));
        let threshold = |name: &str, value: Option<ThresholdValue>| {
            value.map(|value| value.0).ok_or_else(|| needed(name))
        };
        let keys = [
            ("low", self.low.is_some()),
            ("high", self.high.is_some()),
            ("admit", self.admit.is_some()),
            ("weight", self.weight.is_some()),
            ("initial_probability", self.initial_probability.is_some()),
        ];
        let known: &[&str] = match self.kind {
            GateName::Hysteretic => &["low", "high", "admit"],
            GateName::Random => &["low", "high", "weight", "initial_probability"],
            GateName::TailDrop | GateName::Fifo => &[],
        };
        if let Some((name, _)) = keys.into_iter().find(|(name, given)| *given && !known.contains(name)) {
            return Err(PlanError(format!("{key}.gate.{name}: the gate {kind} does not have it; remove it")));
        }
        Ok(match self.kind {
            GateName::Hysteretic => GateConfig::Hysteretic(HystereticConfig {
                admit_below: threshold("low", self.low)?,
                shed_at: threshold("high", self.high)?,
                discard_at: buffer,
                share: self.admit.ok_or_else(|| needed("admit"))?,
            }),
            GateName::Random => GateConfig::Random(RandomConfig {
                low: threshold("low", self.low)?,
                high: threshold("high", self.high)?,
                buffer,
                weight: self.weight.ok_or_else(|| needed("weight"))?,
                initial_probability: self.initial_probability.ok_or_else(|| needed("initial_probability"))?,
            }),
            GateName::TailDrop => GateConfig::TailDrop { buffer },
            GateName::Fifo => GateConfig::Fifo { buffer },
        })
    }
}
