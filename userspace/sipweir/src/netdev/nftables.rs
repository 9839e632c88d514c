//! Firewall rules that ask which device a packet came in by, from the kernel's nf_tables.
//!
//! `iptables-nft` and firewalld write the same rules, so they are read too. Legacy iptables keeps its rules elsewhere and
//! only its tables' names can be seen (`/proc/net/ip_tables_names`). Not here: what such a rule means for sipweir.

use std::collections::BTreeSet;

use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NLM_F_DUMP, NetlinkDeserializable, NetlinkHeader, NetlinkPayload,
    NetlinkSerializable,
};
use rustix::io::Errno;
use rustix::net::netlink::NETFILTER;

use super::Error;
use super::generic::{bytes_of, parse, text_of, value_of};
use super::netlink::{ANSWER_TIMEOUT, Socket};

// `linux/netfilter/nfnetlink.h`, `linux/netfilter/nf_tables.h`, `linux/netfilter.h`.
const NFNL_SUBSYS_NFTABLES: u16 = 10;
const NFT_MSG_GETCHAIN: u16 = 4;
const NFT_MSG_GETRULE: u16 = 7;
const NFT_MSG_GETSETELEM: u16 = 13;
const NFGENMSG_LEN: usize = 4;
const NFPROTO_NETDEV: u8 = 5;
const NF_INET_PRE_ROUTING: u32 = 0;
const NF_INET_LOCAL_IN: u32 = 1;
const NF_INET_INGRESS: u32 = 5;
const NFT_META_IIF: u32 = 4;
const NFT_META_IIFNAME: u32 = 6;
const NFT_CMP_NEQ: u32 = 1;
const NFTA_FIB_F_SADDR: u32 = 1;
const NFTA_FIB_F_IIF: u32 = 8;

/// A device as a rule names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// By its number.
    Index(u32),
    /// By its name.
    Name(String),
    /// By how its name begins (`eth*`).
    Prefix(String),
    /// By a range of names, the second one not in it: how the kernel keeps a set with a prefix in it. Names are as long as the
    /// kernel's, with zeros behind.
    Range([u8; IFNAMSIZ], [u8; IFNAMSIZ]),
}

/// Longest name of a device with the zero behind it (`linux/if.h`).
const IFNAMSIZ: usize = 16;

/// A name as the kernel compares it.
fn padded(name: &[u8]) -> [u8; IFNAMSIZ] {
    let mut bytes = [0; IFNAMSIZ];
    let len = name.len().min(IFNAMSIZ);
    bytes[..len].copy_from_slice(&name[..len]);
    bytes
}

impl Pattern {
    fn matches(&self, name: &str, index: u32) -> bool {
        match self {
            Self::Index(number) => *number == index,
            Self::Name(text) => text == name,
            Self::Prefix(text) => name.starts_with(text.as_str()),
            Self::Range(first, end) => (*first..*end).contains(&padded(name.as_bytes())),
        }
    }
}

/// What a rule asks about the way a packet came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Whether it came by one of these devices, or by none of them.
    Device {
        /// The devices.
        patterns: Vec<Pattern>,
        /// By none of them.
        negated: bool,
    },
    /// Whether the way back to its source leads out by the device it came in by.
    ReversePath,
}

impl Question {
    /// The rule's answer for a packet that came by this device; `None` where it depends on more than that.
    #[must_use]
    pub fn matches(&self, name: &str, index: u32) -> Option<bool> {
        match self {
            Self::Device { patterns, negated } => {
                Some(patterns.iter().any(|pattern| pattern.matches(name, index)) != *negated)
            }
            Self::ReversePath => None,
        }
    }
}

/// A rule on the way of packets to local sockets that asks such a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputRule {
    /// The chain it is in.
    pub chain: ChainName,
    /// Its number, for `nft`.
    pub handle: u64,
    /// What it asks.
    pub question: Question,
}

/// A chain, as `nft` is told it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChainName {
    /// `ip`, `ip6`, `inet`, `netdev`.
    pub family: String,
    /// Its table.
    pub table: String,
    /// Its name.
    pub chain: String,
}

/// What the firewall asks about devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Firewall {
    /// Rules by which the device matters.
    pub rules: Vec<InputRule>,
    /// Chains at the very entrance of devices, and the devices.
    pub ingress: Vec<(ChainName, BTreeSet<String>)>,
}

