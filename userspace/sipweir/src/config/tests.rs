use super::{Config, ConfigError, GateKind, HandoffKind, LinkAddress, Peer, Problem, Taken};
use crate::limits::Cap;
use overload::Threshold;

/// Nothing but what must be there.
pub(super) const LEAST: &str = r#"
interface = "eth0"
[service.main]
listen = "192.0.2.1:5060"
handoff = "kernel"
"#;

pub(super) fn problems(text: &str) -> Vec<Problem> {
    match Config::parse("test.toml", text) {
        Err(ConfigError::Problems { problems, .. }) => problems,
        other => panic!("expected problems, got {other:?}"),
    }
}

pub(super) fn keys(text: &str) -> Vec<String> {
    problems(text).into_iter().map(|problem| problem.key).collect()
}

#[test]
fn the_example_in_the_docs_is_valid() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/example.toml");
    Config::read(path.as_ref()).expect("docs/example.toml");
}

#[test]
fn five_lines_are_enough() {
    let config = Config::parse("test.toml", LEAST).expect("valid");
    let service = &config.service["main"];
    assert_eq!(service.handoff, HandoffKind::Kernel);
    assert_eq!(service.gate.kind, GateKind::Hysteretic);
    assert_eq!(service.max_wait.nanos(), 400_000_000);
}

#[test]
fn thresholds_are_messages_or_time() {
    let text = format!("{LEAST}[service.main.gate]\nlow = 10\nhigh = \"250ms\"\nbuffer = \"0.35s\"\n");
    let gate = Config::parse("test.toml", &text).expect("valid").service["main"].gate.clone();
    assert_eq!(gate.low.0, Threshold::Messages(10));
    assert_eq!(gate.high.0, Threshold::Time(250_000_000));
    assert_eq!(gate.buffer.0, Threshold::Time(350_000_000));
}

fn random_gate(lines: &str) -> String {
    format!("{LEAST}[service.main.gate]\nkind = \"random\"\n{lines}\n")
}

#[test]
fn the_random_gate_has_a_weight_and_a_probability_beside_the_thresholds() {
    let text = random_gate("low = 25\nhigh = 80\nbuffer = 80\nweight = 1.0\ninitial_probability = 0.2");
    let gate = Config::parse("test.toml", &text).expect("valid").service["main"].gate.clone();
    assert_eq!((gate.kind, gate.weight, gate.initial_probability), (GateKind::Random, 1.0, 0.2));
    assert!((gate.share_in_overload() - 0.8).abs() < 1e-12);
    let config = Config::parse("test.toml", &random_gate("")).expect("the defaults are valid");
    crate::run::check(&config).expect("and fit the waiting room");
}

#[test]
fn what_is_wrong_with_the_random_gate_is_named() {
    for (line, key, message) in [
        ("initial_probability = 1.6", "initial_probability", "1.6 is no probability"),
        ("initial_probability = -0.1", "initial_probability", "between 0 and 1"),
        ("weight = 0.0", "weight", "above 0 and at most 1"),
        ("weight = nan", "weight", "above 0 and at most 1"),
        ("low = 80\nhigh = 80\nbuffer = 100", "low", "low must be below high"),
        ("low = 70\nhigh = 80\nbuffer = 79", "high", "high must not be above buffer"),
        ("low = 0\nhigh = 80\nbuffer = 90", "low", "above 0"),
    ] {
        let found = problems(&random_gate(line));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].key, format!("service.main.gate.{key}"));
        assert!(found[0].message.contains(message), "{line}: {}", found[0].message);
    }
    let text = random_gate("").replace("[service.main.gate]", "max_wait = \"600ms\"\n[service.main.gate]");
    assert_eq!(keys(&text), ["service.main.max_wait"], "it answers, so it must do so in time");
}

