//! The hand-off pair: two ends of a veth by which a packet re-enters the kernel.
//!
//! ```text
//!   AF_XDP TX ──► swt<ifindex> ════ veth ════► swr<ifindex> ──► IP input ──► the server's socket
//!                 transmit end                 receive end
//! ```
//!
//! `<ifindex>` is that of the served device. Both ends live in the network namespace of the caller, which is the
//! server's. Settings that the kernel needs before it delivers such packets, and why:
//!
//! - **Reverse-path filter "loose" (2) on the receive end.** The source of a packet is routed by another device, so
//!   the strict filter would drop it. The kernel takes the larger of this value and `conf.all.rp_filter`, hence 2 and
//!   not 0: it wins over a strict (1) host.
//! - **An IPv4 address on the receive end.** With any reverse-path filter the kernel drops what arrives on a device
//!   without one (`__fib_validate_source`, `net/ipv4/fib_frontend.c`: the `no_addr` case). It is a /32 from the
//!   loopback network with scope host: never chosen as a source, never reachable from a wire, no route besides.
//! - **IPv6 on at the receive end, without addresses of its own**: no generated addresses, no router advertisements.
//!   At the transmit end IPv6 is off, so the pair carries nothing but handed-over packets.
//!
//! - **The largest MTU there is.** Datagrams that were put together from fragments are longer than any packet of the
//!   served device, and cross the pair in one piece.
//!
//! veth has no queueing discipline and, unless asked, no GRO. Nothing else is touched: `forwarding` and `accept_local`
//! keep what the host gives to new devices.
//!
//! What an operator may meet: a firewall sees handed-over packets arrive on `swr<ifindex>` (also an `rpfilter` rule
//! for IPv6); a server socket bound to a *device* does not receive them; link-local IPv6 destinations belong to one
//! device and cannot be handed over.

use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use netlink_packet_route::link::{
    AfSpecInet, AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InetDevConf, LinkAttribute, LinkFlags,
};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};

use super::link::{Links, alias_of, mac_of, name_of};
use super::sysctl::{prefer_setting, require_setting};
use super::{Error, Interface};

/// The most queues a device can be made with (`rtnl_create_link`, `net/core/rtnetlink.c`).
const QUEUES_MAX: u32 = 4096;

/// The largest MTU of a veth (`ETH_MAX_MTU`), in bytes. It costs nothing: buffers are as large as their packets. A
/// datagram of IPv6 can be 40 bytes longer and then cannot cross.
const MTU: u32 = 65_535;

/// How long both ends may take to come up. The kernel needs microseconds, and up to a second when its link watch is
/// throttled; lower would fail on a host whose devices flap.
const UP_TIMEOUT: Duration = Duration::from_secs(3);

/// How often the state is looked at meanwhile: short against what a person notices, long against a request (10 µs).
const UP_POLL: Duration = Duration::from_millis(1);

/// How long a claim that somebody holds is waited for: a janitor that removes the pair of an instance that has just died holds
/// it, and the kernel takes some tens of milliseconds for that, longer under load. Longer would only delay the message about
/// a second instance.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(2);

/// How often it is tried meanwhile.
const CLAIM_POLL: Duration = Duration::from_millis(5);

/// One end of the pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The device's name.
    pub name: String,
    /// The device's index.
    pub index: u32,
    /// The device's Ethernet address.
    pub mac: [u8; 6],
}

/// A hand-off pair that exists as long as this value.
#[derive(Debug)]
pub struct Handoff {
    transmit: Endpoint,
    receive: Endpoint,
    queues: u32,
    taken_over: bool,
    /// Of the namespace of the pair, so that removal works from any thread; `None` once removed.
    links: Option<Links>,
    /// Held while this process owns the pair; the kernel lets it go when the process dies, however it dies.
    claim: OwnedFd,
}

