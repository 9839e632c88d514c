//! All results together: as JSON, as a table, and in words.
//!
//! The JSON keys are a promise: keys are added, not renamed; a test holds a snapshot of them.

use serde::Serialize;

use super::environment::Environment;
use super::plan::Policy;
use super::row::{Curve, Row};
use super::take::{GateSeries, Take};

/// Above this load the server cannot serve everybody.
const OVERLOAD: f64 = 1.5;

/// The results of a demo.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Report {
    pub(super) capacity_per_s: u32,
    pub(super) rows: Vec<Row>,
    pub(super) environment: Environment,
    pub(super) delay_distributions: Vec<Curve>,
    pub(super) gate_series: Vec<GateSeries>,
}

impl Report {
    pub(super) fn new(environment: Environment, capacity_per_s: u32) -> Self {
        Self {
            capacity_per_s,
            rows: Vec::new(),
            environment,
            delay_distributions: Vec::new(),
            gate_series: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, take: Take) {
        self.environment.obtained(&take.mode);
        self.rows.push(take.row);
        self.delay_distributions.push(take.delays);
        self.gate_series.push(take.gate);
    }

    pub(super) fn json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Rows of one policy, by rising load.
    pub(super) fn rows_of(&self, policy: Policy) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.policy == policy)
    }

    /// Loads in the order in which they were run.
    pub(super) fn loads(&self) -> Vec<f64> {
        self.rows_of(Policy::ALL[0]).map(|row| row.load).collect()
    }

    pub(super) fn table(&self) -> String {
        let mut text = format!(
            "{:<20}{:>6}{:>11}{:>12}{:>11}{:>12}{:>10}{:>13}{:>11}{:>11}\n",
            "policy",
            "load",
            "offered/s",
            "answered/s",
            "within T1",
            "rejected/s",
            "failed/s",
            "copies/call",
            "p50 ms",
            "p99 ms"
        );
        for row in &self.rows {
            let ms = |ms: Option<f64>| ms.map_or("-".to_owned(), |ms| format!("{ms:.1}"));
            text.push_str(&format!(
                "{:<20}{:>6}{:>11.0}{:>12.0}{:>11.0}{:>12.0}{:>10.0}{:>13.2}{:>11}{:>11}\n",
                row.policy.name(),
                format!("{} ×", row.load),
                row.offered_per_s,
                row.answered_per_s,
                row.answered_within_t1_per_s,
                row.rejected_per_s,
                row.failed_per_s,
                row.copies_per_call,
                ms(row.delay_ms.p50),
                ms(row.delay_ms.p99),
            ));
        }
        text
    }

    /// What the numbers say, one sentence each.
    pub(super) fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        let capacity = f64::from(self.capacity_per_s);
        for policy in Policy::ALL {
            let overloaded: Vec<&Row> = self.rows_of(policy).filter(|row| row.load > OVERLOAD).collect();
            let worst = |share: &dyn Fn(&Row) -> f64| {
                overloaded.iter().map(|row| share(row)).fold(f64::INFINITY, f64::min)
            };
            if overloaded.is_empty() {
                continue;
            }
            findings.push(format!(
                "{} at {} the capacity: at worst {} of the capacity answered, at worst {} of the answers within T1.",
                policy.name(),
                overloaded.iter().map(|row| format!("{} ×", row.load)).collect::<Vec<_>>().join(", "),
                percent(worst(&|row| row.answered_per_s / capacity)),
                percent(worst(&|row| row.in_time_share().unwrap_or(0.0))),
            ));
        }
        for row in &self.rows {
            let problems = row.health.problems();
            if !problems.is_empty() {
                let (policy, load) = (row.policy.name(), row.load);
                findings.push(format!("Mind {policy} at {load} ×: {}.", problems.join(", ")));
            }
        }
        findings
    }
}

