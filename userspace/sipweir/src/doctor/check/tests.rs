//! Every check against made-up facts: a host on which all is well, and one thing changed at a time.

mod firewall;
mod hostile;

use std::collections::{BTreeMap, BTreeSet};

use super::diagnose;
use super::driver::QUIRKS;
use crate::config::XdpMode;
use crate::doctor::facts::{Facts, Host, Interface, Kernel, Process, Program, Unread, Wanted};
use crate::doctor::finding::{Change, Finding, Level};
use crate::netdev::{Channels, Firewall, Rings, XdpFeatures};
use crate::sip_helper::SipHelper;

/// A host on which all is well: a NIC with two queues, of a driver about which nothing is known.
pub(super) fn good() -> Facts {
    Facts {
        kernel: Kernel {
            release: Ok("6.12.9-amd64".into()),
            af_xdp: Ok(true),
            missing_bpf: Ok(Vec::new()),
            load: Ok(Ok(())),
            jit: Ok(1),
            jit_harden: Ok(0),
            veth: Ok(true),
        },
        process: Process {
            missing_capabilities: Ok(BTreeSet::new()),
            is_initial_user_namespace: Ok(true),
            memlock: Ok(Some(8 << 20)),
            cores: vec![0, 1, 2, 3],
        },
        host: Host {
            sip_helper: Ok(None),
            firewall: Ok(Firewall::default()),
            legacy_tables: Ok(Vec::new()),
            clock: Ok(("tsc".into(), vec!["tsc".into(), "hpet".into()])),
            busy_poll: Ok(0),
            backlog: Ok(1000),
            cpus: 4,
            nodes: Ok(Some(BTreeMap::from([(0, vec![0, 1]), (1, vec![2, 3])]))),
        },
        interface: Some(Ok(Interface {
            name: "eth0".into(),
            index: 3,
            driver: Some("igc".into()),
            mtu: 1500,
            up: true,
            carrier: true,
            rx_queues: 2,
            channels: Ok(Some(Channels { combined: 2, combined_max: 4, ..Channels::default() })),
            rings: Ok(Some(Rings { rx: 1024, rx_max: 4096 })),
            offloads: Ok(BTreeMap::from([("rx-gro".into(), true), ("rx-vlan-hw-parse".into(), true)])),
            xdp_features: Ok(Some(XdpFeatures(0b1011))),
            programs: Ok(Vec::new()),
            vlans: Ok(BTreeSet::new()),
            has_ingress_filters: Ok(false),
            node: Ok(Some(1)),
            rp_filter: Ok([0, 2]),
            handoff_rp_filter: Ok(None),
            deferred: Ok((0, 0)),
        })),
    }
}

fn unread<T>() -> Result<T, Unread> {
    Err(Unread("no permission".into()))
}

/// The findings of a check after a change of facts and wishes.
#[track_caller]
pub(super) fn all(check: &str, change: impl FnOnce(&mut Facts, &mut Interface, &mut Wanted)) -> Vec<Finding> {
    let (mut facts, mut wanted) = (good(), Wanted::default());
    let mut interface = facts.interface.take().expect("an interface").expect("there");
    change(&mut facts, &mut interface, &mut wanted);
    facts.interface = Some(Ok(interface));
    diagnose(&facts, &wanted).into_iter().filter(|finding| finding.check == check).collect()
}

/// The one finding of a check.
#[track_caller]
pub(super) fn one(check: &str, change: impl FnOnce(&mut Facts, &mut Interface, &mut Wanted)) -> Finding {
    let found = all(check, change);
    let [finding] = <[Finding; 1]>::try_from(found).unwrap_or_else(|found| panic!("{check}: {found:?}"));
    finding
}

/// Asserts the level, and that a bad finding says what to change.
#[track_caller]
fn assert_is(finding: &Finding, level: Level, change: &[Change]) {
    assert_eq!(finding.level, level, "{finding:?}");
    for expected in change {
        assert!(finding.change.contains(expected), "{expected:?} is missing in {finding:?}");
    }
    assert!(!finding.why.is_empty(), "{finding:?}");
    assert_eq!(level == Level::Fine, finding.change.is_empty() && level != Level::Unknown, "{finding:?}");
}

fn command(text: &str) -> Change {
    Change::Command(text.into())
}

fn configuration(text: &str) -> Change {
    Change::Configuration(text.into())
}

