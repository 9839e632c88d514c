//! Hand-off to a processor in this process: bounded queues of preallocated packet buffers.
//!
//! ```text
//!             requests (bounded: the credit)
//!   worker ───────────────────────────────▶ processor thread
//!   worker ◀─────────────────────────────── processor thread
//!             replies (bounded)                  │ eventfd, only while the worker sleeps
//! ```
//!
//! A message is copied once into a buffer, since frames belong to the worker alone; buffers circulate
//! through two `spare` queues and nothing is allocated after start. The queues are crossbeam's `ArrayQueue`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;

use crossbeam_queue::ArrayQueue;
use crossbeam_utils::sync::{Parker, Unparker};
use overload::Places;
use sip::{Checksum, Datagram, Marker};

use crate::capabilities;
use crate::clock;
use crate::counters::Outcome;
use crate::processor::{Processor, Replies, Request};
use crate::wake::Wake;

/// Replies that may wait for the worker. The worker takes them each turn; a full queue loses replies, as a
/// full socket buffer would, and clients ask again.
const REPLIES_MAX: usize = 1024;

/// A processor that is asked to end may finish its message for this long; then it is left behind.
const JOIN_NS_MAX: u64 = 1_000_000_000;

/// One packet in a buffer of its own.
#[derive(Debug)]
struct Buffer {
    bytes: Box<[u8]>,
    len: usize,
    datagram: Datagram,
    handed_over_ns: u64,
}

impl Buffer {
    fn new(capacity: usize) -> Box<Self> {
        let nobody = SocketAddr::from(([0, 0, 0, 0], 0));
        let datagram =
            Datagram { l3_offset: 0, payload_offset: 0, payload_len: 0, source: nobody, destination: nobody };
        Box::new(Self { bytes: vec![0; capacity].into_boxed_slice(), len: 0, datagram, handed_over_ns: 0 })
    }
}

/// The longest packets of an exchange, bytes. Untouched pages of a buffer take no memory.
#[derive(Clone, Copy, Debug)]
pub struct PacketBytes {
    /// To the processor.
    pub request: usize,
    /// From it: what fits into a frame.
    pub reply: usize,
}

#[derive(Debug)]
struct Shared {
    requests: ArrayQueue<Box<Buffer>>,
    spare_requests: ArrayQueue<Box<Buffer>>,
    replies: ArrayQueue<Box<Buffer>>,
    spare_replies: ArrayQueue<Box<Buffer>>,
    /// Messages that the processor has taken and not finished: 0 or 1.
    in_service: AtomicU32,
    replies_lost: AtomicU64,
    alive: AtomicBool,
    stop: AtomicBool,
}

/// The worker's side of the queues; dropping it ends the processor's thread.
#[derive(Debug)]
pub struct Exchange {
    shared: Arc<Shared>,
    unparker: Unparker,
    thread: Option<JoinHandle<()>>,
}