#[test]
fn caps_are_counts_shares_or_off() {
    let text = format!(
        "{LEAST}[service.main.limits]\nin_dialog_per_source = 200\nresponses_per_source = \"12.5%\"\n\
         emergency_per_source = \"off\"\n"
    );
    let caps = Config::parse("test.toml", &text).expect("valid").service["main"].limits.caps();
    assert_eq!(caps.in_dialog, Cap::PerSecond(200.0));
    assert_eq!(caps.control, Cap::Share(0.6));
    assert_eq!(caps.responses, Cap::Share(0.125));
    assert_eq!(caps.emergency, Cap::Off);
    assert_eq!(caps.prober, Cap::PerSecond(10.0));
}

#[test]
fn a_cap_on_a_command_line_is_written_as_in_a_file() {
    for (text, cap) in [("200", Cap::PerSecond(200.0)), ("12.5%", Cap::Share(0.125)), ("off", Cap::Off)] {
        assert_eq!(text.parse(), Ok(super::Rate(cap)), "{text}");
    }
    for text in ["7%", "29%", "12.5%", "100%", "off"] {
        let rate: super::Rate = text.parse().expect(text);
        assert_eq!(serde_json::to_value(rate).expect("JSON"), text, "shown as it was written");
    }
    for text in ["0", "-1", "0.5", "101%", "half", ""] {
        let error = text.parse::<super::Rate>().expect_err(text);
        assert!(error.contains("a count per second"), "{text}: {error}");
    }
}

#[test]
fn caps_that_are_none_are_refused() {
    for value in ["0", "-1", "0.5", "\"0%\"", "\"101%\"", "\"NaN%\"", "\"half\"", "\"\"", "true"] {
        let text = format!("{LEAST}[service.main.limits]\nin_dialog_per_source = {value}\n");
        assert_eq!(keys(&text), ["service.main.limits.in_dialog_per_source"], "{value}");
    }
}

#[test]
fn any_local_address_is_written_as_a_star_or_unspecified() {
    for any in ["*:5060", "0.0.0.0:5060", "[::]:5060"] {
        let text = LEAST.replace("192.0.2.1:5060", any);
        let config = Config::parse("test.toml", &text).expect("valid");
        assert_eq!(config.service["main"].listen.0, [(None, 5060)], "{any}");
    }
}

#[test]
fn every_problem_is_reported_with_its_key_at_once() {
    let text = r#"
interface = "an-interface-name-too-long"
colour = "blue"
[xdp]
mode = "fast"
[frames]
ring_new = 1000
[service.main]
listen = "nowhere"
handoff = "pigeon"
max_wait = "600ms"
[service.main.gate]
low = 100
high = 50
admit = 1.5
"#;
    let expected = [
        "colour",
        "frames.ring_new",
        "interface",
        "service.main.gate.admit",
        "service.main.gate.low",
        "service.main.handoff",
        "service.main.listen",
        "service.main.max_wait",
        "xdp.mode",
    ];
    assert_eq!(keys(text), expected);
}

#[test]
fn every_wrong_entry_of_a_list_is_named() {
    let text = LEAST.replace(
        "\"192.0.2.1:5060\"",
        "[\"192.0.2.1\", \"198.51.100.9:5060\", \"*:0\", \"nowhere\", \"224.0.0.1:5060\"]",
    );
    let found = problems(&text);
    assert_eq!(found.len(), 1, "{found:?}");
    for wrong in ["\"192.0.2.1\" is no", "\"*:0\": port 0", "\"nowhere\"", "\"224.0.0.1:5060\": a multicast"]
    {
        assert!(found[0].message.contains(wrong), "{wrong} in {}", found[0].message);
    }
    assert!(!found[0].message.contains("198.51.100.9"), "{}", found[0].message);
}

#[test]
fn two_services_with_wrong_addresses_are_not_said_to_share_one() {
    let text = "interface = 7\n[service.a]\nlisten = 1\nhandoff = 2\n[service.b]\nlisten = 3\nhandoff = 4\n";
    let expected =
        ["interface", "service.a.handoff", "service.a.listen", "service.b.handoff", "service.b.listen"];
    assert_eq!(keys(text), expected);
}

