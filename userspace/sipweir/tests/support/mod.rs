//! A worker on paired rings: the real rings, the real worker, and a test that plays the kernel and the server.
#![allow(
    unreachable_pub,
    dead_code,
    missing_debug_implementations,
    reason = "a module shared by test binaries, each of which uses a part"
)]

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use afxdp::testing::{Dropped, EgressWire, Wire, egress_pair, pair};
use afxdp::{EgressConfig, MappedWords, PortConfig};
use overload::{
    AnyGate, CallQueue, Credit, CreditConfig, GENERATIONS, Gate, GateConfig, QueueCapacity, RateConfig,
    ReceiveQueue, SLOTS, VirtualQueue,
};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use sip::{Class, Marker, Method, Seed, Services, TransactionKey};
use sipweir::capture::Outlet;
use sipweir::change::{ChangeBox, LaneChange, WorkerChange};
use sipweir::config::{Monitored, Reply};
use sipweir::counters::{LaneCounters, WorkerCounters};
use sipweir::handoff::Handoff;
use sipweir::handoff::kernel::{Egress, Server, ServerQueue};
use sipweir::lane::Lane;
use sipweir::limits::{Cap, CapTable, Caps, SourceBits, SourceLimits};
use sipweir::local::{LetterBox, LocalAddresses};
use sipweir::monitor::Monitor;
use sipweir::orders::Orders;
use sipweir::picks::Picks;
use sipweir::prefix::Prefix;
use sipweir::privileged::Privileged;
use sipweir::reply_policy::{ReplyPolicy, ReplyRules};
use sipweir::side_door::SideDoor;
use sipweir::transactions::{Memory, Transactions};
use sipweir::wake::Wake;
use sipweir::worker::{Parts, Worker};
use xdp_prog::abi::{ARRIVAL_WORDS, QUEUES_MAX, SERVICES_MAX};

pub const MS: u64 = 1_000_000;
pub const CONTROL: usize = 0;
pub const NEW: usize = 1;
pub const RETRANSMISSION: usize = 2;
pub const REJECT: usize = 3;
/// What a small datagram costs a socket; the server of these tests counts in it.
const BYTES_PER_MESSAGE: u64 = 2304;

/// The server's receive queue, as the test wants it.
#[derive(Clone, Default)]
pub struct FakeServer(Arc<FakeServerState>);

#[derive(Default)]
struct FakeServerState {
    waiting: AtomicU64,
    gone: AtomicBool,
}

impl FakeServer {
    pub fn set_waiting(&self, messages: u64) {
        self.0.waiting.store(messages, Ordering::Relaxed);
    }
    pub fn set_gone(&self, gone: bool) {
        self.0.gone.store(gone, Ordering::Relaxed);
    }
}

impl ServerQueue for FakeServer {
    fn receive_queue(&mut self, _now_ns: u64) -> ReceiveQueue {
        let sockets = u32::from(!self.0.gone.load(Ordering::Relaxed));
        let bytes = self.0.waiting.load(Ordering::Relaxed) * BYTES_PER_MESSAGE;
        ReceiveQueue { sockets, bytes, limit_bytes: 0, drops: 0 }
    }
}

/// One worker with one lane, its wires and its counters.
pub struct Bench {
    pub worker: Worker,
    pub wire: Wire,
    pub egress: EgressWire,
    pub server: FakeServer,
    pub lane: Arc<LaneCounters>,
    pub orders: Arc<Orders>,
    pub counters: Arc<WorkerCounters>,
    pub gates: Arc<MappedWords>,
    pub table: Arc<MappedWords>,
    pub served: Arc<MappedWords>,
    pub arrivals: Arc<MappedWords>,
    pub stop: Arc<AtomicBool>,
    pub changes: Arc<ChangeBox>,
    /// The other end of the export, until a test takes it.
    pub outlet: Option<Outlet>,
    pub now_ns: u64,
}

