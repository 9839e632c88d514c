//! No allocation per packet after start: the worker's turn under a counting allocator.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use sip::{Class, Method};
use sipweir::capture::filter::Filter;
use sipweir::capture::live::Session;
use sipweir::config::{Monitored, Peer, Reply};
use sipweir::counters::Outcome;
use support::{Bench, MS, NEW, REJECT, Setup, change, request};

struct Counting;

thread_local! {
    static COUNTED: Cell<Option<u64>> = const { Cell::new(None) };
}

fn count() {
    // Allocations of a thread that is being torn down are not ours.
    let _gone = COUNTED.try_with(|counted| counted.set(counted.get().map(|n| n + 1)));
}

#[allow(unsafe_code, reason = "a global allocator can only be written with it; it passes everything on")]
// SAFETY: every call goes to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's contract is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    COUNTED.set(Some(0));
    work();
    COUNTED.replace(None).expect("counting")
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![0u8; 100]))), 1);
}

/// A capture of all messages.
fn everything() -> Arc<Session> {
    let filter = Filter { verdict: None, reason: None, class: None, service: None, one_in: 1 };
    Arc::new(Session::new(filter.bits(&["main"]).expect("valid")))
}

#[test]
fn a_turn_allocates_nothing_whatever_comes() {
    let mut bench = Bench::new(&Setup::default());
    let messages: Vec<String> = (0..64)
        .flat_map(|call| {
            let call = format!("c{call}");
            [
                request("INVITE", "sip:b@example.com;rtx=0", &call),
                request("INVITE", "sip:b@example.com;rtx=1", &call),
                request("OPTIONS", "sip:b@example.com", &call),
                request("CANCEL", "sip:b@example.com", &call),
                request("BYE", "sip:b@example.com", &call),
            ]
        })
        .collect();
    let mut served = 0;
    for round in 0..50 {
        // The second half with somebody who captures everything and reads nothing.
        if round == 25 {
            bench.counters.capture_point.set(Some(everything()));
        }
        for message in &messages {
            // What finds its ring full is lost, as in the kernel.
            let _full = bench.deliver(message);
            let _full = bench.deliver_as(REJECT, message.as_bytes(), Class::Original, Method::Invite, None);
        }
        let undecided = request("INVITE", "sip:b@example.com", &format!("u{round}"));
        let _full = bench.deliver_as(NEW, undecided.as_bytes(), Class::Undecided, Method::Invite, None);
        bench.server.set_waiting(u64::from(round % 3 == 0) * 20);
        for _ in 0..20 {
            bench.now_ns += 3 * MS;
            let now_ns = bench.now_ns;
            let worker = &mut bench.worker;
            let allocated = allocations(|| {
                std::hint::black_box(worker.turn(now_ns));
            });
            assert_eq!(allocated, 0, "round {round}");
            served += bench.at_server().len();
            bench.replies();
        }
    }
    assert!(served > 1000, "{served}");
    bench.assert_conserved();
}

#[test]
fn a_refusal_with_everything_allocates_nothing() {
    let peers = [("198.51.100.0/24", 480), ("198.51.0.0/16", 500), ("2001:db8::/32", 0)];
    let peer = |code| Peer { code: Some(code), per_destination: Some(40) };
    let reply = Reply {
        retry_after_register: Some([30, 90]),
        peers: peers.map(|(text, code)| (text.to_owned(), peer(code))).into(),
        ..Reply::default()
    };
    // Buffers of the export for some of them, with nobody to give them back.
    let mut bench = Bench::new(&Setup { reply, capture: 50, ..Setup::default() });
    let mut told = 0;
    for call in 0..200 {
        let register = request("REGISTER", "sip:b@example.com", &format!("c{call}"));
        let offering = register.replace(";rport", ";rport;oc;oc-algo=\"loss,A\"");
        let padded =
            offering.replace("Contact", "User-Agent: a telephone with some more to say of itself\r\nContact");
        // Room for everything, for the plain reply, for none, and a reason for silence.
        let short = format!("REGISTER a SIP/2.0{}", &register[register.find("\r\nVia").expect("Via")..]);
        let without = register.replace("Call-ID", "X-Call");
        for message in [padded, offering, short.replace("Max-Forwards: 70\r\n", ""), without] {
            bench
                .deliver_as(REJECT, message.as_bytes(), Class::Original, Method::Register, None)
                .expect("delivered");
        }
        bench.now_ns += 3 * MS;
        let (now_ns, worker) = (bench.now_ns, &mut bench.worker);
        let allocated = allocations(|| {
            std::hint::black_box(worker.turn(now_ns));
        });
        assert_eq!(allocated, 0, "call {call}");
        let replies = bench.replies();
        told += replies.iter().filter(|text| text.contains(";oc=0;") && text.contains("Retry-After")).count();
        assert!(replies.iter().all(|text| text.starts_with("SIP/2.0 480 ")));
    }
    assert!(told > 10, "{told}");
    for outcome in [
        Outcome::Rejected,
        Outcome::SilentMissingHeader,
        Outcome::SilentLongerThanRequest,
        Outcome::SilentOverDestinationCap,
    ] {
        assert!(bench.lane.outcome_of(Class::Original, outcome) > 0, "{}", outcome.name());
    }
    bench.assert_conserved();
}

