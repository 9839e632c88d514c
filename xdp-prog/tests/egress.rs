//! Putting the program that sees answers onto interfaces. Each test runs itself again in a network namespace that ends with
//! the process; needs root, `unshare` (util-linux), `ip` and `tc` (iproute2).

mod support;

use std::net::UdpSocket;
use std::process::Command;

use support::settings;
use xdp_prog::{Answers, Error, ServiceAddress, Settings};

/// Set in the inner run.
const INNER: &str = "SIPWEIR_TEST_INNER";

fn ran_inside(test: &str) -> bool {
    if std::env::var_os(INNER).is_some() {
        return false;
    }
    let this = std::env::current_exe().expect("the path of this test");
    let status = Command::new("unshare")
        .arg("--net")
        .arg(this)
        .args(["--exact", test, "--nocapture"])
        .env(INNER, "1")
        .status()
        .expect("unshare is installed (package util-linux)");
    assert!(status.success(), "{test}: the inner run failed");
    true
}

fn output(command: &str) -> String {
    let (name, args) = command.split_once(' ').expect("arguments");
    let output = Command::new(name).args(args.split(' ')).output().expect("it is installed");
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The namespace's only other device, up, with the address 192.0.2.10, and a neighbour that takes everything.
fn device() -> i32 {
    output("ip link add left0 type veth peer name right0");
    output("ip addr add 192.0.2.10/24 dev left0");
    output("ip link set left0 up");
    output("ip link set right0 up");
    output("ip neigh add 192.0.2.1 lladdr 02:00:00:00:00:01 dev left0");
    let text = output("ip -o link show left0");
    text.split(':').next().and_then(|index| index.parse().ok()).expect("an index")
}

fn program() -> Answers {
    let any = ServiceAddress { ip: None, port: 5060, reply_owed: true };
    Answers::load(&Settings { services: vec![any], ..settings() }, 1, 7).expect("it loads")
}

/// How many of three answers are counted.
fn counted(program: &Answers, socket: &UdpSocket) -> u64 {
    let reader = program.counter_reader().expect("a descriptor");
    let before = reader.read(0).expect("counters");
    for _ in 0..3 {
        socket.send_to(b"SIP/2.0 503 No\r\nVia: x;branch=1\r\n\r\n", "192.0.2.1:5060").expect("sent");
    }
    reader.read(0).expect("counters").since(&before).unavailable
}

#[test]
fn a_link_or_a_filter_sees_what_leaves_and_is_gone_when_dropped() {
    if ran_inside("a_link_or_a_filter_sees_what_leaves_and_is_gone_when_dropped") {
        return;
    }
    let index = device();
    let mut program = program();
    let socket = UdpSocket::bind("192.0.2.10:5060").expect("bind");
    assert_eq!(counted(&program, &socket), 0);

    let attached = program.attach(index).expect("it attaches");
    println!("attached by {}", attached.way());
    assert_eq!(counted(&program, &socket), 3);
    drop(attached);
    assert_eq!(counted(&program, &socket), 0);

    let attached = program.attach_filter(index).expect("it attaches");
    assert_eq!((attached.way(), counted(&program, &socket)), ("clsact", 3));
    assert!(output("tc filter show dev left0 egress").contains("answers"));
    // What an earlier run left behind is replaced, and does not count twice.
    let again = program.attach_filter(index).expect("it attaches again");
    assert_eq!(counted(&program, &socket), 3);
    drop(again);
    assert_eq!(output("tc filter show dev left0 egress"), "");
    // Who comes late, such as the janitor of an instance that was killed and started again, leaves that of another alone.
    let other = self::program();
    let mut late = program.attach_filter(index).expect("it attaches");
    let of_late = late.outlives_process().expect("a filter does");
    late.leave_removal();
    let replacing = other.attach_filter(index).expect("it replaces");
    of_late.remove().expect("nothing to do");
    assert_eq!((counted(&program, &socket), counted(&other, &socket)), (0, 3));
    drop(replacing);
    drop(late);
    assert_eq!(counted(&program, &socket), 0);
    drop(attached);

    // What is left to another process stays, until that one removes it.
    let mut attached = program.attach_filter(index).expect("it attaches");
    attached.leave_removal();
    let filter = attached.outlives_process().expect("a filter does");
    drop(attached);
    assert_eq!(counted(&program, &socket), 3);
    filter.remove().expect("it is there");
    assert_eq!(counted(&program, &socket), 0);
    filter.remove().expect("nothing is there, which is fine");

    // Our own answers are not the server's.
    let attached = program.attach(index).expect("it attaches");
    let cookie = rustix::net::sockopt::socket_cookie(&socket).expect("every socket has one");
    program.set_own_sockets([0, cookie]).expect("mapped");
    assert_eq!(counted(&program, &socket), 0);
    drop(attached);
}

#[test]
fn filters_of_others_stay_and_see_all_the_same() {
    if ran_inside("filters_of_others_stay_and_see_all_the_same") {
        return;
    }
    let index = device();
    let program = program();
    let socket = UdpSocket::bind("192.0.2.10:5060").expect("bind");
    output("tc qdisc add dev left0 clsact");
    // One instruction of classic BPF: nothing matches, on to the next.
    let args = "filter add dev left0 egress prio 7 handle 3 bpf bytecode".split(' ').chain(["1,6 0 0 0,"]);
    assert!(Command::new("tc").args(args).status().expect("tc is installed").success());
    let attached = program.attach_filter(index).expect("beside it");
    assert_eq!(counted(&program, &socket), 3);
    drop(attached);
    let left = output("tc filter show dev left0 egress");
    assert!(left.contains("pref 7 bpf") && !left.contains("answers"), "{left}");
}

#[test]
fn a_discipline_without_a_way_out_is_an_error_that_says_so() {
    if ran_inside("a_discipline_without_a_way_out_is_an_error_that_says_so") {
        return;
    }
    let index = device();
    output("tc qdisc add dev left0 ingress");
    let error = program().attach_filter(index).expect_err("nothing would be seen").to_string();
    assert!(error.contains("clsact"), "{error}");
    assert_eq!(output("tc filter show dev left0 ingress"), "");
}

#[test]
fn others_on_the_way_out_stay_and_see_all_the_same() {
    if ran_inside("others_on_the_way_out_stay_and_see_all_the_same") {
        return;
    }
    let index = device();
    let (first, second, third) = (program(), program(), program());
    let socket = UdpSocket::bind("192.0.2.10:5060").expect("bind");
    let links = [first.attach(index).expect("a link"), second.attach(index).expect("another")];
    let filter = third.attach_filter(index).expect("a filter beside them");
    assert_eq!([&first, &second, &third].map(|program| counted(program, &socket)), [3; 3]);
    drop(links);
    assert_eq!([&first, &second, &third].map(|program| counted(program, &socket)), [0, 0, 3]);
    drop(filter);
    let error = third.attach(index + 100).expect_err("there is no such interface");
    assert!(matches!(error, Error::NoInterface { .. }), "{error}");
}