#[test]
fn where_all_is_well_every_finding_is_fine_and_no_check_has_two() {
    let findings = diagnose(&good(), &Wanted::default());
    let names: BTreeSet<&str> = findings.iter().map(|finding| finding.check).collect();
    assert_eq!(names.len(), findings.len());
    for finding in &findings {
        assert_is(finding, Level::Fine, &[]);
    }
    // Those of the issue, each by name: the JSON form is stable.
    for name in [
        "kernel.version",
        "kernel.af_xdp",
        "kernel.bpf",
        "kernel.programs",
        "kernel.jit",
        "kernel.veth",
        "process.capabilities",
        "process.user_namespace",
        "process.memlock",
        "interface.state",
        "interface.xdp_program",
        "interface.native_xdp",
        "interface.zero_copy",
        "interface.mtu",
        "interface.driver",
        "interface.queues",
        "interface.rings",
        "interface.numa",
        "interface.deferred_interrupts",
        "offload.lro",
        "offload.gro_hw",
        "offload.udp_gro_forwarding",
        "offload.gro_list",
        "offload.rxvlan",
        "stack.rp_filter",
        "stack.handoff_rp_filter",
        "stack.sip_helper",
        "stack.backlog",
        "firewall.ingress",
        "firewall.interface_rules",
        "firewall.reverse_path",
        "firewall.legacy",
        "host.clock_source",
        "host.busy_poll",
    ] {
        assert!(names.contains(name), "{name}");
    }
}

#[test]
fn kernels_before_6_1_will_not_work() {
    for (release, level) in [
        ("6.1.0-18-amd64", Level::Fine),
        ("6.1-rc3", Level::Fine),
        ("10.0", Level::Fine),
        ("6.0.19", Level::Failure),
        ("5.15.0-91-generic", Level::Failure),
        ("3.10.0", Level::Failure),
        ("", Level::Unknown),
        ("6", Level::Unknown),
        ("six.one", Level::Unknown),
        ("99999999999.1", Level::Unknown),
    ] {
        let finding = one("kernel.version", |facts, _, _| facts.kernel.release = Ok(release.into()));
        assert_eq!(finding.level, level, "{release}: {finding:?}");
    }
}

#[test]
fn what_the_kernel_lacks_is_named() {
    assert_is(&one("kernel.af_xdp", |facts, _, _| facts.kernel.af_xdp = Ok(false)), Level::Failure, &[]);
    let lacking =
        one("kernel.bpf", |facts, _, _| facts.kernel.missing_bpf = Ok(vec!["BPF_MAP_TYPE_XSKMAP".into()]));
    assert_is(&lacking, Level::Failure, &[]);
    assert!(lacking.what.contains("BPF_MAP_TYPE_XSKMAP"), "{lacking:?}");
    let refused = one("kernel.programs", |facts, _, _| facts.kernel.load = Ok(Err("invalid access".into())));
    assert_is(&refused, Level::Failure, &[]);
    assert!(refused.what.contains("invalid access"), "{refused:?}");
    let modprobe = [command("modprobe veth")];
    assert_is(&one("kernel.veth", |facts, _, _| facts.kernel.veth = Ok(false)), Level::Failure, &modprobe);
    let embedded = one("kernel.veth", |facts, _, wanted| {
        facts.kernel.veth = Ok(false);
        wanted.kernel_handoff = false;
    });
    assert_is(&embedded, Level::Fine, &[]);
    let enable = [command("sysctl -w net.core.bpf_jit_enable=1")];
    assert_is(&one("kernel.jit", |facts, _, _| facts.kernel.jit = Ok(0)), Level::Warning, &enable);
    let relax = [command("sysctl -w net.core.bpf_jit_harden=1")];
    assert_is(&one("kernel.jit", |facts, _, _| facts.kernel.jit_harden = Ok(2)), Level::Warning, &relax);
}

#[test]
fn each_missing_capability_is_named_and_only_ipc_lock_is_no_failure_by_itself() {
    for (name, level) in [
        ("CAP_BPF", Level::Failure),
        ("CAP_PERFMON", Level::Failure),
        ("CAP_NET_ADMIN", Level::Failure),
        ("CAP_NET_RAW", Level::Failure),
        ("CAP_IPC_LOCK", Level::Warning),
    ] {
        let lacking = one("process.capabilities", |facts, _, _| {
            facts.process.missing_capabilities = Ok([name].into());
        });
        assert_is(&lacking, level, &[]);
        assert!(lacking.what.contains(name), "{lacking:?}");
    }
    let rootless =
        one("process.user_namespace", |facts, _, _| facts.process.is_initial_user_namespace = Ok(false));
    assert_is(&rootless, Level::Failure, &[]);
}

