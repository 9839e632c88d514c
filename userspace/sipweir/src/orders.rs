//! What the main thread tells the lanes of a service: how fast its server may be given originals, and whether it is silent.
//!
//! Words that a worker reads when it looks at the server; nobody waits for anybody.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The orders for one lane.
#[derive(Debug, Default)]
pub struct Orders {
    /// Bits of a number per second; 0 is none.
    limit_per_s: AtomicU64,
    is_silent: AtomicBool,
}

impl Orders {
    /// Sets how many originals a second may be handed over; `None` is without limit.
    pub fn limit(&self, per_s: Option<f64>) {
        self.limit_per_s.store(per_s.map_or(0, f64::to_bits), Ordering::Relaxed);
    }

    /// How many originals a second may be handed over.
    #[must_use]
    pub fn limit_per_s(&self) -> Option<f64> {
        Some(self.limit_per_s.load(Ordering::Relaxed)).filter(|bits| *bits != 0).map(f64::from_bits)
    }

    /// Says whether the server answers no probes although it has a socket.
    pub fn silence(&self, is_silent: bool) {
        self.is_silent.store(is_silent, Ordering::Relaxed);
    }

    /// Whether the server answers no probes although it has a socket.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Relaxed)
    }
}
