//! Settings that are refused, and the tables that come from the others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::*;

fn service(ip: Option<IpAddr>, port: u16) -> ServiceAddress {
    ServiceAddress { ip, port, reply_owed: true }
}

fn settings(services: Vec<ServiceAddress>) -> Settings {
    Settings::new(HashKey(Box::new([7; HASH_KEY_WORDS])), services)
}

fn refusal(settings: &Settings) -> String {
    settings.check().expect_err("is refused").to_string()
}

#[test]
fn good_settings_are_accepted() {
    let v4 = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    assert!(
        settings(vec![service(Some(v4), 5060), service(None, 5060), service(Some(v4), 5062)]).check().is_ok()
    );
}

#[test]
fn a_refusal_names_the_value_and_its_limits() {
    assert!(refusal(&settings(vec![])).contains("0 services: 1 to 64"));
    assert!(refusal(&settings((1..=65).map(|port| service(None, port)).collect())).contains("65 services"));
    assert!(refusal(&settings(vec![service(None, 0)])).contains("service 0: port 0"));
    let any = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    assert!(refusal(&settings(vec![service(Some(any), 5060)])).contains("leave the address out"));
    let large = Settings { max_frame_len: 4097, ..settings(vec![service(None, 5060)]) };
    assert!(refusal(&large).contains("max_frame_len 4097: 256 to 4096"));
    let small = Settings { max_frame_len: 255, ..settings(vec![service(None, 5060)]) };
    assert!(refusal(&small).contains("max_frame_len 255"));
}

#[test]
fn frames_that_nobody_can_mean_are_refused_and_the_others_become_tables() {
    let good = || settings(vec![service(None, 5060)]);
    let none = Settings { link_addresses: Some(vec![]), ..good() };
    assert!(refusal(&none).contains("0 Ethernet addresses: 1 to 8"));
    let many = Settings { link_addresses: Some(vec![[2; 6]; 9]), ..good() };
    assert!(refusal(&many).contains("9 Ethernet addresses"));
    for vlan in [0, 4095] {
        assert!(
            refusal(&Settings { vlans: Some([vlan].into()), ..good() }).contains(&format!("VLAN {vlan}"))
        );
    }
    assert_eq!(good().link_address_words(), ([0; LINK_ADDRESSES_MAX], 0));
    let two = Settings { link_addresses: Some(vec![[2, 0, 0, 0, 0, 1], [6; 6]]), ..good() };
    let (words, count) = two.link_address_words();
    assert_eq!((words[0].to_ne_bytes(), count), ([2, 0, 0, 0, 0, 1, 0, 0], 2));
    let vlans = Settings { vlans: Some([1, 64, 4094].into()), ..good() }.vlan_bitmap();
    assert_eq!((vlans[0], vlans[1], vlans[63]), (2, 1, 1 << 62));
}

#[test]
fn one_address_in_two_spellings_is_named_twice() {
    let v4 = Ipv4Addr::new(192, 0, 2, 1);
    let twice =
        vec![service(Some(IpAddr::V4(v4)), 5060), service(Some(IpAddr::V6(v4.to_ipv6_mapped())), 5060)];
    assert!(refusal(&settings(twice)).contains("port 5060 is named twice"));
    assert!(refusal(&settings(vec![service(None, 5060), service(None, 5060)])).contains("any address"));
}

#[test]
fn every_port_has_its_own_bit() {
    for port in [1, 63, 64, 5060, 65_535] {
        let words = settings(vec![service(None, port)]).port_bitmap();
        assert_eq!(words.iter().map(|word| word.count_ones()).sum::<u32>(), 1);
        assert_eq!(words[usize::from(port) / 64] >> (port % 64) & 1, 1, "port {port}");
    }
}

#[test]
fn reply_bits_follow_the_order_of_services() {
    let mut many = settings((1..=64).map(|port| service(None, port)).collect());
    assert_eq!(many.reply_owed_bits(), u64::MAX);
    many.services[63].reply_owed = false;
    many.services[0].reply_owed = false;
    assert_eq!(many.reply_owed_bits(), u64::MAX >> 1 & !1);
}
