//! `[mechanism.NAME.control]` and `announces`: what clients do, and what servers tell them. Settings that a plan leaves out
//! have the defaults of `overload::distributed`.

use std::sync::Arc;

use overload::ConfigError;
use overload::distributed::{
    AdaptiveConfig, ControlConfig, DeocConfig, LossConfig, PeocConfig, RateControlConfig, RateShareConfig,
};
use serde::Deserialize;
use toml::Table;

use super::PlanError;
use super::document::{read, take_kind};
use super::notation::span;
use crate::simulate::{Announces, EdgeControl, FixedCap, MakeController};

/// Faster probes would be most of what a core serves.
const PROBE_PERIOD_MIN_MS: f64 = 1.0;

/// `[mechanism.NAME.control]`: one `kind` for each algorithm.
#[derive(Debug)]
pub(super) enum ControlTable {
    /// A fixed cap on new requests.
    Cap(CapTable),
    /// By refusals.
    Deoc(DeocTable),
    /// By the delay of probes.
    Peoc(PeocTable),
    /// RFC 7339; the servers must announce `loss`.
    Loss(LossTable),
    /// RFC 7415; the servers must announce `rate`.
    Rate(RateTable),
}

impl ControlTable {
    /// Reads the table with this key.
    pub(super) fn read(key: &str, mut table: Table) -> Result<Self, PlanError> {
        Ok(match take_kind(key, "kind", &mut table, &["cap", "deoc", "peoc", "loss", "rate"])? {
            "cap" => Self::Cap(read(key, table)?),
            "deoc" => Self::Deoc(read(key, table)?),
            "peoc" => Self::Peoc(read(key, table)?),
            "loss" => Self::Loss(read(key, table)?),
            _ => Self::Rate(read(key, table)?),
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CapTable {
    /// A second.
    rate_per_s: u32,
    /// At once.
    burst: u32,
}

/// How DEOC and PEOC change their rate.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AdaptiveTable {
    /// Tc.
    period_ms: Option<f64>,
    /// α.
    increase: Option<f64>,
    /// β.
    decrease: Option<f64>,
    /// k.
    exponent: Option<f64>,
    initial_per_s: Option<f64>,
    min_per_s: Option<f64>,
    max_per_s: Option<f64>,
    /// Of the bucket, in intervals.
    tolerance: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeocTable {
    #[serde(default)]
    adaptive: AdaptiveTable,
    /// θ.
    refusals: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PeocTable {
    #[serde(default)]
    adaptive: AdaptiveTable,
    probe_period_ms: Option<f64>,
    /// S.
    idle_delay_ms: Option<f64>,
    /// θ.
    load: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LossTable {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RateTable {
    /// TAU in units of T.
    tolerance: Option<f64>,
}

impl ControlTable {
    /// What it cannot work without, if that is not announced.
    pub(super) fn lacks(&self, announces: Option<&AnnouncesTable>) -> Option<&'static str> {
        match (self, announces) {
            (Self::Loss(_), Some(AnnouncesTable::Loss(_)))
            | (Self::Rate(_), Some(AnnouncesTable::Rate(_))) => None,
            (Self::Loss(_), _) => Some("announces = { algorithm = \"loss\", validity_ms = 500 }"),
            (Self::Rate(_), _) => Some("announces = { algorithm = \"rate\" }"),
            (Self::Cap(_) | Self::Deoc(_) | Self::Peoc(_), _) => None,
        }
    }
}

/// A span in nanoseconds: what the plan says, or the default.
fn span_or(key: &str, name: &str, ms: Option<f64>, default_ns: u64) -> Result<u64, PlanError> {
    ms.map_or(Ok(default_ns), |ms| span(key, name, ms))
}

impl AdaptiveTable {
    fn config(&self, key: &str) -> Result<AdaptiveConfig, PlanError> {
        let default = AdaptiveConfig::default();
        Ok(AdaptiveConfig {
            period_ns: span_or(key, "adaptive.period_ms", self.period_ms, default.period_ns)?,
            increase: self.increase.unwrap_or(default.increase),
            decrease: self.decrease.unwrap_or(default.decrease),
            exponent: self.exponent.unwrap_or(default.exponent),
            initial_per_s: self.initial_per_s.unwrap_or(default.initial_per_s),
            min_per_s: self.min_per_s.unwrap_or(default.min_per_s),
            max_per_s: self.max_per_s.unwrap_or(default.max_per_s),
            tolerance: self.tolerance.unwrap_or(default.tolerance),
        })
    }
}

impl ControlTable {
    /// The controller of the mechanism with this key.
    pub(super) fn maker(
        &self,
        mechanism: &str,
        announces: Option<&AnnouncesTable>,
    ) -> Result<Arc<dyn MakeController>, PlanError> {
        let key = format!("{mechanism}.control");
        if let Some(lacking) = self.lacks(announces) {
            return Err(PlanError(format!(
                "{key}: learns from what servers announce; add {mechanism}.{lacking}"
            )));
        }
        let config = match self {
            Self::Cap(CapTable { rate_per_s, burst }) => {
                return Ok(Arc::new(FixedCap { rate_per_s: *rate_per_s, burst: *burst }));
            }
            Self::Deoc(table) => ControlConfig::Deoc(DeocConfig {
                adaptive: table.adaptive.config(&key)?,
                refusals: table.refusals.unwrap_or(DeocConfig::default().refusals),
            }),
            Self::Peoc(table) => {
                let default = PeocConfig::default();
                if let Some(ms) = table.probe_period_ms.filter(|ms| !(PROBE_PERIOD_MIN_MS..=1e9).contains(ms))
                {
                    return Err(PlanError(format!(
                        "{key}.probe_period_ms: {ms} is out of range; give milliseconds from {PROBE_PERIOD_MIN_MS} to 1000000000"
                    )));
                }
                ControlConfig::Peoc(PeocConfig {
                    adaptive: table.adaptive.config(&key)?,
                    probe_period_ns: span_or(
                        &key,
                        "probe_period_ms",
                        table.probe_period_ms,
                        default.probe_period_ns,
                    )?,
                    idle_delay_ns: span_or(
                        &key,
                        "idle_delay_ms",
                        table.idle_delay_ms,
                        default.idle_delay_ns,
                    )?,
                    load: table.load.unwrap_or(default.load),
                })
            }
            // Simulated requests are of one category.
            Self::Loss(LossTable {}) => {
                ControlConfig::Loss(LossConfig { categories: 1, ..LossConfig::default() })
            }
            Self::Rate(table) => {
                let tolerances = table.tolerance.map_or(RateControlConfig::default().tolerances, |t| vec![t]);
                ControlConfig::Rate(RateControlConfig { tolerances })
            }
        };
        let wrong = |error: ConfigError| PlanError(format!("{key}: cannot be: {error}"));
        Ok(Arc::new(EdgeControl::new(&config).map_err(wrong)?))
    }
}

/// `[mechanism.NAME.announces]`, by `algorithm`.
#[derive(Debug)]
pub(super) enum AnnouncesTable {
    /// The share to be spared, by the gate's word.
    Loss(AnnouncesLossTable),
    /// A rate for each sender.
    Rate(AnnouncesRateTable),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnnouncesLossTable {
    validity_ms: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnnouncesRateTable {
    validity_ms: Option<u32>,
    /// u.
    load: Option<f64>,
    /// w: how long a request shall wait.
    wait_ms: Option<f64>,
    /// τ.
    horizon_ms: Option<f64>,
    period_ms: Option<f64>,
}

impl AnnouncesTable {
    /// Reads the table with this key.
    pub(super) fn read(key: &str, mut table: Table) -> Result<Self, PlanError> {
        Ok(match take_kind(key, "algorithm", &mut table, &["loss", "rate"])? {
            "loss" => Self::Loss(read(key, table)?),
            _ => Self::Rate(read(key, table)?),
        })
    }

    pub(super) fn config(&self, mechanism: &str) -> Result<Announces, PlanError> {
        let key = format!("{mechanism}.announces");
        match self {
            Self::Loss(table) => Ok(Announces::Loss { validity_ms: table.validity_ms }),
            Self::Rate(table) => {
                let default = RateShareConfig::default();
                Ok(Announces::Rate(RateShareConfig {
                    load: table.load.unwrap_or(default.load),
                    wait_ns: span_or(&key, "wait_ms", table.wait_ms, default.wait_ns)?,
                    horizon_ns: span_or(&key, "horizon_ms", table.horizon_ms, default.horizon_ns)?,
                    period_ns: span_or(&key, "period_ms", table.period_ms, default.period_ns)?,
                    validity_ms: table.validity_ms.unwrap_or(default.validity_ms),
                    ..default
                }))
            }
        }
    }
}