#[test]
fn locked_memory_counts_without_cap_ipc_lock_for_all_queues() {
    let memlock = |limit, queues| {
        one("process.memlock", |facts, interface, _| {
            facts.process.missing_capabilities = Ok(["CAP_IPC_LOCK"].into());
            facts.process.memlock = Ok(limit);
            interface.rx_queues = queues;
            facts.process.cores = (0..64).collect();
        })
    };
    // By default 16,384 frames of 2 KiB: 32 MiB a queue.
    assert_is(&memlock(Some(64 << 20), 2), Level::Fine, &[]);
    assert_is(&memlock(Some((64 << 20) - 1), 2), Level::Failure, &[command("ulimit -l unlimited")]);
    assert_is(&memlock(Some(64 << 20), 3), Level::Failure, &[]);
    assert_is(&memlock(None, 64), Level::Fine, &[]);
    assert_is(&memlock(Some(0), 1), Level::Failure, &[]);
}

#[test]
fn an_interface_that_is_down_or_taken_will_not_work() {
    let up = [command("ip link set eth0 up")];
    assert_is(&one("interface.state", |_, interface, _| interface.up = false), Level::Failure, &up);
    assert_is(&one("interface.state", |_, interface, _| interface.carrier = false), Level::Warning, &[]);
    let with = |names: &[Option<&str>]| {
        let programs = names.iter().map(|name| Program { id: 7, name: name.map(str::to_owned) }).collect();
        one("interface.xdp_program", |_, interface, _| interface.programs = Ok(programs))
    };
    let off = [command("ip link set dev eth0 xdp off")];
    assert_is(&with(&[Some("xdp_pass")]), Level::Failure, &off);
    assert!(with(&[Some("xdp_pass")]).what.contains("xdp_pass"));
    assert_is(&with(&[None]), Level::Failure, &off);
    assert_is(&with(&[Some("sipweir")]), Level::Fine, &[]);
    assert_is(&with(&[Some("sipweir"), Some("xdp_pass")]), Level::Failure, &off);
}

#[test]
fn a_driver_without_native_xdp_is_a_warning_unless_native_was_demanded() {
    let native = |features, mode| {
        one("interface.native_xdp", |_, interface, wanted| {
            interface.xdp_features = Ok(features);
            wanted.mode = mode;
        })
    };
    assert_is(&native(Some(XdpFeatures(0)), XdpMode::Auto), Level::Warning, &[]);
    // Without redirecting nothing reaches AF_XDP.
    assert_is(&native(Some(XdpFeatures(1)), XdpMode::Auto), Level::Warning, &[]);
    assert_is(
        &native(Some(XdpFeatures(0)), XdpMode::Native),
        Level::Failure,
        &[configuration("[xdp]\nmode = \"auto\"")],
    );
    assert_is(&native(Some(XdpFeatures(0)), XdpMode::Generic), Level::Fine, &[]);
    assert_eq!(native(None, XdpMode::Auto).level, Level::Unknown);
}

#[test]
fn zero_copy_is_judged_only_where_it_is_wanted() {
    let zero_copy = |features, kernel_handoff| {
        one("interface.zero_copy", |_, interface, wanted| {
            interface.xdp_features = Ok(features);
            (wanted.zero_copy, wanted.kernel_handoff) = (true, kernel_handoff);
        })
    };
    let off = [configuration("[xdp]\nzero_copy = false")];
    assert_is(&zero_copy(Some(XdpFeatures(0b1011)), false), Level::Fine, &[]);
    assert_is(&zero_copy(Some(XdpFeatures(0b0011)), false), Level::Failure, &off);
    assert_is(&zero_copy(Some(XdpFeatures(0b1011)), true), Level::Failure, &off);
    assert_eq!(zero_copy(None, false).level, Level::Unknown);
}

