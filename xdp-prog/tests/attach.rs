//! Putting the program on interfaces, and what stands in the way. Each test runs itself again in a network namespace, or
//! with fewer rights, that ends with the process; needs root, `unshare` and `setpriv` (util-linux) and `ip`.

mod support;

use std::process::Command;

use support::{Packet, classifier, settings};
use xdp_prog::{AttachMode, Classifier, Error, Mode};

/// Set in the inner run.
const INNER: &str = "SIPWEIR_TEST_INNER";

/// Runs the named test of this binary again behind `wrapper`; true in the outer run, when the inner one has passed.
fn ran_inside(test: &str, wrapper: &[&str]) -> bool {
    if std::env::var_os(INNER).is_some() {
        return false;
    }
    let this = std::env::current_exe().expect("the path of this test");
    let status = Command::new(wrapper[0])
        .args(&wrapper[1..])
        .arg(this)
        .args(["--exact", test, "--nocapture"])
        .env(INNER, "1")
        .status()
        .expect("unshare and setpriv are installed (package util-linux)");
    assert!(status.success(), "{test}: the inner run failed");
    true
}

fn ip(args: &str) {
    let status =
        Command::new("ip").args(args.split(' ')).status().expect("ip is installed (package iproute2)");
    assert!(status.success(), "ip {args}");
}

fn ifindex(name: &str) -> i32 {
    let output = Command::new("ip").args(["-o", "link", "show", name]).output().expect("ip runs");
    let text = String::from_utf8(output.stdout).expect("text");
    text.split(':').next().and_then(|index| index.parse().ok()).expect("an index")
}

#[test]
fn one_program_an_interface_and_none_is_left_behind() {
    if ran_inside("one_program_an_interface_and_none_is_left_behind", &["unshare", "--net"]) {
        return;
    }
    ip("link add left0 type veth peer name right0");
    let (first, second) = (classifier(), classifier());
    let a = ifindex("left0");
    let attached = first.attach(a, AttachMode::Auto).expect("nothing is there");
    assert_eq!((attached.mode(), attached.ifindex()), (Mode::Native, a));
    assert!(attached.native_refusal().is_none());
    for mode in [AttachMode::Auto, AttachMode::Native, AttachMode::Generic] {
        let error = second.attach(a, mode).expect_err("the place is taken");
        assert!(matches!(error, Error::OtherProgram { .. }), "{error}");
        assert!(error.to_string().contains("`sipweir`"), "{error}");
    }
    drop(attached);
    let attached = second.attach(a, AttachMode::Generic).expect("the place is free");
    assert_eq!(attached.mode(), Mode::Generic);
    drop(attached);

    // A test run after an attachment is explained as well.
    let run = first.test_run(&Packet::default().bytes()).expect("a run");
    assert!(run.meta.is_some());
}

#[test]
fn auto_falls_back_to_generic_and_says_why() {
    if ran_inside("auto_falls_back_to_generic_and_says_why", &["unshare", "--net"]) {
        return;
    }
    let classifier = classifier();
    // The loopback device has no native XDP.
    let plain = ifindex("lo");
    let error = classifier.attach(plain, AttachMode::Native).expect_err("the driver cannot");
    assert!(matches!(error, Error::ModeRefused { mode: "native", .. }), "{error}");
    let attached = classifier.attach(plain, AttachMode::Auto).expect("generic works everywhere");
    assert_eq!(attached.mode(), Mode::Generic);
    assert!(attached.native_refusal().is_some());
}

#[test]
fn an_interface_that_does_not_exist_is_named() {
    if ran_inside("an_interface_that_does_not_exist_is_named", &["unshare", "--net"]) {
        return;
    }
    let classifier = classifier();
    for mode in [AttachMode::Auto, AttachMode::Native, AttachMode::Generic] {
        let error = classifier.attach(4711, mode).expect_err("there is no such interface");
        assert!(matches!(error, Error::NoInterface { ifindex: 4711 }), "{error}");
    }
}

#[test]
fn three_capabilities_are_enough() {
    let wrapper = ["setpriv", "--inh-caps=-all", "--bounding-set=-all,+bpf,+net_admin,+perfmon"];
    if ran_inside("three_capabilities_are_enough", &wrapper) {
        return;
    }
    let run = classifier().test_run(&Packet::default().bytes()).expect("a run");
    assert!(run.meta.is_some());
}

#[test]
fn without_rights_the_missing_ones_are_named() {
    if ran_inside(
        "without_rights_the_missing_ones_are_named",
        &["setpriv", "--inh-caps=-all", "--bounding-set=-all"],
    ) {
        return;
    }
    refused_with_names();
}

#[test]
fn without_perfmon_it_is_named() {
    let wrapper = ["setpriv", "--inh-caps=-all", "--bounding-set=-all,+bpf,+net_admin"];
    if ran_inside("without_perfmon_it_is_named", &wrapper) {
        return;
    }
    refused_with_names();
}

fn refused_with_names() {
    let error = Classifier::load(&settings()).expect_err("not permitted");
    assert!(matches!(error, Error::NotPermitted { .. }), "{error}");
    assert!(error.to_string().contains("CAP_PERFMON"), "{error}");
}