#[test]
fn the_side_door_allocates_nothing_whatever_the_size_and_fate() {
    // A server with room for little, so that some are handed over, some wait, and some are refused.
    let setup = Setup::default();
    let (mut bench, outside) = Bench::with_side_door(&setup, 4);
    let peer = outside.peer();
    let mut handed_over = 0;
    for round in 0..40 {
        for (call, len) in [(0, 0), (1, 2800), (2, 60_000), (3, 2800), (4, 2800), (5, 2800)] {
            let mut message = request("INVITE", "sip:b@example.com", &format!("c{round}-{call}"));
            message.extend(std::iter::repeat_n('x', len));
            peer.send_to(message.as_bytes(), outside.service).expect("send");
        }
        peer.send_to(b"\r\n\r\n", outside.service).expect("send");
        bench.server.set_waiting(u64::from(round % 2 == 0) * 200);
        for _ in 0..10 {
            bench.now_ns += MS;
            let (now_ns, worker) = (bench.now_ns, &mut bench.worker);
            let allocated = allocations(|| {
                std::hint::black_box(worker.turn(now_ns));
            });
            assert_eq!(allocated, 0, "round {round}");
            handed_over += bench.at_server().len() + outside.large_at_server().len();
        }
    }
    // Silently, since no reply goes to a loopback address.
    let shed = bench.lane.outcome_of(Class::Original, Outcome::SilentNoDestination);
    assert!(handed_over > 40 && shed > 10, "{handed_over} handed over, {shed} shed");
    bench.assert_conserved();
}

#[test]
fn a_reply_by_the_side_door_allocates_nothing() {
    let door = sipweir::side_door::SideDoor::open(1, 1).expect("needs CAP_NET_RAW");
    let peer = std::net::UdpSocket::bind("127.0.0.1:0").expect("bind");
    let (to, service) = (peer.local_addr().expect("address"), "127.0.0.2:5060".parse().expect("address"));
    let mut request = vec![b'r'; sip::rebuilt_headers_len(to) + 100];
    let datagram = sip::write_datagram_headers(&mut request, to, service).expect("headers");
    let mut reply = [0; 256];
    let len = sip::write_answer_packet(&request, &datagram, to, b"SIP/2.0 503", &mut reply).expect("a reply");
    let allocated = allocations(|| assert!(door.send(&reply[..len])));
    assert_eq!(allocated, 0);
    assert_eq!(peer.recv(&mut [0; 64]).expect("the reply"), 11);
}

#[test]
fn a_look_at_a_real_socket_allocates_nothing() {
    use sipweir::sock_diag::{Service, Watch};

    let server = std::net::UdpSocket::bind("127.0.0.1:0").expect("bind");
    let address = server.local_addr().expect("address");
    let service = Service { address: Some(address.ip()), port: address.port(), device: 0 };
    let mut watch = Watch::open(service, 10 * MS).expect("sock_diag");
    let mut seen = 0;
    // The first look searches; later ones ask, and search anew now and then.
    watch.receive_queue(0).expect("look");
    for look in 1..200 {
        let allocated =
            allocations(|| seen += watch.receive_queue(look * MS).map_or(0, |found| found.sockets));
        assert_eq!(allocated, 0, "look {look}");
    }
    assert_eq!(seen, 199);
}

#[test]
fn an_embedded_hand_off_allocates_nothing_at_the_worker() {
    use sip::{ReplyLine, Seed};
    use sipweir::handoff::{
        Handoff,
        embedded::{Exchange, PacketBytes},
    };
    use sipweir::processor::{Processor, Replies, Request};

    struct Answers;
    impl Processor for Answers {
        fn process(&mut self, request: &Request<'_>, replies: &mut Replies<'_>) {
            let mut out = [0; 2048];
            let line = ReplyLine { code: 200, phrase: "OK" };
            let written =
                sip::write_response(request.message(), request.source(), &Seed([0; 4]), line, b"", &mut out);
            if let Ok(reply) = written {
                replies.send(request, reply.destination, &out[..reply.len]);
            }
        }
    }
    let wake = std::sync::Arc::new(sipweir::wake::Wake::new().expect("eventfd"));
    let exchange =
        Exchange::start("test", Box::new(Answers), 16, PacketBytes { request: 2048, reply: 2048 }, wake)
            .expect("thread");
    let mut bench =
        Bench::with_handoff(&Setup { queue_target: 16, ..Setup::default() }, Handoff::Embedded(exchange));
    let start = std::time::Instant::now();
    let (mut answered, mut call) = (0, 0);
    while answered < 1000 {
        assert!(start.elapsed().as_secs() < 20, "{answered} answered");
        bench
            .deliver(&request("OPTIONS", "sip:b@example.com;rtx=0", &format!("c{call}")))
            .expect("delivered");
        call += 1;
        for _ in 0..4 {
            bench.now_ns += MS / 100;
            let (now_ns, worker) = (bench.now_ns, &mut bench.worker);
            let allocated = allocations(|| {
                std::hint::black_box(worker.turn(now_ns));
            });
            assert_eq!(allocated, 0, "after {answered} answers");
            answered += bench.replies().len();
            std::thread::yield_now();
        }
        if bench.lane.waiting.get() > 200 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

#[test]
fn to_go_on_by_another_configuration_allocates_nothing() {
    let mut bench = Bench::new(&Setup::default());
    let reply = Reply { code: 480, rate: 1000, per_destination: 1, ..Reply::default() };
    let setups = [
        Setup { reply, max_wait_ns: 300 * MS, monitored: Monitored::ALL, ..Setup::default() },
        Setup::default(),
    ];
    for setup in setups.iter().cycle().take(10) {
        bench.changes.put(change(setup, &bench.arrivals, bench.now_ns));
        bench.now_ns += MS;
        let (now_ns, worker) = (bench.now_ns, &mut bench.worker);
        let allocated = allocations(|| {
            std::hint::black_box(worker.turn(now_ns));
        });
        assert_eq!(allocated, 0);
        assert!(bench.changes.taken().is_some(), "it was taken, and what it replaced is freed here");
    }
}
