//! What is offered, to what, and what must have become of it: `scenarios/*.toml`.
//!
//! A scenario is a benchmark and a test: `expect` names the decisions of the XDP program with the share of the packets
//! offered, and a run in which the counters say otherwise is no measurement.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use crate::frame::{Flow, Request, Template};
use crate::generator::{Offered, Slot, Stream};
use crate::subject::Decision;

/// Name and text of every scenario, in the order in which they are run.
const TEXTS: [(&str, &str); 15] = [
    ("shed_original", include_str!("../scenarios/shed_original.toml")),
    ("absorb_copy", include_str!("../scenarios/absorb_copy.toml")),
    ("mixed_flood", include_str!("../scenarios/mixed_flood.toml")),
    ("drain", include_str!("../scenarios/drain.toml")),
    ("handoff_kernel", include_str!("../scenarios/handoff_kernel.toml")),
    ("reply_503", include_str!("../scenarios/reply_503.toml")),
    ("refuse", include_str!("../scenarios/refuse.toml")),
    ("goodput", include_str!("../scenarios/goodput.toml")),
    ("latency", include_str!("../scenarios/latency.toml")),
    ("idle_cpu", include_str!("../scenarios/idle_cpu.toml")),
    ("table", include_str!("../scenarios/table.toml")),
    ("services", include_str!("../scenarios/services.toml")),
    ("services_calm", include_str!("../scenarios/services_calm.toml")),
    ("deny", include_str!("../scenarios/deny.toml")),
    ("two_workers", include_str!("../scenarios/two_workers.toml")),
];

/// Which file of `measure/` does it.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Measure {
    InKernel,
    Drain,
    Goodput,
    Handoff,
    Refusals,
    Replies,
    Latency,
    Idle,
    Curve,
    Workers,
}

/// A size of the full and of the quick run.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sizes {
    full: u64,
    quick: u64,
}

impl Sizes {
    pub(crate) fn of(&self, quick: bool) -> u64 {
        if quick { self.quick } else { self.full }
    }
}

/// What must be reached, by row. Shown, not enforced: figures of one machine are no test of another.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Target {
    pub(crate) ratio_min: Option<f64>,
    pub(crate) value_max: Option<f64>,
}

/// A scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// The file's.
    #[serde(skip)]
    pub(crate) name: String,
    /// One sentence, shown before its rows.
    pub(crate) what: String,
    pub(crate) measure: Measure,
    pub(crate) rounds: Sizes,
    /// Left out of a quick run, unless it is named.
    #[serde(default)]
    pub(crate) only_full: bool,
    /// Of the guarded wire.
    #[serde(default = "one_queue")]
    pub(crate) queues: u32,
    /// Offered in each round, by each side.
    #[serde(default = "nothing")]
    pub(crate) packets: Sizes,
    /// None: as fast as it goes.
    pub(crate) rate_per_s: Option<f64>,
    /// By name of the row.
    #[serde(default)]
    pub(crate) target: BTreeMap<String, Target>,
    /// sipweir's configuration, without `[control]`.
    pub(crate) sipweir: String,
    pub(crate) stream: Option<StreamPlan>,
    /// Sent before anything is measured.
    pub(crate) prime: Option<Prime>,
    #[serde(default)]
    pub(crate) expect: Vec<Expected>,
    pub(crate) calls: Option<CallsPlan>,
    pub(crate) curve: Option<CurvePlan>,
}

fn one_queue() -> u32 {
    1
}

fn nothing() -> Sizes {
    Sizes { full: 0, quick: 0 }
}

/// What the generator makes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StreamPlan {
    /// Bytes of every frame.
    pub(crate) frame_len: usize,
    /// Source addresses.
    pub(crate) sources: u32,
    pub(crate) template: Vec<TemplatePlan>,
    /// One packet each, over and over.
    pub(crate) pattern: Vec<SlotPlan>,
    /// The requests of a range so large come again and again.
    pub(crate) range: Option<u32>,
}

