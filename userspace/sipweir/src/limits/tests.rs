use super::{Cap, CapTable, Caps, SourceBits, SourceLimits, has_cap};
use sip::{Class, Method, Seed};

const SEED: Seed = Seed([1, 2, 3, 4]);

/// The same for everybody.
fn alike(caps: Caps) -> SourceLimits {
    limits_with(caps, [])
}

fn limits_with<const N: usize>(caps: Caps, peers: [(&str, Caps); N]) -> SourceLimits {
    let peers = peers.map(|(text, caps)| (text.parse().expect("network"), caps));
    SourceLimits::new(CapTable::new(caps, peers, SourceBits::default()))
}

fn allowed(limits: &mut SourceLimits, class: Class, source: &str, rate_per_s: f64) -> usize {
    let source = source.parse().expect("address");
    (0..1000).filter(|_| limits.take(&SEED, class, source, 1, rate_per_s, 0)).count()
}

#[test]
fn every_control_message_falls_under_a_cap_and_nothing_else_does() {
    for class in Class::ALL {
        assert_eq!(Caps::of_each_kind(Cap::Off).of(class).is_some(), has_cap(class), "{class:?}");
    }
}

#[test]
fn a_share_is_one_of_the_measured_rate_and_a_number_is_not() {
    let mut limits = alike(Caps::of_each_kind(Cap::Share(0.5)));
    assert_eq!(allowed(&mut limits, Class::InDialog, "192.0.2.1", 240.0), 30);
    assert_eq!(allowed(&mut limits, Class::InDialog, "192.0.2.2", 2400.0), 300);
    let mut limits = alike(Caps::of_each_kind(Cap::PerSecond(40.0)));
    assert_eq!(allowed(&mut limits, Class::InDialog, "192.0.2.1", 240.0), 10);
    let mut limits = alike(Caps::of_each_kind(Cap::Off));
    assert_eq!(allowed(&mut limits, Class::InDialog, "192.0.2.1", 1.0), 1000);
}

#[test]
fn each_kind_of_message_has_its_own_cap_and_acks_share_theirs_with_cancels() {
    let mut limits = alike(Caps::of_each_kind(Cap::PerSecond(40.0)));
    for class in [Class::InDialog, Class::Ack, Class::Emergency, Class::Prober, Class::Response] {
        assert_eq!(allowed(&mut limits, class, "192.0.2.1", 1.0), 10, "{class:?}");
    }
    assert_eq!(allowed(&mut limits, Class::Cancel, "192.0.2.1", 1.0), 0);
}

#[test]
fn the_kinds_of_one_source_share_a_total_and_a_refusal_costs_neither() {
    let total = Cap::PerSecond(60.0);
    let mut limits = alike(Caps { total, ..Caps::of_each_kind(Cap::PerSecond(40.0)) });
    let order = [(Class::InDialog, 10), (Class::Ack, 5), (Class::Emergency, 0), (Class::InDialog, 0)];
    for (class, expected) in order {
        assert_eq!(allowed(&mut limits, class, "192.0.2.1", 1.0), expected, "{class:?}");
    }
    assert_eq!(allowed(&mut limits, Class::Prober, "192.0.2.2", 1.0), 10);
    let mut limits = alike(Caps { prober: Cap::Off, total, ..Caps::of_each_kind(Cap::PerSecond(40.0)) });
    assert_eq!(allowed(&mut limits, Class::Prober, "192.0.2.1", 1.0), 1000, "without a cap of its own");
}

#[test]
fn a_request_whose_cseq_names_another_method_has_the_lesser_privilege_of_both() {
    use super::is_in_disguise;
    let invite = Some(Method::Invite);
    assert!(is_in_disguise(Class::Ack, Method::Ack, invite));
    assert!(is_in_disguise(Class::InDialog, Method::Bye, Some(Method::Other)));
    assert!(!is_in_disguise(Class::InDialog, Method::Bye, Some(Method::Bye)));
    assert!(!is_in_disguise(Class::InDialog, Method::Bye, None), "in doubt it keeps it");
    assert!(!is_in_disguise(Class::Emergency, Method::Options, invite));
    assert!(!is_in_disguise(Class::Response, Method::Other, invite));
}

