//! The side door's program (`side_door.bpf.c`): loading it, giving it sockets and devices, putting it into a network
//! namespace, reading its counters.
//!
//! It is independent of the classifier but for the service table, whose meaning the two share (`services.h`). Not here:
//! what is done with the datagrams.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, ProgramInput};

use crate::abi::SIDE_DOOR_DEVICES_MAX;
use crate::lists::SourceLists;
use crate::load::missing;
use crate::locals::Locals;
use crate::services::{enter_services, object_place, sum_of_cpus, write_services};
use crate::skeleton::side_door::{SideDoorSkel, SideDoorSkelBuilder};
use crate::{Error, Settings};

/// What became of look-ups for a service from a guarded device, in the order of `enum side_door_outcome`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideDoorCounters {
    /// The datagram went to our socket.
    pub assigned: u64,
    /// We had no socket of that family; the server got it.
    pub no_socket: u64,
    /// The kernel refused our socket, or another program had chosen one.
    pub refused: u64,
    /// The source is denied: the datagram went to a socket that nobody reads.
    pub denied: u64,
}

/// A family of addresses, each with a socket of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Slot 0.
    Ipv4,
    /// Slot 1.
    Ipv6,
}

/// The program in the kernel. It does nothing before it is attached.
pub struct SideDoor {
    skeleton: SideDoorSkel<'static>,
    locals: Locals,
}

impl std::fmt::Debug for SideDoor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SideDoor")
    }
}

/// The program in a network namespace. Dropping it takes the program out, as the end of the process does.
#[must_use = "dropping it closes the side door"]
pub struct SideDoorAttached {
    _link: Link,
}

impl std::fmt::Debug for SideDoorAttached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SideDoorAttached")
    }
}

impl SideDoor {
    /// Loads the program for the services of `settings` and the devices with these indexes; it looks into the classifier's
    /// `lists`. As for the classifier, the place of libbpf's object is never freed.
    ///
    /// # Errors
    ///
    /// [`Error::Settings`], [`Error::OutOfTable`] with too many devices, [`Error::NotPermitted`], [`Error::NoMemory`],
    /// [`Error::Kernel`].
    pub fn load(settings: &Settings, devices: &[u32], lists: &SourceLists) -> Result<Self, Error> {
        settings.check()?;
        if devices.len() > SIDE_DOOR_DEVICES_MAX {
            let (index, limit) = (devices.len(), SIDE_DOOR_DEVICES_MAX);
            return Err(Error::OutOfTable { what: "device number", index, limit });
        }
        let failed = |action: &str, error: &libbpf_rs::Error| Error::from_libbpf(action, error);
        let mut open = SideDoorSkelBuilder::default()
            .open(object_place())
            .map_err(|error| failed("opening the side door's program", &error))?;
        let [[denied_ipv4, denied_ipv6], [allowed_ipv4, allowed_ipv6]] = lists.descriptors();
        for (list, shared) in [
            (&mut open.maps.denied_ipv4, denied_ipv4),
            (&mut open.maps.denied_ipv6, denied_ipv6),
            (&mut open.maps.allowed_ipv4, allowed_ipv4),
            (&mut open.maps.allowed_ipv6, allowed_ipv6),
        ] {
            list.reuse_fd(shared).map_err(|error| failed("sharing a list of sources", &error))?;
        }
        let rodata = open.maps.rodata_data.as_deref_mut().ok_or_else(|| missing("read-only data"))?;
        write_services!(rodata, settings);
        let skeleton = open.load().map_err(|error| failed("loading the side door's program", &error))?;
        enter_services(&skeleton.maps.services, settings)?;
        for device in devices {
            let entered =
                skeleton.maps.side_door_devices.update(&device.to_ne_bytes(), &[0; 4], MapFlags::ANY);
            entered.map_err(|error| failed("entering a device at the side door", &error))?;
        }
        let mut door = Self { skeleton, locals: Locals::default() };
        door.change(settings)?;
        Ok(door)
    }

    /// Tells the running program which services are only watched: all of one, and its datagrams go on to the server; some
    /// classes of it, and nobody is denied. The rest of the settings must be as when it was loaded. It takes no privilege.
    ///
    /// # Errors
    ///
    /// [`Error::Kernel`] without memory mapping of BPF arrays, which loading needs, too.
    pub fn change(&mut self, settings: &Settings) -> Result<(), Error> {
        let data = self.skeleton.maps.data_watched_data.as_deref_mut();
        let watched = &mut data.ok_or_else(|| missing("watched services"))?.watched;
        (watched.all, watched.partly) = (settings.monitored, settings.monitored_partly);
        Ok(())
    }

    /// Says which addresses are the host's own: what comes from them goes on to the server.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfTable`] with too many addresses, or what the kernel says. The next call tries again.
    pub fn set_local_addresses(&mut self, addresses: BTreeSet<IpAddr>) -> Result<(), Error> {
        self.locals.set(&self.skeleton.maps.locals, addresses)
    }

    /// Makes this bound UDP socket the one of its family. When it is closed, the slot empties itself.
    ///
    /// # Errors
    ///
    /// What the kernel says about the socket.
    pub fn set_socket(&self, family: Family, socket: BorrowedFd<'_>) -> Result<(), Error> {
        let value = socket.as_raw_fd().to_ne_bytes();
        let slot = (family as u32).to_ne_bytes();
        let entered = self.skeleton.maps.side_door_sockets.update(&slot, &value, MapFlags::ANY);
        entered.map_err(|error| Error::from_libbpf("entering the side door's socket", &error))
    }

