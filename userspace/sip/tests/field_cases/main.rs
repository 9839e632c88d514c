//! SIP over UDP as it really arrives: one test for each kind of report from people who run servers.
//!
//! The chapters group the cases as the project's list of field reports does, and the tests carry its numbers. Inputs are
//! of our own making. Not here: what takes a worker, a table or a whole system to see (`userspace/sipweir/tests`,
//! `tests/`).
//!
//! `xdp-prog/tests/field_cases.rs` compiles the same chapters with another `judge`, which asks the program in the kernel
//! too.

mod chapters;

/// Who is asked what a datagram or a packet is: here user space alone.
mod judge {
    use sip::{Class, Datagram, Message, Reason};

    pub(crate) fn classify(datagram: &[u8]) -> Message {
        sip::classify(datagram)
    }

    pub(crate) fn parse(packet: &[u8]) -> Result<Datagram, (Class, Reason)> {
        let services = crate::chapters::services();
        sip::parse_packet(packet, &services, 2048).map(|(datagram, _service)| datagram)
    }
}
