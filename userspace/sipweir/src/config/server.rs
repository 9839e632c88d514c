//! The server behind a service.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Span;

/// The local server of a `kernel` hand-off.
#[derive(Debug, Clone, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Server {
    /// Messages that may wait in the server's own receive queue. Too small: the server idles between two
    /// looks (one per 200 us). Too large: that queue is a second FIFO without priority, and the default
    /// socket buffer holds only about 90. Default 32.
    pub queue_target: u32,
    /// The server counts as down after its port had no socket for this long. Default 100 ms.
    pub down_after: Span,
    /// Count what the server answers, and how soon, as it leaves by the guarded interface. Default true; where the
    /// kernel cannot, the log says so and all else goes on.
    pub watch_answers: bool,
    /// Bound on the median time from hand-over to the first answer. Above it the server is given less, and what is too
    /// much waits in sipweir and is shed there. Default none. Several times what the server takes at ease: lower, and it is
    /// held back for nothing; higher, and its callers send again first.
    pub answer_time_max: Option<Span>,
    /// Bound on the share of 503 among the server's final answers, 0 to 1, with the same effect. Default none.
    pub unavailable_max: Option<f64>,
    /// Send the server OPTIONS so often, and take it to be down after three in a row without an answer, although it has a
    /// socket. Default: none is sent. A server that has never answered one is not judged by it.
    pub probe_interval: Option<Span>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            queue_target: 32,
            down_after: Span::from_millis(100),
            watch_answers: true,
            answer_time_max: None,
            unavailable_max: None,
            probe_interval: None,
        }
    }
}

/// Shorter, and the server answers probes instead of calls.
const PROBE_INTERVAL_NS_MIN: u64 = 100_000_000;

impl Server {
    /// Reports what cannot be meant.
    pub(super) fn check(&self, path: &str, report: &mut impl FnMut(String, String)) {
        if self.queue_target == 0 {
            report(format!("{path}.queue_target"), "at least 1, or nothing is ever handed over".into());
        }
        if self.unavailable_max.is_some_and(|share| !(0.0..1.0).contains(&share)) {
            report(format!("{path}.unavailable_max"), "a share from 0 to below 1".into());
        }
        for (key, is_set) in [
            ("answer_time_max", self.answer_time_max.is_some()),
            ("unavailable_max", self.unavailable_max.is_some()),
        ] {
            if is_set && !self.watch_answers {
                let message = "judged by the server's answers, which are not seen; set watch_answers = true";
                report(format!("{path}.{key}"), message.into());
            }
        }
        if self.answer_time_max.is_some_and(|span| span.nanos() == 0) {
            report(format!("{path}.answer_time_max"), "must be above 0".into());
        }
        if self.probe_interval.is_some_and(|span| span.nanos() < PROBE_INTERVAL_NS_MIN) {
            report(format!("{path}.probe_interval"), "at least 100ms".into());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::tests::problems;
    use crate::config::{Config, Span};

    fn service(lines: &str) -> String {
        format!("interface = \"eth0\"\n[service.main]\nlisten = \"*:5060\"\nhandoff = \"kernel\"\n{lines}\n")
    }

    #[test]
    fn bounds_and_probes_are_off_by_default_and_can_be_set() {
        let server = |lines| {
            Config::parse("test.toml", &service(lines)).expect("valid").service["main"].server.clone()
        };
        let off = server("");
        assert!(off.watch_answers);
        assert!(
            off.answer_time_max.is_none() && off.unavailable_max.is_none() && off.probe_interval.is_none()
        );
        let on =
            server("server = { answer_time_max = \"80ms\", unavailable_max = 0.1, probe_interval = \"1s\" }");
        assert_eq!(on.answer_time_max.map(Span::nanos), Some(80_000_000));
        assert_eq!(
            (on.unavailable_max, on.probe_interval.map(Span::nanos)),
            (Some(0.1), Some(1_000_000_000))
        );
    }

    #[test]
    fn what_cannot_be_meant_is_named() {
        for (lines, key, said) in [
            ("server.queue_target = 0", "queue_target", "at least 1"),
            ("server.unavailable_max = 1.0", "unavailable_max", "below 1"),
            ("server.answer_time_max = \"0ms\"", "answer_time_max", "above 0"),
            ("server.probe_interval = \"10ms\"", "probe_interval", "100ms"),
            (
                "server = { answer_time_max = \"1s\", watch_answers = false }",
                "answer_time_max",
                "watch_answers = true",
            ),
        ] {
            let found = problems(&service(lines));
            assert!(
                found.len() == 1 && found[0].key.ends_with(key) && found[0].message.contains(said),
                "{lines}: {found:?}"
            );
        }
    }
}
