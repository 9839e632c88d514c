//! A service that is only watched, at one worker: what the XDP program counts of its packets, and the line that would
//! wait.
//!
//! Not here: which packets pass (`xdp-prog`, by the gate's word), and the line itself (`overload::VirtualQueue`).

use std::sync::Arc;

use afxdp::MappedWords;
use overload::{Arrivals, VirtualQueue};
use xdp_prog::abi::{ARRIVAL_WORDS, QUEUES_MAX};

/// What a lane needs to act as if.
#[derive(Debug)]
pub struct Monitor {
    /// `ARRIVAL_WORDS` for each service and queue, written by the XDP program.
    words: Arc<MappedWords>,
    /// The first words of this lane's services at this queue.
    places: Vec<usize>,
    /// The line.
    pub queue: VirtualQueue,
}

impl Monitor {
    /// For the services with these numbers.
    #[must_use]
    pub fn new(
        words: Arc<MappedWords>,
        services: impl Iterator<Item = usize>,
        rx_queue: u32,
        queue: VirtualQueue,
    ) -> Self {
        let place = |service: usize| (service * QUEUES_MAX + rx_queue as usize) * ARRIVAL_WORDS;
        Self { words, places: services.map(place).collect(), queue }
    }

    /// Takes in a look at the server: what waits there, and what its socket has dropped since the last one.
    pub fn look(&mut self, now_ns: u64, at_server: u64, dropped: u64) {
        let sum = |word: usize| self.places.iter().map(|place| self.words.load(place + word)).sum();
        let arrivals = Arrivals { originals: sum(0), control: sum(1), all: sum(2) };
        self.queue.look(now_ns, arrivals, at_server, dropped);
    }
}
