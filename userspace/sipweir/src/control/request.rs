//! What a client can ask of a running instance, and how it is written: one line, a JSON object with the name of the request
//! and its arguments, such as `{"request":"status"}`. A request without arguments may also be its mere name, `status`.
//!
//! To add a request: an arm of [`Request`] here, with the type of its answer in its sentence; an arm of `run/requests.rs`
//! that answers it; a command that calls [`super::ask`]. A change goes through the lock there.

use std::path::PathBuf;

use crate::capture::filter::Filter;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::config::LimitKey;
use crate::list::List;
use crate::prefix::Prefix;

/// Bytes of a request: room for a path and for some prefixes.
pub const REQUEST_BYTES_MAX: usize = 4096;

/// A request. Each has braces, also without arguments: only then serde refuses arguments that it does not know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// What the instance does: a [`crate::status::Status`].
    Status {},
    /// Take over a changed configuration, or say what that would change: a [`crate::reload::Reloaded`].
    Reload {
        /// Absolute; by default the file of the start.
        #[serde(default)]
        config: Option<PathBuf>,
        /// Change nothing.
        #[serde(default)]
        check: bool,
    },
    /// The limits of each service: a [`crate::limit::Shown`].
    LimitShow {},
    /// Gives a cap another value: a [`crate::reload::Reloaded`].
    LimitSet {
        /// Of which service.
        service: String,
        /// Which cap.
        key: LimitKey,
        /// As on the command line ([`crate::limit::rate_of`]).
        value: String,
        /// For the sources of this network; null is for all that have none of their own.
        network: Option<Prefix>,
    },
    /// Networks of a list of sources, the first ones behind `after`: a [`crate::list::Shown`].
    ListShow {
        /// Which.
        list: List,
        /// The last one of the answer before.
        after: Option<Prefix>,
    },
    /// Adds a network to a list, or gives it another end: a [`crate::lists::keeper::Added`].
    ListAdd {
        /// To which.
        list: List,
        /// Which.
        network: Prefix,
        /// RFC 3339; null is for ever.
        until: Option<String>,
    },
    /// Takes a network out of a list: a [`crate::list::Removed`].
    ListRemove {
        /// From which.
        list: List,
        /// The very network.
        network: Prefix,
    },
    /// Reads the files of the lists again: a [`crate::list::BothReloaded`].
    ListReload {},
    /// Packets as they come, until the client hangs up: lines and bytes as in `capture/record.rs`.
    Capture {
        /// Which.
        filter: Filter,
        /// End after so many.
        count: Option<u64>,
        /// End after so many milliseconds.
        duration_ms: Option<u64>,
    },
}

/// Why a line is no request.
#[derive(Debug, Error)]
pub enum RequestError {
    /// Not understood.
    #[error("this is no request: {0}")]
    Unknown(#[from] serde_json::Error),
    /// Not read to its end.
    #[error("a request has at most {REQUEST_BYTES_MAX} bytes, with its line end")]
    TooLong,
}

impl Request {
    /// Reads a line, without its end.
    ///
    /// # Errors
    ///
    /// When it is none, or one with other arguments.
    pub fn parse(line: &[u8]) -> Result<Self, RequestError> {
        let line = line.trim_ascii();
        if line.starts_with(b"{") {
            return Ok(serde_json::from_slice(line)?);
        }
        let name = String::from_utf8_lossy(line);
        Ok(serde_json::from_value(serde_json::json!({ "request": name }))?)
    }

    /// The line, with its end.
    ///
    /// # Errors
    ///
    /// When it is too long, or has an argument that JSON cannot say, such as a path that is no UTF-8.
    pub fn line(&self) -> Result<Vec<u8>, RequestError> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        if line.len() > REQUEST_BYTES_MAX { Err(RequestError::TooLong) } else { Ok(line) }
    }
}

/// The answer to a request that is not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// Why, and what to change.
    pub error: String,
}

#[cfg(test)]
mod tests {
    use super::Request;

    #[test]
    fn a_request_is_an_object_or_a_mere_name() {
        for line in ["status", " status\r", r#"{"request":"status"}"#, r#" { "request" : "status" } "#] {
            assert_eq!(Request::parse(line.as_bytes()).expect(line), Request::Status {}, "{line}");
        }
        assert_eq!(Request::Status {}.line().expect("short"), b"{\"request\":\"status\"}\n");
        let reload = Request::Reload { config: None, check: false };
        assert_eq!(Request::parse(b"reload").expect("arguments have defaults"), reload);
        let check = Request::Reload { config: Some("/etc/x.toml".into()), check: true };
        assert_eq!(Request::parse(&check.line().expect("short")).expect("its own line"), check);
    }

    #[test]
    fn what_is_no_request_is_refused_with_what_there_is() {
        for (line, said) in [
            (&b""[..], "expected"),
            (b"stat", "unknown variant `stat`, expected"),
            (b"\0\xff", "expected"),
            (b"{}", "missing field `request`"),
            (b"{\"request\":\"status\",\"verbose\":true}", "unknown field `verbose`"),
            (b"{\"request\":\"status\"} x", "trailing characters"),
            (b"{\"request\":", "EOF"),
        ] {
            let error = Request::parse(line).expect_err("refused").to_string();
            assert!(error.contains(said), "{line:?}: {error}");
        }
    }

    #[test]
    fn depth_cannot_exhaust_the_stack() {
        let deep = [b'['; super::REQUEST_BYTES_MAX];
        let line = [&b"{\"request\":"[..], &deep].concat();
        assert!(Request::parse(&line).is_err());
    }
}
