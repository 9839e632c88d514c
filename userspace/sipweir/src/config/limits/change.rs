//! One cap of a running instance is given another value, by its key.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::{Limits, PeerLimits};
use crate::config::Rate;
use crate::prefix::Prefix;

/// A cap, by its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
#[allow(clippy::enum_variant_names, reason = "they are named as the keys are")]
pub enum LimitKey {
    /// BYE, PRACK and requests with a To tag.
    InDialogPerSource,
    /// ACK and CANCEL.
    ControlPerSource,
    /// Responses to the server's own requests.
    ResponsesPerSource,
    /// Emergency calls.
    EmergencyPerSource,
    /// Probes of configured probers.
    ProberPerSource,
    /// All of these together.
    TotalPerSource,
    /// Originals.
    OriginalPerSource,
}

/// The field of a key, of what has one for each.
macro_rules! field {
    ($of:expr, $key:expr) => {
        match $key {
            LimitKey::InDialogPerSource => &mut $of.in_dialog_per_source,
            LimitKey::ControlPerSource => &mut $of.control_per_source,
            LimitKey::ResponsesPerSource => &mut $of.responses_per_source,
            LimitKey::EmergencyPerSource => &mut $of.emergency_per_source,
            LimitKey::ProberPerSource => &mut $of.prober_per_source,
            LimitKey::TotalPerSource => &mut $of.total_per_source,
            LimitKey::OriginalPerSource => &mut $of.original_per_source,
        }
    };
}

impl Limits {
    /// Gives a cap another value: for one network, or for all that have none of their own.
    ///
    /// # Errors
    ///
    /// For all there must be a value; for a network none means that of all others.
    pub fn set(
        &mut self,
        key: LimitKey,
        network: Option<Prefix>,
        rate: Option<Rate>,
    ) -> Result<(), &'static str> {
        let Some(network) = network else {
            *field!(self, key) = rate.ok_or("for all others a cap is a number, a share or off")?;
            return Ok(());
        };
        // A network can be written in several ways.
        let known = self.peers.keys().find(|text| text.parse() == Ok(network)).cloned();
        let name = known.unwrap_or_else(|| network.to_string());
        let peer = self.peers.entry(name.clone()).or_default();
        *field!(peer, key) = rate;
        if *peer == PeerLimits::default() {
            self.peers.remove(&name);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::LimitKey;
    use crate::config::{Limits, PeerLimits, Rate};
    use crate::limits::Cap;
    use crate::prefix::Prefix;

    const TEN: Option<Rate> = Some(Rate(Cap::PerSecond(10.0)));

    fn network(text: &str) -> Option<Prefix> {
        Some(text.parse().expect(text))
    }

    #[test]
    fn each_key_changes_its_own_cap_and_no_other() {
        for key in LimitKey::value_variants() {
            let mut limits = Limits::default();
            limits.set(*key, None, Some(Rate(Cap::PerSecond(7.0)))).expect("set");
            let caps = limits.caps();
            let all = [
                caps.in_dialog,
                caps.control,
                caps.responses,
                caps.emergency,
                caps.prober,
                caps.total,
                caps.original,
            ];
            let changed: Vec<usize> = (0..all.len()).filter(|at| all[*at] == Cap::PerSecond(7.0)).collect();
            assert_eq!(changed, [*key as usize], "{key:?}");
            limits.set(*key, network("10.0.0.0/8"), TEN).expect("set");
            assert_ne!(limits.peers["10.0.0.0/8"], PeerLimits::default());
            limits.set(*key, network("10.0.0.0/8"), None).expect("as all others");
            assert!(limits.peers.is_empty(), "nothing differs any more");
            limits.set(*key, None, None).expect_err("all others have one");
        }
    }

    #[test]
    fn a_network_is_found_however_it_is_written() {
        let mut limits = Limits::default();
        limits
            .peers
            .insert("192.0.2.1".to_owned(), PeerLimits { prober_per_source: TEN, ..PeerLimits::default() });
        limits.set(LimitKey::OriginalPerSource, network("192.0.2.1/32"), TEN).expect("set");
        let expected =
            PeerLimits { prober_per_source: TEN, original_per_source: TEN, ..PeerLimits::default() };
        assert_eq!(limits.peers.into_iter().collect::<Vec<_>>(), [("192.0.2.1".to_owned(), expected)]);
    }
}
