//! One system call that `libbpf-rs` 0.25 does not offer: a BPF link on an interface, in a *chosen* XDP mode
//! (`Program::attach_xdp` passes no flags, and `Xdp::attach` makes no link, so that its program outlives a crash) or on its
//! way out (TCX, Linux 6.6).
//!
//! The only hand-written unsafe code of this crate; nothing else belongs here.

#![allow(unsafe_code, reason = "bpf_link_create has no safe wrapper with flags")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys;

/// Creates a link of an XDP program.
pub(crate) fn create_xdp_link(program: BorrowedFd<'_>, ifindex: i32, mode_flags: u32) -> io::Result<OwnedFd> {
    create(program, ifindex, libbpf_sys::BPF_XDP, mode_flags)
}

/// Creates a link of a traffic-control program that sees what leaves, behind all that are there. Before Linux 6.6 the
/// kernel says `EINVAL`.
pub(crate) fn create_egress_link(program: BorrowedFd<'_>, ifindex: i32) -> io::Result<OwnedFd> {
    create(program, ifindex, libbpf_sys::BPF_TCX_EGRESS, 0)
}

/// Creates the link. The program leaves the interface when the descriptor is closed, at the latest with the process.
fn create(program: BorrowedFd<'_>, ifindex: i32, kind: u32, flags: u32) -> io::Result<OwnedFd> {
    let opts = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        flags,
        ..Default::default()
    };
    // SAFETY: `program` is open for the length of the call, and `opts` is initialised, says its own size, holds no
    // pointers and outlives the call, which only reads it.
    let fd = unsafe { libbpf_sys::bpf_link_create(program.as_raw_fd(), ifindex, kind, &raw const opts) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the call made this descriptor for us, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
