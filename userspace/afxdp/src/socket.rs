//! Setting up AF_XDP sockets: one function a system call, and the order in which they must come.
//!
//! A NIC queue: the first socket registers the UMEM, creates the fill, completion, RX and TX rings, and binds
//! with the mode. The other three create an RX ring only and bind with `XDP_SHARED_UMEM` and the first one's
//! descriptor. A second device has fill and completion rings of its own (the kernel wants one pair for each
//! device and queue, even if nothing is ever received) and a TX ring, and binds the same way. Source:
//! `xsk_bind` in the kernel's `net/xdp/xsk.c`, `xp_assign_dev_shared` in `net/xdp/xsk_buff_pool.c`, and
//! `Documentation/networking/af_xdp.rst`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpOptionsFlags, XdpRingOffset, XdpUmemReg,
    XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, netdevice, socket_with};

use crate::config::{BusyPollConfig, CopyMode};
use crate::error::Error;
use crate::mapping::Mapping;
use crate::ring::{Consumer, Descriptor, Entry, Producer, RingLayout};
use crate::umem::Umem;

/// Pause between two attempts to bind to a busy queue. Shorter only burns CPU at start; longer delays a
/// restart.
const BUSY_RETRY_PAUSE: Duration = Duration::from_millis(10);

/// Entries of the fill ring of an egress port, which stays empty.
const EGRESS_FILL_RING_SIZE: u32 = 1;

/// A device and one of its queues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) ifindex: u32,
    pub(crate) queue: u32,
}

impl Target {
    /// An error about this queue.
    fn failed(self, action: &'static str) -> impl Fn(Errno) -> Error {
        move |source| Error::Kernel { action, device: self.device(), queue: self.queue, source }
    }

    /// Name and index of the device, for messages.
    fn device(self) -> String {
        let name = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
            .and_then(|fd| netdevice::index_to_name(&fd, self.ifindex));
        match name {
            Ok(name) => format!("{name} (ifindex {})", self.ifindex),
            Err(_) => format!("the device with ifindex {}", self.ifindex),
        }
    }
}

/// What the kernel counts for one socket (`struct xdp_statistics`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SocketStatistics {
    /// Packets dropped because no frame was in the fill ring, or because they were longer than a frame.
    pub rx_dropped: u64,
    /// Invalid addresses in the fill ring.
    pub rx_invalid_descs: u64,
    /// Invalid descriptors in the TX ring; such frames never come back.
    pub tx_invalid_descs: u64,
    /// Packets dropped because the RX ring was full.
    pub rx_ring_full: u64,
    /// How often the fill ring was found empty. Kept by the kernel for the *queue*: all sockets of a queue
    /// report the same number, so it must not be added up. More than zero means that the rings are not
    /// isolated from each other.
    pub rx_fill_ring_empty_descs: u64,
    /// How often the TX ring was found empty; not a loss.
    pub tx_ring_empty_descs: u64,
}

/// The first socket of a queue, before anything is set on it.
pub(crate) fn open() -> Result<OwnedFd, Error> {
    socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None).map_err(
        |source| match source {
            Errno::PERM | Errno::ACCESS => Error::Permission { source },
            _ => Error::NoAfXdp { source },
        },
    )
}

/// Registers the UMEM: from here on the kernel pins its pages.
pub(crate) fn register(fd: BorrowedFd<'_>, umem: &Umem, target: Target) -> Result<(), Error> {
    let config = umem.config();
    let registration = XdpUmemReg {
        addr: umem.memory().address(),
        len: config.bytes(),
        chunk_size: config.frame_size,
        headroom: config.headroom,
        flags: XdpUmemRegFlags::empty(),
        tx_metadata_len: 0,
    };
    sockopt::set_xdp_umem_reg(fd, registration).map_err(|errno| match errno {
        Errno::NOBUFS => Error::LockedMemory { bytes: config.bytes() },
        Errno::NOMEM => Error::Memory { bytes: config.bytes(), source: errno },
        _ => target.failed("registering the UMEM")(errno),
    })
}

