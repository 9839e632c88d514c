//! One system call that `libbpf-rs` 0.25 does not offer: a BPF link on an interface in a *chosen* XDP mode
//! (`Program::attach_xdp` passes no flags, and `Xdp::attach` makes no link, so that its program outlives a crash).
//!
//! The only hand-written unsafe code of this crate; nothing else belongs here.

#![allow(unsafe_code, reason = "bpf_link_create has no safe wrapper with flags")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys;

/// Creates the link. The program leaves the interface when the descriptor is closed, at the latest with the process.
pub(crate) fn create_xdp_link(program: BorrowedFd<'_>, ifindex: i32, mode_flags: u32) -> io::Result<OwnedFd> {
    let opts = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        flags: mode_flags,
        ..Default::default()
    };
    // SAFETY: `program` is open for the length of the call, and `opts` is initialised, says its own size, holds no
    // pointers and outlives the call, which only reads it.
    let fd = unsafe {
        libbpf_sys::bpf_link_create(program.as_raw_fd(), ifindex, libbpf_sys::BPF_XDP, &raw const opts)
    };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the call made this descriptor for us, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