#[test]
fn a_root_key_that_is_missing_does_not_hide_the_rest() {
    assert_eq!(keys("[service.a]\nlisten = \"*:0\"\nhandoff = \"kernel\"\n").len(), 2);
}

#[test]
fn relations_are_checked_all_together() {
    let text = r#"
interface = "eth0"
[frames]
ring_new = 1000
size = 1500
large = 0
[service.main]
listen = ["192.0.2.1:5060", "192.0.2.1:5060"]
handoff = "kernel"
max_wait = "600ms"
[service.main.gate]
low = 100
high = 50
admit = 1.5
[service.main.reply]
code = 200
"#;
    let expected = [
        "frames.large",
        "frames.ring_new",
        "frames.size",
        "service.main.gate.admit",
        "service.main.gate.low",
        "service.main.listen",
        "service.main.max_wait",
        "service.main.reply.code",
    ];
    assert_eq!(keys(text), expected);
}

#[test]
fn frames_are_those_of_the_host_any_or_listed_ones() {
    let xdp = |lines: &str| format!("{LEAST}[xdp]\n{lines}\n");
    let config = Config::parse("test.toml", LEAST).expect("valid");
    assert_eq!((config.xdp.link_addresses, config.xdp.vlans), (Taken::Host, Taken::Host));
    let text = xdp("link_addresses = \"any\"\nvlans = [1, 4094]");
    let config = Config::parse("test.toml", &text).expect("valid");
    assert_eq!((config.xdp.link_addresses, config.xdp.vlans), (Taken::Any, Taken::Listed(vec![1, 4094])));
    let config = Config::parse("test.toml", &xdp("link_addresses = [\"00:00:5e:00:01:fF\"]")).expect("valid");
    assert_eq!(config.xdp.link_addresses, Taken::Listed(vec![LinkAddress([0, 0, 0x5e, 0, 1, 255])]));
    for (wrong, key) in [
        ("vlans = [0]", "xdp.vlans"),
        ("vlans = [1, 4095]", "xdp.vlans"),
        ("vlans = \"all\"", "xdp.vlans"),
        ("vlans = 5", "xdp.vlans"),
        ("link_addresses = \"00:00:5e:00:01:07\"", "xdp.link_addresses"),
        ("link_addresses = [\"00:00:5e:00:01\"]", "xdp.link_addresses[0]"),
        ("link_addresses = [\"00:00:5e:00:01:07:08\"]", "xdp.link_addresses[0]"),
        ("link_addresses = [\"01:00:5e:00:01:07\"]", "xdp.link_addresses[0]"),
    ] {
        assert_eq!(keys(&xdp(wrong)), [key], "{wrong}");
    }
}

#[test]
fn a_missing_key_is_named_at_its_table() {
    let found = problems("interface = \"eth0\"\n[service.main]\nlisten = \"*:5060\"\n");
    assert_eq!(found[0].key, "service.main");
    assert!(found[0].message.contains("handoff"), "{}", found[0].message);
}

#[test]
fn a_control_socket_that_cannot_be_is_a_problem() {
    for path in [String::new(), format!("/run/{}", "x".repeat(200))] {
        assert_eq!(keys(&format!("{LEAST}[control]\nsocket = \"{path}\"\n")), ["control.socket"]);
    }
}

#[test]
fn a_missing_service_is_a_problem() {
    assert_eq!(keys("interface = \"eth0\"\n"), ["service"]);
}

#[test]
fn unknown_keys_deep_inside_are_refused_with_their_path() {
    let text = format!("{LEAST}[service.main.gate]\nhihg = 3\n");
    assert_eq!(keys(&text), ["service.main.gate.hihg"]);
}

#[test]
fn broken_toml_names_the_line() {
    let error = Config::parse("test.toml", "interface = \"eth0").expect_err("syntax");
    assert!(error.to_string().contains("line 1"), "{error}");
}

