//! Who is never shed by configuration: calls to emergency numbers, and the OPTIONS of probers.
//!
//! The XDP program asks the same two questions of what it would shed (`judge_privilege` in `classifier.bpf.c`); here
//! they are asked of what it left undecided and of what came by the side door. Not here: the emergency URN and
//! Resource-Priority, which need no configuration (`sip::classify`), and the caps of both classes (`limits`).

use std::net::IpAddr;

use sip::start_line::{StartLine, StartLineKind};
use sip::{Class, Message, Method, Number, Reason, dialled_number};

use crate::config::Privileges;
use crate::prefix::PrefixTable;

/// The configured numbers and networks.
#[derive(Debug, Clone)]
pub struct Privileged {
    numbers: Vec<Number>,
    probers: PrefixTable<()>,
}

impl Default for Privileged {
    fn default() -> Self {
        Self::new(&Privileges::default())
    }
}

impl Privileged {
    /// What the configuration says.
    #[must_use]
    pub fn new(config: &Privileges) -> Self {
        let probers = config.probers.iter().map(|prefix| (prefix.0, ()));
        Self {
            numbers: config.emergency_numbers.iter().map(|number| number.0).collect(),
            probers: PrefixTable::new(probers),
        }
    }

    /// What was found out about a message, raised: an original may be more than that.
    #[must_use]
    pub fn raise(&self, found: Message, datagram: &[u8], source: IpAddr) -> Message {
        if found.class != Class::Original {
            return found;
        }
        if !self.numbers.is_empty() && dialled(datagram).is_some_and(|number| self.numbers.contains(&number))
        {
            return Message { class: Class::Emergency, reason: Reason::EmergencyCall, ..found };
        }
        if found.method == Method::Options && self.probers.find(source).is_some() {
            return Message { class: Class::Prober, reason: Reason::ProberSource, ..found };
        }
        found
    }
}

fn dialled(datagram: &[u8]) -> Option<Number> {
    match StartLine::scan(datagram)?.kind {
        StartLineKind::Request { uri, .. } => dialled_number(uri),
        StartLineKind::Status => None,
    }
}

#[cfg(test)]
mod tests {
    use sip::Class;

    use super::Privileged;
    use crate::config::Config;

    fn class_of(first: &str, source: &str) -> Class {
        let config = Config::parse(
            "test.toml",
            "interface = \"eth0\"\n[service.main]\nlisten = \"192.0.2.1:5060\"\nhandoff = \"kernel\"\n\
             [privileges]\nemergency_numbers = [\"112\", \"911\"]\nprobers = [\"10.0.0.0/8\", \"2001:db8::1\"]\n",
        )
        .expect("valid");
        let datagram = format!("{first}\r\nVia: SIP/2.0/UDP a\r\n\r\n").into_bytes();
        let privileged = Privileged::new(&config.privileges);
        privileged.raise(sip::classify(&datagram), &datagram, source.parse().expect("IP")).class
    }

    #[test]
    fn an_original_to_an_emergency_number_or_from_a_prober_is_never_shed() {
        use Class::{Copy, Emergency, Original, Prober};
        for (first, source, expected) in [
            ("INVITE sip:112@example.com SIP/2.0", "192.0.2.7", Emergency),
            ("INVITE tel:911;rtx=0 SIP/2.0", "192.0.2.7", Emergency),
            ("INVITE sip:1124@example.com SIP/2.0", "192.0.2.7", Original),
            ("OPTIONS sip:example.com SIP/2.0", "10.1.2.3", Prober),
            ("OPTIONS sip:example.com SIP/2.0", "2001:db8::1", Prober),
            ("OPTIONS sip:example.com SIP/2.0", "192.0.2.7", Original),
            ("INVITE sip:a@example.com SIP/2.0", "10.1.2.3", Original),
            ("OPTIONS sip:112@example.com SIP/2.0 rtx=1", "10.1.2.3", Copy),
        ] {
            assert_eq!(class_of(first, source), expected, "{first} from {source}");
        }
    }
}