#[test]
fn an_ipv6_site_is_one_source_however_many_addresses_it_takes() {
    let mut limits = alike(Caps::of_each_kind(Cap::PerSecond(40.0)));
    assert_eq!(allowed(&mut limits, Class::InDialog, "2001:db8:1:2::1", 1.0), 10);
    assert_eq!(allowed(&mut limits, Class::InDialog, "2001:db8:1:2:3:4:5:6", 1.0), 0);
    assert_eq!(allowed(&mut limits, Class::InDialog, "2001:db8:1:3::1", 1.0), 10);
}

#[test]
fn a_peer_has_the_caps_of_its_longest_prefix_and_others_have_theirs() {
    let forty = Caps::of_each_kind(Cap::PerSecond(40.0));
    let peers = [
        ("10.0.0.0/8", Caps::of_each_kind(Cap::PerSecond(80.0))),
        ("10.9.0.0/16", Caps::of_each_kind(Cap::Off)),
        ("10.9.0.7", Caps { prober: Cap::PerSecond(400.0), ..forty }),
        ("2001:db8::/32", Caps::of_each_kind(Cap::Share(0.5))),
    ];
    let mut limits = limits_with(forty, peers);
    let mut prober = |source| allowed(&mut limits, Class::Prober, source, 240.0);
    assert_eq!(prober("192.0.2.1"), 10);
    assert_eq!(prober("10.1.0.1"), 20);
    assert_eq!(prober("10.1.0.2"), 20, "each source of a network has the cap by itself");
    assert_eq!(prober("::ffff:10.1.0.3"), 20, "an IPv4 address in IPv6 clothes");
    assert_eq!(prober("10.9.0.1"), 1000);
    assert_eq!(prober("10.9.0.7"), 100);
    assert_eq!(allowed(&mut limits, Class::InDialog, "10.9.0.7", 1.0), 10, "only one of its caps differs");
    assert_eq!(allowed(&mut limits, Class::Prober, "2001:db8::1", 240.0), 30);
    assert_eq!(allowed(&mut limits, Class::Prober, "2001:db9::1", 240.0), 10);
}

#[test]
fn a_peer_in_the_same_ipv6_site_as_others_is_a_source_of_its_own() {
    let forty = Caps::of_each_kind(Cap::PerSecond(40.0));
    let eighty = Caps::of_each_kind(Cap::PerSecond(80.0));
    let mut limits = limits_with(forty, [("2001:db8::7", eighty), ("2001:db8::8", eighty)]);
    let mut in_dialog = |source| allowed(&mut limits, Class::InDialog, source, 1.0);
    assert_eq!(in_dialog("2001:db8::1"), 10);
    assert_eq!(in_dialog("2001:db8::7"), 20);
    assert_eq!(in_dialog("2001:db8::8"), 20);
    assert_eq!(in_dialog("2001:db8::2"), 0, "the others share what they have");
}

#[test]
fn a_peers_total_is_its_own() {
    let forty = Caps::of_each_kind(Cap::PerSecond(40.0));
    let total = Caps { total: Cap::PerSecond(60.0), ..forty };
    let mut limits = limits_with(total, [("10.0.0.0/8", Caps { total: Cap::PerSecond(80.0), ..forty })]);
    for (source, acks) in [("192.0.2.1", 5), ("10.0.0.1", 10)] {
        assert_eq!(allowed(&mut limits, Class::InDialog, source, 1.0), 10);
        assert_eq!(allowed(&mut limits, Class::Ack, source, 1.0), acks, "{source}");
    }
}

fn originals(limits: &mut SourceLimits, source: &str, now_ns: u64) -> usize {
    let source = source.parse().expect("address");
    (0..1000).filter(|_| limits.take_original(&SEED, source, 100.0, now_ns)).count()
}

const SECOND: u64 = 1_000_000_000;

fn with_original(original: Cap, bits: SourceBits) -> SourceLimits {
    let own = Caps { original, ..Caps::of_each_kind(Cap::Off) };
    let peers = [
        ("10.0.0.0/8", Caps { original: Cap::Off, ..own }),
        ("10.9.0.0/16", Caps { original: Cap::Share(0.5), ..own }),
    ];
    let peers = peers.map(|(text, caps)| (text.parse().expect("network"), caps));
    SourceLimits::new(CapTable::new(own, peers, bits))
}