#[test]
fn the_seed_is_64_hex_digits_and_stays_secret() {
    let text = format!("seed = \"{}\"\n{LEAST}", "0123456789abcdef".repeat(4));
    let config = Config::parse("test.toml", &text).expect("valid");
    assert_eq!(config.seed.as_ref().expect("seed").0, [0x0123_4567_89ab_cdef; 4]);
    assert!(!format!("{config:?}").contains("81985529216486895"));
    assert_eq!(keys(&format!("seed = \"abc\"\n{LEAST}")), ["seed"]);
}

#[test]
fn peers_have_a_code_or_a_table() {
    let text = format!(
        "{LEAST}[service.main.reply]\nretry_after_register = [30, 90]\noc_validity = \"1s\"\n\
         [service.main.reply.peers]\n\"10.0.0.0/8\" = 480\n\"192.0.2.1\" = {{ per_destination = 5000 }}\n\
         \"2001:db8::/32\" = {{ code = 0 }}\n"
    );
    let reply = Config::parse("test.toml", &text).expect("valid").service["main"].reply.clone();
    assert_eq!((reply.code, reply.per_destination, reply.retry_after_register), (503, 5000, Some([30, 90])));
    assert_eq!(reply.oc_validity.nanos(), 1_000_000_000);
    let peer = |code, per_destination| Peer { code, per_destination };
    assert_eq!(reply.peers["10.0.0.0/8"], peer(Some(480), None));
    assert_eq!(reply.peers["192.0.2.1"], peer(None, Some(5000)));
    assert_eq!(reply.peers["2001:db8::/32"], peer(Some(0), None));
}

#[test]
fn everything_that_is_wrong_with_replies_is_named() {
    let text = format!(
        "{LEAST}[service.main.reply]\ncode = 200\nper_destination = 0\nretry_after_register = [90, 30]\n\
         oc_validity = \"0ms\"\n[service.main.reply.peers]\n\"10.1.0.0/8\" = 480\n\"nobody\" = 480\n\
         \"192.0.2.1\" = 486\n\"192.0.2.1/32\" = {{ per_destination = 9999999 }}\n\"192.0.2.2\" = {{}}\n"
    );
    let expected = [
        "code",
        "oc_validity",
        "peers.\"10.1.0.0/8\"",
        "peers.\"192.0.2.1\"",
        "peers.\"192.0.2.1/32\"",
        "peers.\"192.0.2.1/32\"",
        "peers.\"192.0.2.2\"",
        "peers.\"nobody\"",
        "per_destination",
        "retry_after_register",
    ];
    assert_eq!(keys(&text), expected.map(|key| format!("service.main.reply.{key}")));
}

#[test]
fn a_peer_of_the_wrong_type_or_with_an_unknown_key_hides_no_other_problem() {
    let text = format!(
        "{LEAST}[service.main.gate]\nadmit = 7.0\n[service.main.reply.peers]\n\"10.0.0.0/8\" = \"480\"\n\
         \"192.0.2.1\" = {{ code = 480, cap = 3 }}\n"
    );
    let expected = [
        "service.main.gate.admit",
        "service.main.reply.peers.10.0.0.0/8",
        "service.main.reply.peers.192.0.2.1.cap",
    ];
    assert_eq!(keys(&text), expected);
}

#[test]
fn the_control_socket_has_permissions_in_octal_digits_and_a_group() {
    let control = |lines: &str| format!("{LEAST}[control]\n{lines}\n");
    let config =
        Config::parse("test.toml", &control("mode = \"600\"\ngroup = \"telecom\"")).expect("valid").control;
    assert_eq!((config.mode.0, config.group.as_deref()), (0o600, Some("telecom")));
    let config = Config::parse("test.toml", LEAST).expect("valid").control;
    assert_eq!((config.mode.0, config.group), (0o660, None));
    for wrong in ["\"0888\"", "\"rw\"", "\"7777\"", "\"+660\"", "\"66\"", "432"] {
        assert_eq!(keys(&control(&format!("mode = {wrong}"))), ["control.mode"], "{wrong}");
    }
}