/// A kind of frame.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TemplatePlan {
    pub(crate) method: String,
    /// N of ` rtx=N`.
    pub(crate) rtx: Option<u8>,
    #[serde(default)]
    pub(crate) ipv6: bool,
}

/// A packet of the pattern.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SlotPlan {
    pub(crate) template: u8,
    /// See [`Slot::copy_of`].
    pub(crate) copy_of: Option<u32>,
}

/// What grows, and how far.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CurvePlan {
    pub(crate) parameter: Parameter,
    /// The first is what the others are compared with.
    pub(crate) points: Vec<u32>,
}

/// A dimension of the configuration.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Parameter {
    /// `transactions.memory_mib`.
    TableMib,
    /// How many services: `main`, to which everything is sent, comes last, each of the others has a port of its own.
    Services,
    /// How many sources are denied, none of which sends anything.
    Denied,
}

impl Parameter {
    /// What the row of a point is called behind the scenario's name.
    pub(crate) fn label(self, point: u32) -> String {
        match self {
            Self::TableMib => format!("{point}_mib"),
            Self::Services | Self::Denied => point.to_string(),
        }
    }

    /// The configuration with this many of it; what else it needs is written into `folder`.
    pub(crate) fn set(self, configuration: &str, point: u32, folder: &Path) -> anyhow::Result<String> {
        let mut all: toml::Table = toml::from_str(configuration).context("sipweir's configuration")?;
        match self {
            Self::TableMib => {
                let table = toml::Table::from_iter([("memory_mib".to_owned(), i64::from(point).into())]);
                all.insert("transactions".to_owned(), table.into());
            }
            Self::Services => {
                let services = all.get_mut("service").and_then(toml::Value::as_table_mut);
                let services = services.context("no [service]")?;
                let main =
                    services.get("main").and_then(toml::Value::as_table).context("no [service.main]")?;
                let main = main.clone();
                let listen = main.get("listen").and_then(toml::Value::as_str).context("no listen")?;
                let listen: SocketAddr = listen.parse().context("listen")?;
                for number in 1..u16::try_from(point).context("more services than ports")? {
                    let mut other = main.clone();
                    let address = SocketAddr::new(listen.ip(), listen.port() + number);
                    other.insert("listen".to_owned(), address.to_string().into());
                    // Services are in the order of their names.
                    services.insert(format!("a{number:02}"), other.into());
                }
            }
            Self::Denied => {
                let file = folder.join("deny.txt");
                std::fs::write(&file, denied(point))
                    .with_context(|| format!("cannot write {}", file.display()))?;
                let files = toml::Value::from(vec![file.display().to_string()]);
                all.insert("lists".to_owned(), toml::Table::from_iter([("deny".to_owned(), files)]).into());
            }
        }
        toml::to_string(&all).context("sipweir's configuration")
    }
}

/// So many addresses spread over all of IPv4, but for 10.0.0.0/8, which the stage is in.
fn denied(count: u32) -> String {
    // An odd factor makes no address twice.
    let spread = (0_u32..).map(|number| Ipv4Addr::from_bits(number.wrapping_mul(0x9e37_79b1)));
    let others = spread.filter(|address| address.octets()[0] != 10).take(count as usize);
    others.map(|address| format!("{address}\n")).collect()
}

/// What callers do.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallsPlan {
    /// Multiples of the server's best.
    loads: Loads,
    /// How long the best is measured, after a second of warm-up.
    pub(crate) best_s: Sizes,
    pub(crate) warm_up_s: Sizes,
    pub(crate) window_s: Sizes,
    /// After the last start, for answers and BYEs that are on their way. Long, it counts what an overloaded server does when
    /// the overload is over.
    pub(crate) drain_s: Sizes,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Loads {
    full: Vec<f64>,
    quick: Vec<f64>,
}

