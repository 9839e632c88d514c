//! How many receive queues of a device are in use, from the kernel's ethtool family.
//!
//! The route family knows only how many queues a device *may* have (`IFLA_NUM_RX_QUEUES`); packets arrive on those
//! that are switched on, `ethtool -l` in the operator's words.

use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NLA_F_NESTED, Nla, NlasIterator, Parseable, ParseableParametrized,
};
use netlink_packet_generic::ctrl::nlas::GenlCtrlAttrs;
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};
use netlink_packet_generic::{GenlFamily, GenlHeader, GenlMessage};
use rustix::io::Errno;

use super::Error;
use super::netlink::{ANSWER_TIMEOUT, Socket};

// `linux/ethtool_netlink.h`.
const ETHTOOL_MSG_CHANNELS_GET: u8 = 17;
const ETHTOOL_GENL_VERSION: u8 = 1;
const ETHTOOL_A_HEADER_DEV_INDEX: u16 = 1;
const ETHTOOL_A_CHANNELS_HEADER: u16 = 1;
const ETHTOOL_A_CHANNELS_RX_COUNT: u16 = 6;
const ETHTOOL_A_CHANNELS_COMBINED_COUNT: u16 = 9;

/// The receive queues in use: combined channels and those for receiving alone. `None` if the driver has no notion of
/// channels, which means that the queues it was made with are all in use.
pub(super) fn rx_queues_in_use(index: u32) -> Result<Option<u32>, Error> {
    let action = "ask for the channels of the device";
    let mut socket = Socket::open(Some(rustix::net::netlink::GENERIC), ANSWER_TIMEOUT)
        .map_err(|errno| Error::refused("open a netlink socket for ethtool", errno))?;
    let Some(family) = ethtool_family(&mut socket)? else { return Ok(None) };

    let header = DefaultNla::new(ETHTOOL_A_HEADER_DEV_INDEX, index.to_ne_bytes().to_vec());
    let mut header_bytes = vec![0; header.buffer_len()];
    header.emit(&mut header_bytes);
    let attributes = vec![DefaultNla::new(ETHTOOL_A_CHANNELS_HEADER | NLA_F_NESTED, header_bytes)];
    let mut request = GenlMessage::from_payload(Channels { attributes });
    request.set_resolved_family_id(family);
    match socket.exchange(action, request, 0) {
        Err(error) if error.errno() == Some(Errno::OPNOTSUPP) => Ok(None),
        answers => Ok(answers?
            .first()
            .map(|answer| {
                answer.payload.count(ETHTOOL_A_CHANNELS_RX_COUNT)
                    + answer.payload.count(ETHTOOL_A_CHANNELS_COMBINED_COUNT)
            })
            .filter(|&queues| queues > 0)),
    }
}

/// The number that the kernel gave its ethtool family; `None` if it was built without.
fn ethtool_family(socket: &mut Socket) -> Result<Option<u16>, Error> {
    let request = GenlMessage::from_payload(GenlCtrl {
        cmd: GenlCtrlCmd::GetFamily,
        nlas: vec![GenlCtrlAttrs::FamilyName(Channels::family_name().to_owned())],
    });
    match socket.exchange("look up the ethtool family", request, 0) {
        Err(error) if error.errno() == Some(Errno::NOENT) => Ok(None),
        answers => {
            Ok(answers?.iter().flat_map(|answer| &answer.payload.nlas).find_map(
                |attribute| match attribute {
                    GenlCtrlAttrs::FamilyId(id) => Some(*id),
                    _ => None,
                },
            ))
        }
    }
}

/// The channels message, request and answer alike.
#[derive(Debug)]
struct Channels {
    attributes: Vec<DefaultNla>,
}

impl Channels {
    fn count(&self, kind: u16) -> u32 {
        self.attributes.iter().find(|attribute| attribute.kind() == kind).map_or(0, |attribute| {
            let mut value = [0; 4];
            if attribute.value_len() == value.len() {
                attribute.emit_value(&mut value);
            }
            u32::from_ne_bytes(value)
        })
    }
}

impl GenlFamily for Channels {
    fn family_name() -> &'static str {
        "ethtool"
    }

    fn command(&self) -> u8 {
        ETHTOOL_MSG_CHANNELS_GET
    }

    fn version(&self) -> u8 {
        ETHTOOL_GENL_VERSION
    }
}

impl Emitable for Channels {
    fn buffer_len(&self) -> usize {
        self.attributes.as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        self.attributes.as_slice().emit(buffer);
    }
}

impl ParseableParametrized<[u8], GenlHeader> for Channels {
    fn parse_with_param(bytes: &[u8], _header: GenlHeader) -> Result<Self, DecodeError> {
        let attributes =
            NlasIterator::new(bytes).map(|nla| DefaultNla::parse(&nla?)).collect::<Result<_, _>>()?;
        Ok(Self { attributes })
    }
}
