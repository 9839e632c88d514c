//! Sizes and choices of a port. Checked before anything is opened; every error names the key as spelled here.

use crate::error::Error;
use crate::{RINGS, XDP_HEADROOM};

/// Shortest room for a packet that is accepted: a full Ethernet MTU less tunnel headers still fits. Smaller,
/// and nearly every SIP request would go to the kernel as `oversize`.
const PACKET_LEN_LEAST: u32 = 1024;

/// Largest ring that is accepted, in entries. Above this the kernel can't allocate ring memory in one piece,
/// and a queue that long is only delay.
const RING_SIZE_MAX: u32 = 1 << 16;

/// Memory of one NIC queue.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UmemConfig {
    /// Number of frames. [`FrameBudget`](crate::FrameBudget) says how many are needed.
    pub frames: u32,
    /// Bytes of a frame: 2048 or 4096 (the kernel wants a power of two of at least 2048, and at most a page).
    pub frame_size: u32,
    /// Bytes left free in front of a received packet besides the kernel's own 256.
    pub headroom: u32,
    /// Ask for huge pages. If there are none, ordinary pages are used and [`Mode`](crate::Mode) says so.
    pub huge_pages: bool,
}

impl Default for UmemConfig {
    /// 8192 frames of 2 KiB: 16 MiB a queue, enough for the default rings, an egress port and 1,500 waiting
    /// messages.
    fn default() -> Self {
        Self { frames: 8192, frame_size: 2048, headroom: 0, huge_pages: false }
    }
}

impl UmemConfig {
    /// Longest packet that can be received: a frame less the room in front. Longer ones are dropped by
    /// AF_XDP, so the XDP program must pass them to the kernel.
    #[must_use]
    pub fn packet_len_max(&self) -> u32 {
        self.frame_size.saturating_sub(XDP_HEADROOM).saturating_sub(self.headroom)
    }

    /// Bytes of all frames.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.frames) * u64::from(self.frame_size)
    }

    /// # Errors
    ///
    /// If a value can't work.
    pub fn check(&self) -> Result<(), Error> {
        if self.frames == 0 {
            return Err(Error::NoFrames);
        }
        if ![2048, 4096].contains(&self.frame_size) {
            return Err(Error::FrameSize { value: self.frame_size });
        }
        if self.packet_len_max() < PACKET_LEN_LEAST {
            return Err(Error::Headroom {
                value: self.headroom,
                most: self.frame_size - XDP_HEADROOM - PACKET_LEN_LEAST,
            });
        }
        Ok(())
    }
}

/// Whether packets are copied between NIC and UMEM.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CopyMode {
    /// The kernel copies. Works with every driver.
    Copy,
    /// The NIC reads and writes frames itself. Needs driver support; some drivers have corrupted memory with
    /// it. The kernel then demands zero-copy of every egress port of the queue as well, which a veth can't
    /// do.
    ZeroCopy,
}

/// Preferred busy polling: the worker's system calls drive the NIC's NAPI instead of softirqs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BusyPollConfig {
    /// Microseconds that one call may poll (`SO_BUSY_POLL`). Must not be 0.
    pub time_us: u32,
    /// Packets that one poll may deliver (`SO_BUSY_POLL_BUDGET`). More than 64 needs CAP_NET_ADMIN.
    pub budget: u32,
}

/// One NIC queue. Ring sizes are numbers of entries and powers of two.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PortConfig {
    /// The queue's frames.
    pub umem: UmemConfig,
    /// RX rings in order of priority: control, new, retransmission, reject. Low ones are small, so that a
    /// burst of their class can't take the frames of the others.
    pub rx_ring_sizes: [u32; RINGS],
    /// Frames that wait to be received into. Smaller than a burst between two turns of the worker, and
    /// packets of *all* rings are lost (`rx_fill_ring_empty_descs`).
    pub fill_ring_size: u32,
    /// TX ring of the NIC (for replies), and its completion ring, which needs no size of its own: more
    /// completions than transmissions can't be outstanding.
    pub tx_ring_size: u32,
    /// Copy or zero-copy.
    pub copy_mode: CopyMode,
    /// Let the kernel say when it needs a system call to look at a ring, instead of making one each time.
    pub need_wakeup: bool,
    /// Busy polling, if wanted.
    pub busy_poll: Option<BusyPollConfig>,
    /// Nanoseconds for which a queue that is still in use is tried again. The kernel unbinds a closed socket
    /// from a work queue, some milliseconds to some hundred after `close`. Too small: a restart fails. Too
    /// large: a second instance takes that long to say so.
    pub busy_retry_ns: u64,
}

