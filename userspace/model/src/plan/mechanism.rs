//! `[mechanism.NAME]`: what is compared, a gate with its line and, at the edges, a controller.

use std::sync::Arc;

use overload::{Discipline, GateConfig, HystereticConfig, QueueCapacity, Threshold};
use serde::Deserialize;

use super::PlanError;
use super::notation::ThresholdValue;
use crate::simulate::{FixedCap, MakeController};

/// `[mechanism.NAME]` and `[node.NAME.own]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MechanismTable {
    pub(super) gate: GateTable,
    /// Control at the nodes that are `controlled`.
    pub(super) control: Option<ControlTable>,
    /// Originals that can wait, and as many copies. Default: the gate's largest number.
    pub(super) room: Option<u32>,
    /// Originals that have waited longer are refused. Default never.
    pub(super) max_wait_ms: Option<f64>,
    /// What a refusal costs the server. Default 0.
    #[serde(default)]
    pub(super) refusal_ms: f64,
    /// How long the overload advice in responses holds. Default: none is given.
    pub(super) advice_ms: Option<u32>,
}

impl MechanismTable {
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
    /// L, H.
    low: Option<ThresholdValue>,
    high: Option<ThresholdValue>,
    /// B.
    buffer: ThresholdValue,
    /// q.
    admit: Option<f64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum GateName {
    Hysteretic,
    TailDrop,
    Fifo,
}

impl GateTable {
    pub(super) fn config(&self, key: &str) -> Result<GateConfig, PlanError> {
        let buffer = self.buffer.0;
        let idle =
            [("low", self.low.is_some()), ("high", self.high.is_some()), ("admit", self.admit.is_some())];
        let needed =
            |name: &str| PlanError(format!("{key}.gate.{name}: missing; the hysteretic gate needs it"));
        match self.kind {
            GateName::Hysteretic => Ok(GateConfig::Hysteretic(HystereticConfig {
                admit_below: self.low.ok_or_else(|| needed("low"))?.0,
                shed_at: self.high.ok_or_else(|| needed("high"))?.0,
                discard_at: buffer,
                share: self.admit.ok_or_else(|| needed("admit"))?,
            })),
            GateName::TailDrop | GateName::Fifo => {
                if let Some((name, _)) = idle.into_iter().find(|(_, given)| *given) {
                    return Err(PlanError(format!(
                        "{key}.gate.{name}: only the hysteretic gate has it; remove it"
                    )));
                }
                let fifo = matches!(self.kind, GateName::Fifo);
                Ok(if fifo { GateConfig::Fifo { buffer } } else { GateConfig::TailDrop { buffer } })
            }
        }
    }
}

/// `[mechanism.NAME.control]`: one kind for each algorithm.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum ControlTable {
    /// A fixed cap on new requests.
    Cap {
        /// A second.
        rate_per_s: u32,
        /// At once.
        burst: u32,
    },
}

impl ControlTable {
    pub(super) fn maker(&self) -> Arc<dyn MakeController> {
        match *self {
            Self::Cap { rate_per_s, burst } => Arc::new(FixedCap { rate_per_s, burst }),
        }
    }
}
