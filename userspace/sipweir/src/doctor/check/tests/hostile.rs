//! Facts that nothing can be made of: nothing readable, absurd numbers, names full of tricks.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::parse_list;
use super::{diagnose, good, unread};
use crate::config::XdpMode;
use crate::doctor::facts::{Absent, Host, Interface, Kernel, Process, Program, Wanted};
use crate::doctor::finding::{Level, Report};
use crate::doctor::text;
use crate::netdev::{Channels, Rings, XdpFeatures};

#[test]
fn what_could_not_be_read_is_unknown_with_the_reason_and_never_fine() {
    let mut facts = good();
    facts.kernel = Kernel {
        release: unread(),
        af_xdp: unread(),
        missing_bpf: unread(),
        load: unread(),
        jit: unread(),
        jit_harden: unread(),
        veth: unread(),
    };
    facts.process = Process {
        missing_capabilities: unread(),
        is_initial_user_namespace: unread(),
        memlock: unread(),
        cores: facts.process.cores,
    };
    facts.host = Host {
        sip_helper: unread(),
        firewall: unread(),
        legacy_tables: unread(),
        clock: unread(),
        busy_poll: unread(),
        backlog: unread(),
        nodes: unread(),
        cpus: 4,
    };
    let interface = facts.interface.take().expect("an interface").expect("there");
    facts.interface = Some(Ok(Interface {
        driver: None,
        channels: unread(),
        rings: unread(),
        offloads: unread(),
        xdp_features: unread(),
        programs: unread(),
        vlans: unread(),
        has_ingress_filters: unread(),
        node: unread(),
        rp_filter: unread(),
        handoff_rp_filter: unread(),
        deferred: unread(),
        ..interface
    }));
    let findings = diagnose(&facts, &Wanted::default());
    // What needs no reading: the interface's state and MTU, and zero-copy, which is not wanted.
    let fine: Vec<&str> =
        findings.iter().filter(|finding| finding.level == Level::Fine).map(|finding| finding.check).collect();
    assert_eq!(fine, ["interface.state", "interface.zero_copy", "interface.mtu"]);
    for finding in findings.iter().filter(|finding| finding.level != Level::Fine) {
        assert_eq!(finding.level, Level::Unknown, "{finding:?}");
        assert!(finding.what.contains("no permission") || finding.check == "interface.driver", "{finding:?}");
    }
    let report = Report::new(Some("eth0".into()), findings);
    assert_eq!(report.exit_status, 1);
    assert!(text::report(&report).contains("ready as far as one can see"));
}

#[test]
fn an_interface_that_is_not_there_is_a_failure_and_the_host_is_judged_all_the_same() {
    let mut facts = good();
    facts.interface = Some(Err(Absent { name: "eth7".into(), reason: "no such device".into() }));
    let findings = diagnose(&facts, &Wanted::default());
    let failures: Vec<_> = findings.iter().filter(|finding| finding.level == Level::Failure).collect();
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0].check, "interface.state");
    assert!(failures[0].what.contains("eth7"), "{:?}", failures[0]);
    assert!(findings.iter().any(|finding| finding.check == "host.clock_source"));

    facts.interface = None;
    let findings = diagnose(&facts, &Wanted::default());
    assert!(
        findings
            .iter()
            .all(|finding| finding.level == Level::Fine && !finding.check.starts_with("interface."))
    );
}

#[test]
fn lists_of_cores_are_read_as_the_kernel_writes_them_and_nothing_else() {
    assert_eq!(parse_list("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
    assert_eq!(parse_list("\n"), Some(vec![]));
    assert_eq!(parse_list("5"), Some(vec![5]));
    for wrong in ["3-1", "0-99999999999", "a", "1-", "-1", "0x1", "0-18446744073709551615"] {
        assert_eq!(parse_list(wrong), None, "{wrong}");
    }
}

proptest! {
    /// No numbers and names make it panic, and what is not fine says what to do.
    #[test]
    fn no_facts_make_it_panic(
        numbers in prop::array::uniform12(any::<u32>()),
        texts in prop::array::uniform4(".*"),
        mtu in any::<u32>(),
        cores in prop::collection::vec(any::<usize>(), 0..5),
        driver in prop::sample::select(vec!["ena", "virtio_net", "veth", "bond", "ice"]),
        mode in prop::sample::select(vec![XdpMode::Auto, XdpMode::Native, XdpMode::Generic]),
        zero_copy in any::<bool>(),
    ) {
        let mut facts = good();
        let mut interface = facts.interface.take().expect("an interface").expect("there");
        let [a, b, c, d, e, f, g, h, i, j, k, l] = numbers;
        interface.name.clone_from(&texts[0]);
        interface.driver = Some(driver.into());
        (interface.index, interface.mtu, interface.rx_queues) = (a, mtu, b);
        interface.channels = Ok(Some(Channels { rx: c, combined: d, rx_max: e, combined_max: f }));
        interface.rings = Ok(Some(Rings { rx: g, rx_max: h }));
        interface.xdp_features = Ok(Some(XdpFeatures(i.into())));
        interface.programs = Ok(vec![Program { id: j, name: Some(texts[1].clone()) }]);
        interface.offloads = Ok(BTreeMap::from([(texts[2].clone(), true)]));
        interface.node = Ok(Some(k));
        interface.deferred = Ok((l, u64::MAX));
        facts.process.memlock = Ok(Some(a.into()));
        facts.process.missing_capabilities = Ok(["CAP_IPC_LOCK"].into());
        facts.process.cores = cores.clone();
        facts.host.cpus = usize::MAX / 2;
        facts.kernel.release = Ok(texts[3].clone());
        facts.interface = Some(Ok(interface));
        let wanted = Wanted { mode, zero_copy, locked_per_queue: u64::MAX, cores: Some(cores), ..Wanted::default() };
        let report = Report::new(Some("eth0".into()), diagnose(&facts, &wanted));
        prop_assert!(!text::report(&report).is_empty());
        prop_assert_eq!(report.exit_status, 2, "that much memory nobody may lock");
    }
}