#[test]
fn an_mtu_outside_of_a_frame_is_answered_with_frames_or_an_mtu_that_fit() {
    let mtu = |mtu, frame_size| {
        one("interface.mtu", |_, interface, wanted| {
            interface.mtu = mtu;
            wanted.frame_size = frame_size;
        })
    };
    // 2,048 less 256 are 1,792, less 22 of headers.
    assert_is(&mtu(1770, 2048), Level::Fine, &[]);
    assert_is(&mtu(1771, 2048), Level::Warning, &[configuration("[frames]\nsize = 4096")]);
    assert_is(&mtu(3818, 4096), Level::Fine, &[]);
    assert_is(&mtu(9000, 2048), Level::Warning, &[command("ip link set eth0 mtu 1500")]);
    assert_is(&mtu(9000, 4096), Level::Warning, &[command("ip link set eth0 mtu 1500")]);
    assert_is(&mtu(1279, 2048), Level::Warning, &[command("ip link set eth0 mtu 1500")]);
    assert_is(&mtu(1280, 2048), Level::Fine, &[]);
}

#[test]
fn queues_must_fit_cores_and_tables() {
    let queues = |queues, cores: &[usize], wanted_cores: Option<Vec<usize>>| {
        one("interface.queues", |facts, interface, wanted| {
            interface.rx_queues = queues;
            facts.process.cores = cores.to_vec();
            wanted.cores = wanted_cores;
        })
    };
    assert_is(&queues(2, &[0, 1], None), Level::Fine, &[]);
    assert_is(&queues(4, &[0, 1], None), Level::Warning, &[command("ethtool -L eth0 combined 2")]);
    assert_is(
        &queues(65, &(0..128).collect::<Vec<_>>(), None),
        Level::Failure,
        &[command("ethtool -L eth0 combined 64")],
    );
    let named = queues(2, &[0, 1], Some(vec![0]));
    assert_eq!(named.level, Level::Failure);
    assert!(named.what.contains("ethtool -L eth0 combined 1"), "{named:?}");
    assert_eq!(queues(1, &[0, 1], Some(vec![7])).level, Level::Failure);
    let rx_only = one("interface.queues", |facts, interface, _| {
        interface.rx_queues = 2;
        interface.channels = Ok(Some(Channels { rx: 2, rx_max: 2, ..Channels::default() }));
        facts.process.cores = vec![0];
    });
    assert_is(&rx_only, Level::Warning, &[command("ethtool -L eth0 rx 1")]);
}

#[test]
fn small_rings_that_could_be_larger_are_a_warning() {
    let rings = |rx, rx_max, zero_copy| {
        one("interface.rings", |_, interface, wanted| {
            interface.rings = Ok(Some(Rings { rx, rx_max }));
            wanted.zero_copy = zero_copy;
        })
    };
    assert_is(&rings(256, 4096, false), Level::Warning, &[command("ethtool -G eth0 rx 1024")]);
    assert_is(&rings(256, 800, false), Level::Warning, &[command("ethtool -G eth0 rx 800")]);
    assert_is(&rings(256, 256, false), Level::Fine, &[]);
    assert_is(&rings(4096, 4096, false), Level::Fine, &[]);
    assert_is(&rings(4096, 4096, true), Level::Warning, &[command("ethtool -G eth0 rx 1024")]);
}

#[test]
fn workers_belong_on_the_interfaces_node() {
    let numa = |node, queues, wanted_cores: Option<Vec<usize>>| {
        one("interface.numa", |_, interface, wanted| {
            interface.node = Ok(node);
            interface.rx_queues = queues;
            wanted.cores = wanted_cores;
        })
    };
    // Cores are chosen from the last one downwards: 3 and 2, on node 1.
    assert_is(&numa(Some(1), 2, None), Level::Fine, &[]);
    assert_is(&numa(None, 2, None), Level::Fine, &[]);
    assert_is(&numa(Some(0), 2, None), Level::Warning, &[configuration("[workers]\ncores = [1, 0]")]);
    assert_is(&numa(Some(0), 2, Some(vec![0, 1])), Level::Fine, &[]);
    let few = numa(Some(0), 3, None);
    assert_is(
        &few,
        Level::Warning,
        &[command("ethtool -L eth0 combined 2"), configuration("[workers]\ncores = [1, 0]")],
    );
    assert_is(&numa(Some(9), 2, None), Level::Warning, &[]);
}