/// What a test may want otherwise.
#[derive(Clone)]
pub struct Setup {
    pub gate: GateConfig,
    pub queue_target: u32,
    pub max_wait_ns: u64,
    pub rate_per_s: f64,
    pub reply: Reply,
    /// Buckets of the transaction table.
    pub buckets: usize,
    /// That of another worker instead.
    pub table: Option<Arc<MappedWords>>,
    pub port: PortConfig,
    pub caps: Caps,
    /// Of some networks.
    pub peer_caps: Vec<(Prefix, Caps)>,
    pub local: LocalAddresses,
    /// Buffers of the export; 0: none.
    pub capture: u32,
    pub monitored: Monitored,
    /// Where requests are written down whose answer is timed.
    pub awaited: Option<Arc<MappedWords>>,
}

/// Of what is written down there.
pub const BRANCH_SEED: u64 = 7;

impl Default for Setup {
    fn default() -> Self {
        Self {
            gate: GateConfig::TailDrop { buffer: overload::Threshold::Messages(1000) },
            queue_target: 8,
            max_wait_ns: 400 * MS,
            rate_per_s: 1000.0,
            // One client makes all the load of these tests.
            reply: Reply { rate: 1_000_000, per_destination: 1_000_000, ..Reply::default() },
            buckets: 64,
            table: None,
            port: PortConfig::default(),
            caps: Caps::of_each_kind(Cap::Off),
            peer_caps: Vec::new(),
            local: LocalAddresses::default(),
            capture: 0,
            monitored: Monitored::NONE,
            awaited: None,
        }
    }
}

pub fn words(words: usize) -> Arc<MappedWords> {
    let fd = memfd_create("words", MemfdFlags::CLOEXEC).expect("memfd");
    ftruncate(&fd, 8 * words as u64).expect("size");
    Arc::new(MappedWords::map(std::os::fd::AsFd::as_fd(&fd), words).expect("map"))
}

/// What makes a worker of another set-up go on by this one.
pub fn change(setup: &Setup, arrivals: &Arc<MappedWords>, now_ns: u64) -> WorkerChange {
    let rate = RateConfig { initial_per_s: setup.rate_per_s, ..RateConfig::default() };
    let watched = setup.monitored.has(Class::Original);
    let line = || Monitor::new(Arc::clone(arrivals), 0..2, 0, VirtualQueue::new(rate, now_ns));
    let lane = LaneChange {
        gate: AnyGate::new(&setup.gate, 2000, setup.rate_per_s).expect("gate"),
        credit: CreditConfig {
            target_messages: setup.queue_target,
            down_after_ns: 100 * MS,
            rate,
            ..CreditConfig::default()
        },
        reply: ReplyRules::new(&setup.reply),
        caps: CapTable::new(setup.caps, setup.peer_caps.iter().copied(), SourceBits::default()),
        max_wait_ns: setup.max_wait_ns,
        copy_wait_ns: 400 * MS,
        monitored: setup.monitored,
        monitor: watched.then(line),
    };
    WorkerChange { lanes: vec![lane], privileged: Privileged::default(), spin: true, drop_not_sip: false }
}

impl Bench {
    pub fn new(setup: &Setup) -> Self {
        let server = FakeServer::default();
        let handoff = Handoff::Kernel(Server::new(Box::new(server.clone())));
        Self { server, ..Self::with_handoff(setup, handoff) }
    }

    pub fn with_handoff(setup: &Setup, handoff: Handoff) -> Self {
        Self::build(setup, handoff, None)
    }