    /// Makes this bound UDP socket, which nobody reads, the one that datagrams of denied sources of its family end at. Without
    /// it they are refused by the kernel, which tells their senders so (ICMP port unreachable).
    ///
    /// # Errors
    ///
    /// What the kernel says about the socket.
    pub fn set_sink(&self, family: Family, socket: BorrowedFd<'_>) -> Result<(), Error> {
        let value = socket.as_raw_fd().to_ne_bytes();
        let slot = (SINKS + family as u32).to_ne_bytes();
        let entered = self.skeleton.maps.side_door_sockets.update(&slot, &value, MapFlags::ANY);
        entered.map_err(|error| Error::from_libbpf("entering the side door's sink", &error))
    }

    /// Opens the door: the kernel asks the program in the network namespace of the calling thread from now on.
    ///
    /// # Errors
    ///
    /// [`Error::NotPermitted`]; [`Error::Kernel`] if 64 programs are there already.
    pub fn attach(&self) -> Result<SideDoorAttached, Error> {
        let action = "attaching the side door to the network namespace";
        let namespace = File::open("/proc/thread-self/ns/net")
            .map_err(|source| Error::System { action: action.to_owned(), source })?;
        let link = self.skeleton.progs.side_door.attach_netns(namespace.as_raw_fd());
        let link = link.map_err(|error| Error::from_libbpf(action, &error))?;
        Ok(SideDoorAttached { _link: link })
    }

    /// A reader of the counters for another thread.
    ///
    /// # Errors
    ///
    /// No free descriptor.
    pub fn counter_reader(&self) -> Result<SideDoorCounterReader, Error> {
        let map = MapHandle::try_from(&self.skeleton.maps.side_door_counters)
            .map_err(|error| Error::from_libbpf("duplicating the side door's counters", &error))?;
        Ok(SideDoorCounterReader { map })
    }

    /// One look-up through the loaded program, as for a datagram from device 0: the kernel's test run has no other. The
    /// cookie (`SO_COOKIE`) of the socket that was chosen, or none.
    ///
    /// # Errors
    ///
    /// What the kernel says: addresses of two families are invalid.
    pub fn test_run(&self, source: SocketAddr, destination: SocketAddr) -> Result<Option<u64>, Error> {
        let mut context_in = context(source, destination);
        let mut context_out = [0; CONTEXT_LEN];
        let input = ProgramInput {
            context_in: Some(&mut context_in),
            context_out: Some(&mut context_out),
            ..Default::default()
        };
        let output = self.skeleton.progs.side_door.test_run(input);
        let output = output.map_err(|error| Error::from_libbpf("test run of the side door", &error))?;
        if output.return_value != SK_PASS {
            return Err(Error::TestRun(format!("the side door returned {}", output.return_value)));
        }
        let cookie = context_out.first_chunk().map_or(0, |cookie| u64::from_ne_bytes(*cookie));
        Ok((cookie != 0).then_some(cookie))
    }

    /// The descriptor of the program.
    #[must_use]
    pub fn program_fd(&self) -> BorrowedFd<'_> {
        self.skeleton.progs.side_door.as_fd()
    }
}

/// Reads the counters from any thread.
#[derive(Debug)]
pub struct SideDoorCounterReader {
    map: MapHandle,
}

impl SideDoorCounterReader {
    /// A snapshot, summed over CPUs.
    ///
    /// # Errors
    ///
    /// The kernel's refusal; there is no reason for one.
    pub fn read(&self) -> Result<SideDoorCounters, Error> {
        let [assigned, no_socket, refused, denied] = sum_of_cpus::<OUTCOMES>(&self.map, 0, "the side door")?;
        Ok(SideDoorCounters { assigned, no_socket, refused, denied })
    }
}

/// `SINK_IPV4`.
const SINKS: u32 = 2;
/// `SIDE_DOOR_OUTCOMES`.
const OUTCOMES: usize = 4;
/// The look-up goes on, with the chosen socket if there is one (linux/bpf.h).
const SK_PASS: u32 = 1;
/// Bytes of `struct bpf_sk_lookup` (linux/bpf.h).
const CONTEXT_LEN: usize = 72;
// Of <linux/socket.h> and <linux/in.h>.
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const IPPROTO_UDP: u32 = 17;

/// A `struct bpf_sk_lookup`: cookie, family, protocol, remote address (4, 16), remote port, local address (4, 16), local
/// port, device.
fn context(source: SocketAddr, destination: SocketAddr) -> [u8; CONTEXT_LEN] {
    let mut bytes = [0; CONTEXT_LEN];
    let family = if destination.is_ipv4() { AF_INET } else { AF_INET6 };
    bytes[8..12].copy_from_slice(&family.to_ne_bytes());
    bytes[12..16].copy_from_slice(&IPPROTO_UDP.to_ne_bytes());
    for (address, at) in [(source, 16), (destination, 40)] {
        match address {
            SocketAddr::V4(address) => bytes[at..at + 4].copy_from_slice(&address.ip().octets()),
            SocketAddr::V6(address) => bytes[at + 4..at + 20].copy_from_slice(&address.ip().octets()),
        }
    }
    bytes[36..38].copy_from_slice(&source.port().to_be_bytes());
    bytes[60..64].copy_from_slice(&u32::from(destination.port()).to_ne_bytes());
    bytes
}