impl Firewall {
    /// Reads it in the calling thread's network namespace; nothing in a kernel without nf_tables.
    ///
    /// # Errors
    ///
    /// When the kernel refuses or does not answer.
    pub fn read() -> Result<Self, Error> {
        let mut tables = match Socket::open(Some(NETFILTER), ANSWER_TIMEOUT) {
            Ok(socket) => Tables { socket },
            Err(Errno::PROTONOSUPPORT) => return Ok(Self::default()),
            Err(errno) => return Err(Error::refused("open a netlink socket for the firewall", errno)),
        };
        let chains = match tables.dump("list the firewall's chains", NFT_MSG_GETCHAIN, 0, Vec::new()) {
            // A kernel without nf_tables knows no such messages.
            Err(error) if matches!(error.errno(), Some(Errno::INVAL | Errno::OPNOTSUPP)) => {
                return Ok(Self::default());
            }
            chains => chains?,
        };
        let chains: Vec<Chain> = chains.iter().filter_map(Chain::of).collect();
        let rules = tables.dump("list the firewall's rules", NFT_MSG_GETRULE, 0, Vec::new())?;
        let rules: Vec<Rule> = rules.iter().filter_map(Rule::of).collect();
        let away = away_from_input(&chains, &rules);
        let mut firewall = Self::default();
        for rule in rules.iter().filter(|rule| !away.contains(&rule.chain)) {
            if let Some(question) = rule.question(|set| tables.elements(rule, set))? {
                firewall.rules.push(InputRule { chain: rule.chain.clone(), handle: rule.handle, question });
            }
        }
        firewall.ingress =
            chains.into_iter().filter(Chain::is_ingress).map(|chain| (chain.name, chain.devices)).collect();
        Ok(firewall)
    }
}

/// Chains that no packet for a local socket comes by, as far as one can see: those that are reached from base chains of
/// other hooks, and from no base chain of input.
fn away_from_input(chains: &[Chain], rules: &[Rule]) -> BTreeSet<ChainName> {
    let reached_from = |is_root: fn(&Chain) -> bool| {
        let mut reached: BTreeSet<ChainName> = chains
            .iter()
            .filter(|chain| chain.hook.is_some() && is_root(chain))
            .map(|chain| chain.name.clone())
            .collect();
        loop {
            let further: Vec<ChainName> = rules
                .iter()
                .filter(|rule| reached.contains(&rule.chain))
                .filter_map(Rule::jump_target)
                .filter(|target| !reached.contains(target))
                .collect();
            if further.is_empty() {
                return reached;
            }
            reached.extend(further);
        }
    };
    let input = reached_from(Chain::is_input);
    reached_from(|chain| !chain.is_input()).into_iter().filter(|chain| !input.contains(chain)).collect()
}

#[derive(Debug)]
struct Chain {
    name: ChainName,
    family: u8,
    /// `None`: reached by jumps only.
    hook: Option<u32>,
    devices: BTreeSet<String>,
}

impl Chain {
    fn of(message: &Message) -> Option<Self> {
        let (table, chain) = (message.text(1)?, message.text(3)?);
        let hook = bytes_of(&message.attributes, 4).map(|bytes| parse(&bytes).unwrap_or_default());
        let mut devices = BTreeSet::new();
        if let Some(hook) = &hook {
            devices.extend(bytes_of(hook, 3).map(|name| text_of(&name)));
            let several = bytes_of(hook, 4).and_then(|bytes| parse(&bytes).ok()).unwrap_or_default();
            devices.extend(several.iter().map(|name| text_of(&value_of(name))));
        }
        let hook = hook.and_then(|hook| be32(&bytes_of(&hook, 1)?));
        let name = ChainName { family: family_name(message.family), table, chain };
        Some(Self { name, family: message.family, hook, devices })
    }

    fn is_ingress(&self) -> bool {
        match self.hook {
            Some(hook) => (self.family == NFPROTO_NETDEV && hook == 0) || hook == NF_INET_INGRESS,
            None => false,
        }
    }

    fn is_input(&self) -> bool {
        self.family != NFPROTO_NETDEV && matches!(self.hook, Some(NF_INET_PRE_ROUTING | NF_INET_LOCAL_IN))
    }
}

struct Rule {
    chain: ChainName,
    family: u8,
    handle: u64,
    expressions: Vec<(String, Vec<DefaultNla>)>,
}

impl Rule {
    fn of(message: &Message) -> Option<Self> {
        let chain = ChainName {
            family: family_name(message.family),
            table: message.text(1)?,
            chain: message.text(2)?,
        };
        let handle = bytes_of(&message.attributes, 3)?.try_into().ok().map(u64::from_be_bytes)?;
        let list = bytes_of(&message.attributes, 4).and_then(|bytes| parse(&bytes).ok()).unwrap_or_default();
        let expressions = list
            .iter()
            .filter_map(|element| {
                let expression = parse(&value_of(element)).ok()?;
                let data = bytes_of(&expression, 2).and_then(|bytes| parse(&bytes).ok()).unwrap_or_default();
                Some((text_of(&bytes_of(&expression, 1)?), data))
            })
            .collect();
        Some(Self { chain, family: message.family, handle, expressions })
    }

