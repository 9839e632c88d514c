//! The rule that keeps one class from taking the frames of the others, as a sum that is checked at start.
//!
//! All RX rings of a queue draw from one fill ring. If the places where frames can pile up add up to more
//! than there are frames, a burst of the lowest class empties the fill ring and the highest class loses
//! packets too. The sum is over capacities, not over what usually lies there.

use std::fmt;

use crate::config::PortConfig;
use crate::{BATCH, RINGS};

/// Every place where frames of one UMEM can be, with its capacity.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FrameBudget {
    /// Frames of the UMEM.
    pub frames: u32,
    /// RX rings.
    pub rx_rings: [u32; RINGS],
    /// Messages that the worker's own queues can hold, each in its frame.
    pub queues: u32,
    /// TX ring of the NIC.
    pub tx_nic: u32,
    /// TX rings of all egress ports together.
    pub tx_egress: u32,
    /// Descriptors that the NIC itself holds in zero-copy mode (`ethtool -g`, RX); 0 in copy mode.
    pub nic_ring: u32,
    /// The fill ring: frames that wait to be received into while all the above are full.
    pub fill_ring: u32,
}

impl FrameBudget {
    /// The budget of a port with so many places in software queues, in egress TX rings, and in the NIC.
    #[must_use]
    pub fn of(config: &PortConfig, queues: u32, tx_egress: u32, nic_ring: u32) -> Self {
        Self {
            frames: config.umem.frames,
            rx_rings: config.rx_ring_sizes,
            queues,
            tx_nic: config.tx_ring_size,
            tx_egress,
            nic_ring,
            fill_ring: config.fill_ring_size,
        }
    }

    /// Frames needed: everything above, and one batch in the worker's hands.
    #[must_use]
    pub fn required(&self) -> u64 {
        let rings = self.rx_rings.iter().copied().map(u64::from).sum::<u64>();
        let others = [self.queues, self.tx_nic, self.tx_egress, self.nic_ring, self.fill_ring, BATCH as u32];
        rings + others.into_iter().map(u64::from).sum::<u64>()
    }

    /// Frames to spare.
    ///
    /// # Errors
    ///
    /// If there are fewer frames than needed; the message has every number.
    pub fn check(&self) -> Result<u32, Shortfall> {
        // What is spare is at most `frames`, so it fits.
        match u64::from(self.frames).checked_sub(self.required()) {
            Some(spare) => Ok(spare as u32),
            None => Err(Shortfall { budget: self.clone() }),
        }
    }
}

/// There are fewer frames than places for them.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub struct Shortfall {
    /// The numbers.
    pub budget: FrameBudget,
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let budget = &self.budget;
        let required = budget.required();
        let rings = budget.rx_rings.iter().copied().map(u64::from).sum::<u64>();
        let [control, new, retransmission, reject] = budget.rx_rings;
        write!(
            f,
            "{} frames are {} too few: RX rings {control} + {new} + {retransmission} + {reject} = \
             {rings}, waiting queues {}, TX ring of the NIC {}, TX rings of the hand-off {}, the NIC's own ring \
             (zero-copy) {}, fill ring {}, one batch {BATCH}: together {required}. Raise the number of \
             frames to at least {required}, or make rings smaller",
            budget.frames,
            required - u64::from(budget.frames),
            budget.queues,
            budget.tx_nic,
            budget.tx_egress,
            budget.nic_ring,
            budget.fill_ring,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> FrameBudget {
        FrameBudget {
            frames: 4096,
            rx_rings: [1024, 512, 64, 32],
            queues: 700,
            tx_nic: 256,
            tx_egress: 512,
            nic_ring: 0,
            fill_ring: 900,
        }
    }

    #[test]
    fn every_place_counts_once() {
        let required = budget().required();
        assert_eq!(required, 1024 + 512 + 64 + 32 + 700 + 256 + 512 + 900 + 64);
        let one_more: [fn(&mut FrameBudget); 9] = [
            |b| b.rx_rings[0] += 1,
            |b| b.rx_rings[1] += 1,
            |b| b.rx_rings[2] += 1,
            |b| b.rx_rings[3] += 1,
            |b| b.queues += 1,
            |b| b.tx_nic += 1,
            |b| b.tx_egress += 1,
            |b| b.nic_ring += 1,
            |b| b.fill_ring += 1,
        ];
        for add in one_more {
            let mut larger = budget();
            add(&mut larger);
            assert_eq!(larger.required(), required + 1);
        }
    }

    #[test]
    fn just_enough_is_enough_and_one_less_is_not() {
        let enough = FrameBudget { frames: budget().required() as u32, ..budget() };
        assert_eq!(enough.check(), Ok(0));
        let short = FrameBudget { frames: enough.frames - 1, ..budget() };
        assert!(short.check().is_err());
        assert_eq!(FrameBudget { frames: enough.frames + 7, ..budget() }.check(), Ok(7));
    }

    #[test]
    fn the_message_has_every_number_and_the_key_to_change() {
        let message =
            FrameBudget { nic_ring: 2048, ..budget() }.check().expect_err("zero-copy needs more").to_string();
        for number in
            ["4096", "1024 + 512 + 64 + 32 = 1632", "700", "256", "512", "2048", "900", "6112", "2016"]
        {
            assert!(message.contains(number), "{number} is missing in: {message}");
        }
        assert!(message.contains("Raise the number of frames to at least 6112"), "{message}");
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let most = u32::MAX;
        let huge = FrameBudget {
            frames: most,
            rx_rings: [most; RINGS],
            queues: most,
            tx_nic: most,
            tx_egress: most,
            nic_ring: most,
            fill_ring: most,
        };
        assert!(huge.check().is_err());
    }

    #[test]
    fn the_default_port_has_room_for_an_egress_port_and_waiting_messages() {
        let config = PortConfig::default();
        let spare = FrameBudget::of(&config, 1500, 1024, 0).check().expect("defaults suit each other");
        assert!(spare < 1500, "the defaults waste {spare} frames");
    }
}
