//! What the chapters share: a request to start from, replies to it, hashes, packets.

mod a_no_request_yet;
mod b_start_line;
mod c_headers;
mod d_identity;
mod e_priority;
mod g_replies;
mod h_below_udp;

use std::net::{IpAddr, SocketAddr};

use sip::{Class, NoReply, ReplyLine, Seed, Services, transaction_hash, write_reply};

use crate::judge::classify;

const SEED: Seed = Seed([9, 8, 7, 6]);

/// The guarded addresses, both on port 5060.
const SERVICE_V4: [u8; 4] = [192, 0, 2, 10];
const SERVICE_V6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10];

/// Services at those addresses.
pub(crate) fn services() -> Services {
    Services::new([(Some(SERVICE_V4.into()), 5060), (Some(SERVICE_V6.into()), 5060)])
}

fn class_of(datagram: &[u8]) -> Class {
    classify(datagram).class
}

/// A request with these header lines where Via belongs, and room for a reply.
fn invite(via: &str) -> String {
    format!(
        "INVITE sip:desk@pbx.example SIP/2.0\r\n{via}\r\nFrom: <sip:x@y.example>;tag=q1\r\n\
         To: <sip:desk@pbx.example>\r\nCall-ID: f81d4fae\r\nCSeq: 2 INVITE\r\nMax-Forwards: 70\r\n\
         Contact: <sip:x@198.51.100.4>\r\nUser-Agent: a phone on a desk\r\n\r\n"
    )
}

/// The same with a Via of its own.
fn plain_invite() -> String {
    invite("Via: SIP/2.0/UDP 198.51.100.4:5060;branch=z9hG4bKp1;rport")
}

fn reply_bytes(request: &[u8], source: &str) -> Result<(Vec<u8>, SocketAddr), NoReply> {
    let mut out = [0; 2048];
    let reply = write_reply(request, source.parse().unwrap(), &SEED, ReplyLine::default(), &mut out)?;
    Ok((out[..reply.len].to_vec(), reply.destination))
}

fn reply_to(request: &str, source: &str) -> Result<(String, SocketAddr), NoReply> {
    reply_bytes(request.as_bytes(), source).map(|(bytes, to)| (String::from_utf8(bytes).unwrap(), to))
}

/// The hash that decides whether a request is a copy of another.
fn hash_from(source: &str, datagram: &[u8]) -> u64 {
    let source: IpAddr = source.parse().unwrap();
    let message = classify(datagram);
    transaction_hash(
        &sip::TransactionKey::new(&SEED),
        source,
        0,
        datagram,
        message.start.into(),
        message.marker,
    )
}

fn hash_of(datagram: &str) -> u64 {
    hash_from("198.51.100.4", datagram.as_bytes())
}

/// The ACK that a client sends to a reply (RFC 3261 section 17.1.1.3).
fn ack_to(request: &str, reply: &str) -> String {
    let line_of = |message: &str, name: &str| {
        let line = message.split("\r\n").find(|line| line.starts_with(name));
        line.unwrap_or_else(|| panic!("no {name} in {message}")).to_owned()
    };
    let via = line_of(request, "Via:");
    let (from, call_id) = (line_of(request, "From:"), line_of(request, "Call-ID:"));
    let to = line_of(reply, "To:");
    format!("ACK sip:desk@pbx.example SIP/2.0\r\n{via}\r\n{from}\r\n{to}\r\n{call_id}\r\nCSeq: 2 ACK\r\n\r\n")
}

/// A packet with that EtherType or those tags in front of what `ip` says.
fn ethernet(tags: &[u8], ip: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], tags, ip].concat()
}

/// EtherType, IPv4 header and UDP header around a datagram; `fragment` is the field of flags and offset.
fn ipv4(source_port: u16, fragment: u16, datagram: &[u8]) -> Vec<u8> {
    let udp_len = u16::try_from(datagram.len() + 8).unwrap();
    let mut bytes = vec![8, 0, 0x45, 0];
    bytes.extend((udp_len + 20).to_be_bytes());
    bytes.extend([0, 7]);
    bytes.extend(fragment.to_be_bytes());
    bytes.extend([64, 17, 0, 0, 198, 51, 100, 4]);
    bytes.extend(SERVICE_V4);
    bytes.extend(source_port.to_be_bytes());
    bytes.extend(5060_u16.to_be_bytes());
    bytes.extend(udp_len.to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend_from_slice(datagram);
    bytes
}
