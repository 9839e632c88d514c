//! The checks of the firewall.

use super::{all, command, one};
use crate::doctor::finding::Level;
use crate::netdev::{ChainName, InputRule, Pattern, Question};

fn chain(family: &str, chain: &str) -> ChainName {
    ChainName { family: family.into(), table: "filter".into(), chain: chain.into() }
}

fn rule(chain_name: &str, handle: u64, question: Question) -> InputRule {
    InputRule { chain: chain("inet", chain_name), handle, question }
}

fn device(patterns: &[Pattern], negated: bool) -> Question {
    Question::Device { patterns: patterns.to_vec(), negated }
}

fn name(name: &str) -> Pattern {
    Pattern::Name(name.into())
}

#[test]
fn only_rules_that_tell_the_two_devices_apart_are_named() {
    for (question, level) in [
        (device(&[name("eth0")], false), Level::Warning),
        (device(&[name("eth0")], true), Level::Warning),
        (device(&[Pattern::Index(3)], false), Level::Warning),
        (device(&[Pattern::Prefix("eth".into())], false), Level::Warning),
        (device(&[name("eth1"), name("eth0")], false), Level::Warning),
        (device(&[name("swr3")], false), Level::Warning),
        // These say the same of both.
        (device(&[name("lo")], false), Level::Fine),
        (device(&[name("lo")], true), Level::Fine),
        (device(&[name("eth0"), name("swr3")], false), Level::Fine),
        (device(&[Pattern::Prefix(String::new())], false), Level::Fine),
        (device(&[Pattern::Index(0)], true), Level::Warning),
        (device(&[], false), Level::Fine),
    ] {
        let firewall = vec![rule("input", 4, question.clone())];
        let finding = one("firewall.interface_rules", |facts, _, _| {
            facts.host.firewall.as_mut().expect("read").rules = firewall;
        });
        assert_eq!(finding.level, level, "{question:?}: {finding:?}");
    }
}

#[test]
fn a_chain_is_named_once_with_the_command_that_lets_the_hand_off_in() {
    let finding = one("firewall.interface_rules", |facts, _, wanted| {
        wanted.ports = [5060, 5080].into();
        facts.host.firewall.as_mut().expect("read").rules = vec![
            rule("input", 4, device(&[name("eth0")], false)),
            rule("input", 9, device(&[name("eth0")], true)),
        ];
    });
    assert_eq!(finding.level, Level::Warning);
    assert!(finding.what.contains("inet filter input (handle 4, 9)"), "{finding:?}");
    let expected = [
        command("nft -a list chain inet filter input"),
        command("nft insert rule inet filter input iifname swr3 udp dport '{ 5060, 5080 }' accept"),
    ];
    assert_eq!(finding.change[..2], expected);
}

#[test]
fn a_rule_that_asks_for_the_way_back_drops_what_is_handed_over() {
    let found = all("firewall.reverse_path", |facts, _, _| {
        facts.host.firewall.as_mut().expect("read").rules = vec![rule("pre", 2, Question::ReversePath)];
    });
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].change, [command("nft insert rule inet filter pre iifname swr3 accept")]);
}

#[test]
fn what_stands_at_the_entrance_of_this_interface_is_named_and_no_other_ones() {
    let ingress = |devices: &[&str], filters| {
        one("firewall.ingress", |facts, interface, _| {
            let devices = devices.iter().map(|&name| name.to_owned()).collect();
            facts.host.firewall.as_mut().expect("read").ingress = vec![(chain("netdev", "in"), devices)];
            interface.has_ingress_filters = Ok(filters);
        })
    };
    assert_eq!(ingress(&["eth1"], false).level, Level::Fine);
    let found = ingress(&["eth1", "eth0"], true);
    assert_eq!(found.level, Level::Warning);
    assert_eq!(found.change[0], command("nft list chain netdev filter in"));
    assert_eq!(found.change[1], command("tc filter show dev eth0 ingress"));
}

#[test]
fn legacy_tables_cannot_be_read_and_are_never_fine() {
    let found = one("firewall.legacy", |facts, _, _| facts.host.legacy_tables = Ok(vec!["ip filter".into()]));
    assert_eq!(found.level, Level::Unknown);
    assert!(found.what.contains("ip filter"), "{found:?}");
}
