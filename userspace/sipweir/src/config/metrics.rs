//! Where metrics are scraped.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};

/// Metrics in OpenMetrics; without the table nobody can scrape them.
#[derive(Debug, Clone, Deserialize, JsonSchema, Serialize)]
pub struct Metrics {
    /// Where they are served over HTTP: `"127.0.0.1:9464"`, `"[::1]:9464"`, or `"unix:/run/sipweir/metrics.sock"`.
    pub listen: MetricsListen,
}

/// A loopback address and TCP port, or the path of a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricsListen {
    /// A loopback address.
    Tcp(SocketAddr),
    /// A path; its directory is made if missing, the socket has mode 0660.
    Unix(PathBuf),
}

/// What stands in front of a path.
const UNIX: &str = "unix:";

impl FromStr for MetricsListen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix(UNIX) {
            let path = PathBuf::from(path);
            if !path.is_absolute() || path.as_os_str().len() > super::check::SOCKET_PATH_MAX {
                return Err(format!(
                    "{text:?} is no path of a Unix socket; write an absolute one of up to {} bytes, such as \
                     \"unix:/run/sipweir/metrics.sock\"",
                    super::check::SOCKET_PATH_MAX
                ));
            }
            return Ok(Self::Unix(path));
        }
        let Ok(address) = text.parse::<SocketAddr>() else {
            return Err(format!(
                "{text:?} is neither a loopback address and port, such as \"127.0.0.1:9464\" or \"[::1]:9464\", nor a Unix \
                 socket, such as \"unix:/run/sipweir/metrics.sock\""
            ));
        };
        if !address.ip().to_canonical().is_loopback() {
            return Err(format!(
                "{text:?} can be reached by other hosts, and metrics ask for no password; listen on \"127.0.0.1:{}\" and \
                 let a proxy or an agent on this host pass them on",
                if address.port() == 0 { 9464 } else { address.port() }
            ));
        }
        if address.port() == 0 {
            return Err(format!(
                "{text:?} has no port that a scraper could know; 9464 is free on most hosts"
            ));
        }
        Ok(Self::Tcp(address))
    }
}

impl std::fmt::Display for MetricsListen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

impl<'de> Deserialize<'de> for MetricsListen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::config::tests::{LEAST, keys, problems};

    fn metrics(listen: &str) -> String {
        format!("{LEAST}[metrics]\nlisten = \"{listen}\"\n")
    }

    #[test]
    fn metrics_are_off_by_default_and_listen_where_only_this_host_can_ask() {
        assert!(Config::parse("test.toml", LEAST).expect("valid").metrics.is_none());
        for listen in ["127.0.0.1:9464", "127.9.9.9:1", "[::1]:9464", "unix:/run/sipweir/metrics.sock"] {
            let found = Config::parse("test.toml", &metrics(listen)).expect("valid").metrics.expect("on");
            assert_eq!(found.listen.to_string(), listen);
        }
    }

    #[test]
    fn an_address_that_other_hosts_reach_is_refused_and_told_why() {
        for listen in
            ["0.0.0.0:9464", "192.0.2.1:9464", "[::]:9464", "[2001:db8::1]:9464", "[::ffff:192.0.2.1]:9464"]
        {
            let found = problems(&metrics(listen));
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].key, "metrics.listen");
            assert!(found[0].message.contains("listen on \"127.0.0.1:9464\""), "{}", found[0]);
        }
    }

    #[test]
    fn what_is_no_place_is_told_what_one_looks_like() {
        let too_long = format!("unix:/{}", "x".repeat(200));
        for listen in
            ["localhost:9464", "9464", "", "unix:", "unix:metrics.sock", "127.0.0.1:0", too_long.as_str()]
        {
            let found = problems(&metrics(listen));
            assert!(found.len() == 1 && found[0].key == "metrics.listen", "{listen}: {found:?}");
        }
        assert_eq!(keys(&format!("{LEAST}[metrics]\nport = 1\n")), ["metrics", "metrics.port"]);
    }
}
