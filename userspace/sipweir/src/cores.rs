//! Which core each worker runs on.

use thiserror::Error;

/// Why the workers cannot be placed.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum CoreError {
    /// The configuration names a core that this process may not run on.
    #[error(
        "workers.cores names core {core}, but this process may use {available:?}; change it or the cpuset"
    )]
    Unavailable {
        /// As configured.
        core: usize,
        /// Those there are.
        available: Vec<usize>,
    },
    /// Not one core for each queue.
    #[error(
        "{interface} has {queues} RX queues and workers.cores names {cores} cores: name one core for each queue, or \
         change the queues: ethtool -L {interface} combined {cores}"
    )]
    Count {
        /// The interface.
        interface: String,
        /// Its queues.
        queues: u32,
        /// Cores named.
        cores: usize,
    },
}

/// Chooses a core for each of `queues` workers: as configured, or from the last available core downwards,
/// several workers on a core only when there are more queues than cores.
///
/// # Errors
///
/// When the configured cores do not fit the queues or the machine.
pub fn choose(
    interface: &str,
    queues: u32,
    configured: Option<&[usize]>,
    available: &[usize],
) -> Result<Vec<usize>, CoreError> {
    let Some(cores) = configured else {
        return Ok(available.iter().rev().cycle().take(queues as usize).copied().collect());
    };
    if let Some(core) = cores.iter().find(|core| !available.contains(core)) {
        return Err(CoreError::Unavailable { core: *core, available: available.to_vec() });
    }
    if cores.len() != queues as usize {
        return Err(CoreError::Count { interface: interface.into(), queues, cores: cores.len() });
    }
    Ok(cores.to_vec())
}

/// The cores that this process may run on, ascending.
#[must_use]
pub fn available() -> Vec<usize> {
    let mut cores: Vec<usize> =
        core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id).collect();
    cores.sort_unstable();
    cores
}

/// Pins the calling thread; false when the system refuses.
#[must_use]
pub fn pin(core: usize) -> bool {
    core_affinity::set_for_current(core_affinity::CoreId { id: core })
}

#[cfg(test)]
mod tests {
    use super::{CoreError, choose};

    #[test]
    fn workers_start_at_the_last_core_and_share_only_when_they_must() {
        assert_eq!(choose("eth0", 2, None, &[0, 1, 2, 3]), Ok(vec![3, 2]));
        assert_eq!(choose("eth0", 3, None, &[0, 1]), Ok(vec![1, 0, 1]));
    }

    #[test]
    fn configured_cores_must_exist_and_match_the_queues() {
        assert_eq!(choose("eth0", 1, Some(&[1]), &[0, 1]), Ok(vec![1]));
        assert!(matches!(
            choose("eth0", 1, Some(&[7]), &[0, 1]),
            Err(CoreError::Unavailable { core: 7, .. })
        ));
        let count = choose("eth0", 4, Some(&[0, 1]), &[0, 1]).expect_err("too few").to_string();
        assert!(count.contains("ethtool -L eth0 combined 2"), "{count}");
    }
}
