//! What the kernel counts for a device as a whole (`struct rtnl_link_stats64` in include/uapi/linux/if_link.h).

use netlink_packet_route::link::LinkAttribute;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Error;
use super::link::{Links, attribute};

/// Packets of the guarded interface since it was made, as the kernel counts them (`ip -s link`). Whether a driver counts
/// packets that an XDP program takes or drops among these is its own choice.
// As it stands in the status: the comments here are its documentation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Traffic {
    /// Good packets received.
    pub rx_packets: u64,
    /// Bytes of these.
    pub rx_bytes: u64,
    /// Bad packets received.
    pub rx_errors: u64,
    /// Packets that the kernel dropped on their way in.
    pub rx_dropped: u64,
    /// Packets that the device dropped for want of buffers.
    pub rx_missed: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes of these.
    pub tx_bytes: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
    /// Packets dropped on their way out.
    pub tx_dropped: u64,
}

impl Traffic {
    /// Asks for the device of that index; `None` if it is gone or its driver counts nothing.
    ///
    /// # Errors
    ///
    /// When the kernel does not answer.
    pub fn of(index: u32) -> Result<Option<Self>, Error> {
        let Some(link) = Links::open()?.by_index(index)? else { return Ok(None) };
        Ok(attribute(&link, |attribute| match attribute {
            LinkAttribute::Stats64(found) => Some(Self {
                rx_packets: found.rx_packets,
                rx_bytes: found.rx_bytes,
                rx_errors: found.rx_errors,
                rx_dropped: found.rx_dropped,
                rx_missed: found.rx_missed_errors,
                tx_packets: found.tx_packets,
                tx_bytes: found.tx_bytes,
                tx_errors: found.tx_errors,
                tx_dropped: found.tx_dropped,
            }),
            _ => None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::Traffic;
    use std::net::UdpSocket;

    #[test]
    fn a_packet_over_the_loopback_device_is_counted_on_both_sides() {
        // The loopback device has index 1 in every namespace.
        let before = Traffic::of(1).expect("an answer").expect("counters");
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("bind");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("bind");
        sender.send_to(&[0; 100], receiver.local_addr().expect("address")).expect("send");
        let after = Traffic::of(1).expect("an answer").expect("counters");
        assert!(after.rx_packets > before.rx_packets && after.tx_packets > before.tx_packets, "{after:?}");
        assert!(after.rx_bytes >= before.rx_bytes + 128, "{before:?} {after:?}");
    }

    #[test]
    fn a_device_that_is_not_there_has_none() {
        assert_eq!(Traffic::of(u32::MAX >> 1).expect("an answer"), None);
    }
}
