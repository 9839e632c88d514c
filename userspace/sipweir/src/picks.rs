//! Requests whose answer is timed: a worker writes them down when it hands them over, and the program that sees answers
//! takes them out (`xdp-prog/answers.bpf.c`).
//!
//! Picked are originals that a server answers by itself and soon: INVITE, which a server that keeps transactions answers with
//! 100 within 200 ms (RFC 3261 section 17.2.1), REGISTER and OPTIONS. What a proxy passes on without an answer of its own, such
//! as MESSAGE, would measure somebody else.

use std::sync::Arc;

use afxdp::MappedWords;
use overload::Picker;

use crate::clock;

const METHODS: [&[u8]; 3] = [b"INVITE ", b"REGISTER ", b"OPTIONS "];

/// One worker's picks for one service.
#[derive(Debug)]
pub struct Picks {
    table: Arc<MappedWords>,
    branch_seed: u64,
    picker: Picker,
}

impl Picks {
    /// Picks that go into this table (`xdp_prog::AWAITED_PLACES` words); `workers` pick from the same service.
    #[must_use]
    pub fn new(table: Arc<MappedWords>, branch_seed: u64, workers: u32) -> Self {
        Self { table, branch_seed, picker: Picker::new(workers) }
    }

    /// Whether the next original shall be written down, if it is fit for it.
    pub const fn is_due(&mut self) -> bool {
        self.picker.is_due()
    }

    /// Writes down a request that is about to be handed over, if it is fit for it. The server is measured to serve so many
    /// originals a second.
    pub fn note(&mut self, datagram: &[u8], rate_per_s: f64) {
        let message = &datagram[sip::start_line::skip_line_ends(datagram)..];
        if !METHODS.iter().any(|method| message.starts_with(method)) {
            return;
        }
        let Some(line_end) = message.iter().position(|byte| *byte == b'\n') else { return };
        let Some(hash) = sip::branch_hash(&message[line_end..], self.branch_seed) else { return };
        // Not the turn's time: what was handed over before in the same turn took some.
        let (place, word) = xdp_prog::awaited(hash, clock::now());
        self.table.store(place, word);
        self.picker.picked(rate_per_s, hash);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::sync::Arc;

    use afxdp::MappedWords;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use xdp_prog::AWAITED_PLACES;

    use super::Picks;

    fn table() -> Arc<MappedWords> {
        let fd = memfd_create("picks", MemfdFlags::CLOEXEC).expect("memfd");
        ftruncate(&fd, 8 * AWAITED_PLACES as u64).expect("size");
        Arc::new(MappedWords::map(fd.as_fd(), AWAITED_PLACES).expect("map"))
    }

    fn request(method: &str, number: usize) -> Vec<u8> {
        format!(
            "\r\n{method} sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK{number}\r\n\r\n"
        )
        .into_bytes()
    }

    fn written(table: &MappedWords) -> usize {
        (0..AWAITED_PLACES).filter(|place| table.load(*place) != 0).count()
    }

    #[test]
    fn what_a_server_answers_by_itself_is_written_down_at_its_branch_s_place() {
        let table = table();
        let mut picks = Picks::new(Arc::clone(&table), 7, 1);
        for (number, method) in ["INVITE", "REGISTER", "OPTIONS"].into_iter().enumerate() {
            assert!(picks.is_due());
            picks.note(&request(method, number), 10.0);
            let hash =
                sip::branch_hash(format!("v:x;branch=z9hG4bK{number}\r\n").as_bytes(), 7).expect("branch");
            let (place, word) = xdp_prog::awaited(hash, 0);
            assert_eq!(table.load(place) >> 40, word >> 40, "{method}");
        }
        assert_eq!(written(&table), 3);
    }

    #[test]
    fn what_is_not_fit_leaves_the_turn_to_the_next() {
        let table = table();
        let mut picks = Picks::new(Arc::clone(&table), 7, 1);
        for unfit in
            [request("MESSAGE", 1), b"INVITE sip:b SIP/2.0\r\nTo: b\r\n\r\n".to_vec(), b"INVITE ".to_vec()]
        {
            picks.note(&unfit, 1e9);
            assert!(picks.is_due(), "{}", String::from_utf8_lossy(&unfit));
        }
        assert_eq!(written(&table), 0);
        picks.note(&request("INVITE", 1), 1e9);
        assert!(!picks.is_due());
        assert_eq!(written(&table), 1);
    }
}
