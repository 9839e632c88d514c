//! Results for other programs: JSON with everything, CSV with one line for each measure.
//!
//! The keys are a promise: keys are added, not renamed; a test holds a snapshot of them.

use model::plan::{Estimates, RunResult};
use model::simulate::Estimate;
use serde_json::{Map, Value, json};

use super::Report;
use super::table::{parameter, parameter_keys};

/// Everything.
pub(super) fn json(report: &Report) -> anyhow::Result<String> {
    let whole = json!({
        "plan": report.file,
        "title": report.plan.title,
        "about": report.plan.about,
        "version": env!("CARGO_PKG_VERSION"),
        "seeds": report.plan.seeds,
        "runs": report.results.iter().map(run).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&whole)? + "\n")
}

fn run(result: &RunResult) -> Value {
    let parameters = result.parameters.iter().map(|(key, value)| (key.clone(), scalar(value)));
    let nodes = result.nodes.iter().map(|node| (node.name.clone(), measures(&node.measures)));
    let sources = result.sources.iter().map(|source| (source.name.clone(), measures(&source.measures)));
    let samples = result.samples.iter().map(|sample| {
        json!({ "at_s": sample.at as f64 / 1e9, "lines": sample.lines, "answered": sample.answered })
    });
    json!({
        "mechanism": result.mechanism,
        "parameters": parameters.collect::<Map<_, _>>(),
        "measures": measures(&result.measures),
        "nodes": nodes.collect::<Map<_, _>>(),
        "sources": sources.collect::<Map<_, _>>(),
        "samples": samples.collect::<Vec<_>>(),
        "fluid": result.fluid.as_ref().map(|fluid| json!({
            "measures": fluid.measures.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect::<Map<_, _>>(),
            "line": fluid.line,
        })),
    })
}

/// A number where it is one.
fn scalar(text: &str) -> Value {
    text.parse::<serde_json::Number>().map_or_else(|_| text.into(), Value::Number)
}

fn measures(measures: &Estimates) -> Value {
    let one = |(name, estimate): &(&'static str, Estimate)| {
        let (low, high) = estimate.interval();
        let Estimate { count, mean, standard_error, .. } = *estimate;
        // What is not finite becomes null: one replication says nothing about its spread.
        let value = json!({
            "mean": mean, "standard_error": standard_error, "low": low, "high": high, "count": count,
        });
        ((*name).to_owned(), value)
    };
    Value::Object(measures.iter().map(one).collect())
}

/// One line for each measure of each part of each run.
pub(super) fn csv(report: &Report) -> String {
    let keys = parameter_keys(&report.results);
    let mut head = vec!["mechanism".to_owned()];
    head.extend(keys.iter().cloned());
    head.extend(["part", "measure", "mean", "standard_error", "low", "high", "count"].map(str::to_owned));
    let mut text = line(head);
    for result in &report.results {
        let mut names = vec![result.mechanism.clone()];
        names.extend(keys.iter().map(|key| parameter(result, key).to_owned()));
        let mut add = |part: &str, name: &str, numbers: [String; 5]| {
            let part = [part.to_owned(), name.to_owned()];
            text.push_str(&line(names.iter().cloned().chain(part).chain(numbers)));
        };
        let parts = std::iter::once(("calls".to_owned(), &result.measures))
            .chain(result.sources.iter().map(|source| (format!("source.{}", source.name), &source.measures)))
            .chain(result.nodes.iter().map(|node| (format!("node.{}", node.name), &node.measures)));
        for (part, measures) in parts {
            for (name, estimate) in measures {
                let (low, high) = estimate.interval();
                let Estimate { count, mean, standard_error, .. } = *estimate;
                add(
                    &part,
                    name,
                    [plain(mean), plain(standard_error), plain(low), plain(high), count.to_string()],
                );
            }
        }
        for (name, value) in result.fluid.iter().flat_map(|fluid| &fluid.measures) {
            add("fluid", name, [plain(*value), String::new(), String::new(), String::new(), String::new()]);
        }
    }
    text
}

/// A number for programs; empty where there is none.
fn plain(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { String::new() }
}

fn line(fields: impl IntoIterator<Item = String>) -> String {
    let field = |field: String| {
        if field.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field
        }
    };
    fields.into_iter().map(field).collect::<Vec<_>>().join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{csv, json, line};
    use crate::simulate::html::tests::sample;

    fn keys(value: &Value) -> Vec<&str> {
        value.as_object().expect("an object").keys().map(String::as_str).collect()
    }

    #[test]
    fn the_json_has_the_promised_keys() {
        let report = sample();
        let json: Value = serde_json::from_str(&json(&report).expect("json")).expect("valid");
        assert_eq!(keys(&json), ["about", "plan", "runs", "seeds", "title", "version"]);
        let run = &json["runs"][0];
        assert_eq!(
            keys(run),
            ["fluid", "measures", "mechanism", "nodes", "parameters", "samples", "sources"]
        );
        assert_eq!(run["parameters"]["gate.buffer"], 20);
        assert_eq!(
            keys(&run["measures"]["goodput_per_s"]),
            ["count", "high", "low", "mean", "standard_error"]
        );
        assert_eq!(keys(&run["nodes"]), ["server"]);
        assert!(run["nodes"]["server"]["utilisation"]["mean"].as_f64().is_some_and(|busy| busy > 0.9));
        assert_eq!(keys(&run["fluid"]), ["line", "measures"]);
        assert_eq!(keys(&run["samples"][3]), ["answered", "at_s", "lines"]);
        assert_eq!(json["runs"].as_array().map(Vec::len), Some(report.results.len()));
    }

    #[test]
    fn the_csv_has_a_line_for_each_measure_and_as_many_fields_in_each() {
        let text = csv(&sample());
        let mut lines = text.lines();
        let head = "mechanism,gate.buffer,part,measure,mean,standard_error,low,high,count";
        assert_eq!(lines.next(), Some(head));
        assert!(lines.clone().count() > 40);
        assert!(lines.all(|line| line.split(',').count() == 9), "{text}");
        assert!(text.contains("\nfifo,20,calls,goodput_per_s,"));
        assert!(text.contains("\nfifo,20,fluid,copies_per_call,"));
    }

    #[test]
    fn fields_with_commas_are_quoted() {
        let fields = ["mmpp 1:1, 2:2", "a\"b", "c"].map(str::to_owned);
        assert_eq!(line(fields), "\"mmpp 1:1, 2:2\",\"a\"\"b\",c\n");
    }
}
