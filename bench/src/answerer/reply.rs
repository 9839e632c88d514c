//! A request as an answerer reads it, and the answer made of it (RFC 3261 8.2.6).

use std::io::Write;
use std::net::SocketAddr;

use arrayvec::ArrayVec;
use memchr::{memchr, memmem};

use crate::identity::mix;

/// Via and Record-Route lines kept for the answer; a request with more is not understood.
const LINES_MAX: usize = 16;

/// The lines of a request that its answer repeats, without their ends.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a [u8],
    vias: ArrayVec<&'a [u8], LINES_MAX>,
    record_routes: ArrayVec<&'a [u8], LINES_MAX>,
    from: &'a [u8],
    to: &'a [u8],
    call_id: &'a [u8],
    cseq: &'a [u8],
}

impl<'a> Request<'a> {
    /// Reads a request; `None` for responses and for what lacks a header that an answer needs.
    pub(crate) fn parse(datagram: &'a [u8]) -> Option<Self> {
        let mut lines = datagram.split(|b| *b == b'\n').map(<[u8]>::trim_ascii_end);
        let start = lines.next()?;
        let method = &start[..memchr(b' ', start)?];
        if method.starts_with(b"SIP/") || memmem::find(start, b" SIP/2.0").is_none() {
            return None;
        }
        let mut vias = ArrayVec::new();
        let mut record_routes = ArrayVec::new();
        let [mut from, mut to, mut call_id, mut cseq] = [None; 4];
        for line in lines.take_while(|line| !line.is_empty()) {
            let name = line[..memchr(b':', line)?].trim_ascii();
            let is = |names: &[&str]| names.iter().any(|n| name.eq_ignore_ascii_case(n.as_bytes()));
            if is(&["via", "v"]) {
                vias.try_push(line).ok()?;
            } else if is(&["record-route"]) {
                record_routes.try_push(line).ok()?;
            } else if is(&["from", "f"]) {
                from = Some(line);
            } else if is(&["to", "t"]) {
                to = Some(line);
            } else if is(&["call-id", "i"]) {
                call_id = Some(line);
            } else if is(&["cseq"]) {
                cseq = Some(line);
            }
        }
        vias.first()?;
        Some(Self { method, vias, record_routes, from: from?, to: to?, call_id: call_id?, cseq: cseq? })
    }

    pub(crate) fn top_via(&self) -> &'a [u8] {
        self.vias[0]
    }

    /// Writes the answer `status` into `out`.
    pub(crate) fn answer(&self, status: u16, source: SocketAddr, local: SocketAddr, out: &mut Vec<u8>) {
        out.clear();
        let put = |out: &mut Vec<u8>, line: &[u8]| {
            out.extend_from_slice(line);
            out.extend_from_slice(b"\r\n");
        };
        let phrase = match status {
            100 => "Trying",
            180 => "Ringing",
            200 => "OK",
            481 => "Call/Transaction Does Not Exist",
            503 => "Service Unavailable",
            _ => "Answer",
        };
        write!(out, "SIP/2.0 {status} {phrase}\r\n").expect("a Vec takes everything");
        self.put_top_via(source, out);
        self.vias[1..].iter().chain(&self.record_routes).for_each(|line| put(out, line));
        put(out, self.from);
        out.extend_from_slice(self.to);
        if status != 100 && memmem::find(self.to, b";tag=").is_none() {
            // A function of the request alone, so every copy gets the same tag.
            let tag = self.call_id.iter().chain(self.vias[0]).fold(0, |tag, b| mix(tag ^ u64::from(*b)));
            write!(out, ";tag={tag:016x}").expect("a Vec takes everything");
        }
        out.extend_from_slice(b"\r\n");
        put(out, self.call_id);
        put(out, self.cseq);
        if self.method == b"INVITE" && (101..300).contains(&status) {
            write!(out, "Contact: <sip:answerer@{local}>\r\n").expect("a Vec takes everything");
        }
        out.extend_from_slice(b"Content-Length: 0\r\n\r\n");
    }

    /// RFC 3581 section 4: an empty rport is filled in.
    fn put_top_via(&self, source: SocketAddr, out: &mut Vec<u8>) {
        let via = self.vias[0];
        let end = memmem::find(via, b";rport").map(|at| at + b";rport".len());
        match end.filter(|end| matches!(via.get(*end), None | Some(b';' | b','))) {
            Some(end) => {
                out.extend_from_slice(&via[..end]);
                write!(out, "={};received={}", source.port(), source.ip()).expect("a Vec takes everything");
                out.extend_from_slice(&via[end..]);
            }
            None => out.extend_from_slice(via),
        }
        out.extend_from_slice(b"\r\n");
    }
}