    /// The chain that its verdict leads to.
    fn jump_target(&self) -> Option<ChainName> {
        let target =
            self.expressions.iter().filter(|(name, _)| name == "immediate").find_map(|(_, data)| {
                let verdict = parse(&bytes_of(&parse(&bytes_of(data, 2)?).ok()?, 2)?).ok()?;
                bytes_of(&verdict, 2).map(|chain| text_of(&chain))
            })?;
        Some(ChainName { chain: target, ..self.chain.clone() })
    }

    /// What it asks; `elements` reads a set.
    fn question(
        &self,
        mut elements: impl FnMut(&str) -> Result<Vec<Element>, Error>,
    ) -> Result<Option<Question>, Error> {
        let mut asked = None;
        for (name, data) in &self.expressions {
            let number = |kind| bytes_of(data, kind).and_then(|bytes| be32(&bytes));
            match (name.as_str(), asked) {
                ("meta", _) => {
                    asked = match number(2) {
                        Some(NFT_META_IIF) => Some(Key::Index),
                        Some(NFT_META_IIFNAME) => Some(Key::Name),
                        _ => None,
                    };
                }
                ("cmp", Some(key)) => {
                    let value = bytes_of(data, 3).and_then(|bytes| bytes_of(&parse(&bytes).ok()?, 1));
                    let patterns = value.iter().map(|value| key.pattern(value)).collect();
                    let negated = number(2) == Some(NFT_CMP_NEQ);
                    return Ok(Some(Question::Device { patterns, negated }));
                }
                ("lookup", Some(key)) => {
                    let set = bytes_of(data, 1).map(|name| text_of(&name)).unwrap_or_default();
                    let patterns = key.patterns(elements(&set)?);
                    // NFTA_LOOKUP_FLAGS, NFT_LOOKUP_F_INV.
                    let negated = number(5).is_some_and(|flags| flags & 1 == 1);
                    return Ok(Some(Question::Device { patterns, negated }));
                }
                ("fib", _)
                    if number(3).is_some_and(|f| f & NFTA_FIB_F_SADDR != 0 && f & NFTA_FIB_F_IIF != 0) =>
                {
                    return Ok(Some(Question::ReversePath));
                }
                ("match", _) if bytes_of(data, 1).is_some_and(|name| text_of(&name) == "rpfilter") => {
                    return Ok(Some(Question::ReversePath));
                }
                _ => {}
            }
        }
        Ok(None)
    }
}

/// What a rule compares.
#[derive(Clone, Copy)]
enum Key {
    Index,
    Name,
}

impl Key {
    /// A name without the zero that ends it is a prefix.
    fn pattern(self, value: &[u8]) -> Pattern {
        match self {
            Self::Index => Pattern::Index(value.try_into().map_or(0, u32::from_ne_bytes)),
            Self::Name if value.contains(&0) => Pattern::Name(text_of(value)),
            Self::Name => Pattern::Prefix(text_of(value)),
        }
    }

    fn patterns(self, mut elements: Vec<Element>) -> Vec<Pattern> {
        if !elements.iter().any(|element| element.is_end) {
            return elements.iter().map(|element| self.pattern(&element.value)).collect();
        }
        elements.sort();
        let end_of = |first: usize| elements[first..].iter().find(|element| element.is_end);
        let begins = elements.iter().enumerate().filter(|(_, element)| !element.is_end);
        begins
            .map(|(first, element)| {
                // The last range may be open.
                let end = end_of(first).map_or([u8::MAX; IFNAMSIZ], |end| padded(&end.value));
                Pattern::Range(padded(&element.value), end)
            })
            .collect()
    }
}

/// A member of a set, or in a set of ranges the beginning of one, or its end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Element {
    value: Vec<u8>,
    is_end: bool,
}

struct Tables {
    socket: Socket,
}

impl Tables {
    fn dump(
        &mut self,
        action: &str,
        kind: u16,
        family: u8,
        attributes: Vec<DefaultNla>,
    ) -> Result<Vec<Message>, Error> {
        let message = Message { kind: NFNL_SUBSYS_NFTABLES << 8 | kind, family, attributes };
        self.socket.exchange(action, message, NLM_F_DUMP)
    }

