//! What phones do beyond a plain call, through sipweir, to servers that keep state: Kamailio as registrar and proxy, and a
//! server on Sofia-SIP, the stack of FreeSWITCH, which shares no code with it.
//!
//! At three times what the server can take, sipweir may refuse a REGISTER or an INVITE that begins a call, and nothing else:
//! what it has admitted completes, every request within the dialog included.

use std::net::SocketAddr;
use std::time::Duration;

use sipweir_tests::sipp::Snapshot;
use sipweir_tests::{
    CallLoad, Kamailio, KamailioPlan, LinkPlan, Scenario, Sipp, Sipweir, Sofia, SofiaPlan, turn,
};

use crate::guard::{absorbed_acks, end, guard};
use crate::topology::{SIP_PORT, Topology};

/// Load against what the server can take at most.
const OVERLOAD: f64 = 3.0;

/// How long the load lasts, seconds.
const SECONDS: u32 = 8;

/// The phones behind the proxy are 10.77.0.N on the callers' side: their responses come through sipweir too.
const PHONES: u8 = 80;

/// What became of the three kinds of calls.
#[derive(Debug)]
struct Totals {
    conversations: Snapshot,
    cancelled: Snapshot,
    registrations: Snapshot,
}

impl Totals {
    fn completed(&self) -> u64 {
        self.conversations.completed + self.cancelled.completed + self.registrations.completed
    }
}

/// Offers three times `capacity_per_s`: of ten, six conversations, two calls that are cancelled, two registrations. Then
/// lets all of them end, and looks that each was refused at its first request or went through.
#[track_caller]
fn offer(topology: &Topology, sipweir: &mut Sipweir, phones: SocketAddr, capacity_per_s: f64) -> Totals {
    let load = |tenths: f64, scenario, callee| {
        let rate = (OVERLOAD * capacity_per_s * tenths / 10.0).ceil() as u32;
        CallLoad::at(rate).ending_after(SECONDS * rate).doing(scenario, callee)
    };
    let finish = |callers: Sipp| callers.finish(Duration::from_secs(60)).totals();
    let conversations =
        topology.call_from(topology.another_caller(11), &load(6.0, Scenario::Conversation, "talker"));
    let cancelled =
        topology.call_from(topology.another_caller(12), &load(2.0, Scenario::Cancelled, "ringer"));
    let registrations =
        topology.call_from(topology.another_caller(13), &load(2.0, Scenario::Register(phones), "phone"));
    let totals = Totals {
        conversations: finish(conversations),
        cancelled: finish(cancelled),
        registrations: finish(registrations),
    };
    println!("{totals:?}");
    let status = sipweir.status();
    for (name, kind) in [
        ("conversations", totals.conversations),
        ("cancelled", totals.cancelled),
        ("registrations", totals.registrations),
    ] {
        assert_eq!((kind.failed, kind.in_progress), (0, 0), "{name}: {kind:?}\n{status:#}");
        assert_eq!(kind.completed + kind.refused, kind.started, "{name}: {kind:?}\n{status:#}");
        assert!(
            kind.completed > 0 && kind.refused > 0,
            "{name}: no overload or no service: {kind:?}\n{status:#}"
        );
    }
    // Not because nearly all were refused. How near to capacity a server is kept is the business of `guarded`: here each
    // call costs it more than what the capacity counts.
    let completed_per_s = totals.completed() as f64 / f64::from(SECONDS);
    println!("capacity at most {capacity_per_s:.0}/s, completed {completed_per_s:.0}/s");
    assert!(completed_per_s >= 0.7 * capacity_per_s, "{completed_per_s:.0}/s completed\n{status:#}");
    // Each refused INVITE is acknowledged once, and that ACK ends here.
    let refused = totals.conversations.refused + totals.cancelled.refused;
    assert_eq!(absorbed_acks(&status), refused, "{totals:?}\n{status:#}");
    totals
}

#[test]
fn kamailio_as_registrar_and_proxy_completes_every_admitted_call_at_three_times_the_load() {
    let _alone = turn::alone();
    let topology = Topology::new(&LinkPlan::default());
    let plan = KamailioPlan::registrar(topology.service());
    let kamailio = Kamailio::start(&topology.server, &plan);
    let contact = topology.another_caller(PHONES);
    let phones = Sofia::start(&topology.callers, &SofiaPlan::phones(contact));
    let mut sipweir = guard(&topology);
    for callee in ["talker", "ringer"] {
        let load = CallLoad::at(10).ending_after(1).doing(Scenario::Register(contact), callee);
        assert_eq!(topology.call(&load).finish(Duration::from_secs(20)).totals().completed, 1);
    }

    let totals = offer(&topology, &mut sipweir, contact, plan.nominal_capacity_per_s());
    assert_eq!(kamailio.socket().drops, 0);
    end(sipweir, &topology);

    // What the phones have seen is what the callers say.
    let (talked, cancelled) = (totals.conversations.completed, totals.cancelled.completed);
    let counts = phones.terminate();
    assert_eq!((counts.called, counts.cancelled), (talked + cancelled, cancelled), "{counts:?}");
    assert_eq!((counts.reinvited, counts.digits, counts.ended), (talked, talked, talked), "{counts:?}");
}

#[test]
fn a_server_on_sofia_sip_completes_every_admitted_call_at_three_times_the_load() {
    let _alone = turn::alone();
    let topology = Topology::new(&LinkPlan::default());
    let plan = SofiaPlan::new(topology.service());
    let server = Sofia::start(&topology.server, &plan);
    let mut sipweir = guard(&topology);

    let totals = offer(&topology, &mut sipweir, topology.caller(SIP_PORT), plan.nominal_capacity_per_s());
    assert_eq!(server.socket().drops, 0);
    end(sipweir, &topology);

    // No request that was refused has reached it, and none that it has served was refused.
    let (talked, cancelled) = (totals.conversations.completed, totals.cancelled.completed);
    let counts = server.terminate();
    assert_eq!((counts.called, counts.cancelled), (talked + cancelled, cancelled), "{counts:?}");
    assert_eq!((counts.reinvited, counts.digits, counts.ended), (talked, talked, talked), "{counts:?}");
    assert_eq!(counts.registered, totals.registrations.completed, "{counts:?}");
}
