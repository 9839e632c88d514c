//! The dashboard and the alert rules in `docs/`: every query must be PromQL, and name only metrics, labels and values that the
//! table has.

use std::path::Path;

use promql_parser::label::{MatchOp, Matcher};
use promql_parser::parser::{self, Expr, LabelModifier, VectorSelector};
use serde_json::Value;
use sipweir::metrics::{Kind, Metric, Values, metrics};

/// Labels that the scraper adds.
const OF_THE_SCRAPER: [&str; 2] = ["instance", "job"];

fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The metric that has a sample of that name.
fn metric_of(sample: &str) -> Option<&'static Metric> {
    metrics().find(|metric| metric.sample_names().iter().any(|name| name == sample))
}

/// Everything that is wrong with a query, and the labels that its results can have.
struct Check {
    problems: Vec<String>,
    labels: Vec<&'static str>,
}

impl Check {
    fn of(query: &str) -> Self {
        let mut check = Self { problems: Vec::new(), labels: OF_THE_SCRAPER.into() };
        match parser::parse(query) {
            Ok(expression) => check.walk(&expression),
            Err(error) => check.problems.push(format!("no PromQL: {error}")),
        }
        for problem in &mut check.problems {
            *problem = format!("{query}\n    {problem}");
        }
        check
    }

    fn walk(&mut self, expression: &Expr) {
        match expression {
            Expr::VectorSelector(selector) => self.selector(selector),
            Expr::MatrixSelector(matrix) => self.selector(&matrix.vs),
            Expr::Aggregate(aggregate) => {
                aggregate.param.iter().for_each(|param| self.walk(param));
                self.walk(&aggregate.expr);
                if let Some(LabelModifier::Include(by) | LabelModifier::Exclude(by)) = &aggregate.modifier {
                    by.labels.iter().for_each(|label| self.label(label));
                }
            }
            Expr::Binary(binary) => {
                self.walk(&binary.lhs);
                self.walk(&binary.rhs);
            }
            Expr::Call(call) => call.args.args.iter().for_each(|argument| self.walk(argument)),
            Expr::Unary(unary) => self.walk(&unary.expr),
            Expr::Paren(paren) => self.walk(&paren.expr),
            Expr::Subquery(subquery) => self.walk(&subquery.expr),
            Expr::NumberLiteral(_) | Expr::StringLiteral(_) => {}
            other => self.problems.push(format!("this test does not know {other:?}")),
        }
    }

    fn selector(&mut self, selector: &VectorSelector) {
        let name = selector.name.as_deref().unwrap_or_default();
        // The one that every scraper makes.
        let is_up = name == "up";
        let metric = metric_of(name);
        if metric.is_none() && !is_up {
            self.problems.push(format!("there is no metric {name:?}"));
            return;
        }
        if let Some(metric) = metric {
            self.labels.extend(metric.labels.iter().map(|label| label.name()));
            if metric.kind == Kind::Histogram && name.ends_with("_bucket") {
                self.labels.push("le");
            }
        }
        for matcher in &selector.matchers.matchers {
            if OF_THE_SCRAPER.contains(&matcher.name.as_str()) {
                continue;
            }
            let label =
                metric.and_then(|metric| metric.labels.iter().find(|label| label.name() == matcher.name));
            let Some(label) = label else {
                self.problems.push(format!("{name} has no label {:?}", matcher.name));
                continue;
            };
            let Values::Closed(allowed) = label.values() else { continue };
            for value in values_of(matcher) {
                if !allowed.contains(&value) {
                    self.problems.push(format!("{} of {name} is never {value:?}", matcher.name));
                }
            }
        }
    }

    fn label(&mut self, label: &str) {
        if !self.labels.contains(&label) {
            self.problems.push(format!("none of its metrics has a label {label:?}"));
        }
    }

    /// A text with `{{label}}` or `{{ $labels.label }}` in it, or with `{{ $value | function }}`.
    fn template(&mut self, text: &str) {
        for part in text.split("{{").skip(1) {
            let name = part.split("}}").next().unwrap_or_default().trim();
            if let Some(function) = name.strip_prefix("$value | ") {
                if !["humanizePercentage", "humanizeDuration"].contains(&function) {
                    self.problems.push(format!("this test does not know the function {function:?}"));
                }
                continue;
            }
            self.label(name.strip_prefix("$labels.").unwrap_or(name));
        }
    }
}

/// The values that a matcher names: one, or the alternatives of a regular expression.
fn values_of(matcher: &Matcher) -> Vec<&str> {
    match matcher.op {
        MatchOp::Equal | MatchOp::NotEqual => vec![&matcher.value],
        MatchOp::Re(_) | MatchOp::NotRe(_) => matcher.value.split('|').collect(),
    }
}