impl Handoff {
    /// Makes the pair for `nic` with `queues` queues per direction on each end, and waits until both ends are up.
    ///
    /// A pair that a crashed run left behind is deleted and made anew. A device that merely has the name is not
    /// touched.
    pub fn create(nic: &Interface, queues: u32) -> Result<Self, Error> {
        if !(1..=QUEUES_MAX).contains(&queues) {
            return Err(Error::Queues { queues, max: QUEUES_MAX });
        }
        let claim = claim(nic)?;
        let mut links = Links::open()?;
        let [transmit_name, receive_name] = [format!("swt{}", nic.index), format!("swr{}", nic.index)];
        let alias = alias_for(nic);

        let mut taken_over = false;
        for name in [&transmit_name, &receive_name] {
            if let Some(link) = links.by_name(name)? {
                if name_of(&link) != name || !alias_of(&link).starts_with(ALIAS_MARK) {
                    let alias = alias_of(&link).to_owned();
                    return Err(Error::ForeignDevice { name: name.clone(), alias });
                }
                links.delete(&format!("delete the left-over device {name}"), link.header.index)?;
                taken_over = true;
            }
        }

        links.create_veth([&transmit_name, &receive_name], MTU, queues)?;
        let ends = endpoint(&mut links, &transmit_name)
            .and_then(|transmit| Ok((transmit, endpoint(&mut links, &receive_name)?)));
        let (transmit, receive) = match ends {
            Ok(ends) => ends,
            Err(error) => {
                links.delete_by_name("delete the half-made hand-off pair", &transmit_name)?;
                return Err(error);
            }
        };
        // From here on, dropping the value removes the pair.
        let mut handoff = Self { transmit, receive, queues, taken_over, links: None, claim };
        let set_up = handoff.set_up(&mut links, &alias, nic.index);
        handoff.links = Some(links);
        set_up.map(|()| handoff)
    }

    /// The end that AF_XDP sends into.
    pub fn transmit(&self) -> &Endpoint {
        &self.transmit
    }

    /// The end from which the kernel takes packets in; its address is the destination of every frame.
    pub fn receive(&self) -> &Endpoint {
        &self.receive
    }

    /// The queues of each end, per direction.
    pub fn queues(&self) -> u32 {
        self.queues
    }

    /// Whether a left-over pair of an earlier run had to be deleted first.
    pub fn taken_over(&self) -> bool {
        self.taken_over
    }

    /// Deletes the pair and says what went wrong, which dropping the value cannot. A pair that is gone already is
    /// fine.
    pub fn remove(mut self) -> Result<(), Error> {
        self.delete()
    }

    /// Held while this process owns the pair. A process that is to remove it afterwards must hold it too, until it has.
    pub fn claim(&self) -> BorrowedFd<'_> {
        self.claim.as_fd()
    }

    /// Leaves the removal to another process: dropping the value does nothing any more.
    pub fn leave_removal(&mut self) {
        self.links = None;
    }

    /// Deletes the pair whose transmit end has that name, for the process that it was left to. A pair that is gone already is
    /// fine; a device that merely has the name is not touched.
    pub fn remove_left(transmit: &str) -> Result<(), Error> {
        let mut links = Links::open()?;
        match links.by_name(transmit)? {
            Some(link) if alias_of(&link).starts_with(ALIAS_MARK) => {
                links.delete(&format!("delete the hand-off device {transmit}"), link.header.index)
            }
            _ => Ok(()),
        }
    }

    /// What a crash leaves behind: the devices stay, the claim goes.
    #[cfg(test)]
    pub(super) fn crash(mut self) {
        self.links = None;
    }

    fn delete(&mut self) -> Result<(), Error> {
        match self.links.take() {
            Some(mut links) => links
                .delete(&format!("delete the hand-off device {}", self.transmit.name), self.transmit.index),
            None => Ok(()),
        }
    }

    fn set_up(&self, links: &mut Links, alias: &str, nic_index: u32) -> Result<(), Error> {
        let Self { transmit, receive, .. } = self;
        // The mark comes first: a run that dies in between leaves a pair that the next one may take over.
        for end in [transmit, receive] {
            let action = format!("mark the hand-off device {}", end.name);
            let mark = vec![LinkAttribute::IfAlias(alias.to_owned())];
            links.change(&action, end.index, mark, LinkFlags::empty())?;
        }

        let ipv6 = Path::new("/proc/sys/net/ipv6/conf").join(&receive.name).exists();
        let mut conf = InetDevConf::default();
        conf.rp_filter = RP_FILTER_LOOSE;
        let mut families = vec![AfSpecUnspec::Inet(vec![AfSpecInet::DevConfRequest(conf)])];
        if ipv6 {
            require_setting(&format!("net/ipv6/conf/{}/disable_ipv6", receive.name), "0")?;
            prefer_setting(&format!("net/ipv6/conf/{}/accept_ra", receive.name), "0");
            families.push(no_generated_addresses());
        }
        let action = format!("set up the hand-off device {}", receive.name);
        links.change(
            &action,
            receive.index,
            vec![LinkAttribute::AfSpecUnspec(families)],
            LinkFlags::empty(),
        )?;
        links.add_host_address(&action, receive.index, host_address(nic_index))?;

        let action = format!("set up the hand-off device {}", transmit.name);
        if ipv6 {
            let families = vec![no_generated_addresses()];
            links.change(
                &action,
                transmit.index,
                vec![LinkAttribute::AfSpecUnspec(families)],
                LinkFlags::empty(),
            )?;
            prefer_setting(&format!("net/ipv6/conf/{}/disable_ipv6", transmit.name), "1");
        }
        links.change(&action, transmit.index, Vec::new(), LinkFlags::Noarp)?;

        for end in [receive, transmit] {
            links.change(&format!("set {} up", end.name), end.index, Vec::new(), LinkFlags::Up)?;
        }
        for end in [receive, transmit] {
            wait_until_up(links, end)?;
        }
        Ok(())
    }
}

