//! Whose packets are dropped, and whose are not.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Lists of sources by network. Files have a network (`203.0.113.0/24`, `2001:db8::/32`, one address) a line, then, if it is to
/// end, the time as in RFC 3339 (`2026-12-31T23:59:59Z`); a `#` begins a comment.
#[derive(Debug, Clone, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Lists {
    /// Files of denied networks: what comes from them to a service is dropped in the XDP program. None by default.
    pub deny: Vec<PathBuf>,
    /// Files of allowed networks, which win over denied ones whichever is longer. None by default.
    pub allow: Vec<PathBuf>,
    /// Most networks of each list, up to 4,194,304. Room takes no memory before it is used, and then up to 192 bytes for each
    /// network in the kernel and some 200 in sipweir. Default 262,144.
    pub room: u32,
}

impl Default for Lists {
    fn default() -> Self {
        Self { deny: Vec::new(), allow: Vec::new(), room: 262_144 }
    }
}

impl Lists {
    /// The files of a list.
    #[must_use]
    pub fn files(&self, list: xdp_prog::List) -> &[PathBuf] {
        match list {
            xdp_prog::List::Deny => &self.deny,
            xdp_prog::List::Allow => &self.allow,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::config::tests::{LEAST, keys, problems};

    #[test]
    fn lists_are_empty_by_default_and_have_room() {
        let lists = Config::parse("test.toml", LEAST).expect("valid").lists;
        assert!(lists.deny.is_empty() && lists.allow.is_empty());
        assert_eq!(lists.room, 262_144);
    }

    #[test]
    fn files_are_named_by_absolute_paths_and_room_has_an_end() {
        let text = format!("{LEAST}[lists]\ndeny = [\"deny.txt\", \"/etc/deny.txt\"]\nroom = 0\n");
        assert_eq!(keys(&text), ["lists.deny", "lists.room"]);
        assert!(problems(&text)[0].message.contains("deny.txt"));
        let text = format!("{LEAST}[lists]\nallow = [\"/etc/allow.txt\"]\nroom = 5000000\n");
        assert_eq!(keys(&text), ["lists.room"]);
    }
}