    fn elements(&mut self, rule: &Rule, set: &str) -> Result<Vec<Element>, Error> {
        let text = |kind, text: &str| DefaultNla::new(kind, [text.as_bytes(), &[0]].concat());
        let which = vec![text(1, &rule.chain.table), text(2, set)];
        let answers = self.dump("list a set of the firewall", NFT_MSG_GETSETELEM, rule.family, which)?;
        let mut found = Vec::new();
        for answer in &answers {
            let list =
                bytes_of(&answer.attributes, 3).and_then(|bytes| parse(&bytes).ok()).unwrap_or_default();
            for element in list {
                let Ok(element) = parse(&value_of(&element)) else { continue };
                let key = bytes_of(&element, 1).and_then(|bytes| bytes_of(&parse(&bytes).ok()?, 1));
                // NFTA_SET_ELEM_FLAGS, NFT_SET_ELEM_INTERVAL_END.
                let flags = bytes_of(&element, 3).and_then(|bytes| be32(&bytes)).unwrap_or(0);
                found.extend(key.map(|value| Element { value, is_end: flags & 1 == 1 }));
            }
        }
        Ok(found)
    }
}

fn family_name(family: u8) -> String {
    match family {
        1 => "inet".to_owned(),
        2 => "ip".to_owned(),
        3 => "arp".to_owned(),
        NFPROTO_NETDEV => "netdev".to_owned(),
        7 => "bridge".to_owned(),
        10 => "ip6".to_owned(),
        other => other.to_string(),
    }
}

fn be32(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_be_bytes)
}

/// A message of nf_tables: `struct nfgenmsg` and attributes.
#[derive(Debug)]
struct Message {
    kind: u16,
    family: u8,
    attributes: Vec<DefaultNla>,
}

impl Message {
    fn text(&self, kind: u16) -> Option<String> {
        bytes_of(&self.attributes, kind).map(|bytes| text_of(&bytes))
    }
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        NFGENMSG_LEN + self.attributes.as_slice().buffer_len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        // Version and resource identifier are 0.
        buffer[..NFGENMSG_LEN].copy_from_slice(&[self.family, 0, 0, 0]);
        self.attributes.as_slice().emit(&mut buffer[NFGENMSG_LEN..]);
    }
}

impl NetlinkDeserializable for Message {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        let (generic, attributes) = payload
            .split_at_checked(NFGENMSG_LEN)
            .ok_or_else(|| DecodeError::from("a message of nf_tables is too short"))?;
        Ok(Self { kind: header.message_type, family: generic[0], attributes: parse(attributes)? })
    }
}

impl From<Message> for NetlinkPayload<Message> {
    fn from(message: Message) -> Self {
        Self::InnerMessage(message)
    }
}

#[cfg(test)]
mod tests {
    use super::{Element, Key, Pattern, Question};

    fn element(text: &str, is_end: bool) -> Element {
        Element { value: super::padded(text.as_bytes()).to_vec(), is_end }
    }

    #[test]
    fn a_set_of_ranges_is_what_lies_between_beginnings_and_ends() {
        // As `nft` sends `{ "lo", "swr*" }`: the single name is a range of one.
        let lo_end = Element { value: b"lo\0\0\0\0\0\0\0\0\0\0\0\0\0\x01".to_vec(), is_end: true };
        let elements = vec![
            element("sws", true),
            element("swr", false),
            lo_end,
            element("lo", false),
            element("", true),
        ];
        let question = Question::Device { patterns: Key::Name.patterns(elements), negated: false };
        for (name, is_in) in [
            ("lo", true),
            ("lo0", false),
            ("swr", true),
            ("swr3", true),
            ("sws", false),
            ("eth0", false),
            ("", false),
        ] {
            assert_eq!(question.matches(name, 0), Some(is_in), "{name}");
        }
        let open = Key::Name.patterns(vec![element("x", false), element("a", true)]);
        assert!(
            matches!(open[..], [Pattern::Range(..)])
                && open[0].matches("zz", 0)
                && !open[0].matches("eth0", 0)
        );
    }

    #[test]
    fn plain_sets_and_numbers() {
        assert_eq!(Key::Name.patterns(vec![element("eth0", false)]), [Pattern::Name("eth0".into())]);
        assert_eq!(Key::Name.pattern(b"eth"), Pattern::Prefix("eth".into()));
        assert_eq!(Key::Index.pattern(&7_u32.to_ne_bytes()), Pattern::Index(7));
        // What is no number is no device.
        assert_eq!(Key::Index.pattern(b"long enough"), Pattern::Index(0));
        assert_eq!(Key::Name.patterns(Vec::new()), []);
    }
}
