//! `docs/metrics.md`, from the table.

use std::fmt::Write as _;

use super::{Kind, Label, Metric, PREFIX, Values, metrics};
use crate::counters::wait_bounds_s;

/// The page; `cargo xtask docs` writes it.
#[must_use]
pub fn page() -> String {
    let mut page = String::new();
    // Writing to a String cannot fail.
    let _ok = write_page(&mut page);
    page
}

fn write_page(page: &mut String) -> std::fmt::Result {
    page.push_str(HEAD);
    page.push_str("\n## Metrics\n\n| name | kind | labels | what it says |\n|---|---|---|---|\n");
    for metric in metrics() {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{}`", label.name())).collect();
        let (name, kind) = (name_of(metric), metric.kind.name());
        writeln!(page, "| `{name}` | {kind} | {} | {} |", labels.join(", "), metric.sentence)?;
    }
    for (histogram, bounds) in
        [("wait", &wait_bounds_s()[..]), ("server_answer_time", &xdp_prog::answer_bounds_s()[..])]
    {
        let bounds: Vec<String> = bounds.iter().map(f64::to_string).collect();
        let bounds = bounds.join(", ");
        writeln!(page, "\nBounds of the buckets (`le`) of `{PREFIX}_{histogram}_seconds`: {bounds}, +Inf.")?;
    }
    page.push_str(
        "\n## Labels\n\nEvery value that a label can have.\n\n| label | of | values |\n|---|---|---|\n",
    );
    for label in Label::ALL {
        let of = metrics().filter(|metric| metric.labels.contains(&label));
        let of: Vec<String> = of.map(|metric| format!("`{}`", metric.family())).collect();
        let of = if of.len() > 4 { format!("{} metrics", of.len()) } else { of.join(", ") };
        let values = match label.values() {
            Values::Closed(values) => {
                values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ")
            }
            Values::Open(which) => which.to_owned(),
        };
        writeln!(page, "| `{}` | {of} | {values} |", label.name())?;
    }
    Ok(())
}

/// As it stands in a query; a histogram by its family.
fn name_of(metric: &Metric) -> String {
    match metric.kind {
        Kind::Histogram => metric.family(),
        Kind::Counter | Kind::Gauge | Kind::Info => metric.sample_names().concat(),
    }
}

const HEAD: &str = "\
# Metrics

<!-- Made by `cargo xtask docs` from userspace/sipweir/src/metrics/table; a test compares the two. -->

With

```
[metrics]
listen = \"127.0.0.1:9464\"     # or \"unix:/run/sipweir/metrics.sock\"
```

sipweir answers `GET /metrics` with OpenMetrics 1.0, which Prometheus, VictoriaMetrics, Telegraf and the OpenTelemetry
collector read:

```
curl http://127.0.0.1:9464/metrics
curl --unix-socket /run/sipweir/metrics.sock http://localhost/metrics
```

It has no encryption and asks for no password, so an address that other hosts can reach is refused; let a reverse proxy or the
agent of your monitoring on this host pass it on. One client is served at a time, each within 2 s, by a thread of its own: a scrape
costs the workers nothing.

[alerts.yml](alerts.yml) has alert rules for Prometheus, [grafana/sipweir.json](grafana/sipweir.json) a dashboard; tests hold
both against this table. `sipweir status --json` has the same numbers, and some more ([status.md](status.md)).

What to know when reading them:

- Names are promises: metrics are added, not renamed. Labels have closed sets of values, below.
- Counters count from the start of the instance and are lost with it; `rate()` and `increase()` cope with that.
- `sipweir_xdp_packets_total` and `sipweir_messages_finished_total` have a row from its first packet on, since most combinations of
  their labels never occur. All other counters are there from the start, with 0.
- What `sipweir_xdp_packets_total` counts with a verdict of `ring_…` reaches a worker, or is lost at a full ring
  (`sipweir_af_xdp_rx_ring_full_total`) or for want of a frame. What it counts with `pass` is the kernel's, and may come back by the
  side door. Both tables thus hold a message once; do not add them up.
- \"Kernel:\" begins what the kernel counts and sipweir only passes on.
- No metric has a label for sources, calls or users: their number is the sender's choice. `sipweir top` shows the busiest sources.
";

#[cfg(test)]
mod tests {
    use super::page;
    use crate::metrics::{Values, metrics};

    #[test]
    fn the_page_has_every_metric_and_every_value() {
        let page = page();
        for metric in metrics() {
            assert!(page.contains(&format!("| `{}", metric.family())), "{}", metric.family());
            for label in metric.labels {
                let Values::Closed(values) = label.values() else { continue };
                for value in values {
                    assert!(page.contains(&format!("`{value}`")), "{value}");
                }
            }
        }
    }
}
