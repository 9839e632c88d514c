//! A netlink socket that talks to the kernel alone, blocks for a bounded time, and needs no runtime.
//!
//! The bytes of the messages are the business of the callers: the `netlink-packet-*` crates for set-up, by hand where
//! nothing may be allocated (`sock_diag`).

use std::os::fd::OwnedFd;
use std::time::Duration;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader, NetlinkMessage,
    NetlinkPayload, NetlinkSerializable,
};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with,
};

use super::Error;

/// How long one answer is waited for during set-up. The kernel answers inside the `send` call, or holds the RTNL lock meanwhile:
/// lower would fail on a host where many devices are being created, higher only delays the message about it.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Room for one read. The kernel fills at most 32 KiB per read of a dump (`net/netlink/af_netlink.c`); a smaller
/// buffer makes dumps take more reads, and single messages above it unreadable.
pub(crate) const READ_LEN: usize = 32 * 1024;

/// One connected netlink socket of the network namespace in which it was opened.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    sequence: u32,
}

impl Socket {
    /// Opens a socket of the netlink family `protocol` (`None`: route), on which every answer is waited for at most
    /// `timeout`.
    pub(crate) fn open(protocol: Option<Protocol>, timeout: Duration) -> Result<Self, Errno> {
        let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        set_socket_timeout(&fd, Timeout::Recv, Some(timeout))?;
        set_socket_timeout(&fd, Timeout::Send, Some(timeout))?;
        // Connected to port 0, the kernel: no other process can put messages into this socket.
        connect(&fd, &SocketAddrNetlink::new(0, 0))?;
        Ok(Self { fd, sequence: 0 })
    }

    /// A sequence number that marks the answers to the next request.
    pub(crate) fn next_sequence(&mut self) -> u32 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    /// Sends one request.
    pub(crate) fn send(&self, request: &[u8]) -> Result<(), Errno> {
        loop {
            match send(&self.fd, request, SendFlags::empty()) {
                Err(Errno::INTR) => {}
                sent => return sent.map(|_| ()),
            }
        }
    }

    /// Receives what the kernel has to say, at most once per call; `AGAIN` when it says nothing in time, `MSGSIZE`
    /// when it does not fit.
    pub(crate) fn receive<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b [u8], Errno> {
        let received_len = loop {
            match recv(&self.fd, &mut *buffer, RecvFlags::TRUNC) {
                Err(Errno::INTR) => {}
                received => break received?.1,
            }
        };
        buffer.get(..received_len).ok_or(Errno::MSGSIZE)
    }

    /// One request and all answers to it, up to the acknowledgement or the end of the dump.
    pub(super) fn exchange<M>(&mut self, action: &str, message: M, flags: u16) -> Result<Vec<M>, Error>
    where
        M: NetlinkSerializable + NetlinkDeserializable,
        NetlinkPayload<M>: From<M>,
    {
        let sequence = self.next_sequence();
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags | if flags & NLM_F_DUMP == NLM_F_DUMP { 0 } else { NLM_F_ACK };
        header.sequence_number = sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::from(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.send(&bytes).map_err(|errno| Error::refused(action, errno))?;

        let mut answers = Vec::new();
        let mut buffer = vec![0; READ_LEN];
        loop {
            let mut rest = self.receive(&mut buffer).map_err(|errno| Error::refused(action, errno))?;
            while !rest.is_empty() {
                let answer = NetlinkMessage::<M>::deserialize(rest)
                    .map_err(|source| Error::Unreadable { action: action.to_owned(), source })?;
                let padded_len = (answer.header.length as usize).next_multiple_of(4).max(NLMSG_HEADER_LEN);
                rest = rest.get(padded_len..).unwrap_or_default();
                if answer.header.sequence_number != sequence {
                    continue; // the late answer to a request that was given up
                }
                match answer.payload {
                    NetlinkPayload::InnerMessage(inner) => answers.push(inner),
                    NetlinkPayload::Done(done) if done.code < 0 => {
                        return Err(Error::refused(action, Errno::from_raw_os_error(-done.code)));
                    }
                    NetlinkPayload::Done(_) => return Ok(answers),
                    NetlinkPayload::Error(error) => {
                        return match error.code {
                            None => Ok(answers),
                            Some(code) => Err(Error::refused(action, Errno::from_raw_os_error(-code.get()))),
                        };
                    }
                    _ => {}
                }
            }
        }
    }
}

/// Length of `struct nlmsghdr` (`linux/netlink.h`).
pub(crate) const NLMSG_HEADER_LEN: usize = 16;