#[test]
fn originals_have_a_cap_of_their_own_that_is_off_unless_it_is_set() {
    let mut limits = alike(Caps::of_each_kind(Cap::PerSecond(1.0)));
    assert_eq!(originals(&mut limits, "192.0.2.1", 0), 1000);
    let mut limits = with_original(Cap::PerSecond(5.0), SourceBits::default());
    assert_eq!(originals(&mut limits, "192.0.2.1", 0), 5, "a second of its rate at once");
    assert_eq!(originals(&mut limits, "192.0.2.1", SECOND), 5, "and as many every second");
    assert_eq!(originals(&mut limits, "192.0.2.2", SECOND), 5);
    assert_eq!(originals(&mut limits, "10.1.0.1", 0), 1000, "a peer without");
    assert_eq!(originals(&mut limits, "10.9.0.1", 0), 50, "a peer with half of the rate");
}

#[test]
fn a_source_is_as_many_bits_as_it_is_said_to_be() {
    let mut limits = with_original(Cap::PerSecond(5.0), SourceBits { ipv4: 24, ipv6: 48 });
    for (address, expected) in [
        ("192.0.2.1", 5),
        ("192.0.2.254", 0),
        ("::ffff:192.0.2.7", 0),
        ("192.0.3.1", 5),
        ("2001:db8:1::1", 5),
        ("2001:db8:1:ffff::1", 0),
        ("2001:db8:2::1", 5),
    ] {
        assert_eq!(originals(&mut limits, address, 0), expected, "{address}");
    }
    let mut all = with_original(Cap::PerSecond(5.0), SourceBits { ipv4: 0, ipv6: 0 });
    assert_eq!(
        ["192.0.2.1", "198.51.100.1", "::1", "2001:db8::1"].map(|a| originals(&mut all, a, 0)),
        [5, 0, 5, 0]
    );
}

#[test]
fn other_caps_hold_at_once_and_what_was_used_counts_on() {
    let mut limits = with_original(Cap::PerSecond(5.0), SourceBits::default());
    assert_eq!(originals(&mut limits, "192.0.2.1", 0), 5);
    let own = Caps { original: Cap::PerSecond(10.0), ..Caps::of_each_kind(Cap::Off) };
    limits.change(&mut CapTable::new(own, [], SourceBits::default()));
    assert_eq!(originals(&mut limits, "192.0.2.1", 0), 0, "its second is used up");
    assert_eq!(originals(&mut limits, "192.0.2.1", SECOND), 10);
    assert_eq!(originals(&mut limits, "10.1.0.1", 0), 10, "no peer any more");
}

#[test]
fn what_a_source_has_used_survives_a_change_of_caps_and_of_other_networks() {
    let forty = Caps::of_each_kind(Cap::PerSecond(40.0));
    let mut limits = limits_with(forty, [("2001:db8::7", Caps::of_each_kind(Cap::PerSecond(80.0)))]);
    assert_eq!(allowed(&mut limits, Class::InDialog, "2001:db8::7", 1.0), 20);
    assert_eq!(allowed(&mut limits, Class::InDialog, "192.0.2.1", 1.0), 10);
    let peers = [
        ("2001:db8::1", forty),
        ("2001:db8::7", Caps::of_each_kind(Cap::PerSecond(120.0))),
        ("10.0.0.0/8", forty),
    ];
    let peers = peers.map(|(text, caps)| (text.parse().expect("network"), caps));
    let mut next = CapTable::new(forty, peers, SourceBits::default());
    limits.change(&mut next);
    assert_eq!(allowed(&mut limits, Class::InDialog, "192.0.2.1", 1.0), 0, "used up before");
    // A bucket is the time until it is full, which the new cap leaves as it is: 250 ms, all of a burst.
    assert_eq!(allowed(&mut limits, Class::InDialog, "2001:db8::7", 1.0), 0);
    assert_eq!(allowed(&mut limits, Class::InDialog, "2001:db8::1", 1.0), 10, "a bucket of its own now");
    limits.change(&mut next);
    assert_eq!(allowed(&mut limits, Class::InDialog, "192.0.2.1", 1.0), 0);
}
