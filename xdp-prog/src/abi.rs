//! Sizes that `abi.h` fixes for both sides. `tests/abi.rs` compares them with the header.

/// Room for classes in the counters.
pub const CLASSES: usize = 16;
/// Room for verdicts in the counters.
pub const VERDICTS: usize = 6;
/// Room for reasons in the counters.
pub const REASONS: usize = 40;
/// Rings of a NIC queue; also the verdicts that name one.
pub const RINGS: usize = 4;
/// Services that one program guards.
pub const SERVICES_MAX: usize = 64;
/// NIC queues that one program serves.
pub const QUEUES_MAX: usize = 64;
/// Devices whose datagrams come by the side door.
pub const SIDE_DOOR_DEVICES_MAX: usize = 4096;
/// Addresses of the host that a program knows.
pub const LOCALS_MAX: usize = 16_384;

/// Slots of a bucket of the transaction table, each a 64-bit word.
pub const SLOTS: usize = 8;

/// Words of a service and queue in the counts of what is watched: originals that the gate admits, control, all.
pub const ARRIVAL_WORDS: usize = 4;

/// The verdict of a packet that goes to the kernel.
pub const VERDICT_PASS: u8 = 4;
/// The verdict of a packet that goes nowhere.
pub const VERDICT_DROP: u8 = 5;
/// Classes below this one belong to a ring, and never to the kernel unless metadata was impossible.
pub const CLASS_FRAGMENT: u8 = 12;
/// The packet was only watched.
pub const REASON_MONITORED: u8 = 36;
