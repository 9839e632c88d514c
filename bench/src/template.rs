//! The bytes of each request: readable texts with fields, compiled once, rendered by copying.
//!
//! Rendering a copy again gives the same bytes but for the marker, because every field follows from the call; so
//! nothing is stored per call but what a server chose (see [`Dialog`]).

mod dialog;

use std::net::SocketAddr;

pub(crate) use dialog::Dialog;
use serde::{Deserialize, Serialize};

use crate::config::{CallerConfig, Marker};
use crate::identity::CallText;

/// Methods of the client transactions that the caller makes. ACK makes none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Starts a call.
    Invite,
    /// Registers a phone.
    Register,
    /// Probes.
    Options,
    /// Ends an answered call.
    Bye,
}

impl Method {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 4] = [Self::Invite, Self::Register, Self::Options, Self::Bye];

    /// As it stands in the request line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Invite => "INVITE",
            Self::Register => "REGISTER",
            Self::Options => "OPTIONS",
            Self::Bye => "BYE",
        }
    }
}

/// Last character of a branch: which transaction of the call.
pub(crate) const FIRST_TRANSACTION: u8 = b'f';
/// The BYE's.
pub(crate) const BYE_TRANSACTION: u8 = b'b';
/// The ACK for a 2xx is a transaction of its own, which is never answered (RFC 3261 13.2.2.4).
const ACK_TRANSACTION: u8 = b'a';

/// Head of a request with a fixed Request-URI; `{uri}` and `{method}` are filled in by the compiler.
const REQUEST: &str = "{method} {uri}{uri_marker} SIP/2.0{field_marker}\r\n\
    Via: SIP/2.0/UDP {local};branch=z9hG4bK{branch}{transaction}{rport}\r\n\
    Max-Forwards: 70\r\n\
    From: <{from}>;tag={from_tag}\r\n\
    To: <{to}>{to_tag}\r\n\
    Call-ID: {call_id}@{local_ip}\r\n\
    CSeq: {cseq} {method}\r\n";
/// Head of a request inside a dialog.
const IN_DIALOG: &str = "{method} {target} SIP/2.0{field_marker}\r\n\
    Via: SIP/2.0/UDP {local};branch=z9hG4bK{branch}{transaction}{rport}\r\n\
    {route}Max-Forwards: 70\r\n\
    From: <{from}>;tag={from_tag}\r\n\
    To: <{to}>{to_tag}\r\n\
    Call-ID: {call_id}@{local_ip}\r\n\
    CSeq: {cseq} {method}\r\n";
const CALLEE: &str = "sip:{callee}@{domain}";
const CALLER: &str = "sip:{caller}@{domain}";
const CONTACT: &str = "Contact: <sip:{caller}@{local}>\r\n";
const NO_BODY: &str = "Content-Length: 0\r\n\r\n";
const WITH_BODY: &str = "Allow: INVITE, ACK, CANCEL, BYE, OPTIONS\r\n\
    Content-Type: application/sdp\r\nContent-Length: {body_len}\r\n\r\n";
const BODY: &str = "v=0\r\no=- 3724394400 3724394400 IN {ip_version} {local_ip}\r\ns=-\r\nc=IN {ip_version} {local_ip}\r\n\
    t=0 0\r\nm=audio 40000 RTP/AVP 8 0 101\r\na=rtpmap:101 telephone-event/8000\r\na=sendrecv\r\n";

/// A stretch of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(Box<[u8]>),
    Branch,
    CallId,
    FromTag,
    Callee,
    Caller,
    Local,
    LocalIp,
    BodyLen,
    UriMarker,
    FieldMarker,
    Target,
    ToTag,
    Route,
}

/// What a client address looks like in messages.
#[derive(Debug, Clone)]
pub(crate) struct LocalText {
    sent_by: String,
    ip: String,
    body_len: String,
}