/// Fill and completion rings of a device and queue.
pub(crate) fn fill_and_completion(
    fd: BorrowedFd<'_>,
    fill_size: u32,
    completion_size: u32,
    target: Target,
) -> Result<(Producer<u64>, Consumer<u64>), Error> {
    sockopt::set_xdp_umem_fill_ring_size(fd, fill_size).map_err(target.failed("creating the fill ring"))?;
    sockopt::set_xdp_umem_completion_ring_size(fd, completion_size)
        .map_err(target.failed("creating the completion ring"))?;
    let offsets = sockopt::xdp_mmap_offsets(fd).map_err(target.failed("asking for ring offsets"))?;
    let (mapping, layout) = map::<u64>(fd, &offsets.fr, fill_size, XDP_UMEM_PGOFF_FILL_RING)
        .map_err(target.failed("mapping the fill ring"))?;
    // SAFETY: the ring was just created by this function and the kernel has the consuming end.
    let fill = unsafe { Producer::new(mapping, layout, fill_size) };
    let (mapping, layout) = map::<u64>(fd, &offsets.cr, completion_size, XDP_UMEM_PGOFF_COMPLETION_RING)
        .map_err(target.failed("mapping the completion ring"))?;
    // SAFETY: the ring was just created by this function and the kernel has the producing end.
    let completion = unsafe { Consumer::new(mapping, layout, completion_size) };
    fill.zip(completion).ok_or_else(|| target.failed("laying out the rings")(Errno::RANGE))
}

/// As [`fill_and_completion`] for a device that only sends. The fill ring must exist and is left alone.
pub(crate) fn completion_only(fd: BorrowedFd<'_>, size: u32, target: Target) -> Result<Consumer<u64>, Error> {
    let (_fill, completion) = fill_and_completion(fd, EGRESS_FILL_RING_SIZE, size, target)?;
    Ok(completion)
}

/// The RX ring of a socket.
pub(crate) fn rx_ring(fd: BorrowedFd<'_>, size: u32, target: Target) -> Result<Consumer<Descriptor>, Error> {
    sockopt::set_xdp_rx_ring_size(fd, size).map_err(target.failed("creating an RX ring"))?;
    let offsets = sockopt::xdp_mmap_offsets(fd).map_err(target.failed("asking for ring offsets"))?;
    let (mapping, layout) = map::<Descriptor>(fd, &offsets.rx, size, XDP_PGOFF_RX_RING)
        .map_err(target.failed("mapping an RX ring"))?;
    // SAFETY: the ring was just created by this function and the kernel has the producing end.
    let ring = unsafe { Consumer::new(mapping, layout, size) };
    ring.ok_or_else(|| target.failed("laying out an RX ring")(Errno::RANGE))
}

/// The TX ring of a socket.
pub(crate) fn tx_ring(fd: BorrowedFd<'_>, size: u32, target: Target) -> Result<Producer<Descriptor>, Error> {
    sockopt::set_xdp_tx_ring_size(fd, size).map_err(target.failed("creating a TX ring"))?;
    let offsets = sockopt::xdp_mmap_offsets(fd).map_err(target.failed("asking for ring offsets"))?;
    let (mapping, layout) = map::<Descriptor>(fd, &offsets.tx, size, XDP_PGOFF_TX_RING)
        .map_err(target.failed("mapping a TX ring"))?;
    // SAFETY: the ring was just created by this function and the kernel has the consuming end.
    let ring = unsafe { Producer::new(mapping, layout, size) };
    ring.ok_or_else(|| target.failed("laying out a TX ring")(Errno::RANGE))
}

fn map<T: Entry>(
    fd: BorrowedFd<'_>,
    offset: &XdpRingOffset,
    size: u32,
    page_offset: u64,
) -> Result<(Arc<Mapping>, RingLayout), Errno> {
    let layout = RingLayout {
        producer: offset.producer as usize,
        consumer: offset.consumer as usize,
        flags: offset.flags.map(|flags| flags as usize),
        entries: offset.desc as usize,
    };
    let mapping = Mapping::of_fd(fd, layout.len::<T>(size), page_offset)?;
    Ok((Arc::new(mapping), layout))
}

/// Binds the first socket of a queue.
pub(crate) fn bind_first(
    fd: BorrowedFd<'_>,
    target: Target,
    copy_mode: CopyMode,
    need_wakeup: bool,
    busy_retry: Duration,
) -> Result<(), Error> {
    let mut flags = match copy_mode {
        CopyMode::Copy => SocketAddrXdpFlags::XDP_COPY,
        CopyMode::ZeroCopy => SocketAddrXdpFlags::XDP_ZEROCOPY,
    };
    if need_wakeup {
        flags |= SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
    }
    let address = SocketAddrXdp::new(flags, target.ifindex, target.queue);
    while_busy(busy_retry, || bind(fd, &address)).map_err(|(errno, waited)| match errno {
        Errno::OPNOTSUPP => Error::NoZeroCopy { device: target.device(), queue: target.queue },
        _ => bind_error(target, errno, waited),
    })
}