    /// A worker with a side door that takes `large` large messages, and what the test needs for it.
    pub fn with_side_door(setup: &Setup, large: usize) -> (Self, Outside) {
        let door = SideDoor::open(large, 1).expect("needs CAP_NET_RAW");
        let mut addresses = door.sockets().map(|(_, socket)| {
            let address = rustix::net::getsockname(socket).expect("a bound socket");
            SocketAddr::try_from(address).expect("an Internet address")
        });
        let service = addresses.next().expect("an IPv4 socket");
        let no_service = addresses.next().expect("an IPv6 socket");
        drop(addresses);
        let door = door.serving(Services::new([(Some(service.ip()), service.port())]));
        let (ours, theirs) = UnixDatagram::pair().expect("sockets");
        theirs.set_nonblocking(true).expect("flag");
        let server = FakeServer::default();
        let handoff = Handoff::Kernel(Server::new(Box::new(server.clone())));
        let bench = Self { server, ..Self::build(setup, handoff, Some((door, ours.into()))) };
        (bench, Outside { service, no_service, device: theirs })
    }

    fn build(setup: &Setup, handoff: Handoff, door: Option<(SideDoor, OwnedFd)>) -> Self {
        let (mut port, wire) = pair(&setup.port);
        let tx = EgressConfig { tx_ring_size: 512, busy_retry_ns: 0 };
        let (egress_port, egress) = egress_pair(&mut port, &tx);
        let server = FakeServer::default();
        let lane_counters = Arc::new(LaneCounters::default());
        let arrivals = words(SERVICES_MAX * QUEUES_MAX * ARRIVAL_WORDS);
        let now_ns = 10_000 * MS;
        let gate = AnyGate::new(&setup.gate, 2000, setup.rate_per_s).expect("gate");
        let rate = RateConfig { initial_per_s: setup.rate_per_s, ..RateConfig::default() };
        let credit = CreditConfig {
            target_messages: setup.queue_target,
            down_after_ns: 100 * MS,
            rate,
            ..CreditConfig::default()
        };
        let orders = Arc::new(Orders::default());
        let lane = Lane {
            name: "test".into(),
            queue: CallQueue::new(gate.discipline(), QueueCapacity { control: 256, new: 2000, copy: 128 }),
            gate,
            gate_times: overload::GateTimes::new(now_ns),
            credit: Credit::new(credit, now_ns).expect("credit"),
            handoff,
            mix: overload::Mix::default(),
            reply: ReplyPolicy::new(ReplyRules::new(&setup.reply), 0, now_ns),
            inquiry: overload::Inquiry::default(),
            limits: SourceLimits::new(CapTable::new(
                setup.caps,
                setup.peer_caps.iter().copied(),
                SourceBits::default(),
            )),
            calls: overload::AdmittedCalls::default(),
            max_wait_ns: setup.max_wait_ns,
            copy_wait_ns: 400 * MS,
            counters: Arc::clone(&lane_counters),
            monitored: setup.monitored,
            monitor: setup
                .monitored
                .has(Class::Original)
                .then(|| Monitor::new(Arc::clone(&arrivals), 0..2, 0, VirtualQueue::new(rate, now_ns))),
            picks: setup.awaited.clone().map(|table| Picks::new(table, BRANCH_SEED, 1)),
            orders: Arc::clone(&orders),
            pace: overload::Pace::new(now_ns),
            is_silent: false,
            looked_ns: 0,
        };

        let gates = words(SERVICES_MAX * QUEUES_MAX);
        let table = setup.table.clone().unwrap_or_else(|| words(setup.buckets * SLOTS));
        let served = words(128 * GENERATIONS);
        let stop = Arc::new(AtomicBool::new(false));
        let letters = Arc::new(LetterBox::default());
        let changes = Arc::new(ChangeBox::default());
        let counters = Arc::new(WorkerCounters::default());
        let egress_end = Egress::new(egress_port, tx.tx_ring_size, [2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 8]);
        let (side_door, egress_end) = match door {
            Some((door, device)) => (Some(door), egress_end.with_packet_socket(device)),
            None => (None, egress_end),
        };
        let (tap, outlet) = (setup.capture > 0).then(|| sipweir::capture::tap(setup.capture)).unzip();
        let worker = Worker::new(Parts {
            port,
            egress: Some(egress_end),
            lanes: vec![lane],
            lane_of_service: vec![0, 0],
            gates: Arc::clone(&gates),
            queue: 0,
            seed: Seed([1, 2, 3, 4]),
            key: Arc::new(TransactionKey::new(&Seed([1, 2, 3, 4]))),
            transactions: Transactions::new(Some(Memory {
                table: Arc::clone(&table),
                served: Arc::clone(&served),
            })),
            privileged: Privileged::default(),
            local: setup.local.clone(),
            letters: Arc::clone(&letters),
            changes: Arc::clone(&changes),
            wake: Arc::new(Wake::new().expect("eventfd")),
            stop: Arc::clone(&stop),
            spin: true,
            side_door,
            capture: tap,
            drop_not_sip: false,
            counters: Arc::clone(&counters),
        });
        Self {
            worker,
            wire,
            egress,
            server,
            lane: lane_counters,
            orders,
            counters,
            gates,
            table,
            served,
            arrivals,
            stop,
            changes,
            outlet,
            now_ns,
        }
    }