#[test]
fn offloads_that_join_packets_are_switched_off_by_name() {
    let offload = |check, name: &str, can_change, features, mode| {
        one(check, |_, interface, wanted| {
            interface.offloads = Ok(BTreeMap::from([(name.to_owned(), can_change)]));
            interface.xdp_features = Ok(Some(XdpFeatures(features)));
            wanted.mode = mode;
        })
    };
    for (check, name) in [("offload.lro", "rx-lro"), ("offload.gro_hw", "rx-gro-hw")] {
        let off = [command(&format!("ethtool -K eth0 {name} off"))];
        assert_is(&offload(check, name, true, 3, XdpMode::Auto), Level::Warning, &off);
        assert_is(&offload(check, name, true, 3, XdpMode::Generic), Level::Warning, &off);
        assert_is(&offload(check, name, false, 3, XdpMode::Auto), Level::Warning, &[]);
        assert_is(&offload(check, "rx-gro", true, 3, XdpMode::Auto), Level::Fine, &[]);
    }
    for (check, name) in
        [("offload.udp_gro_forwarding", "rx-udp-gro-forwarding"), ("offload.gro_list", "rx-gro-list")]
    {
        let off = [command(&format!("ethtool -K eth0 {name} off"))];
        assert_is(&offload(check, name, true, 3, XdpMode::Auto), Level::Fine, &[]);
        assert_is(&offload(check, name, true, 0, XdpMode::Auto), Level::Warning, &off);
        assert_is(&offload(check, name, true, 3, XdpMode::Generic), Level::Warning, &off);
        assert_is(
            &offload(check, name, false, 0, XdpMode::Auto),
            Level::Warning,
            &[configuration("[xdp]\nmode = \"native\"")],
        );
    }
}

#[test]
fn hidden_vlan_tags_matter_where_there_are_vlans() {
    let rxvlan = |vlans: &[u16], can_change| {
        one("offload.rxvlan", |_, interface, _| {
            interface.vlans = Ok(vlans.iter().copied().collect());
            interface.offloads = Ok(BTreeMap::from([("rx-vlan-hw-parse".into(), can_change)]));
        })
    };
    assert_is(&rxvlan(&[], true), Level::Fine, &[]);
    assert_is(&rxvlan(&[10], true), Level::Warning, &[command("ethtool -K eth0 rx-vlan-hw-parse off")]);
    assert_is(&rxvlan(&[10], false), Level::Warning, &[]);
    assert_is(
        &one("offload.rxvlan", |_, interface, _| interface.offloads = Ok(BTreeMap::new())),
        Level::Fine,
        &[],
    );
}

#[test]
fn filters_and_clocks_of_the_host() {
    let rp_filter = |values| one("stack.rp_filter", |_, interface, _| interface.rp_filter = Ok(values));
    let loose = [command("sysctl -w net.ipv4.conf.eth0.rp_filter=2")];
    assert_is(&rp_filter([1, 0]), Level::Warning, &loose);
    assert_is(&rp_filter([0, 1]), Level::Warning, &loose);
    assert_is(&rp_filter([1, 2]), Level::Fine, &[]);
    assert_is(&rp_filter([0, 0]), Level::Fine, &[]);
    let handoff =
        |value| one("stack.handoff_rp_filter", |_, interface, _| interface.handoff_rp_filter = Ok(value));
    assert_is(&handoff(Some(1)), Level::Failure, &[command("sysctl -w net.ipv4.conf.swr3.rp_filter=2")]);
    assert_is(&handoff(Some(2)), Level::Fine, &[]);
    let deferred =
        |value| one("interface.deferred_interrupts", |_, interface, _| interface.deferred = Ok(value));
    assert_is(
        &deferred((2, 200_000)),
        Level::Warning,
        &[command("echo 0 > /sys/class/net/eth0/gro_flush_timeout")],
    );
    assert_is(&deferred((2, 0)), Level::Fine, &[]);
    let backlog = |value| one("stack.backlog", |facts, _, _| facts.host.backlog = Ok(value));
    assert_is(&backlog(511), Level::Warning, &[command("sysctl -w net.core.netdev_max_backlog=1000")]);
    assert_is(&backlog(512), Level::Fine, &[]);
    let busy = one("host.busy_poll", |facts, _, _| facts.host.busy_poll = Ok(50));
    assert_is(&busy, Level::Warning, &[command("sysctl -w net.core.busy_poll=0")]);
    let clock = |current: &str, available: &[&str]| {
        let available = available.iter().map(|&name| name.to_owned()).collect();
        one("host.clock_source", |facts, _, _| facts.host.clock = Ok((current.into(), available)))
    };
    let tsc = command("echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource");
    assert_is(&clock("hpet", &["tsc", "hpet"]), Level::Warning, &[tsc]);
    assert_is(&clock("xen", &["xen"]), Level::Warning, &[]);
    assert_is(&clock("kvm-clock", &["kvm-clock", "tsc"]), Level::Fine, &[]);
}

