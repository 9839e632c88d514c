//! A capture for a client of the control socket: the workers' part, and what they share with its thread.
//!
//! ```text
//!   worker ── one look at a flag a turn ──▶ Session (filter, buffers) ──▶ thread ──▶ client
//! ```
//!
//! There is one capture at a time. While there is none a worker has no session, which costs it one branch a message and one
//! load a turn. While there is one it copies what the filter wants into a spare buffer, or counts it as lost: it makes no system
//! call, allocates nothing and waits for nobody. The buffers are made when the capture begins and gone after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_queue::ArrayQueue;
use sip::Class;

use super::buffers::Buffers;
use super::filter::Bits;
use crate::counters::Outcome;

/// Bytes of a packet that are kept; the rest is cut off.
pub const PACKET_BYTES_MAX: usize = 4096;

/// Buffers of a capture, for all workers together: 2 MiB. Fewer: more is lost in a burst, in the 10 ms until the thread looks.
pub(super) const BUFFERS: usize = 512;

/// A packet that a worker has kept.
#[derive(Debug)]
pub(super) struct Packet {
    /// When its fate was sealed.
    pub(super) at_ns: u64,
    pub(super) class: Class,
    pub(super) outcome: Outcome,
    /// Index of the service.
    pub(super) lane: usize,
    pub(super) queue: u32,
    /// Length before it was cut.
    pub(super) len: usize,
    pub(super) bytes: [u8; PACKET_BYTES_MAX],
}

impl Packet {
    const fn new() -> Self {
        Self {
            at_ns: 0,
            class: Class::Undecided,
            outcome: Outcome::HandedOver,
            lane: 0,
            queue: 0,
            len: 0,
            bytes: [0; PACKET_BYTES_MAX],
        }
    }

    /// What was kept.
    pub(super) fn kept(&self) -> &[u8] {
        &self.bytes[..self.len.min(PACKET_BYTES_MAX)]
    }
}

/// What the workers know of a capture.
#[derive(Debug)]
pub struct Session {
    bits: Bits,
    pub(super) packets: Buffers<Packet>,
    lost: AtomicU64,
}

impl Session {
    /// With all memory that it will ever use.
    #[must_use]
    pub fn new(bits: Bits) -> Self {
        Self { bits, packets: Buffers::new(BUFFERS, Packet::new), lost: AtomicU64::new(0) }
    }

    /// Packets that found no buffer.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// Where a worker finds that a capture has begun or ended.
#[derive(Debug)]
pub struct Point {
    /// Raised at each beginning and end.
    generation: AtomicU64,
    /// With the generation that it begins.
    next: ArrayQueue<(u64, Arc<Session>)>,
}

impl Default for Point {
    fn default() -> Self {
        Self { generation: AtomicU64::new(0), next: ArrayQueue::new(1) }
    }
}

impl Point {
    /// Tells the worker what is captured from now on, or that nothing is. One thread at a time may.
    pub fn set(&self, session: Option<Arc<Session>>) {
        let generation = self.generation.load(Ordering::Relaxed) + 1;
        match session {
            Some(session) => drop(self.next.force_push((generation, session))),
            None => drop(self.next.pop()),
        }
        self.generation.store(generation, Ordering::Release);
    }
}

/// The worker's part.
#[derive(Debug, Default)]
pub struct Probe {
    generation: u64,
    session: Option<Arc<Session>>,
    random: u64,
}

/// A packet that was copied before it is known what becomes of it.
#[derive(Debug)]
pub struct Kept(Box<Packet>);

/// What a worker knows of a message besides its bytes.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// When.
    pub now_ns: u64,
    /// Its class.
    pub class: Class,
    /// Index of its service.
    pub lane: usize,
    /// The worker's NIC queue.
    pub queue: u32,
}

impl Probe {
    /// Looks whether a capture has begun or ended; once a turn.
    #[inline]
    pub fn look(&mut self, point: &Point) {
        let generation = point.generation.load(Ordering::Acquire);
        if generation != self.generation {
            // One that begins at this very moment may lie there before its generation does: it is not to be taken for
            // ended at the next look. The last holder of a session is its thread, which waits for this.
            (self.generation, self.session) = match point.next.pop() {
                Some((begun, session)) => (begun, Some(session)),
                None => (generation, None),
            };
        }
    }