    /// One turn, `later_ns` after the last.
    pub fn turn_after(&mut self, later_ns: u64) -> bool {
        self.now_ns += later_ns;
        self.worker.turn(self.now_ns)
    }

    /// Delivers a message as the XDP program would: classified, to the ring of its class.
    pub fn deliver(&mut self, message: &str) -> Result<(), Dropped> {
        let found = sip::classify(message.as_bytes());
        let ring = sip::verdict_of(found.class) as usize;
        self.deliver_as(ring, message.as_bytes(), found.class, found.method, found.marker)
    }

    /// The same from another source.
    pub fn deliver_from(&mut self, source: [u8; 4], message: &str) -> Result<(), Dropped> {
        let found = sip::classify(message.as_bytes());
        let ring = sip::verdict_of(found.class) as usize;
        let meta = meta(self.now_ns, message.as_bytes(), found.class, found.method, found.marker);
        self.wire.deliver(ring, &packet_from(source, message.as_bytes()), &meta)
    }

    /// The same at the second listen address.
    pub fn deliver_at_second_address(&mut self, message: &str) -> Result<(), Dropped> {
        let found = sip::classify(message.as_bytes());
        let mut meta = meta(self.now_ns, message.as_bytes(), found.class, found.method, found.marker);
        meta[30] = 1;
        self.wire.deliver(sip::verdict_of(found.class) as usize, &packet(message.as_bytes()), &meta)
    }

    /// Delivers an original from another source to the ring of those that were shed.
    pub fn deliver_rejected_from(&mut self, source: [u8; 4], message: &str) -> Result<(), Dropped> {
        let meta = meta(self.now_ns, message.as_bytes(), Class::Original, Method::Invite, None);
        self.wire.deliver(REJECT, &packet_from(source, message.as_bytes()), &meta)
    }

    /// Delivers a datagram with given findings to a given ring.
    pub fn deliver_as(
        &mut self,
        ring: usize,
        datagram: &[u8],
        class: Class,
        method: Method,
        marker: Option<Marker>,
    ) -> Result<(), Dropped> {
        let packet = packet(datagram);
        let meta = meta(self.now_ns, datagram, class, method, marker);
        self.wire.deliver(ring, &packet, &meta)
    }

    /// The messages that reached the server since the last call.
    pub fn at_server(&mut self) -> Vec<String> {
        self.egress.sent().iter().map(|packet| text(&packet[42..])).collect()
    }

    /// The messages that were sent by the NIC since the last call.
    pub fn replies(&mut self) -> Vec<String> {
        self.wire.sent().iter().map(|packet| text(&packet[42..])).collect()
    }

    /// What waits, in the order in which the server gets it now that it takes messages again.
    pub fn order_of_service(&mut self) -> Vec<String> {
        self.server.set_waiting(0);
        let mut order = Vec::new();
        for _ in 0..10 {
            self.turn_after(MS);
            order.extend(names(&self.at_server()));
        }
        order
    }

