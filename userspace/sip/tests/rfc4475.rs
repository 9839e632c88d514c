//! The torture messages of RFC 4475, each with the class that a front-end must give it, and the reply that it gets if
//! the gate sheds it.
//!
//! Most of them are "invalid" to a server and still plain requests here: answering 400 is the server's
//! business, and what it would read must not be judged by less.

use std::fs;
use std::path::PathBuf;

use sip::Class::{self, Ack, InDialog, NotSip, Original, Response};
use sip::{Method, classify};

/// What a message gets that the gate sheds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// `SIP/2.0 503 Service Unavailable`, to this port of the address that the message came from.
    Refused(u16),
    /// Nothing, and why: `never_shed`, or a name of `sip::NoReply`.
    None(&'static str),
}
use Answer::{None as Silent, Refused};

/// The message, its class, its method, its answer.
const TABLE: [(&str, Class, Method, Answer); 50] = [
    // 3.1.1 valid
    ("valid/wsinv", InDialog, Method::Invite, Silent("never_shed")), // a folded To, blanks around everything, a tag at its end
    ("valid/intmeth", Original, Method::Other, Refused(5060)),
    ("valid/esc01", Original, Method::Invite, Refused(5060)),
    ("valid/escnull", Original, Method::Register, Refused(5060)),
    ("valid/esc02", Original, Method::Other, Refused(5060)), // RE%47IST%45R is not REGISTER
    ("valid/lwsdisp", Original, Method::Options, Silent("longer_than_request")),
    ("valid/longreq", Original, Method::Invite, Refused(5060)),
    ("valid/dblreq", Original, Method::Register, Refused(5060)), // only the first message counts
    ("valid/semiuri", Original, Method::Options, Refused(5060)),
    ("valid/transports", Original, Method::Options, Silent("longer_than_request")),
    ("valid/mpart01", Original, Method::Message, Refused(6000)),
    ("valid/unreason", Response, Method::Other, Silent("not_a_request")),
    ("valid/noreason", Response, Method::Other, Silent("not_a_request")),
    // 3.1.2 invalid
    ("invalid/badinv01", Original, Method::Invite, Refused(5060)),
    ("invalid/clerr", Original, Method::Invite, Refused(5060)),
    ("invalid/ncl", Original, Method::Invite, Refused(5060)),
    ("invalid/scalar02", Original, Method::Register, Refused(5060)),
    ("invalid/scalarlg", Response, Method::Other, Silent("not_a_request")),
    ("invalid/quotbal", Original, Method::Invite, Refused(5050)),
    ("invalid/ltgtruri", Original, Method::Invite, Refused(5060)),
    ("invalid/lwsruri", InDialog, Method::Invite, Silent("never_shed")), // a blank in the URI; To has a tag
    ("invalid/lwsstart", Original, Method::Invite, Refused(5060)),
    ("invalid/trws", Original, Method::Options, Refused(5060)),
    ("invalid/escruri", Original, Method::Invite, Refused(5060)),
    ("invalid/baddate", Original, Method::Invite, Refused(5060)),
    ("invalid/regbadct", Original, Method::Register, Refused(5060)),
    ("invalid/badaspec", Original, Method::Options, Silent("longer_than_request")),
    ("invalid/baddn", Original, Method::Options, Refused(5060)),
    ("invalid/badvers", Original, Method::Options, Silent("longer_than_request")), // SIP/7.0: 505 is the server's to say
    ("invalid/mismatch01", Original, Method::Options, Silent("longer_than_request")),
    ("invalid/mismatch02", Original, Method::Other, Refused(5060)),
    ("invalid/bigcode", NotSip, Method::Other, Silent("not_a_request")), // ten digits are no status code
    // 3.2 transaction layer
    ("invalid/badbranch", Original, Method::Options, Silent("longer_than_request")),
    // 3.3 application layer
    ("invalid/insuf", Original, Method::Invite, Silent("missing_header")),
    ("invalid/unkscm", Original, Method::Options, Refused(5060)),
    ("invalid/novelsc", Original, Method::Options, Silent("longer_than_request")),
    ("invalid/unksm2", Original, Method::Register, Silent("longer_than_request")),
    ("invalid/bext01", Original, Method::Options, Refused(5060)),
    ("invalid/invut", Original, Method::Invite, Refused(5060)),
    ("invalid/regaut01", Original, Method::Register, Refused(5060)),
    ("invalid/multi01", Original, Method::Invite, Refused(5060)),
    ("invalid/mcl01", Original, Method::Options, Refused(5060)),
    ("invalid/bcast", Response, Method::Other, Silent("not_a_request")),
    ("invalid/zeromf", Original, Method::Options, Silent("longer_than_request")),
    ("invalid/cparam01", Original, Method::Register, Refused(5060)),
    ("invalid/cparam02", Original, Method::Register, Refused(5060)),
    ("invalid/regescrt", Original, Method::Register, Refused(5060)),
    ("invalid/sdp01", Original, Method::Invite, Refused(5060)),
    // 3.4 backward compatibility
    ("invalid/inv2543", Original, Method::Invite, Refused(5060)),
    ("invalid/test", NotSip, Method::Other, Silent("not_a_request")), // no version
];