impl CallsPlan {
    pub(crate) fn loads(&self, quick: bool) -> Vec<f64> {
        if quick { self.loads.quick.clone() } else { self.loads.full.clone() }
    }
}

/// What brings sipweir into the state that is measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prime {
    pub(crate) packets: u64,
    /// The gate that must have come of it.
    pub(crate) gate: Option<String>,
}

/// What the XDP program must have decided.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    pub(crate) class: String,
    pub(crate) verdict: String,
    pub(crate) reason: String,
    /// Of the packets offered.
    pub(crate) share: f64,
    /// How far the share may be off.
    #[serde(default)]
    pub(crate) within: f64,
}

/// All of them.
pub(crate) fn all() -> anyhow::Result<Vec<Scenario>> {
    TEXTS.into_iter().map(|(name, text)| parse(name, text)).collect()
}

fn parse(name: &str, text: &str) -> anyhow::Result<Scenario> {
    let scenario: Scenario = toml::from_str(text).with_context(|| format!("scenarios/{name}.toml"))?;
    Ok(Scenario { name: name.to_owned(), ..scenario })
}

impl StreamPlan {
    /// How far shares may be off because frames did not fit into the wire's ring: each that is missing moves one share
    /// up, and each of its copies may have become an original by it. Nothing, where all packets are of one kind.
    pub(crate) fn slack(&self, offered: &Offered) -> f64 {
        let copies = self.pattern.iter().filter(|slot| slot.copy_of.is_some()).count();
        if copies == 0 {
            return 0.0;
        }
        let copies_a_request = copies as f64 / (self.pattern.len() - copies).max(1) as f64;
        (1.0 + copies_a_request) * offered.refused as f64 / offered.packets as f64
    }

    /// The stream from the sources of both families to one server.
    pub(crate) fn stream(&self, flow: impl Fn(bool) -> anyhow::Result<Flow>) -> anyhow::Result<Stream> {
        let template = |(index, plan): (u8, &TemplatePlan)| {
            let marker = plan.rtx.map_or_else(String::new, |copy| format!(" rtx={copy}"));
            let request = Request { method: plan.method.clone(), marker, frame_len: self.frame_len };
            Template::new(index, &flow(plan.ipv6)?, &request)
        };
        let slot = |plan: &SlotPlan| Slot { template: plan.template, copy_of: plan.copy_of };
        Ok(Stream {
            templates: (0..).zip(&self.template).map(template).collect::<Result<_, _>>()?,
            pattern: self.pattern.iter().map(slot).collect(),
            sources: self.sources,
        })
    }
}

