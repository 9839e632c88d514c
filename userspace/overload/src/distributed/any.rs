//! One of the controls, chosen by configuration and dispatched without a virtual call.

use super::{
    Category, ClientControl, Deoc, DeocConfig, LossConfig, LossControl, Peoc, PeocConfig, RateControl,
    RateControlConfig, Response,
};
use crate::Nanos;
use crate::config::{ConfigError, Problem};

/// Sends everything: the edge as it is without control. Refusals by the core are then local control only.
#[derive(Debug, Clone, Copy, Default)]
pub struct Uncontrolled;

impl ClientControl for Uncontrolled {
    fn ask(&mut self, _now: Nanos, _category: Category, _draw: u32) -> bool {
        true
    }

    fn hear(&mut self, _now: Nanos, _response: &Response) {}
}

/// A control and its settings.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum ControlConfig {
    /// No control at the edge.
    #[default]
    None,
    /// By refusals.
    Deoc(DeocConfig),
    /// By the delay of probes.
    Peoc(PeocConfig),
    /// RFC 7339.
    Loss(LossConfig),
    /// RFC 7415.
    Rate(RateControlConfig),
}

impl ControlConfig {
    /// All problems.
    #[must_use]
    pub fn check(&self) -> Vec<Problem> {
        match self {
            Self::None => Vec::new(),
            Self::Deoc(config) => config.check(),
            Self::Peoc(config) => config.check(),
            Self::Loss(config) => config.check(),
            Self::Rate(config) => config.check(),
        }
    }
}

/// Any control that can be configured.
#[derive(Debug, Clone)]
pub enum AnyControl {
    /// No control.
    None(Uncontrolled),
    /// By refusals.
    Deoc(Deoc),
    /// By the delay of probes.
    Peoc(Peoc),
    /// RFC 7339.
    Loss(LossControl),
    /// RFC 7415.
    Rate(RateControl),
}

impl AnyControl {
    /// The configured control.
    ///
    /// # Errors
    /// Everything that is wrong with the configuration.
    pub fn new(config: &ControlConfig) -> Result<Self, ConfigError> {
        match config {
            ControlConfig::None => Ok(Self::None(Uncontrolled)),
            ControlConfig::Deoc(config) => Deoc::new(config).map(Self::Deoc),
            ControlConfig::Peoc(config) => Peoc::new(config).map(Self::Peoc),
            ControlConfig::Loss(config) => LossControl::new(config).map(Self::Loss),
            ControlConfig::Rate(config) => RateControl::new(config).map(Self::Rate),
        }
    }
}

macro_rules! each {
    ($any:expr, $control:ident => $call:expr) => {
        match $any {
            AnyControl::None($control) => $call,
            AnyControl::Deoc($control) => $call,
            AnyControl::Peoc($control) => $call,
            AnyControl::Loss($control) => $call,
            AnyControl::Rate($control) => $call,
        }
    };
}

impl ClientControl for AnyControl {
    fn ask(&mut self, now: Nanos, category: Category, draw: u32) -> bool {
        each!(self, control => control.ask(now, category, draw))
    }

    fn hear(&mut self, now: Nanos, response: &Response) {
        each!(self, control => control.hear(now, response));
    }

    fn probe(&mut self, now: Nanos) -> bool {
        each!(self, control => control.probe(now))
    }

    fn next_probe(&self) -> Option<Nanos> {
        each!(self, control => control.next_probe())
    }
}

#[cfg(test)]
mod tests {
    use super::{AnyControl, ControlConfig};
    use crate::distributed::{
        Category, ClientControl, DeocConfig, LossConfig, PeocConfig, RateControlConfig,
    };

    #[test]
    fn every_configuration_makes_its_control() {
        let all = [
            (ControlConfig::None, false),
            (ControlConfig::Deoc(DeocConfig::default()), false),
            (ControlConfig::Peoc(PeocConfig::default()), true),
            (ControlConfig::Loss(LossConfig::default()), false),
            (ControlConfig::Rate(RateControlConfig::default()), false),
        ];
        for (config, probes) in all {
            assert_eq!(config.check(), []);
            let mut control = AnyControl::new(&config).expect("the defaults are valid");
            assert!(control.ask(0, Category::FIRST, 0), "{config:?} lets the first request through");
            assert_eq!((control.next_probe().is_some(), control.probe(0)), (probes, probes), "{config:?}");
        }
    }

    #[test]
    fn a_bad_configuration_makes_no_control() {
        let config = ControlConfig::Loss(LossConfig { categories: 0, ..LossConfig::default() });
        assert_eq!(AnyControl::new(&config).unwrap_err().problems, config.check());
        assert_eq!(config.check().len(), 1);
    }
}