/// What one rendering fills in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fill<'a> {
    pub(crate) call: &'a CallText,
    pub(crate) local: &'a LocalText,
    /// 0 for the original, N for the Nth copy; only the marker shows it.
    pub(crate) copy: u8,
    pub(crate) dialog: &'a Dialog,
}

/// One kind of message, compiled.
#[derive(Debug)]
struct Template(Vec<Piece>);

/// All messages that the caller sends.
#[derive(Debug)]
pub(crate) struct Templates {
    invite: Template,
    register: Template,
    options: Template,
    bye: Template,
    ack_refusal: Template,
    ack_answer: Template,
    marker: Marker,
    body: &'static str,
    domain: String,
}

impl Templates {
    pub(crate) fn new(config: &CallerConfig) -> Self {
        let compiler = Compiler::new(config);
        let body = if config.body { BODY } else { "" };
        let invite_rest =
            if config.body { [CONTACT, WITH_BODY, BODY].concat() } else { [CONTACT, NO_BODY].concat() };
        let with_contact = [CONTACT, NO_BODY].concat();
        let registrar = "sip:{domain}";
        let first = FIRST_TRANSACTION;
        let expires = ["Expires: 3600\r\n", &with_contact].concat();
        let accept = ["Accept: application/sdp\r\n", &with_contact].concat();
        Self {
            invite: compiler.request(REQUEST, "INVITE", first, "1", [CALLEE, CALLER, CALLEE], &invite_rest),
            register: compiler.request(
                REQUEST,
                "REGISTER",
                first,
                "1",
                [registrar, CALLER, CALLER],
                &expires,
            ),
            options: compiler.request(
                REQUEST,
                "OPTIONS",
                first,
                "1",
                [registrar, CALLER, registrar],
                &accept,
            ),
            bye: compiler.request(IN_DIALOG, "BYE", BYE_TRANSACTION, "2", ["", CALLER, CALLEE], NO_BODY),
            // RFC 3261 17.1.1.3: Request-URI and top Via of the INVITE, To of the response.
            ack_refusal: compiler.request(REQUEST, "ACK", first, "1", [CALLEE, CALLER, CALLEE], NO_BODY),
            ack_answer: compiler.request(
                IN_DIALOG,
                "ACK",
                ACK_TRANSACTION,
                "1",
                ["", CALLER, CALLEE],
                NO_BODY,
            ),
            marker: config.marker,
            body,
            domain: compiler.domain,
        }
    }

    /// Host part of Request-URIs.
    pub(crate) fn domain(&self) -> &str {
        &self.domain
    }

    /// The texts for one client address.
    pub(crate) fn local(&self, address: SocketAddr) -> LocalText {
        let ip = address.ip().to_string();
        let rest = self.body.replace("{local_ip}", &ip).replace("{ip_version}", ip_version(address));
        LocalText { sent_by: address.to_string(), ip, body_len: rest.len().to_string() }
    }

    /// The request of a client transaction.
    pub(crate) fn request(&self, method: Method, fill: &Fill<'_>, out: &mut Vec<u8>) {
        let template = match method {
            Method::Invite => &self.invite,
            Method::Register => &self.register,
            Method::Options => &self.options,
            Method::Bye => &self.bye,
        };
        template.render(fill, self.marker, out);
    }

    /// The ACK for a 2xx: in the dialog, towards the Contact.
    pub(crate) fn ack_answer(&self, fill: &Fill<'_>, out: &mut Vec<u8>) {
        self.ack_answer.render(fill, Marker::Off, out);
    }

    /// The ACK for a refusal: part of the INVITE's transaction. A marker in the INVITE's Request-URI belongs to that URI.
    pub(crate) fn ack_refusal(&self, fill: &Fill<'_>, out: &mut Vec<u8>) {
        let marker = if self.marker == Marker::Uri { Marker::Uri } else { Marker::Off };
        self.ack_refusal.render(fill, marker, out);
    }
}