/// Queries and legends of the dashboard's panels, in rows and out of them.
fn panels(of: &Value) -> Vec<&Value> {
    let panels = of["panels"].as_array().map(Vec::as_slice).unwrap_or_default();
    panels.iter().flat_map(|panel| std::iter::once(panel).chain(self::panels(panel))).collect()
}

#[test]
fn the_dashboard_asks_only_for_what_there_is() {
    let dashboard: Value = serde_json::from_str(&document("grafana/sipweir.json")).expect("JSON");
    let variables: Vec<&Value> =
        dashboard["templating"]["list"].as_array().expect("variables").iter().collect();
    let names: Vec<&str> = variables.iter().filter_map(|variable| variable["name"].as_str()).collect();
    let mut problems = Vec::new();
    let mut queries = 0;
    for panel in panels(&dashboard) {
        for target in panel["targets"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let query = target["expr"].as_str().expect("a query");
            for variable in query.split('$').skip(1) {
                let end = variable.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(variable.len());
                let name = &variable[..end];
                assert!(
                    names.contains(&name) || name == "__rate_interval",
                    "no variable {name:?} for {query}"
                );
            }
            let mut check = Check::of(&query.replace("$__rate_interval", "5m"));
            check.template(target["legendFormat"].as_str().expect("a legend"));
            problems.append(&mut check.problems);
            queries += 1;
        }
    }
    for variable in variables {
        let Some(query) = variable["query"]["query"].as_str() else { continue };
        let arguments = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
        let (selector, label) =
            arguments.and_then(|inner| inner.rsplit_once(", ")).expect("label_values(…, …)");
        let mut check = Check::of(selector);
        check.label(label);
        problems.append(&mut check.problems);
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(queries > 20, "{queries} queries: were they looked for in the right place?");
}

#[test]
fn the_panels_of_the_dashboard_do_not_overlap() {
    let dashboard: Value = serde_json::from_str(&document("grafana/sipweir.json")).expect("JSON");
    let place = |panel: &Value| {
        let edge = |key: &str| panel["gridPos"][key].as_u64().expect("a place");
        (edge("x"), edge("y"), edge("w"), edge("h"))
    };
    let places: Vec<_> = panels(&dashboard).into_iter().map(place).collect();
    for (at, (x, y, w, h)) in places.iter().enumerate() {
        assert!(x + w <= 24, "{:?} is wider than the page", places[at]);
        for other @ (x2, y2, w2, h2) in &places[at + 1..] {
            let apart = x + w <= *x2 || x2 + w2 <= *x || y + h <= *y2 || y2 + h2 <= *y;
            assert!(apart, "{:?} and {other:?}", places[at]);
        }
    }
}

#[test]
fn the_alert_rules_ask_only_for_what_there_is() {
    let rules: Value = serde_yaml_ng::from_str(&document("alerts.yml")).expect("YAML");
    let mut problems = Vec::new();
    let mut names = Vec::new();
    for group in rules["groups"].as_array().expect("groups") {
        for rule in group["rules"].as_array().expect("rules") {
            let name = rule["alert"].as_str().expect("a name");
            names.push(name);
            let mut check = Check::of(rule["expr"].as_str().expect("a query"));
            for text in ["summary", "description"] {
                check.template(
                    rule["annotations"][text].as_str().unwrap_or_else(|| panic!("{name} has no {text}")),
                );
            }
            problems.append(&mut check.problems);
            let severity = rule["labels"]["severity"].as_str();
            assert!(matches!(severity, Some("page" | "ticket")), "{name}: {severity:?}");
            let keys = rule.as_object().expect("a rule").keys();
            let known = ["alert", "expr", "for", "labels", "annotations"];
            keys.for_each(|key| assert!(known.contains(&key.as_str()), "{name}: {key}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(names.len() > 5, "{names:?}");
    let distinct: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len(), "{names:?}");
}

#[test]
fn a_query_that_is_wrong_is_found_out() {
    for (query, said) in [
        ("sum(sipweir_nothing_total)", "there is no metric \"sipweir_nothing_total\""),
        ("sipweir_messages_waiting{class=\"ack\"}", "has no label \"class\""),
        ("sipweir_messages_received_total{class=\"bye\"}", "is never \"bye\""),
        ("rate(sipweir_gate_time_seconds_total{state=~\"normal|shut\"}[5m])", "is never \"shut\""),
        ("sum by (queue) (sipweir_uptime_seconds)", "has a label \"queue\""),
        ("sum(sipweir_uptime_seconds", "no PromQL"),
        ("sipweir_wait_seconds", "there is no metric"),
    ] {
        let problems = Check::of(query).problems;
        assert!(problems.len() == 1 && problems[0].contains(said), "{query}: {problems:?}");
    }
}