/// A share for people: whole per cents, finer near both ends.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.1 {
        "< 0.1 %".to_owned()
    } else if percent > 0.0 && percent < 1.0 || percent > 99.0 && percent < 100.0 {
        // 99.97 must not become 100.
        format!("{:.1} %", (percent * 10.0).floor() / 10.0)
    } else {
        format!("{percent:.0} %")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{Report, percent};
    use crate::demo::environment::Environment;
    use crate::demo::plan::{Marker, Plan, Policy, ServiceTime};
    use crate::demo::row::{Curve, CurvePoint, Delay, Health, Row};
    use crate::demo::take::{GatePoint, GateSeries, Take};
    use crate::status::Mode;
    use serde_json::Value;

    /// A whole report with made-up numbers, all different.
    pub(in crate::demo) fn sample() -> Report {
        let plan = Plan::new(true, 2000, ServiceTime::Exponential, Marker::Field, 1);
        let mut report = Report::new(Environment::read(&plan), 2000);
        for (number, run) in plan.runs().iter().enumerate() {
            let number = number as f64;
            let answered = 1900.0 + number;
            let in_time = if run.policy == Policy::PriorityHysteresis { 1.0 } else { 0.4 / run.load };
            let t1_ms = if in_time < 1.0 { 2000.0 } else { 300.0 };
            report.add(Take {
                row: Row {
                    policy: run.policy,
                    load: run.load,
                    offered_per_s: 2000.0 * run.load + number,
                    answered_per_s: answered,
                    answered_within_t1_per_s: answered * in_time,
                    rejected_per_s: 30.0 + number,
                    failed_per_s: 60.0 + number,
                    copies_per_call: number / 10.0,
                    delay_ms: Delay { p50: Some(t1_ms), p99: (number > 0.0).then_some(t1_ms * 2.0) },
                    health: Health::default(),
                },
                delays: Curve {
                    policy: run.policy,
                    load: run.load,
                    points: (1..=20)
                        .map(|n| f64::from(n) / 20.0)
                        .map(|share| CurvePoint { delay_ms: t1_ms * share * 1.5, share })
                        .collect(),
                },
                gate: GateSeries {
                    policy: run.policy,
                    load: run.load,
                    points: (0..60)
                        .map(|n| GatePoint {
                            t_s: f64::from(n) / 20.0,
                            state: ["normal", "overload", "discard"][n as usize / 7 % 3].into(),
                            waiting: 40 * n as u64,
                            at_server: 32,
                        })
                        .collect(),
                },
                mode: Mode { xdp: "native".into(), af_xdp: "copy".into(), ..Mode::default() },
            });
        }
        report
    }

    fn keys(value: &Value) -> Vec<&str> {
        value.as_object().expect("an object").keys().map(String::as_str).collect()
    }

    #[test]
    fn the_json_has_the_promised_keys() {
        let json: Value = serde_json::from_str(&sample().json().expect("json")).expect("valid");
        assert_eq!(
            keys(&json),
            ["capacity_per_s", "delay_distributions", "environment", "gate_series", "rows"]
        );
        let row = &json["rows"][5];
        assert_eq!(
            keys(row),
            [
                "answered_per_s",
                "answered_within_t1_per_s",
                "copies_per_call",
                "delay_ms",
                "failed_per_s",
                "health",
                "load",
                "offered_per_s",
                "policy",
                "rejected_per_s"
            ]
        );
        assert_eq!(keys(&row["delay_ms"]), ["p50", "p99"]);
        assert_eq!((&row["policy"], &row["load"]), (&"priority".into(), &5.0.into()));
        assert_eq!(json["rows"].as_array().map(Vec::len), Some(9));
        assert_eq!(json["rows"][0]["delay_ms"]["p99"], Value::Null);
        assert_eq!(keys(&json["gate_series"][0]["points"][0]), ["at_server", "state", "t_s", "waiting"]);
        assert_eq!(keys(&json["delay_distributions"][0]["points"][0]), ["delay_ms", "share"]);
        for key in
            ["version", "kernel", "cpu_model", "cores", "seed", "marker", "xdp", "warm_up_s", "window_s"]
        {
            assert!(!json["environment"][key].is_null(), "{key}");
        }
    }

    #[test]
    fn the_table_has_a_line_for_every_row() {
        let table = sample().table();
        assert_eq!(table.lines().count(), 10);
        let last = table.lines().last().expect("a line");
        let words: Vec<&str> = last.split_whitespace().collect();
        assert_eq!(
            words,
            ["priority_hysteresis", "5", "×", "10008", "1908", "1908", "38", "68", "0.80", "300.0", "600.0"]
        );
        let widths: Vec<usize> = table.lines().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{table}");
    }

    #[test]
    fn the_findings_name_the_worst_of_each_policy_under_overload() {
        let mut report = sample();
        report.rows[0].health.not_started = 3;
        let findings = report.findings();
        assert_eq!(
            findings,
            [
                "fifo at 2 ×, 5 × the capacity: at worst 95 % of the capacity answered, at worst 8 % of the answers within T1.",
                "priority at 2 ×, 5 × the capacity: at worst 95 % of the capacity answered, at worst 8 % of the answers within T1.",
                "priority_hysteresis at 2 ×, 5 × the capacity: at worst 95 % of the capacity answered, at worst 100 % of the answers within T1.",
                "Mind fifo at 1 ×: 3 calls not started.",
            ]
        );
    }

    #[test]
    fn percentages_are_never_rounded_to_all_or_nothing() {
        let shown = [0.0, 0.0004, 0.005, 0.4567, 0.9997, 1.0].map(percent);
        assert_eq!(shown, ["0 %", "< 0.1 %", "0.5 %", "46 %", "99.9 %", "100 %"]);
    }
}