impl Template {
    fn render(&self, fill: &Fill<'_>, marker: Marker, out: &mut Vec<u8>) {
        out.clear();
        for piece in &self.0 {
            let bytes: &[u8] = match piece {
                Piece::Literal(bytes) => bytes,
                Piece::Branch => &fill.call.branch,
                Piece::CallId => &fill.call.call_id,
                Piece::FromTag => &fill.call.from_tag,
                Piece::Callee => &fill.call.callee,
                Piece::Caller => &fill.call.caller,
                Piece::Local => fill.local.sent_by.as_bytes(),
                Piece::LocalIp => fill.local.ip.as_bytes(),
                Piece::BodyLen => fill.local.body_len.as_bytes(),
                Piece::ToTag => fill.dialog.to_tag(),
                Piece::Route => fill.dialog.route(),
                Piece::FieldMarker => {
                    if marker == Marker::Field {
                        put_marker(b' ', fill.copy, out);
                    }
                    continue;
                }
                Piece::UriMarker => {
                    if marker == Marker::Uri {
                        put_marker(b';', fill.copy, out);
                    }
                    continue;
                }
                Piece::Target => {
                    let (uri, headers) = fill.dialog.target();
                    out.extend_from_slice(uri);
                    if marker == Marker::Uri {
                        put_marker(b';', fill.copy, out);
                    }
                    headers
                }
            };
            out.extend_from_slice(bytes);
        }
    }
}

/// Writes ` rtx=N` or `;rtx=N`.
fn put_marker(separator: u8, copy: u8, out: &mut Vec<u8>) {
    out.push(separator);
    out.extend_from_slice(b"rtx=");
    if copy >= 10 {
        out.push(b'0' + copy / 10 % 10);
    }
    out.push(b'0' + copy % 10);
}

fn ip_version(address: SocketAddr) -> &'static str {
    if address.is_ipv4() { "IP4" } else { "IP6" }
}

/// Turns texts into pieces; knows what is the same in the whole run.
struct Compiler {
    domain: String,
    rport: &'static str,
    ip_version: &'static str,
}

impl Compiler {
    fn new(config: &CallerConfig) -> Self {
        Self {
            domain: config.domain.clone().unwrap_or_else(|| config.target.to_string()),
            rport: if config.rport { ";rport" } else { "" },
            ip_version: ip_version(config.target),
        }
    }

    fn request(
        &self,
        head: &str,
        method: &str,
        transaction: u8,
        cseq: &str,
        [uri, from, to]: [&str; 3],
        rest: &str,
    ) -> Template {
        let transaction = char::from(transaction).to_string();
        let text = [head, rest].concat();
        let text = [("{uri}", uri), ("{from}", from), ("{to}", to), ("{method}", method), ("{cseq}", cseq)]
            .into_iter()
            .chain([("{transaction}", &*transaction), ("{domain}", &self.domain)])
            .chain([("{rport}", self.rport), ("{ip_version}", self.ip_version)])
            .fold(text, |text, (field, value)| text.replace(field, value));
        Template(pieces(&text))
    }
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let close = open + rest[open..].find('}').expect("texts of this file close their fields");
        pieces.push(Piece::Literal(rest.as_bytes()[..open].into()));
        pieces.push(match &rest[open + 1..close] {
            "branch" => Piece::Branch,
            "call_id" => Piece::CallId,
            "from_tag" => Piece::FromTag,
            "callee" => Piece::Callee,
            "caller" => Piece::Caller,
            "local" => Piece::Local,
            "local_ip" => Piece::LocalIp,
            "body_len" => Piece::BodyLen,
            "uri_marker" => Piece::UriMarker,
            "field_marker" => Piece::FieldMarker,
            "target" => Piece::Target,
            "to_tag" => Piece::ToTag,
            "route" => Piece::Route,
            field => unreachable!("unknown field {field} in a text of this file"),
        });
        rest = &rest[close + 1..];
    }
    pieces.push(Piece::Literal(rest.as_bytes().into()));
    pieces.retain(|piece| !matches!(piece, Piece::Literal(bytes) if bytes.is_empty()));
    pieces
}

#[cfg(test)]
mod tests;