#[test]
fn the_sip_helper_is_ended_by_the_commands_that_the_start_names() {
    let helper = SipHelper { is_module: true, has_nat_module: true, is_automatic: true };
    let found = one("stack.sip_helper", |facts, _, _| facts.host.sip_helper = Ok(Some(helper)));
    let commands = [
        command("sysctl -w net.netfilter.nf_conntrack_helper=0"),
        command("modprobe -r nf_nat_sip nf_conntrack_sip"),
    ];
    assert_is(&found, Level::Warning, &commands);
    for change in &commands {
        let Change::Command(text) = change else { panic!("a command") };
        assert!(helper.to_string().contains(text.as_str()), "{helper}");
    }
}

/// What makes an entry of the table show, if the interface is of its driver.
fn provoke(quirk: &super::driver::Quirk, facts: &mut Facts, interface: &mut Interface, wanted: &mut Wanted) {
    use super::driver::When;
    interface.driver = Some(quirk.driver.into());
    match quirk.when {
        When::MoreThanHalfOfChannels => {
            interface.channels = Ok(Some(Channels { combined: 5, combined_max: 8, ..Channels::default() }));
        }
        When::ChannelForEachCpu => {
            facts.host.cpus = 4;
            interface.channels = Ok(Some(Channels { combined: 2, combined_max: 6, ..Channels::default() }));
        }
        When::MtuAbove(mtu) => interface.mtu = mtu + 1,
        When::Offload(name) => interface.offloads = Ok(BTreeMap::from([(name.into(), true)])),
        When::Native => {}
        When::ZeroCopy => wanted.zero_copy = true,
        When::ZeroCopyOddRing => {
            wanted.zero_copy = true;
            interface.rings = Ok(Some(Rings { rx: 1000, rx_max: 4096 }));
        }
    }
}

#[test]
fn every_entry_of_the_table_of_drivers_shows_by_its_condition_and_has_a_source_and_a_way_out() {
    for quirk in QUIRKS {
        let found =
            all("interface.driver", |facts, interface, wanted| provoke(quirk, facts, interface, wanted));
        let finding = found.iter().find(|finding| finding.what == format!("{}.", quirk.effect));
        let finding = finding.unwrap_or_else(|| panic!("{quirk:?}: {found:?}"));
        assert_is(finding, quirk.level, &[]);
        assert!(finding.why.contains("https://") || finding.why.contains("kernel"), "{finding:?}");
        for change in &finding.change {
            let (Change::Command(text) | Change::Configuration(text) | Change::Advice(text)) = change;
            assert!(!text.contains(['{', '}']), "{text}");
        }
        // Another driver under the same conditions has none of it.
        let other = all("interface.driver", |facts, interface, wanted| {
            provoke(quirk, facts, interface, wanted);
            interface.driver = Some("igc".into());
        });
        assert_eq!(other.iter().map(|finding| finding.level).collect::<Vec<_>>(), [Level::Fine]);
    }
}

#[test]
fn conditions_of_drivers_have_edges() {
    let ena = |combined| {
        one("interface.driver", |_, interface, _| {
            interface.driver = Some("ena".into());
            interface.channels = Ok(Some(Channels { combined, combined_max: 8, ..Channels::default() }));
        })
    };
    assert_is(&ena(4), Level::Fine, &[]);
    assert_is(&ena(5), Level::Warning, &[command("ethtool -L eth0 combined 4")]);
    let generic = one("interface.driver", |_, interface, wanted| {
        interface.driver = Some("ena".into());
        interface.mtu = 9001;
        wanted.mode = XdpMode::Generic;
    });
    assert_is(&generic, Level::Fine, &[]);
    let virtio = |combined| {
        one("interface.driver", |facts, interface, _| {
            interface.driver = Some("virtio_net".into());
            facts.host.cpus = 4;
            interface.channels = Ok(Some(Channels { combined, combined_max: 8, ..Channels::default() }));
        })
    };
    assert_is(&virtio(4), Level::Warning, &[command("ethtool -L eth0 combined 8")]);
    assert_is(&virtio(5), Level::Fine, &[]);
}
