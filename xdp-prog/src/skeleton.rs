//! What `libbpf-cargo` generates from the compiled programs. Nothing here is written by hand.

#![allow(
    unsafe_code,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    let_underscore_drop,
    reason = "generated code"
)]
#![allow(clippy::all, clippy::pedantic, clippy::nursery, clippy::restriction, reason = "generated code")]

include!(concat!(env!("OUT_DIR"), "/classifier.skel.rs"));

/// The side door's.
pub(crate) mod side_door {
    include!(concat!(env!("OUT_DIR"), "/side_door.skel.rs"));
}

/// The yardstick's.
pub(crate) mod yardstick {
    include!(concat!(env!("OUT_DIR"), "/yardstick.skel.rs"));
}

/// Of what sees answers.
pub(crate) mod answers {
    include!(concat!(env!("OUT_DIR"), "/answers.skel.rs"));
}