/// Binds a further socket to the frames of `first`. The mode is inherited, and the kernel refuses to be told
/// again.
pub(crate) fn bind_shared(
    fd: BorrowedFd<'_>,
    target: Target,
    first: BorrowedFd<'_>,
    busy_retry: Duration,
) -> Result<(), Error> {
    let addr = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_SHARED_UMEM, target.ifindex, target.queue);
    let address = SocketAddrXdpWithSharedUmem { addr, shared_umem_fd: first };
    while_busy(busy_retry, || bind(fd, &address)).map_err(|(errno, waited)| match errno {
        Errno::OPNOTSUPP => Error::EgressNeedsCopy { device: target.device() },
        _ => bind_error(target, errno, waited),
    })
}

fn bind_error(target: Target, errno: Errno, waited: Duration) -> Error {
    let device = target.device();
    match errno {
        Errno::NODEV => Error::NoDevice { device },
        // The only EINVAL left when sizes are checked and the order is right.
        Errno::INVAL => Error::NoQueue { device, queue: target.queue },
        Errno::BUSY => Error::QueueBusy { device, queue: target.queue, waited_ms: waited.as_millis() as u64 },
        _ => target.failed("binding")(errno),
    }
}

/// Tries again while the kernel says EBUSY: it takes a closed socket off its queue some time after `close`.
fn while_busy(limit: Duration, attempt: impl Fn() -> Result<(), Errno>) -> Result<(), (Errno, Duration)> {
    let start = Instant::now();
    loop {
        match attempt() {
            Ok(()) => return Ok(()),
            Err(Errno::BUSY) if start.elapsed() < limit => std::thread::sleep(BUSY_RETRY_PAUSE),
            Err(errno) => return Err((errno, start.elapsed())),
        }
    }
}

/// Room in the socket for packets that the NIC has not sent yet. In copy mode each is a kernel buffer, and
/// the usual limit of 208 KiB stops at some 90 packets. Without CAP_NET_ADMIN the limit stays as it is, and
/// sending pauses earlier.
pub(crate) fn widen_send_buffer(fd: BorrowedFd<'_>, tx_ring_size: u32, frame_size: u32) {
    let bytes = tx_ring_size as usize * (frame_size as usize + 1024);
    let _ = sockopt::set_socket_send_buffer_size_force(fd, bytes);
}

/// The mode that a bound socket has.
pub(crate) fn copy_mode(fd: BorrowedFd<'_>, target: Target) -> Result<CopyMode, Error> {
    let options = sockopt::xdp_options(fd).map_err(target.failed("asking for the mode"))?;
    let zero_copy = options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY);
    Ok(if zero_copy { CopyMode::ZeroCopy } else { CopyMode::Copy })
}

/// Asks for preferred busy polling. `false` if the kernel doesn't let us.
pub(crate) fn prefer_busy_poll(fd: BorrowedFd<'_>, config: BusyPollConfig) -> bool {
    let set = |name, value: u32| set_option(fd, name, i32::try_from(value).unwrap_or(i32::MAX));
    set(libc::SO_PREFER_BUSY_POLL, 1)
        .and_then(|()| set(libc::SO_BUSY_POLL, config.time_us))
        .and_then(|()| set(libc::SO_BUSY_POLL_BUDGET, config.budget))
        .is_ok()
}

/// The NAPI instance that busy polling would drive; 0 if there is none, or no packet has told the socket yet.
pub(crate) fn napi_id(fd: BorrowedFd<'_>) -> Result<u32, Errno> {
    let mut value: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `value` and `len` are live, and `len` is the size of `value`.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_INCOMING_NAPI_ID,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    if result == 0 { Ok(value.cast_unsigned()) } else { Err(last_errno()) }
}

fn set_option(fd: BorrowedFd<'_>, name: libc::c_int, value: libc::c_int) -> Result<(), Errno> {
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `value` is live and `len` is its size.
    let result =
        unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, name, (&raw const value).cast(), len) };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// The kernel's counters for a socket. What an older kernel doesn't count is zero.
pub(crate) fn statistics(fd: BorrowedFd<'_>) -> Result<SocketStatistics, Errno> {
    let counted = sockopt::xdp_statistics(fd.as_fd())?;
    Ok(SocketStatistics {
        rx_dropped: counted.rx_dropped,
        rx_invalid_descs: counted.rx_invalid_descs,
        tx_invalid_descs: counted.tx_invalid_descs,
        rx_ring_full: counted.rx_ring_full.unwrap_or(0),
        rx_fill_ring_empty_descs: counted.rx_fill_ring_empty_descs.unwrap_or(0),
        tx_ring_empty_descs: counted.tx_ring_empty_descs.unwrap_or(0),
    })
}
