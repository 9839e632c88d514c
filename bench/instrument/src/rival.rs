//! What sipweir is compared with: the least that the kernel can do with a packet, and what would run instead.
//!
//! Each rival is as thin as it can be and still count. None classifies, none answers in another's name, none keeps an
//! order: they mark what is possible, not what would do.

pub(crate) mod forward;
pub(crate) mod programs;
pub(crate) mod receiver;
pub(crate) mod socket;
pub(crate) mod tap;
pub(crate) mod thread;
