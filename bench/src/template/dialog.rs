//! What a server chose in its answer and the client must send back: To tag, remote target, route set.

use memchr::memchr;

use crate::response::Response;

/// Room for all three texts of one dialog. A tag is ~40 bytes, a Contact ~60, a Record-Route ~60 per proxy; an
/// answer that needs more is counted and its call is not taken further (rather than sending a wrong BYE).
const DIALOG_TEXT_BYTES: usize = 480;

/// To tag, remote target and route set, in one fixed buffer.
#[derive(Debug, Clone)]
pub(crate) struct Dialog {
    text: [u8; DIALOG_TEXT_BYTES],
    to_tag_end: u16,
    target_end: u16,
    route_end: u16,
}

impl Dialog {
    /// Before any answer: no tag, no target, no route.
    pub(crate) const EMPTY: Self =
        Self { text: [0; DIALOG_TEXT_BYTES], to_tag_end: 0, target_end: 0, route_end: 0 };

    /// The dialog that `response` establishes for a caller (RFC 3261 12.1.2): routes in reverse order. Without a
    /// Contact the target stays `fallback`. `None` when it does not fit.
    pub(crate) fn set(&mut self, response: &Response<'_>, fallback: &[&[u8]]) -> Option<()> {
        self.clear();
        self.set_to_tag(response)?;
        match response.contact {
            Some(uri) => self.push(&[uri]),
            None => self.push(fallback),
        }?;
        self.target_end = self.route_end;
        for route in response.record_routes.iter().rev() {
            self.push(&[b"Route: ", route, b"\r\n"])?;
        }
        Some(())
    }

    /// The little that an ACK for a refusal needs. `None` when it does not fit.
    pub(crate) fn set_refused(&mut self, response: &Response<'_>) -> Option<()> {
        self.clear();
        self.set_to_tag(response)?;
        self.target_end = self.route_end;
        Some(())
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        (self.to_tag_end, self.target_end, self.route_end) = (0, 0, 0);
    }

    /// `;tag=…`, or nothing.
    pub(crate) fn to_tag(&self) -> &[u8] {
        &self.text[..usize::from(self.to_tag_end)]
    }

    /// The remote target, split where a URI parameter may be put in: before its headers.
    pub(crate) fn target(&self) -> (&[u8], &[u8]) {
        let uri = &self.text[usize::from(self.to_tag_end)..usize::from(self.target_end)];
        let host = memchr(b'@', uri).unwrap_or(0);
        uri.split_at(memchr(b'?', &uri[host..]).map_or(uri.len(), |at| host + at))
    }

    /// Complete Route header lines, or nothing.
    pub(crate) fn route(&self) -> &[u8] {
        &self.text[usize::from(self.target_end)..usize::from(self.route_end)]
    }

    fn set_to_tag(&mut self, response: &Response<'_>) -> Option<()> {
        if let Some(tag) = response.to_tag {
            self.push(&[b";tag=", tag])?;
        }
        self.to_tag_end = self.route_end;
        Some(())
    }

    fn push(&mut self, parts: &[&[u8]]) -> Option<()> {
        for part in parts {
            let start = usize::from(self.route_end);
            let end = start + part.len();
            self.text.get_mut(start..end)?.copy_from_slice(part);
            self.route_end = end as u16;
        }
        Some(())
    }
}
