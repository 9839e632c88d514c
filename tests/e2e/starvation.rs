//! What is no call and comes in floods leaves calls below the server's capacity alone.
//!
//! The server reads one datagram in four milliseconds, whatever it is: a flood that reaches its socket unguarded takes its
//! time, and fills the socket by which sipweir knows whether it may hand anything over.

use std::net::SocketAddr;
use std::time::Duration;

use sipweir_tests::{CallLoad, Flood, LinkPlan, Sipweir, SlowServer, message, turn};

use crate::guard::{configuration, end};
use crate::topology::Topology;

/// What each datagram costs the server: 250 a second at most, and 245 in truth.
const COST: Duration = Duration::from_millis(4);

/// INVITE, ACK and BYE each cost the server: these calls take half of what it can do.
const CALLS_PER_S: u32 = 40;

/// The flood takes more than the other half.
const FLOOD_PER_S: u32 = 300;

/// How long calls and flood last, seconds.
const SECONDS: u32 = 8;

/// Calls beside a flood of `datagram(from, to, 0)`, `datagram(from, to, 1)`, … from another address than the callers': not
/// one call is refused, lost, or sent twice.
#[track_caller]
fn calls_are_served_beside(
    calls_per_s: u32,
    rate_per_s: u32,
    datagram: impl Fn(SocketAddr, SocketAddr, u64) -> Vec<u8> + Send + 'static,
) {
    let _alone = turn::alone();
    let topology = Topology::new(&LinkPlan::default());
    let (from, to) = (topology.another_caller(3), topology.service());
    let server = SlowServer::start(&topology.server, to, COST);
    let mut sipweir = Sipweir::start(&topology.server, &(configuration() + "initial_rate = 250\n"));
    let flood =
        Flood::start(&topology.callers, from, to, rate_per_s, move |number| datagram(from, to, number));
    let load = CallLoad::at(calls_per_s).ending_after(SECONDS * calls_per_s);
    let totals = topology.call(&load).finish(Duration::from_secs(60)).totals();
    let sent = flood.stop();

    let status = sipweir.status();
    println!("{totals:?} beside {sent} datagrams; the server has read {}", server.read());
    assert!(sent > u64::from(rate_per_s * SECONDS * 9 / 10), "the flood sent {sent} datagrams only");
    assert_eq!((totals.completed, totals.refused), (totals.started, 0), "{totals:?}\n{status:#}");
    // A copy would hide an original that was lost.
    assert_eq!((totals.failed, totals.copies), (0, 0), "{totals:?}\n{status:#}");
    end(sipweir, &topology);
}

#[test]
fn calls_below_capacity_are_served_beside_a_flood_of_keep_alives() {
    calls_are_served_beside(CALLS_PER_S, FLOOD_PER_S, |_, _, number| match number % 3 {
        0 => b"\r\n\r\n".to_vec(),
        1 => vec![0; 4],
        // A STUN binding request (RFC 8489 section 5): type, no attributes, magic cookie, transaction.
        _ => [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], &[7; 12]].concat(),
    });
}

#[test]
fn calls_below_capacity_are_served_beside_a_flood_that_is_not_sip() {
    calls_are_served_beside(CALLS_PER_S, FLOOD_PER_S, |_, _, number| {
        format!("\u{1}garbage {number}\n").repeat(20).into_bytes()
    });
}

/// One source whose in-dialog requests nobody has asked for. Up to its cap it is believed, and the calls need less than
/// what that leaves; above it, it may take nothing from them.
#[test]
fn calls_below_capacity_are_served_beside_a_flood_of_forged_byes() {
    calls_are_served_beside(20, 950, |from, to, number| message::in_dialog("BYE", from, to, number));
}
