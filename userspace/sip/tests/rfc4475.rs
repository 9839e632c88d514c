//! The torture messages of RFC 4475, each with the class that a front-end must give it.
//!
//! Most of them are "invalid" to a server and still plain requests here: answering 400 is the server's
//! business, and what it would read must not be judged by less.

use std::fs;
use std::path::PathBuf;

use sip::Class::{self, Ack, InDialog, NotSip, Original, Response};
use sip::{Method, classify};

const TABLE: [(&str, Class, Method); 50] = [
    // 3.1.1 valid
    ("valid/wsinv", InDialog, Method::Invite), // a folded To, blanks around everything, a tag at its end
    ("valid/intmeth", Original, Method::Other),
    ("valid/esc01", Original, Method::Invite),
    ("valid/escnull", Original, Method::Register),
    ("valid/esc02", Original, Method::Other), // RE%47IST%45R is not REGISTER
    ("valid/lwsdisp", Original, Method::Options),
    ("valid/longreq", Original, Method::Invite),
    ("valid/dblreq", Original, Method::Register), // only the first message counts
    ("valid/semiuri", Original, Method::Options),
    ("valid/transports", Original, Method::Options),
    ("valid/mpart01", Original, Method::Message),
    ("valid/unreason", Response, Method::Other),
    ("valid/noreason", Response, Method::Other),
    // 3.1.2 invalid
    ("invalid/badinv01", Original, Method::Invite),
    ("invalid/clerr", Original, Method::Invite),
    ("invalid/ncl", Original, Method::Invite),
    ("invalid/scalar02", Original, Method::Register),
    ("invalid/scalarlg", Response, Method::Other),
    ("invalid/quotbal", Original, Method::Invite),
    ("invalid/ltgtruri", Original, Method::Invite),
    ("invalid/lwsruri", InDialog, Method::Invite), // a blank in the URI; To has a tag
    ("invalid/lwsstart", Original, Method::Invite),
    ("invalid/trws", Original, Method::Options),
    ("invalid/escruri", Original, Method::Invite),
    ("invalid/baddate", Original, Method::Invite),
    ("invalid/regbadct", Original, Method::Register),
    ("invalid/badaspec", Original, Method::Options),
    ("invalid/baddn", Original, Method::Options),
    ("invalid/badvers", Original, Method::Options), // SIP/7.0: 505 is the server's to say
    ("invalid/mismatch01", Original, Method::Options),
    ("invalid/mismatch02", Original, Method::Other),
    ("invalid/bigcode", NotSip, Method::Other), // ten digits are no status code
    // 3.2 transaction layer
    ("invalid/badbranch", Original, Method::Options),
    // 3.3 application layer
    ("invalid/insuf", Original, Method::Invite),
    ("invalid/unkscm", Original, Method::Options),
    ("invalid/novelsc", Original, Method::Options),
    ("invalid/unksm2", Original, Method::Register),
    ("invalid/bext01", Original, Method::Options),
    ("invalid/invut", Original, Method::Invite),
    ("invalid/regaut01", Original, Method::Register),
    ("invalid/multi01", Original, Method::Invite),
    ("invalid/mcl01", Original, Method::Options),
    ("invalid/bcast", Response, Method::Other),
    ("invalid/zeromf", Original, Method::Options),
    ("invalid/cparam01", Original, Method::Register),
    ("invalid/cparam02", Original, Method::Register),
    ("invalid/regescrt", Original, Method::Register),
    ("invalid/sdp01", Original, Method::Invite),
    // 3.4 backward compatibility
    ("invalid/inv2543", Original, Method::Invite),
    ("invalid/test", NotSip, Method::Other), // no version
];

fn read(name: &str) -> Vec<u8> {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/rfc4475");
    let path = corpus.join(format!("{name}.dat"));
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn each_torture_message_has_its_class() {
    for (name, class, method) in TABLE {
        let message = classify(&read(name));
        assert_eq!((message.class, message.method, message.marker), (class, method, None), "{name}");
    }
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
    let source = "192.0.2.7:6000".parse().unwrap();
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
    let seed = sip::Seed([5, 6, 7, 8]);
    let source = [192, 0, 2, 7].into();
    let hash = |datagram: &[u8]| {
        let message = classify(datagram);
        sip::transaction_hash(&seed, source, datagram, message.start.into(), message.marker)
    };
    for (name, class, _) in TABLE {
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
