//! The 32 bytes in front of a redirected packet (`struct packet_meta` in `abi.h`), decoded.

/// What the program learned about a packet. Offsets count from the first byte of its Ethernet header; numbers of
/// enums are those of `abi.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Meta {
    /// Nanoseconds of `CLOCK_MONOTONIC` at the program's run.
    pub arrival_ns: u64,
    /// Keyed hash of source address, service and datagram; 0 if it was not computed.
    pub txn_hash: u64,
    /// First byte of the datagram.
    pub payload_offset: u16,
    /// Bytes of the datagram.
    pub payload_len: u16,
    /// Bytes of the start line without its end; 0 if it was not found.
    pub start_line_len: u16,
    /// First byte of the marker, its space or semicolon; 0 if there is none.
    pub marker_offset: u16,
    /// `enum packet_class`.
    pub class: u8,
    /// `enum reason`.
    pub reason: u8,
    /// `enum method`.
    pub method: u8,
    /// `enum marker_form`.
    pub marker_form: u8,
    /// N of `rtx=N`.
    pub marker_copy: u8,
    /// Bytes of the marker.
    pub marker_len: u8,
    /// Index of the service in [`crate::Settings::services`].
    pub service: u8,
}

impl Meta {
    /// Bytes in front of the packet.
    pub const LEN: usize = 32;

    /// Decodes the bytes that stand directly in front of a packet.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let [a0, a1, a2, a3, a4, a5, a6, a7, h0, h1, h2, h3, h4, h5, h6, h7, ..] = *bytes;
        let [
            ..,
            p0,
            p1,
            l0,
            l1,
            s0,
            s1,
            m0,
            m1,
            class,
            reason,
            method,
            marker_form,
            marker_copy,
            marker_len,
            service,
            _zero,
        ] = *bytes;
        Self {
            arrival_ns: u64::from_ne_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
            txn_hash: u64::from_ne_bytes([h0, h1, h2, h3, h4, h5, h6, h7]),
            payload_offset: u16::from_ne_bytes([p0, p1]),
            payload_len: u16::from_ne_bytes([l0, l1]),
            start_line_len: u16::from_ne_bytes([s0, s1]),
            marker_offset: u16::from_ne_bytes([m0, m1]),
            class,
            reason,
            method,
            marker_form,
            marker_copy,
            marker_len,
            service,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_its_place() {
        let mut bytes = [0; Meta::LEN];
        bytes[..8].copy_from_slice(&0x0102_0304_0506_0708_u64.to_ne_bytes());
        bytes[8..16].copy_from_slice(&0x1112_1314_1516_1718_u64.to_ne_bytes());
        for (index, field) in [0x2122_u16, 0x3132, 0x4142, 0x5152].into_iter().enumerate() {
            bytes[16 + 2 * index..18 + 2 * index].copy_from_slice(&field.to_ne_bytes());
        }
        bytes[24..].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
        let expected = Meta {
            arrival_ns: 0x0102_0304_0506_0708,
            txn_hash: 0x1112_1314_1516_1718,
            payload_offset: 0x2122,
            payload_len: 0x3132,
            start_line_len: 0x4142,
            marker_offset: 0x5152,
            class: 1,
            reason: 2,
            method: 3,
            marker_form: 4,
            marker_copy: 5,
            marker_len: 6,
            service: 7,
        };
        assert_eq!(Meta::from_bytes(&bytes), expected);
    }
}