    /// Whether there is a capture.
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.session.is_some()
    }

    /// Copies a message whose fate is known, if it is wanted.
    #[inline]
    pub fn note(&mut self, packet: &[u8], outcome: Outcome, about: About) {
        if self.session.is_some() {
            let kept = self.keep_now(packet, outcome, about);
            self.confirm(kept);
        }
    }

    /// Copies a message that will have this fate unless something goes wrong. It is to be [confirmed](Self::confirm) or dropped.
    #[inline]
    pub fn keep(&mut self, packet: &[u8], outcome: Outcome, about: About) -> Option<Kept> {
        if self.session.is_some() { self.keep_now(packet, outcome, about) } else { None }
    }

    #[cold]
    fn keep_now(&mut self, packet: &[u8], outcome: Outcome, about: About) -> Option<Kept> {
        let session = self.session.as_ref()?;
        let Bits { outcomes, classes, services, share, .. } = session.bits;
        let wanted = outcomes >> outcome as u64 & classes >> about.class as u64 & services >> about.lane & 1;
        if wanted == 0 {
            return None;
        }
        // Knuth's MMIX generator, whose upper bits are the good ones.
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if (self.random >> 32) as u32 > share {
            return None;
        }
        let Some(mut kept) = session.packets.take() else {
            session.lost.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let len = packet.len().min(PACKET_BYTES_MAX);
        kept.bytes[..len].copy_from_slice(&packet[..len]);
        let About { now_ns, class, lane, queue } = about;
        (kept.at_ns, kept.class, kept.outcome, kept.lane, kept.queue) = (now_ns, class, outcome, lane, queue);
        kept.len = packet.len();
        Some(Kept(kept))
    }

    /// Leaves a copy for the thread.
    #[inline]
    pub fn confirm(&self, kept: Option<Kept>) {
        if let (Some(Kept(packet)), Some(session)) = (kept, &self.session) {
            session.packets.put(packet);
        }
    }

    /// Gives a copy back: the message had another fate.
    #[inline]
    pub fn forget(&self, kept: Option<Kept>) {
        if let (Some(Kept(packet)), Some(session)) = (kept, &self.session) {
            session.packets.give_back(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{About, Arc, BUFFERS, Class, Outcome, PACKET_BYTES_MAX, Point, Probe, Session};
    use crate::capture::filter::{Fate, Filter};

    const ABOUT: About = About { now_ns: 7, class: Class::Original, lane: 0, queue: 3 };

    fn session(one_in: u32) -> Arc<Session> {
        let filter = Filter { verdict: Some(Fate::Shed), reason: None, class: None, service: None, one_in };
        Arc::new(Session::new(filter.bits(&["main"]).expect("valid")))
    }

    #[test]
    fn a_worker_sees_a_capture_begin_and_end_at_its_next_look() {
        let (point, mut probe) = (Point::default(), Probe::default());
        let note = |probe: &mut Probe| probe.note(&[1; 60], Outcome::Rejected, ABOUT);
        let session = session(1);
        point.set(Some(Arc::clone(&session)));
        note(&mut probe);
        assert_eq!(session.packets.waiting(), 0);
        probe.look(&point);
        note(&mut probe);
        assert_eq!(session.packets.waiting(), 1);
        point.set(None);
        probe.look(&point);
        note(&mut probe);
        assert_eq!((session.packets.waiting(), Arc::strong_count(&session)), (1, 1));
    }

    #[test]
    fn a_capture_that_begins_while_a_worker_sees_the_last_one_end_is_not_lost() {
        let (point, mut probe) = (Point::default(), Probe::default());
        point.set(Some(session(1)));
        probe.look(&point);
        point.set(None);
        // `set` has got so far when the worker looks for the end of the first.
        let second = session(1);
        point.next.push((3, Arc::clone(&second))).expect("a place");
        probe.look(&point);
        point.generation.store(3, super::Ordering::Release);
        probe.look(&point);
        probe.note(&[1; 60], Outcome::Rejected, ABOUT);
        assert_eq!(second.packets.waiting(), 1);
        point.set(None);
        probe.look(&point);
        assert!(!probe.is_on());
    }

    #[test]
    fn only_what_is_wanted_is_kept_with_all_that_is_known() {
        let (point, mut probe, session) = (Point::default(), Probe::default(), session(1));
        point.set(Some(Arc::clone(&session)));
        probe.look(&point);
        probe.note(&[1; 60], Outcome::CopyAbsorbed, ABOUT);
        probe.note(&[2; 9000], Outcome::SilentOverBudget, ABOUT);
        let packet = session.packets.next().expect("one");
        assert_eq!(
            (packet.outcome, packet.class, packet.queue),
            (Outcome::SilentOverBudget, Class::Original, 3)
        );
        assert_eq!((packet.kept().len(), packet.len, packet.kept()[0]), (PACKET_BYTES_MAX, 9000, 2));
        assert!(session.packets.next().is_none());
    }

    #[test]
    fn a_client_that_never_reads_costs_copies_and_is_waited_for_by_nobody() {
        let (point, mut probe, session) = (Point::default(), Probe::default(), session(1));
        point.set(Some(Arc::clone(&session)));
        probe.look(&point);
        (0..BUFFERS + 40).for_each(|_| probe.note(&[1; 60], Outcome::Rejected, ABOUT));
        assert_eq!((session.packets.waiting(), session.lost()), (BUFFERS, 40));
    }

    #[test]
    fn a_copy_is_for_the_thread_when_it_is_confirmed_and_spare_when_not() {
        let all = Filter { verdict: None, reason: None, class: None, service: None, one_in: 1 };
        let session = Arc::new(Session::new(all.bits(&["main"]).expect("valid")));
        let (point, mut probe) = (Point::default(), Probe::default());
        point.set(Some(Arc::clone(&session)));
        probe.look(&point);
        for _ in 0..2 * BUFFERS {
            let kept = probe.keep(&[1; 60], Outcome::HandedOver, ABOUT);
            assert!(kept.is_some());
            probe.forget(kept);
        }
        assert_eq!((session.packets.waiting(), session.lost()), (0, 0));
        let kept = probe.keep(&[1; 60], Outcome::HandedOver, ABOUT);
        probe.confirm(kept);
        assert_eq!(session.packets.waiting(), 1);
    }

    #[test]
    fn one_of_n_is_kept() {
        let (point, mut probe, session) = (Point::default(), Probe::default(), session(100));
        point.set(Some(Arc::clone(&session)));
        probe.look(&point);
        (0..20_000).for_each(|_| probe.note(&[1; 60], Outcome::Rejected, ABOUT));
        let kept = session.packets.waiting();
        assert!((150..250).contains(&kept), "{kept} of 20,000");
    }
}
