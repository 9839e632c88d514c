//! Overload control in the top Via (RFC 7339): whether a client offers it, and what it is told.
//!
//! A client that takes part puts a valueless `oc` and the list `oc-algo="loss,…"` into its Via (sections 4.1 and
//! 4.2). The response has them with values, with the one algorithm that was chosen: here always `loss`, which every
//! client must know. A Via that offers nothing, or only other algorithms, is copied as it stands, which says that
//! this server takes no part. What the values are is not decided here (`overload`'s feedback).

use crate::params::{Param, trim_space};
use crate::refusal::NoReply;
use crate::reply_writer::Writer;

/// Steps of the sequence number in a second: its fraction has five digits, the most there may be.
const STEPS_PER_S: u64 = 100_000;
/// Its part in front of the point has at most twelve.
const SECONDS_MAX: u64 = 999_999_999_999;

/// What a client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverloadControl {
    /// Share of its requests that it shall not send, 0 to 100.
    pub percent: u8,
    /// How long that holds, milliseconds. 0 together with a percentage of 0 ends the control.
    pub validity_ms: u32,
    /// Hundred-thousandths of a second; larger than in any earlier reply from this address and port.
    pub seq: u64,
}

impl OverloadControl {
    /// Whether a Via with these parameters, the first `oc` and the value of the first `oc-algo`, offers control by the
    /// `loss` algorithm. `oc` with a value is no offer, but the answer of a server (section 4.1).
    pub(crate) fn is_offer(oc: &Param<'_>, algo: &[u8]) -> bool {
        oc.value.is_none() && lists_loss(algo)
    }

    /// Whether a parameter of the request is replaced by ours.
    pub(crate) fn replaces(name: &[u8]) -> bool {
        let is = |own: &[u8]| name.eq_ignore_ascii_case(own);
        is(b"oc") || is(b"oc-algo") || is(b"oc-validity") || is(b"oc-seq")
    }

    /// Writes the four parameters.
    pub(crate) fn write(&self, writer: &mut Writer<'_>) -> Result<(), NoReply> {
        let seconds = (self.seq / STEPS_PER_S).min(SECONDS_MAX);
        writer.bytes(b";oc=")?;
        writer.number(self.percent)?;
        writer.bytes(b";oc-algo=\"loss\";oc-validity=")?;
        writer.number(self.validity_ms)?;
        writer.bytes(b";oc-seq=")?;
        writer.number(seconds)?;
        writer.bytes(b".")?;
        writer.digits(self.seq % STEPS_PER_S, 5)
    }
}

/// Whether `loss` is in a list of algorithms, in quotes as section 4.2 has it, or without as some write it.
fn lists_loss(list: &[u8]) -> bool {
    let bare = list.strip_prefix(b"\"").and_then(|list| list.strip_suffix(b"\"")).unwrap_or(list);
    bare.split(|byte| *byte == b',').any(|algorithm| trim_space(algorithm).eq_ignore_ascii_case(b"loss"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::via::TopVia;

    fn is_offered(params: &str) -> bool {
        let value = format!("SIP/2.0/UDP pc{params}, SIP/2.0/UDP b;oc;oc-algo=\"loss\"");
        TopVia::parse(value.as_bytes()).unwrap().known.offers_control
    }

    #[test]
    fn an_offer_is_a_valueless_oc_and_loss_among_the_algorithms() {
        for offer in [
            ";oc;oc-algo=\"loss\"",
            ";oc-algo=\"loss,A\";branch=1;oc",
            ";OC ; OC-Algo = \"A , Loss\"",
            ";oc\r\n ;oc-algo\r\n =\r\n \"rate,loss\"",
            ";oc;oc-algo=loss",
        ] {
            assert!(is_offered(offer), "{offer}");
        }
        for none in [
            "",
            ";oc",
            ";oc-algo=\"loss\"",
            ";oc=20;oc-algo=\"loss\"",
            ";oc=;oc-algo=\"loss\"",
            ";oc;oc-algo=\"rate\"",
            ";oc;oc-algo=\"lossy,xloss\"",
            ";oc;oc-algo",
            ";x=\";oc\";oc-algo=\"loss\"",
            ";ocx;oc-algo=\"loss\"",
        ] {
            assert!(!is_offered(none), "{none}: only the top value counts");
        }
    }

    #[test]
    fn the_values_are_written_as_the_grammar_has_them() {
        let written = |control: OverloadControl| {
            let mut out = [0; 100];
            let mut writer = Writer::new(&mut out, 100);
            control.write(&mut writer).unwrap();
            let len = writer.len();
            String::from_utf8(out[..len].to_vec()).unwrap()
        };
        let control = OverloadControl { percent: 20, validity_ms: 500, seq: 128_232_161_578_200 };
        assert_eq!(written(control), ";oc=20;oc-algo=\"loss\";oc-validity=500;oc-seq=1282321615.78200");
        let early = OverloadControl { percent: 0, validity_ms: 0, seq: 7 };
        assert_eq!(written(early), ";oc=0;oc-algo=\"loss\";oc-validity=0;oc-seq=0.00007");
        let late = OverloadControl { percent: 100, validity_ms: u32::MAX, seq: u64::MAX };
        assert!(written(late).ends_with("oc-validity=4294967295;oc-seq=999999999999.51615"));
    }
}