fn read(name: &str) -> Vec<u8> {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/rfc4475");
    let path = corpus.join(format!("{name}.dat"));
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn each_torture_message_has_its_class() {
    for (name, class, method, _) in TABLE {
        let message = classify(&read(name));
        assert_eq!((message.class, message.method, message.marker), (class, method, None), "{name}");
    }
}

/// Where the messages come from.
const SOURCE: &str = "192.0.2.7:6000";

fn answer_to(message: &[u8]) -> Answer {
    let class = classify(message).class;
    if !class.may_be_shed() && !matches!(class, Response | NotSip) {
        return Silent("never_shed");
    }
    let mut out = [0; 4096];
    let (source, line) = (SOURCE.parse().unwrap(), sip::ReplyLine::default());
    match sip::write_reply(message, source, &sip::Seed([1, 2, 3, 4]), line, &mut out) {
        Err(reason) => Silent(reason.name()),
        Ok(reply) => {
            let text = &out[..reply.len];
            assert!(reply.len <= message.len());
            assert!(text.starts_with(b"SIP/2.0 503 Service Unavailable\r\n"), "{}", text.escape_ascii());
            assert!(text.ends_with(b": 0\r\n\r\n"), "{}", text.escape_ascii());
            assert_eq!(reply.destination.ip(), source.ip());
            Refused(reply.destination.port())
        }
    }
}

#[test]
fn each_torture_message_has_its_answer_or_a_reason_for_none() {
    let wrong: Vec<_> = TABLE
        .into_iter()
        .map(|(name, .., expected)| (name, expected, answer_to(&read(name))))
        .filter(|(_, expected, found)| expected != found)
        .collect();
    assert!(wrong.is_empty(), "message, expected, found: {wrong:#?}");
}

#[test]
fn the_table_names_every_message_of_the_corpus() {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/rfc4475");
    let mut found: Vec<String> = ["valid", "invalid"]
        .iter()
        .flat_map(|folder| {
            fs::read_dir(corpus.join(folder)).unwrap().map(move |entry| {
                let name = entry.unwrap().file_name().into_string().unwrap();
                format!("{folder}/{}", name.trim_end_matches(".dat"))
            })
        })
        .collect();
    let mut named: Vec<String> = TABLE.iter().map(|(name, ..)| (*name).to_owned()).collect();
    found.sort();
    named.sort();
    assert_eq!(found, named);
}

#[test]
fn every_truncation_of_a_torture_message_is_classified_and_answered_or_refused() {
    let seed = sip::Seed([1, 2, 3, 4]);
    let source = SOURCE.parse().unwrap();
    let mut out = [0; 4096];
    for (name, ..) in TABLE {
        let whole = read(name);
        let line_end = whole.iter().position(|byte| *byte == b'\n').unwrap();
        for len in 0..whole.len() {
            let part = &whole[..len];
            let message = classify(part);
            assert_ne!(message.class, Class::Undecided);
            if 4 < len && len <= line_end {
                assert_eq!(message.class, NotSip, "{name} of {len} bytes");
            }
            if message.class == Response || message.class == Ack {
                assert!(sip::write_reply(part, source, &seed, sip::ReplyLine::default(), &mut out).is_err());
            } else if let Ok(reply) =
                sip::write_reply(part, source, &seed, sip::ReplyLine::default(), &mut out)
            {
                assert!(reply.len <= len, "{name} of {len} bytes");
            }
            let _ = sip::call_key(&seed, part);
        }
    }
}

#[test]
fn a_marked_torture_request_is_a_copy_and_the_same_transaction() {
    let key = sip::TransactionKey::new(&sip::Seed([5, 6, 7, 8]));
    let source = [192, 0, 2, 7].into();
    let hash = |datagram: &[u8]| {
        let message = classify(datagram);
        sip::transaction_hash(&key, source, 0, datagram, message.start.into(), message.marker)
    };
    for (name, class, ..) in TABLE {
        if matches!(class, Response | NotSip) {
            continue;
        }
        let plain = read(name);
        let line_end = plain.windows(2).position(|pair| pair == b"\r\n").unwrap();
        let version_end = plain[..line_end].trim_ascii_end().len();
        let marked = [&plain[..version_end], b" rtx=2", &plain[version_end..]].concat();
        assert_eq!(classify(&marked).class, Class::Copy, "{name}");
        assert_eq!(hash(&marked), hash(&plain), "{name}");
    }
}