impl Default for PortConfig {
    fn default() -> Self {
        Self {
            umem: UmemConfig::default(),
            rx_ring_sizes: [1024, 1024, 256, 128],
            fill_ring_size: 2048,
            tx_ring_size: 512,
            copy_mode: CopyMode::Copy,
            need_wakeup: true,
            busy_poll: None,
            busy_retry_ns: 3_000_000_000,
        }
    }
}

impl PortConfig {
    /// # Errors
    ///
    /// At the first value that can't work.
    pub fn check(&self) -> Result<(), Error> {
        const RX_KEYS: [&str; RINGS] =
            ["rx_ring_sizes[0]", "rx_ring_sizes[1]", "rx_ring_sizes[2]", "rx_ring_sizes[3]"];
        self.umem.check()?;
        for (key, size) in RX_KEYS.into_iter().zip(self.rx_ring_sizes) {
            check_ring_size(key, size)?;
        }
        check_ring_size("fill_ring_size", self.fill_ring_size)?;
        check_ring_size("tx_ring_size", self.tx_ring_size)?;
        match self.busy_poll {
            Some(busy) if busy.time_us == 0 => Err(Error::BusyPollZero { key: "busy_poll.time_us" }),
            Some(busy) if busy.budget == 0 => Err(Error::BusyPollZero { key: "busy_poll.budget" }),
            _ => Ok(()),
        }
    }
}

/// A second device that packets are sent to from the frames of a NIC queue.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EgressConfig {
    /// TX ring, and its completion ring.
    pub tx_ring_size: u32,
    /// As [`PortConfig::busy_retry_ns`].
    pub busy_retry_ns: u64,
}

impl Default for EgressConfig {
    fn default() -> Self {
        Self { tx_ring_size: 1024, busy_retry_ns: 3_000_000_000 }
    }
}

impl EgressConfig {
    /// # Errors
    ///
    /// If a value can't work.
    pub fn check(&self) -> Result<(), Error> {
        check_ring_size("tx_ring_size (egress)", self.tx_ring_size)
    }
}

fn check_ring_size(key: &'static str, value: u32) -> Result<(), Error> {
    if value.is_power_of_two() && value <= RING_SIZE_MAX {
        return Ok(());
    }
    let nearest = value.clamp(1, RING_SIZE_MAX).next_power_of_two();
    Err(Error::RingSize { key, value, nearest, most: RING_SIZE_MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_pass_their_own_check() {
        PortConfig::default().check().expect("default port");
        EgressConfig::default().check().expect("default egress");
        assert_eq!(UmemConfig::default().packet_len_max(), 1792);
    }

    #[test]
    fn a_ring_size_that_is_no_power_of_two_is_named_with_the_nearest_one() {
        let config = PortConfig { rx_ring_sizes: [1024, 1024, 100, 128], ..PortConfig::default() };
        let error = config.check().expect_err("100 is no power of two").to_string();
        assert!(
            error.contains("rx_ring_sizes[2]") && error.contains("100") && error.contains("128"),
            "{error}"
        );
        for size in [0, 3, (1 << 16) + 1, 1 << 17, u32::MAX] {
            let config = PortConfig { fill_ring_size: size, ..PortConfig::default() };
            let error = config.check().expect_err("out of range").to_string();
            assert!(error.contains("fill_ring_size"), "{error}");
        }
    }

    #[test]
    fn frames_must_hold_a_packet() {
        let umem = |frame_size, headroom| UmemConfig { frame_size, headroom, ..UmemConfig::default() };
        assert!(matches!(umem(1024, 0).check(), Err(Error::FrameSize { value: 1024 })));
        assert!(matches!(umem(3000, 0).check(), Err(Error::FrameSize { value: 3000 })));
        umem(2048, 768).check().expect("1,024 bytes are left");
        assert!(matches!(umem(2048, 769).check(), Err(Error::Headroom { value: 769, most: 768 })));
        umem(4096, 769).check().expect("a larger frame has the room");
        let none = UmemConfig { frames: 0, ..UmemConfig::default() };
        assert!(matches!(none.check(), Err(Error::NoFrames)));
    }
}
