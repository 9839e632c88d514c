//! The capture that a client has asked for, while it runs.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A capture that is under way (`sipweir capture`), and what it is of; a word that is absent narrows nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Capturing {
    /// For how long it has been running.
    pub running_s: f64,
    /// `shed`, `absorbed`, `dropped` or `served`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// An OUTCOME or REASON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A CLASS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Name of a service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// One packet of so many, by lot.
    pub one_in: u32,
    /// Packets that the client has been sent.
    pub sent_so_far: u64,
    /// Packets that found no buffer.
    pub lost_so_far: u64,
}

impl Capturing {
    pub(super) fn write_text(&self, out: &mut String) -> std::fmt::Result {
        let Self { running_s, verdict, reason, class, service, one_in, sent_so_far, lost_so_far } = self;
        write!(out, "\na client captures, for {running_s:.0} s so far:")?;
        let words = [("verdict", verdict), ("reason", reason), ("class", class), ("service", service)];
        for (name, word) in words {
            if let Some(word) = word {
                write!(out, " {name} {word},")?;
            }
        }
        writeln!(out, " one in {one_in}; {sent_so_far} sent, {lost_so_far} lost")
    }
}

#[cfg(test)]
mod tests {
    use super::Capturing;
    use crate::status::Status;

    #[test]
    fn a_capture_is_shown_with_what_it_is_of_while_it_runs() {
        let capturing = Capturing {
            running_s: 12.3,
            verdict: Some("shed".into()),
            service: Some("main".into()),
            one_in: 100,
            sent_so_far: 40,
            lost_so_far: 2,
            ..Capturing::default()
        };
        let on = Status { capturing: Some(capturing), ..Status::default() };
        let line =
            "\na client captures, for 12 s so far: verdict shed, service main, one in 100; 40 sent, 2 lost\n";
        assert!(on.text().contains(line), "{}", on.text());
        let json = serde_json::to_string(&on).expect("JSON");
        assert!(!json.contains("\"reason\":null"), "{json}");
        assert_eq!(serde_json::from_str::<Status>(&json).expect("status").capturing, on.capturing);
        assert!(!Status::default().text().contains("captures"));
    }
}
