//! A server that is slow inside, and one that is stopped: what sipweir makes of it, and how it comes back.

use std::collections::VecDeque;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use sipweir_tests::{CallLoad, Kamailio, KamailioPlan, LinkPlan, Peer, Sipweir, message, wait_until};

use crate::guard::{configuration, end};
use crate::topology::Topology;

fn guard(topology: &Topology, server: &str) -> Sipweir {
    Sipweir::start(&topology.server, &format!("{}server = {{ {server} }}\n", configuration()))
}

fn server(status: &Value) -> &Value {
    &status["services"]["main"]["server"]
}

#[test]
fn a_stopped_server_is_down_by_its_silence_and_comes_back_by_itself() {
    let topology = Topology::new(&LinkPlan::default());
    let kamailio = Kamailio::start(&topology.server, &KamailioPlan::new(topology.service()));
    let mut sipweir = guard(&topology, "probe_interval = \"500ms\"");
    let calls = CallLoad::at(50).ending_after(25);
    let totals = topology.call(&calls).finish(Duration::from_secs(20)).totals();
    assert_eq!((totals.completed, totals.failed), (25, 0), "{totals:?}");

    kamailio.signal(Signal::STOP);
    let stopped = Instant::now();
    wait_until("it is known to be silent", Duration::from_secs(4), || {
        server(&sipweir.status())["silent"] == true
    });
    println!("known after {:?}", stopped.elapsed());
    assert_eq!(server(&sipweir.status())["state"], "down");
    let peer = Peer::bind(&topology.callers, topology.caller(5070));
    for number in 0..5 {
        let invite = message::request("INVITE", peer.address(), topology.service(), number, "", 0);
        let asked = Instant::now();
        peer.send(&invite, topology.service());
        let (answer, _) = peer.receive("a refusal", Duration::from_secs(2));
        assert!(answer.starts_with(b"SIP/2.0 503 "), "{}", String::from_utf8_lossy(&answer));
        assert!(asked.elapsed() < Duration::from_millis(500), "{:?}", asked.elapsed());
    }
    std::thread::sleep(Duration::from_secs(5).saturating_sub(stopped.elapsed()));
    kamailio.signal(Signal::CONT);
    wait_until("it is back", Duration::from_secs(4), || server(&sipweir.status())["state"] == "up");
    let totals = topology.call(&calls).finish(Duration::from_secs(20)).totals();
    assert_eq!((totals.completed, totals.failed), (25, 0), "{totals:?}");
    let log = sipweir.log();
    assert!(log.contains("answers no probes"), "{log}");
    end(sipweir, &topology);
}

/// What the server below answers a second.
const CAPACITY_PER_S: u32 = 100;

/// A server that reads everything at once, and answers from a queue that nobody sees.
struct Queueing {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Queueing {
    fn start(topology: &Topology) -> Self {
        let socket = topology.server.inside(|| UdpSocket::bind(topology.service()).expect("bind"));
        socket.set_nonblocking(true).expect("a socket that does not block");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut queue, mut datagram) = (VecDeque::new(), vec![0; 2048]);
            let (mut answered, start) = (0_u32, Instant::now());
            while !stopped.load(Ordering::Relaxed) {
                while let Ok((len, from)) = socket.recv_from(&mut datagram) {
                    if datagram.starts_with(b"INVITE ") {
                        queue.push_back((message::response(&datagram[..len], "200 OK"), from));
                    }
                }
                // No more than its rate, and nothing saved up while it was idle.
                let due = (start.elapsed().as_secs_f64() * f64::from(CAPACITY_PER_S)) as u32;
                if queue.is_empty() || due > answered + CAPACITY_PER_S {
                    answered = answered.max(due.saturating_sub(1));
                }
                while answered < due
                    && let Some((answer, from)) = queue.pop_front()
                {
                    socket.send_to(&answer, from).expect("sent");
                    answered += 1;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Queueing {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// Seconds after which requests were answered with 200, and how many were refused. Another port are other requests.
fn answered(topology: &Topology, port: u16, per_s: u32, seconds: u32) -> (Vec<f64>, usize) {
    let peer = Peer::bind(&topology.callers, topology.caller(port));
    let (mut sent, mut times, mut refused) = (Vec::new(), Vec::new(), 0);
    let start = Instant::now();
    let take = |sent: &[Instant], times: &mut Vec<f64>, refused: &mut usize| {
        while let Some((answer, _)) = peer.take() {
            let text = String::from_utf8(answer).expect("text");
            let number = text.split("Call-ID: ").nth(1).and_then(|rest| rest.split('@').next());
            let number: usize = number.and_then(|number| number.parse().ok()).expect("our Call-ID");
            if text.starts_with("SIP/2.0 200 ") {
                times.push(sent[number].elapsed().as_secs_f64());
            } else {
                *refused += 1;
            }
        }
    };
    while start.elapsed() < Duration::from_secs(u64::from(seconds)) {
        if (start.elapsed().as_secs_f64() * f64::from(per_s)) as usize > sent.len() {
            let number = sent.len() as u64;
            sent.push(Instant::now());
            peer.send(
                &message::request("INVITE", peer.address(), topology.service(), number, "", 0),
                topology.service(),
            );
        }
        take(&sent, &mut times, &mut refused);
        std::thread::sleep(Duration::from_millis(1));
    }
    (times, refused)
}

#[test]
fn a_server_that_queues_where_nobody_sees_it_is_given_what_it_answers_in_time() {
    let topology = Topology::new(&LinkPlan::default());
    let _server = Queueing::start(&topology);
    let mut sipweir = guard(&topology, "answer_time_max = \"100ms\"");
    // At ease nothing is limited.
    let (times, refused) = answered(&topology, 5071, CAPACITY_PER_S / 2, 3);
    assert!(times.len() > 130 && refused == 0, "{} answered, {refused} refused", times.len());
    assert!(server(&sipweir.status()).get("limit_per_s").is_none(), "{}", sipweir.status());

    let (times, refused) = answered(&topology, 5072, 2 * CAPACITY_PER_S, 20);
    let status = sipweir.status();
    let mut late = times[times.len() / 2..].to_vec();
    late.sort_by(f64::total_cmp);
    let (half_s, most_s) = (late[late.len() / 2], late[late.len() * 9 / 10]);
    println!(
        "{} answered, {refused} refused, second half after {half_s:.3} s, 90 % within {most_s:.3} s; {}",
        times.len(),
        server(&status)
    );
    // 20 s at capacity are 2000; what is above waits no longer than a caller's patience. Without the bound the last of them
    // would have waited for ten seconds.
    assert!(times.len() > 1000, "{}", times.len());
    assert!(refused > 500, "{refused}");
    assert!(half_s < 0.7 && most_s < 1.5, "{half_s} {most_s}");
    assert!(sipweir.log().contains("above its bounds"), "{}", sipweir.log());
    // Below capacity the limit goes.
    let (times, refused) = answered(&topology, 5073, CAPACITY_PER_S / 4, 25);
    assert!(times.len() > 550, "{} answered, {refused} refused", times.len());
    assert!(server(&sipweir.status()).get("limit_per_s").is_none(), "{}", server(&sipweir.status()));
    end(sipweir, &topology);
}