impl Drop for Handoff {
    fn drop(&mut self) {
        if let Err(error) = self.delete() {
            tracing::warn!(%error, device = %self.transmit.name, "the hand-off pair stays behind");
        }
    }
}

/// `rp_filter`: any device may have a route to the source (`Documentation/networking/ip-sysctl.rst`).
const RP_FILTER_LOOSE: i32 = 2;

/// How the alias of every hand-off device begins, whatever it was made for.
const ALIAS_MARK: &str = "sipweir hand-off for ";

fn alias_for(nic: &Interface) -> String {
    format!("{ALIAS_MARK}{}", nic.name)
}

/// The receive end's own IPv4 address, distinct for the first 65,536 device indexes; two ends with the same one would
/// not harm each other.
fn host_address(nic_index: u32) -> Ipv4Addr {
    let [_, _, high, low] = nic_index.to_be_bytes();
    Ipv4Addr::new(127, 83, high, low)
}

/// Claims the hand-off of `nic` for this process. Abstract names are per network namespace, as device indexes are.
fn claim(nic: &Interface) -> Result<OwnedFd, Error> {
    let action = "claim the hand-off";
    let refused = |errno| Error::refused(action, errno);
    let name = SocketAddrUnix::new_abstract_name(format!("sipweir/handoff/{}", nic.index).as_bytes())
        .map_err(refused)?;
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None).map_err(refused)?;
    let deadline = Instant::now() + CLAIM_TIMEOUT;
    loop {
        match bind(&socket, &name) {
            Ok(()) => return Ok(socket),
            Err(Errno::ADDRINUSE) if Instant::now() < deadline => thread::sleep(CLAIM_POLL),
            Err(Errno::ADDRINUSE) => return Err(Error::InUse { nic: nic.name.clone() }),
            Err(errno) => return Err(refused(errno)),
        }
    }
}

fn endpoint(links: &mut Links, name: &str) -> Result<Endpoint, Error> {
    let action = format!("look up the hand-off device {name}");
    let link = links.by_name(name)?.ok_or_else(|| Error::refused(&action, Errno::NODEV))?;
    let mac = mac_of(&link).ok_or_else(|| Error::NotEthernet { name: name.to_owned() })?;
    Ok(Endpoint { name: name.to_owned(), index: link.header.index, mac })
}

fn no_generated_addresses() -> AfSpecUnspec {
    AfSpecUnspec::Inet6(vec![AfSpecInet6::AddrGenMode(In6AddrGenMode::None)])
}

fn wait_until_up(links: &mut Links, end: &Endpoint) -> Result<(), Error> {
    let ready = LinkFlags::Up | LinkFlags::LowerUp | LinkFlags::Running;
    let deadline = Instant::now() + UP_TIMEOUT;
    loop {
        if links.by_index(end.index)?.is_some_and(|link| link.header.flags.contains(ready)) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let waited_ms = u64::try_from(UP_TIMEOUT.as_millis()).unwrap_or(u64::MAX);
            return Err(Error::NotUp { name: end.name.clone(), waited_ms });
        }
        thread::sleep(UP_POLL);
    }
}