    /// The same until nothing waits.
    #[track_caller]
    pub fn serve_all(&mut self) -> Vec<String> {
        let mut order = Vec::new();
        for _ in 0..100 {
            order.extend(self.order_of_service());
            if self.lane.waiting.get() == 0 {
                return order;
            }
        }
        panic!("{} messages wait for a server that takes all", self.lane.waiting.get());
    }

    /// Everything that was received had one outcome, and no frame is in anybody's hands.
    #[track_caller]
    pub fn assert_conserved(&self) {
        assert_eq!(self.lane.received_total(), self.lane.outcomes_total() + self.lane.waiting.get());
        assert_eq!(self.counters.frames_outstanding.get(), self.lane.waiting.get());
    }
}

/// The world around a side door: where to send datagrams to, and what comes out where large messages go.
pub struct Outside {
    pub service: SocketAddr,
    /// The address of a socket of the door that is no service's.
    pub no_service: SocketAddr,
    pub device: UnixDatagram,
}

impl Outside {
    /// A peer of the service.
    pub fn peer(&self) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("bind");
        socket.set_read_timeout(Some(std::time::Duration::from_secs(5))).expect("time-out");
        socket
    }

    /// The large messages that reached the device since the last call.
    pub fn large_at_server(&self) -> Vec<String> {
        let mut buffer = vec![0; 1 << 17];
        let mut found = Vec::new();
        while let Ok(len) = self.device.recv(&mut buffer) {
            found.push(text(&buffer[42..len]));
        }
        found
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The second field of a start line and the rest up to the first space: enough to tell messages apart.
pub fn names(messages: &[String]) -> Vec<String> {
    messages
        .iter()
        .map(|message| {
            message.lines().next().unwrap_or_default().split(' ').take(2).collect::<Vec<_>>().join(" ")
        })
        .collect()
}

/// A request of call `call` with everything that an answer needs.
pub fn request(method: &str, uri: &str, call: &str) -> String {
    format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP 198.51.100.7:5062;branch=z9hG4bK{call}{method};rport\r\n\
         Max-Forwards: 70\r\nFrom: <sip:a@example.com>;tag=f{call}\r\nTo: <sip:b@example.com>\r\n\
         Call-ID: {call}\r\nCSeq: 1 {method}\r\nContact: <sip:a@198.51.100.7:5062>\r\nContent-Length: 0\r\n\r\n"
    )
}

/// An Ethernet/IPv4/UDP packet around a datagram, checksums right.
pub fn packet(datagram: &[u8]) -> Vec<u8> {
    packet_from([198, 51, 100, 7], datagram)
}

/// The same from another source.
pub fn packet_from(source: [u8; 4], datagram: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4(source, [192, 0, 2, 1], 64)
        .udp(5062, 5060)
        .write(&mut out, datagram)
        .expect("packet");
    out
}

/// The 32 bytes that the XDP program puts in front of a packet.
pub fn meta(now_ns: u64, datagram: &[u8], class: Class, method: Method, marker: Option<Marker>) -> [u8; 32] {
    let line = datagram.iter().position(|byte| *byte == b'\r').unwrap_or(0);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&now_ns.to_ne_bytes());
    bytes[16..18].copy_from_slice(&42u16.to_ne_bytes());
    bytes[18..20].copy_from_slice(&(datagram.len() as u16).to_ne_bytes());
    bytes[20..22].copy_from_slice(&(line as u16).to_ne_bytes());
    bytes[24] = class as u8;
    bytes[26] = method as u8;
    if let Some(marker) = marker {
        bytes[22..24].copy_from_slice(&(42 + marker.offset).to_ne_bytes());
        bytes[27] = marker.form as u8;
        bytes[28] = marker.copy;
        bytes[29] = marker.len;
    }
    bytes
}
