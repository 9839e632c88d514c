//! What the thread that has set a run up does while it runs: it looks after workers, interface and hand-off, and carries out
//! changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::Instance;
use super::owner::Job;
use super::telling::Telling;
use crate::local::LocalAddresses;
use crate::transactions::Sweeper;
use crate::{clock, netdev};

/// How often the main thread looks after workers and interface.
const SUPERVISION: Duration = Duration::from_millis(250);

/// How often the host's addresses are read. Longer: what the host sends itself from a new address is lost for so long.
const LOCAL_ADDRESSES: Duration = Duration::from_secs(1);

impl Instance {
    /// Waits for a signal, a worker that ended, or an interface that went away, and carries out changes meanwhile. `None`
    /// after a signal.
    pub(super) fn supervise(
        &mut self,
        stop: &AtomicBool,
        reload: &AtomicBool,
        jobs: &Receiver<Job>,
    ) -> Option<String> {
        let mut telling = Telling::new(self.lanes.len(), clock::now());
        let mut metadata = Metadata::Unchecked(Instant::now());
        let (mut local, mut local_read) = (self.local.clone(), Instant::now());
        let mut queues = self.interface.rx_queues;
        let mut sweeper = self
            .transactions
            .as_ref()
            .map(|memory| Sweeper::new(memory.clone(), Arc::clone(&self.occupancy), clock::now()));
        while !stop.load(Ordering::Acquire) {
            match jobs.recv_timeout(SUPERVISION) {
                Ok(job) => job(self),
                Err(RecvTimeoutError::Timeout) => {}
                // The control socket has the other end for as long as this runs.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(SUPERVISION),
            }
            if reload.swap(false, Ordering::AcqRel) {
                self.reload_from_file();
            }
            self.watchdog.look(self.workers.iter().map(|worker| &*worker.counters));
            metadata.check(&self.classifier);
            self.judges.look(clock::now());
            self.probes.look(&local, clock::now());
            if let Some(sweeper) = &mut sweeper {
                sweeper.sweep(clock::now());
                self.occupancy.evicted_in_kernel.store(self.classifier.evicted(), Ordering::Relaxed);
            }
            if local_read.elapsed() >= LOCAL_ADDRESSES {
                local_read = Instant::now();
                self.tell_addresses(&mut local);
                self.watch_queues(&mut queues);
            }
            if let Some(reason) = self.hand_off_lost() {
                return Some(reason);
            }
            if let Some(ended) = self.workers.iter().find(|worker| worker.thread.is_finished()) {
                let name = &self.interface.name;
                return Some(match netdev::Interface::find(name) {
                    Ok(found) if found.index == self.interface.index => {
                        format!("worker-q{} ended; the kernel takes over all packets", ended.queue)
                    }
                    _ => format!("interface {name} is gone; start again when it is back"),
                });
            }
            telling.tell(&self.lanes, clock::now());
        }
        None
    }

    /// Says when the interface has got queues that nobody guards, or lost them again. The kernel does not let it lose one
    /// that has a socket of ours.
    fn watch_queues(&self, known: &mut u32) {
        // A device that is gone is somebody else's business.
        let Ok(found) = netdev::Interface::find(&self.interface.name) else { return };
        if found.rx_queues == *known {
            return;
        }
        *known = found.rx_queues;
        let (queues, workers) = (found.rx_queues, self.workers.len());
        if queues as usize > workers {
            tracing::warn!(
                queues,
                workers,
                "the interface has more receive queues now: what comes by the new ones goes to the servers unguarded; \
                 start again, or take them away (ethtool -L)"
            );
        } else {
            tracing::info!(queues, workers, "every receive queue of the interface is guarded again");
        }
    }

    /// Leaves the host's addresses with the workers and the side door's program if they have changed.
    fn tell_addresses(&mut self, known: &mut LocalAddresses) {
        // Without an answer the old ones hold.
        let Ok(addresses) = netdev::addresses_of_host() else { return };
        let now = LocalAddresses::new(addresses);
        if now != *known {
            *known = now;
            if let Err(error) = self.door.set_local_addresses(known) {
                tracing::warn!(%error, "cannot bring the host's addresses up to date at the side door");
            }
            if let Err(error) = self.classifier.set_local_addresses(known.iter().collect()) {
                tracing::warn!(%error, "cannot bring the host's addresses up to date in the XDP program");
            }
            self.workers.iter().for_each(|worker| worker.letters.put(known.clone()));
        }
    }

    /// Why messages cannot reach a server any more although it may be there.
    fn hand_off_lost(&self) -> Option<String> {
        for (name, lanes) in &self.lanes {
            if lanes.iter().any(|lane| lane.processor_gone.get() > 0) {
                return Some(format!(
                    "the processor of service {name} ended; the kernel takes over all packets"
                ));
            }
        }
        let device = self.device.as_ref()?;
        [device.transmit(), device.receive()].into_iter().find_map(|end| {
            match netdev::Interface::find(&end.name) {
                Ok(found) if found.index == end.index && found.up => None,
                Ok(found) if found.index == end.index => Some(format!(
                    "the hand-off device {} was set down; start again, and leave it up",
                    end.name
                )),
                _ => Some(format!(
                    "the hand-off device {} was deleted; start again, and leave it there",
                    end.name
                )),
            }
        })
    }
}

/// Watches for a driver that refuses metadata, under which every guarded packet takes the side door.
enum Metadata {
    Unchecked(Instant),
    Refused,
}

impl Metadata {
    /// Packets of a driver either all have metadata or none, so looking now and then is enough.
    const INTERVAL: Duration = Duration::from_secs(2);

    fn check(&mut self, classifier: &xdp_prog::Classifier) {
        let Self::Unchecked(since) = self else { return };
        if since.elapsed() < Self::INTERVAL {
            return;
        }
        *since = Instant::now();
        if let Ok(counters) = classifier.counters()
            && counters.without_metadata() > 0
        {
            tracing::error!(
                packets = counters.without_metadata(),
                "the driver refuses metadata in front of packets, so they take the slow side door; set xdp.mode = \"generic\""
            );
            *self = Self::Refused;
        }
    }
}