/// Compares what was decided with what was expected; each packet must have been expected. Shares may be off by `slack`.
pub(crate) fn check(
    expected: &[Expected],
    decided: &BTreeMap<Decision, u64>,
    offered: u64,
    slack: f64,
) -> anyhow::Result<()> {
    for Expected { class, verdict, reason, share, within } in expected {
        let found = decided.get(&(class.clone(), verdict.clone(), reason.clone())).copied().unwrap_or(0);
        let off = (found as f64 / offered as f64 - share).abs();
        // Half a packet, so that a share of 1 is exact.
        ensure!(
            off <= within.max(0.5 / offered as f64) + slack,
            "{class}, {verdict}, {reason}: {found} of {offered} packets, expected a share of {share} within {within}; \
             all: {decided:?}"
        );
    }
    let is_expected = |(class, verdict, reason): &Decision| {
        expected.iter().any(|e| (&e.class, &e.verdict, &e.reason) == (class, verdict, reason))
    };
    let stranger = decided.keys().find(|decision| !is_expected(decision));
    ensure!(expected.is_empty() || stranger.is_none(), "{stranger:?} was not expected; all: {decided:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::net::Ipv4Addr;

    use super::{Decision, Expected, Parameter, all, check};
    use crate::frame::Flow;

    fn decision(name: &str) -> Decision {
        ("original".to_owned(), "drop".to_owned(), name.to_owned())
    }

    fn expected(name: &str, share: f64, within: f64) -> Expected {
        let (class, verdict, reason) = decision(name);
        Expected { class, verdict, reason, share, within }
    }

    #[test]
    fn every_scenario_can_be_read_and_its_frames_can_be_made() {
        let flow = |v6: bool| {
            let (source, destination) =
                if v6 { ("fd88::", "[fd77::2]:5060") } else { ("10.177.0.0", "10.77.0.2:5060") };
            Ok(Flow {
                source_mac: [2; 6],
                destination_mac: [2; 6],
                source: source.parse()?,
                destination: destination.parse()?,
            })
        };
        for scenario in all().expect("all can be read") {
            if let Some(stream) = &scenario.stream {
                stream.stream(flow).unwrap_or_else(|error| panic!("{}: {error:#}", scenario.name));
            }
            let shares: f64 = scenario.expect.iter().map(|expected| expected.share).sum();
            assert!(scenario.expect.is_empty() || (shares - 1.0).abs() < 1e-9, "{}: {shares}", scenario.name);
        }
    }

    #[test]
    fn a_point_of_a_curve_changes_what_it_says_and_nothing_else() {
        let text =
            "interface = \"eth0\"\n[service.main]\nlisten = \"10.77.0.2:5060\"\nhandoff = \"kernel\"\n";
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let table = Parameter::TableMib.set(text, 64, folder).expect("a configuration");
        assert!(table.starts_with(text.lines().next().expect("a line")), "{table}");
        assert!(table.contains("[transactions]\nmemory_mib = 64\n"), "{table}");
        let services: toml::Table =
            toml::from_str(&Parameter::Services.set(text, 3, folder).expect("a configuration"))
                .expect("TOML");
        let services = services["service"].as_table().expect("services");
        let listen: Vec<_> = services.iter().map(|(name, s)| (name.as_str(), s["listen"].as_str())).collect();
        let expected = [("a01", "5061"), ("a02", "5062"), ("main", "5060")];
        for ((name, listen), (expected, port)) in listen.iter().zip(expected) {
            assert_eq!((*name, *listen), (expected, Some(format!("10.77.0.2:{port}").as_str())));
        }
        assert_eq!(listen.len(), 3);
        assert!(services.values().all(|service| service["handoff"].as_str() == Some("kernel")));
        let denied = Parameter::Denied.set(text, 100_000, folder).expect("a configuration");
        let denied: toml::Table = toml::from_str(&denied).expect("TOML");
        let list =
            std::fs::read_to_string(denied["lists"]["deny"][0].as_str().expect("a file")).expect("read");
        let addresses: BTreeSet<Ipv4Addr> =
            list.lines().map(|line| line.parse().expect("an address")).collect();
        assert_eq!(addresses.len(), 100_000);
    }

    #[test]
    fn a_share_of_one_is_exact_and_others_have_their_tolerance() {
        let decided = BTreeMap::from([(decision("a"), 999_999), (decision("b"), 1)]);
        assert!(check(&[expected("a", 1.0, 0.0)], &decided, 1_000_000, 0.0).is_err());
        let both = [expected("a", 1.0, 0.01), expected("b", 0.0, 0.01)];
        check(&both, &decided, 1_000_000, 0.0).expect("within");
        let all = BTreeMap::from([(decision("a"), 1_000_000)]);
        check(&[expected("a", 1.0, 0.0)], &all, 1_000_000, 0.0).expect("exact");
    }

    #[test]
    fn what_nobody_expected_is_an_error_of_its_own() {
        let decided = BTreeMap::from([(decision("a"), 9), (decision("b"), 1)]);
        let error = check(&[expected("a", 0.9, 0.0)], &decided, 10, 0.0).expect_err("b").to_string();
        assert!(error.contains("was not expected") && error.contains("\"b\""), "{error}");
    }
}
