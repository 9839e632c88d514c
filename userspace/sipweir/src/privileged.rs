//! Who is never shed by configuration: calls to emergency numbers, and the OPTIONS of probers.
//!
//! The XDP program asks the same two questions of what it would shed (`judge_privilege` in `classifier.bpf.c`); here
//! they are asked of what it left undecided and of what came by the side door. Not here: the emergency URN and
//! Resource-Priority, which need no configuration (`sip::classify`), and the caps of both classes (`limits`).

use std::net::IpAddr;

use sip::start_line::{StartLine, StartLineKind};
use sip::{Class, Method, Number, dialled_number};

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

    /// The class of a message that was found to be of `class`: an original may be more than that.
    #[must_use]
    pub fn raise(&self, class: Class, method: Method, datagram: &[u8], source: IpAddr) -> Class {
        if class != Class::Original {
            return class;
        }
        if !self.numbers.is_empty() && dialled(datagram).is_some_and(|number| self.numbers.contains(&number))
        {
            return Class::Emergency;
        }
        if method == Method::Options && self.probers.find(source).is_some() {
            return Class::Prober;
        }
        class
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
    use sip::{Class, Method};

    use super::Privileged;
    use crate::config::Config;

    fn raise(class: Class, method: Method, first: &str, source: &str) -> Class {
        let config = Config::parse(
            "test.toml",
            "interface = \"eth0\"\n[service.main]\nlisten = \"192.0.2.1:5060\"\nhandoff = \"kernel\"\n\
             [privileges]\nemergency_numbers = [\"112\", \"911\"]\nprobers = [\"10.0.0.0/8\", \"2001:db8::1\"]\n",
        )
        .expect("valid");
        let datagram = format!("{first} SIP/2.0\r\nVia: SIP/2.0/UDP a\r\n\r\n");
        Privileged::new(&config.privileges).raise(
            class,
            method,
            datagram.as_bytes(),
            source.parse().expect("IP"),
        )
    }

    #[test]
    fn an_original_to_an_emergency_number_or_from_a_prober_is_never_shed() {
        use Class::{Copy, Emergency, Original, Prober};
        use Method::{Invite, Options};
        for (class, method, first, source, expected) in [
            (Original, Invite, "INVITE sip:112@example.com", "192.0.2.7", Emergency),
            (Original, Invite, "INVITE tel:911;rtx=0", "192.0.2.7", Emergency),
            (Original, Invite, "INVITE sip:1124@example.com", "192.0.2.7", Original),
            (Original, Options, "OPTIONS sip:example.com", "10.1.2.3", Prober),
            (Original, Options, "OPTIONS sip:example.com", "2001:db8::1", Prober),
            (Original, Options, "OPTIONS sip:example.com", "192.0.2.7", Original),
            (Original, Invite, "INVITE sip:a@example.com", "10.1.2.3", Original),
            (Copy, Options, "OPTIONS sip:112@example.com", "10.1.2.3", Copy),
        ] {
            assert_eq!(raise(class, method, first, source), expected, "{first} from {source}");
        }
    }
}
