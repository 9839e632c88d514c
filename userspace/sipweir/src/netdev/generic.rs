//! Generic netlink: families that the kernel numbers at run time (`ethtool`, `netdev`), and messages that are a list of
//! attributes.
//!
//! Attributes are kept as bytes here; what they mean is the business of `ethtool` and `xdp_features`.

use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, Nla, NlasIterator, Parseable, ParseableParametrized,
};
use netlink_packet_generic::ctrl::nlas::GenlCtrlAttrs;
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};
use netlink_packet_generic::{GenlFamily, GenlHeader, GenlMessage};
use rustix::io::Errno;

use super::Error;
use super::netlink::{ANSWER_TIMEOUT, Socket};

/// A family of the calling thread's network namespace, ready to be asked.
#[derive(Debug)]
pub(super) struct Family {
    socket: Socket,
    number: u16,
    version: u8,
}

impl Family {
    /// Looks the family up; `None` if the kernel was built without.
    pub(super) fn open(name: &str, version: u8) -> Result<Option<Self>, Error> {
        let mut socket = Socket::open(Some(rustix::net::netlink::GENERIC), ANSWER_TIMEOUT)
            .map_err(|errno| Error::refused(&format!("open a netlink socket for {name}"), errno))?;
        let request = GenlMessage::from_payload(GenlCtrl {
            cmd: GenlCtrlCmd::GetFamily,
            nlas: vec![GenlCtrlAttrs::FamilyName(name.to_owned())],
        });
        let answers = match socket.exchange(&format!("look up the {name} family"), request, 0) {
            Err(error) if error.errno() == Some(Errno::NOENT) => return Ok(None),
            answers => answers?,
        };
        let number = answers.iter().flat_map(|answer| &answer.payload.nlas).find_map(|nla| match nla {
            GenlCtrlAttrs::FamilyId(id) => Some(*id),
            _ => None,
        });
        Ok(number.map(|number| Self { socket, number, version }))
    }

    /// The attributes of the first answer; `None` if the driver has no notion of what was asked for.
    pub(super) fn ask(
        &mut self,
        action: &str,
        command: u8,
        attributes: Vec<DefaultNla>,
    ) -> Result<Option<Attributes>, Error> {
        let message = Attributes { command, version: self.version, attributes };
        let mut request = GenlMessage::from_payload(message);
        request.set_resolved_family_id(self.number);
        match self.socket.exchange(action, request, 0) {
            Err(error) if error.errno() == Some(Errno::OPNOTSUPP) => Ok(None),
            answers => Ok(answers?.into_iter().next().map(|answer| answer.payload)),
        }
    }
}

/// A message, request and answer alike.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    command: u8,
    version: u8,
    attributes: Vec<DefaultNla>,
}

impl Attributes {
    /// The number with this attribute, if it is there and of that size.
    pub(super) fn number<const N: usize>(&self, kind: u16) -> Option<[u8; N]> {
        bytes_of(&self.attributes, kind)?.try_into().ok()
    }

    /// A 32-bit number.
    pub(super) fn u32(&self, kind: u16) -> Option<u32> {
        self.number(kind).map(u32::from_ne_bytes)
    }

    /// The attributes nested in this one; empty if it is not there.
    pub(super) fn nested(&self, kind: u16) -> Vec<DefaultNla> {
        bytes_of(&self.attributes, kind).map_or_else(Vec::new, |bytes| parse(&bytes).unwrap_or_default())
    }
}

/// The bytes of the first attribute of that kind.
pub(super) fn bytes_of(attributes: &[DefaultNla], kind: u16) -> Option<Vec<u8>> {
    attributes.iter().find(|attribute| attribute.kind() == kind).map(value_of)
}

/// The bytes of an attribute.
pub(super) fn value_of(attribute: &DefaultNla) -> Vec<u8> {
    let mut value = vec![0; attribute.value_len()];
    attribute.emit_value(&mut value);
    value
}

/// A list of attributes.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<DefaultNla>, DecodeError> {
    NlasIterator::new(bytes).map(|nla| DefaultNla::parse(&nla?)).collect()
}

/// A text attribute without the zero that ends it.
pub(super) fn text_of(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

impl GenlFamily for Attributes {
    /// Never asked for: the number is set on each message.
    fn family_name() -> &'static str {
        ""
    }

    fn command(&self) -> u8 {
        self.command
    }

    fn version(&self) -> u8 {
        self.version
    }
}

impl Emitable for Attributes {
    fn buffer_len(&self) -> usize {
        self.attributes.as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        self.attributes.as_slice().emit(buffer);
    }
}

impl ParseableParametrized<[u8], GenlHeader> for Attributes {
    fn parse_with_param(bytes: &[u8], header: GenlHeader) -> Result<Self, DecodeError> {
        Ok(Self { command: header.cmd, version: header.version, attributes: parse(bytes)? })
    }
}
