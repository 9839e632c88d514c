//! OPTIONS to the servers, to know one that has a socket and answers nothing: stopped, or stuck.
//!
//! A probe goes from a socket of the host to the service's address, as any program on the host would send it; it does not
//! come by the guarded interface, so nothing here sees it. Max-Forwards is 0: whoever gets it answers by itself
//! (RFC 3261 section 16.3). Any response is an answer. What is made of it: `overload::Silence`.
//!
//! Nothing is asked while the service's address is not the host's: it may have moved to another host, which would answer for
//! this one, or nobody would, and a healthy server would be down.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use anyhow::Context as _;
use overload::Silence;

use super::health::Judged;
use crate::config::{Config, HandoffKind};
use crate::local::LocalAddresses;

/// Answers read in one look; more wait for the next.
const ANSWERS_MAX: usize = 16;

/// The probes of all services that have them.
#[derive(Debug, Default)]
pub(super) struct Probes(Vec<Probe>);

#[derive(Debug)]
struct Probe {
    service: String,
    interface: String,
    /// Of the service; `None` is any.
    address: Option<IpAddr>,
    port: u16,
    /// While its address is one of the host's.
    way: Option<Way>,
    /// Why there is none, as it was said last.
    told: Option<String>,
    /// Of Call-ID and branches of this run.
    token: u64,
    number: u32,
    silence: Silence,
    lanes: Vec<Judged>,
}

/// A socket connected to the server's address.
#[derive(Debug)]
struct Way {
    socket: UdpSocket,
    from: SocketAddr,
    to: SocketAddr,
}

impl Probes {
    /// Those of each service with `server.probe_interval`; `lanes` are those of each service.
    pub(super) fn new(config: &Config, lanes: &[Vec<Judged>], now_ns: u64) -> Self {
        let mut probes = Vec::new();
        for ((name, service), lanes) in config.service.iter().zip(lanes) {
            if let (Some(interval), HandoffKind::Kernel, Some((address, port))) =
                (service.server.probe_interval, service.handoff, service.listen.0.first())
            {
                probes.push(Probe {
                    service: name.clone(),
                    interface: config.interface.clone(),
                    address: *address,
                    port: *port,
                    way: None,
                    told: None,
                    token: rand::random(),
                    number: 0,
                    silence: Silence::new(interval.nanos(), now_ns),
                    lanes: lanes.clone(),
                });
            }
        }
        Self(probes)
    }

    /// Reads answers, and sends what is due. `local` are the host's addresses.
    pub(super) fn look(&mut self, local: &LocalAddresses, now_ns: u64) {
        self.0.iter_mut().for_each(|probe| probe.look(local, now_ns));
    }
}

impl Probe {
    fn look(&mut self, local: &LocalAddresses, now_ns: u64) {
        self.find_way(local);
        if self.way.as_ref().is_some_and(Way::has_answer) {
            self.silence.answered();
        }
        let has_socket = self.lanes.iter().any(|lane| lane.counters.server_has_socket.get() > 0);
        if self.silence.probe_is_due(now_ns, has_socket && self.way.is_some())
            && let Some(way) = &self.way
        {
            self.number = self.number.wrapping_add(1);
            // One that cannot be sent is one that is not answered.
            let _unsent = way.socket.send(&request(way.from, way.to, self.token, self.number));
        }
        self.lanes.iter().for_each(|lane| lane.orders.silence(self.silence.is_silent()));
    }

    /// Only at an address of the host: elsewhere a probe would ask another host, such as the active one of a VRRP pair.
    fn find_way(&mut self, local: &LocalAddresses) {
        self.way.take_if(|way| !local.contains(way.to.ip()));
        if self.way.is_some() {
            return;
        }
        self.way = match self.open(local) {
            Ok(way) => {
                self.told = None;
                Some(way)
            }
            Err(error) => {
                let error = format!("{error:#}");
                if self.told.as_ref() != Some(&error) {
                    tracing::warn!(
                        service = self.service,
                        error,
                        "the server is not probed (server.probe_interval) until that has changed; all else goes on"
                    );
                    self.told = Some(error);
                }
                None
            }
        };
    }

    fn open(&self, local: &LocalAddresses) -> anyhow::Result<Way> {
        let interface = &self.interface;
        let address = match self.address {
            Some(address) => address,
            None => address_of(interface).with_context(|| format!("{interface} has no address to probe"))?,
        };
        anyhow::ensure!(local.contains(address), "{address} is no address of this host");
        Way::open(SocketAddr::new(address, self.port))
    }
}

impl Way {
    fn open(to: SocketAddr) -> anyhow::Result<Self> {
        let any = if to.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0_u16; 8]) };
        let socket = UdpSocket::bind((any, 0)).context("cannot open a socket for probes")?;
        socket.connect(to).with_context(|| format!("cannot reach {to}"))?;
        socket.set_nonblocking(true).context("cannot set up the socket for probes")?;
        let from = socket.local_addr().context("cannot set up the socket for probes")?;
        Ok(Self { socket, from, to })
    }

    /// Whether an answer has come. Takes all that wait, within reason.
    fn has_answer(&self) -> bool {
        let (mut answer, mut has_answer) = ([0; 16], false);
        for _ in 0..ANSWERS_MAX {
            match self.socket.recv(&mut answer) {
                Ok(len) => has_answer |= answer[..len].starts_with(b"SIP/2.0 "),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // The ICMP message to a probe when nobody was there.
                Err(_) => {}
            }
        }
        has_answer
    }
}

/// The first address of an interface, IPv4 before IPv6.
fn address_of(interface: &str) -> Option<IpAddr> {
    let addresses = nix::ifaddrs::getifaddrs().ok()?.filter(|entry| entry.interface_name == interface);
    let mut addresses: Vec<IpAddr> = addresses
        .filter_map(|entry| {
            let address = entry.address?;
            let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
        })
        .filter(|address| !matches!(address, IpAddr::V6(address) if address.is_unicast_link_local()))
        .collect();
    addresses.sort_by_key(IpAddr::is_ipv6);
    addresses.first().copied()
}

fn request(from: SocketAddr, to: SocketAddr, token: u64, number: u32) -> Vec<u8> {
    format!(
        "OPTIONS sip:{to} SIP/2.0\r\n\
         Via: SIP/2.0/UDP {from};rport;branch=z9hG4bK{token:x}.{number}\r\n\
         Max-Forwards: 0\r\n\
         From: <sip:sipweir@{from}>;tag={token:x}\r\n\
         To: <sip:{to}>\r\n\
         Call-ID: {token:x}.{number}@{from}\r\n\
         CSeq: {number} OPTIONS\r\n\
         Content-Length: 0\r\n\r\n"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use sip::{Class, Method};

    use super::{address_of, request};

    #[test]
    fn a_probe_is_a_request_outside_of_any_dialog() {
        for address in ["192.0.2.1:5060", "[2001:db8::1]:5060"] {
            let address = address.parse().expect("an address");
            let bytes = request(address, address, 0xabc, 7);
            let message = sip::classify(&bytes);
            assert_eq!((message.class, message.method), (Class::Original, Method::Options));
            let text = String::from_utf8(bytes).expect("text");
            assert!(text.contains("\r\nMax-Forwards: 0\r\n") && text.ends_with("\r\n\r\n"), "{text}");
        }
    }

    #[test]
    fn loopback_has_an_address_and_nothing_has_none() {
        assert_eq!(address_of("lo"), Some([127, 0, 0, 1].into()));
        assert_eq!(address_of("no such one"), None);
    }
}