impl Exchange {
    /// Starts `processor` on a thread of its own with `places` places in front of it. `bytes` are those of the longest
    /// packets; `wake` rouses the worker.
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    pub fn start(
        name: &str,
        mut processor: Box<dyn Processor>,
        places: u32,
        bytes: PacketBytes,
        wake: Arc<Wake>,
    ) -> std::io::Result<Self> {
        let places = places as usize;
        let shared = Arc::new(Shared {
            requests: ArrayQueue::new(places),
            // One more than places: the buffer in service.
            spare_requests: filled(places + 1, bytes.request),
            replies: ArrayQueue::new(REPLIES_MAX),
            spare_replies: filled(REPLIES_MAX, bytes.reply),
            in_service: AtomicU32::new(0),
            replies_lost: AtomicU64::new(0),
            alive: AtomicBool::new(true),
            stop: AtomicBool::new(false),
        });
        let parker = Parker::new();
        let unparker = parker.unparker().clone();
        let side = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            capabilities::renounce_all_of_thread();
            let _alive = AliveGuard { shared: &side, wake: &wake };
            while !side.stop.load(Ordering::Acquire) {
                match side.requests.pop() {
                    Some(buffer) => side.process(processor.as_mut(), buffer, &wake),
                    None => parker.park(),
                }
            }
        })?;
        Ok(Self { shared, unparker, thread: Some(thread) })
    }

    /// Free places in front of the processor; `None` when it is gone. The message in service occupies one.
    #[must_use]
    pub fn places(&self) -> Option<Places> {
        if !self.is_alive() {
            return None;
        }
        let total = self.shared.requests.capacity();
        let used = self.shared.requests.len() + self.shared.in_service.load(Ordering::Acquire) as usize;
        // Both fit: `places` came as a u32.
        Some(Places { free: total.saturating_sub(used) as u32, total: total as u32 })
    }

    /// False once the processor's thread has ended.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.shared.alive.load(Ordering::Acquire)
    }

    /// Hands a packet over without its marker.
    pub fn hand_over(
        &mut self,
        packet: &[u8],
        datagram: &Datagram,
        marker: Option<Marker>,
        now_ns: u64,
    ) -> Outcome {
        if sip::verify_udp(packet, datagram) == Checksum::Wrong {
            return Outcome::ChecksumWrong;
        }
        let (offset, len) = marker.map_or((packet.len(), 0), |marker| {
            (datagram.payload_offset + usize::from(marker.offset), usize::from(marker.len))
        });
        let (Some(front), Some(back)) = (packet.get(..offset), packet.get(offset + len..)) else {
            return Outcome::Unfit;
        };
        let Some(mut buffer) = self.shared.spare_requests.pop() else { return Outcome::NoRoom };
        buffer.len = front.len() + back.len();
        let Some(room) = buffer.bytes.get_mut(..front.len() + back.len()) else {
            self.shared.recycle_request(buffer);
            return Outcome::Unfit;
        };
        room[..front.len()].copy_from_slice(front);
        room[front.len()..].copy_from_slice(back);
        buffer.datagram = Datagram { payload_len: datagram.payload_len - len, ..*datagram };
        buffer.handed_over_ns = now_ns;
        if let Err(buffer) = self.shared.requests.push(buffer) {
            self.shared.recycle_request(buffer);
            return Outcome::NoRoom;
        }
        self.unparker.unpark();
        Outcome::HandedOver
    }

    /// Takes a reply packet, if there is one, into `send`.
    pub fn take_reply(&mut self, send: impl FnOnce(&[u8])) -> bool {
        let Some(buffer) = self.shared.replies.pop() else { return false };
        send(&buffer.bytes[..buffer.len]);
        self.shared.recycle_reply(buffer);
        true
    }

    /// True when replies wait for the worker.
    #[must_use]
    pub fn has_replies(&self) -> bool {
        !self.shared.replies.is_empty()
    }

    /// Replies lost since the worker did not take them in time.
    #[must_use]
    pub fn replies_lost(&self) -> u64 {
        self.shared.replies_lost.load(Ordering::Relaxed)
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.unparker.unpark();
        let Some(thread) = self.thread.take() else { return };
        let deadline_ns = clock::now() + JOIN_NS_MAX;
        while !thread.is_finished() && clock::now() < deadline_ns {
            clock::sleep_until(clock::now() + 1_000_000);
        }
        if thread.is_finished() {
            // A panic in the processor was already reported by its thread; the worker saw it as "gone".
            let _joined = thread.join();
        } else {
            tracing::warn!("a processor did not return in time; its thread is left to itself");
        }
    }
}

fn filled(count: usize, frame_bytes: usize) -> ArrayQueue<Box<Buffer>> {
    let queue = ArrayQueue::new(count);
    while queue.push(Buffer::new(frame_bytes)).is_ok() {}
    queue
}

impl Shared {
    fn process(&self, processor: &mut dyn Processor, buffer: Box<Buffer>, wake: &Wake) {
        self.in_service.store(1, Ordering::Release);
        {
            let request = Request {
                packet: &buffer.bytes[..buffer.len],
                datagram: &buffer.datagram,
                handed_over_ns: buffer.handed_over_ns,
            };
            let mut send =
                |request: &Request<'_>, to: SocketAddr, message: &[u8]| self.send(request, to, message);
            processor.process(&request, &mut Replies { send: &mut send });
        }
        self.recycle_request(buffer);
        self.in_service.store(0, Ordering::Release);
        wake.notify();
    }

    fn send(&self, request: &Request<'_>, to: SocketAddr, message: &[u8]) -> bool {
        let Some(mut reply) = self.spare_replies.pop() else {
            self.replies_lost.fetch_add(1, Ordering::Relaxed);
            return false;
        };
        reply.handed_over_ns = clock::now();
        match sip::write_answer_packet(request.packet, request.datagram, to, message, &mut reply.bytes) {
            Ok(len) => {
                reply.len = len;
                // There are as many reply buffers as places, so the push cannot fail.
                self.replies.push(reply).is_ok()
            }
            Err(_) => {
                self.recycle_reply(reply);
                false
            }
        }
    }

    fn recycle_request(&self, buffer: Box<Buffer>) {
        // Buffers only circulate: the spare queue has room for all of them.
        let _full = self.spare_requests.push(buffer);
    }

    fn recycle_reply(&self, buffer: Box<Buffer>) {
        let _full = self.spare_replies.push(buffer);
    }
}

/// Marks the processor as gone when its thread ends, by return or by panic.
struct AliveGuard<'a> {
    shared: &'a Shared,
    wake: &'a Wake,
}

impl Drop for AliveGuard<'_> {
    fn drop(&mut self) {
        self.shared.alive.store(false, Ordering::Release);
        self.wake.notify();
    }
}
