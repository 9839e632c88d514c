//! The report as one HTML page that needs nothing else: no scripts, no fonts, no network.

use super::plan::{Policy, T1_MS};
use super::report::{Report, percent};
use super::row::Row;
use super::take::GateSeries;
use crate::page::{self, Axis, Plot, Shape, escape, number};

/// The page.
pub(super) fn page(report: &Report) -> String {
    let capacity = number(f64::from(report.capacity_per_s));
    let loads = report.loads();
    let highest = loads.iter().copied().fold(0.0, f64::max);
    let shown = shown_load(&loads);
    let body = format!(
        "<header><h1>A SIP server under up to {highest} times its load</h1>\n\
         <p class=\"lead\">One server that can serve <b>{capacity} requests per second</b>, callers that repeat what is not \
         answered as RFC 3261 tells them to, and three ways to queue. A call that is answered within T1 = 500 ms is a good \
         one: later, the caller has already sent a copy.</p></header>\n\
         {cards}\n{goodput}\n{delays}\n{gates}\n{table}\n{notes}\n",
        cards = cards(report, shown),
        goodput = goodput_section(report),
        delays = delay_section(report, &figure_loads(shown, highest)),
        gates = gate_section(report, &figure_loads(shown, highest)),
        table = table(report),
        notes = notes(report),
    );
    page::document(&format!("sipweir demo: {capacity} requests/s"), &body)
}

/// The load that is looked at first: twice the capacity, where the policies differ most clearly.
fn shown_load(loads: &[f64]) -> f64 {
    let far = |load: f64| (load - 2.0).abs();
    loads.iter().copied().min_by(|a, b| far(*a).total_cmp(&far(*b))).unwrap_or(2.0)
}

fn figure_loads(shown: f64, highest: f64) -> Vec<f64> {
    if shown < highest { vec![shown, highest] } else { vec![shown] }
}

fn shape(policy: Policy) -> Shape {
    match policy {
        Policy::Fifo => Shape::Circle,
        Policy::Priority => Shape::Square,
        Policy::PriorityHysteresis => Shape::Diamond,
    }
}

fn legend() -> String {
    let items = Policy::ALL.map(|policy| {
        format!(
            "<li>{} <b>{}</b>: {}</li>",
            shape(policy).sample(policy.name()),
            policy.name(),
            policy.sentence()
        )
    });
    format!("<ul class=\"legend\">{}</ul>", items.concat())
}

/// The result in three numbers.
fn cards(report: &Report, load: f64) -> String {
    let capacity = f64::from(report.capacity_per_s);
    let card = |policy: Policy| {
        let Some(row) = report.rows_of(policy).find(|row| row.load == load) else { return String::new() };
        format!(
            "<div class=\"card {name}-edge\"><h2>{name}</h2><p class=\"figure\">{share}</p>\
             <p>of the capacity answered within T1 at {load} × load; {in_time} of all answers were in time</p></div>",
            name = policy.name(),
            share = percent(row.answered_within_t1_per_s / capacity),
            in_time = percent(row.in_time_share().unwrap_or(0.0)),
        )
    };
    format!("<section class=\"cards\">{}</section>", Policy::ALL.map(card).concat())
}

fn goodput_section(report: &Report) -> String {
    let plot = |title: &str, value: fn(&Row) -> f64| {
        format!("<figure><figcaption>{title}</figcaption>{}</figure>", goodput(report, title, value))
    };
    format!(
        "<section><h2>Goodput against load</h2>\n<p>Left: calls answered within T1, which is what callers notice. Right: \
         calls answered at all, however late. The dashed line is what the server can do.</p>\n{legend}\
         <div class=\"pair\">{good}{all}</div></section>",
        legend = legend(),
        good = plot("Answered within T1", |row| row.answered_within_t1_per_s),
        all = plot("Answered at all", |row| row.answered_per_s),
    )
}

fn goodput(report: &Report, title: &str, value: fn(&Row) -> f64) -> String {
    let capacity = f64::from(report.capacity_per_s);
    let loads = report.loads();
    let (low, high) =
        loads.iter().fold((f64::MAX, 0.0_f64), |(low, high), load| (low.min(*load), high.max(*load)));
    let labels: Vec<String> = loads.iter().map(|load| format!("{load} ×")).collect();
    let ticks: Vec<(f64, &str)> = loads.iter().copied().zip(labels.iter().map(String::as_str)).collect();
    let x = Axis::logarithmic(low * 0.9, high * 1.1, &ticks, "calls offered, as a multiple of the capacity");
    let y = Axis::linear(capacity * 1.15, 5, "calls per second");
    let mut plot = Plot::new(520.0, 330.0, x, y);
    plot.rule_y("limit", capacity, "capacity");
    for policy in Policy::ALL {
        let points: Vec<(f64, f64)> = report.rows_of(policy).map(|row| (row.load, value(row))).collect();
        plot.line(policy.name(), points.iter().copied());
        plot.markers(policy.name(), shape(policy), points);
    }
    plot.finish(&format!("{title}, against load, for three policies"))
}

fn delay_section(report: &Report, loads: &[f64]) -> String {
    let figures = loads.iter().map(|load| {
        format!("<figure><figcaption>At {load} × the capacity</figcaption>{}</figure>", delays(report, *load))
    });
    format!(
        "<section><h2>How long callers wait</h2>\n<p>The share of answered calls whose 200 came within a time, counted from \
         the moment at which the call was meant to be sent. What lies right of the line at T1 was answered too late: \
         copies were already on their way. Refused calls are not in it; the first seconds, in which the queue still grows, are.</p>\n<div class=\"pair\">{}</div></section>",
        figures.collect::<String>()
    )
}

fn delays(report: &Report, load: f64) -> String {
    const TICKS: [(f64, &str); 6] =
        [(1.0, "1 ms"), (10.0, "10 ms"), (100.0, "100 ms"), (1e3, "1 s"), (1e4, "10 s"), (1e5, "100 s")];
    const SHARES: u32 = 5;
    let curves = || report.delay_distributions.iter().filter(|curve| curve.load == load);
    let longest =
        curves().filter_map(|curve| curve.points.last()).map(|point| point.delay_ms).fold(1e4, f64::max);
    let x = Axis::logarithmic(1.0, longest * 1.15, &TICKS, "delay from first send to answer");
    let mut plot = Plot::new(520.0, 330.0, x, Axis::linear(100.0, SHARES, "% of the answers"));
    plot.rule_x("limit", T1_MS, "T1");
    for curve in curves() {
        plot.line(
            curve.policy.name(),
            curve.points.iter().map(|point| (point.delay_ms, point.share * 100.0)),
        );
    }
    plot.finish(&format!("Distribution of the delay at {load} times the capacity, for three policies"))
}

fn gate_section(report: &Report, loads: &[f64]) -> String {
    let mut figures = String::new();
    for load in loads {
        for series in report.gate_series.iter().filter(|series| series.load == *load) {
            figures.push_str(&format!(
                "<figure><figcaption>{} at {load} ×</figcaption>{}</figure>",
                series.policy.name(),
                gate(report, series)
            ));
        }
    }
    format!(
        "<section><h2>Queue and gate over time</h2>\n<p>What a call that arrives now would wait: messages in the queue \
         divided by the capacity, on a logarithmic scale. Measured between the two thin lines. The ground shows the gate: \
         <span class=\"swatch overload\">overload</span> half of the new calls are refused at once, \
         <span class=\"swatch discard\">discard</span> all of them. Only <b>priority_hysteresis</b> has a gate; it holds \
         the queue below T1, so that nobody sends a copy.</p>\n<div class=\"triple\">{figures}</div></section>"
    )
}

fn gate(report: &Report, series: &GateSeries) -> String {
    const TICKS: [(f64, &str); 5] =
        [(0.001, "1 ms"), (0.01, "10 ms"), (0.1, "100 ms"), (1.0, "1 s"), (10.0, "10 s")];
    let environment = &report.environment;
    let window_end = environment.warm_up_s + environment.window_s;
    let end = window_end + environment.tail_s;
    let x = Axis::linear_exact(end, 5, "seconds");
    let mut plot = Plot::new(400.0, 250.0, x, Axis::logarithmic(0.001, 20.0, &TICKS, "wait in the queue"));
    for (state, from, to) in spans(series, end) {
        if state != "normal" {
            plot.band(&format!("band {state}"), from, to);
        }
    }
    plot.rule_x("edge", environment.warm_up_s, "");
    plot.rule_x("edge", window_end, "");
    plot.rule_y("limit", T1_MS / 1e3, "T1");
    let capacity = f64::from(report.capacity_per_s);
    let wait_s = |messages: u64| messages as f64 / capacity;
    plot.line(
        series.policy.name(),
        series.points.iter().map(|point| (point.t_s, wait_s(point.waiting + point.at_server))),
    );
    plot.finish(&format!(
        "Queue and gate over time: {} at {} times the capacity",
        series.policy.name(),
        series.load
    ))
}

/// Stretches of time in one state of the gate.
fn spans(series: &GateSeries, end: f64) -> Vec<(&str, f64, f64)> {
    let mut spans: Vec<(&str, f64, f64)> = Vec::new();
    for point in &series.points {
        let at = point.t_s.min(end);
        if let Some(last) = spans.last_mut() {
            last.2 = at;
            if last.0 == point.state {
                continue;
            }
        }
        spans.push((&point.state, at, at));
    }
    spans
}

fn table(report: &Report) -> String {
    let mut rows = String::new();
    for row in &report.rows {
        let cells = [
            number(row.offered_per_s.round()),
            number(row.answered_per_s.round()),
            number(row.answered_within_t1_per_s.round()),
            number(row.rejected_per_s.round()),
            number(row.failed_per_s.round()),
            format!("{:.2}", row.copies_per_call),
            delay(row.delay_ms.p50),
            delay(row.delay_ms.p99),
        ];
        rows.push_str(&format!(
            "<tr><th scope=\"row\">{} {}</th><td>{} ×</td>{}</tr>\n",
            shape(row.policy).sample(row.policy.name()),
            row.policy.name(),
            row.load,
            cells.map(|cell| format!("<td>{cell}</td>")).concat()
        ));
    }
    format!(
        "<section><h2>All runs</h2><div class=\"scroll\"><table><thead><tr><th scope=\"col\">policy</th>{}</tr></thead>\
         <tbody>\n{rows}</tbody></table></div></section>",
        [
            "load",
            "offered /s",
            "answered /s",
            "within T1 /s",
            "rejected /s",
            "failed /s",
            "copies per call",
            "delay p50 ms",
            "delay p99 ms"
        ]
        .map(|head| format!("<th scope=\"col\">{head}</th>"))
        .concat()
    )
}

/// A delay in milliseconds; a tenth of one matters only below 100.
fn delay(ms: Option<f64>) -> String {
    match ms {
        None => "–".to_owned(),
        Some(ms) if ms < 100.0 => format!("{ms:.1}"),
        Some(ms) => number(ms),
    }
}

fn notes(report: &Report) -> String {
    let environment = &report.environment;
    let findings: String =
        report.findings().iter().map(|finding| format!("<li>{}</li>", escape(finding))).collect();
    let conditions = serde_json::to_value(environment).ok();
    let conditions = conditions.as_ref().and_then(serde_json::Value::as_object).into_iter().flatten();
    let conditions: String = conditions
        .map(|(key, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("<dt>{}</dt><dd>{}</dd>", escape(&key.replace('_', " ")), escape(&value))
        })
        .collect();
    format!(
        "<section><h2>What it says</h2><ul>{findings}</ul></section>\n\
         <section><h2>How it was counted</h2>\n<ul>\
         <li>Calls start as a Poisson process, whatever became of the calls before. The caller sends copies of an INVITE \
         after 0.5, 1.5, 3.5 … s until it gets a response. A copy costs the server as much as an original.</li>\
         <li>Each run: {warm_up} s warm-up, {window} s measured, {tail} s in which the load goes on. Rates count what happened \
         inside the measured time: calls that were meant to start, first final responses (2xx answered, others rejected), \
         copies sent.</li>\
         <li><b>failed</b>: calls that started in the measured time and had no final response when the run ended. A caller \
         gives up after 32 s, a run is shorter: some of them would still be answered, very late.</li>\
         <li><b>delay</b>: answers of the whole run, so the first seconds of a growing queue are in it and what \
         would have come after its end is not: a collapse is in truth worse than shown.</li>\
         <li>fifo and priority have a buffer of {buffer} messages; priority_hysteresis has the thresholds that \
         <code>sipweir run</code> has by default.</li></ul></section>\n\
         <section><h2>Conditions</h2><dl>{conditions}</dl></section>",
        warm_up = environment.warm_up_s,
        window = environment.window_s,
        tail = environment.tail_s,
        buffer = number(f64::from(environment.buffer_messages)),
    )
}

#[cfg(test)]
mod tests {
    use super::{page, shown_load, spans};
    use crate::demo::report::tests::sample;

    #[test]
    fn the_page_has_every_row_and_every_condition() {
        let report = sample();
        let page = page(&report);
        for row in &report.rows {
            let offered = super::number(row.offered_per_s.round());
            assert!(page.contains(&format!("<td>{offered}</td>")), "{offered}");
        }
        assert_eq!(page.matches("<tr>").count(), 1 + report.rows.len());
        assert_eq!(page.matches("<figure>").count(), 2 + 2 + 6);
        for part in [&report.environment.kernel, "exponential", "field", "native", "20,000 messages"] {
            assert!(page.contains(part), "{part}");
        }
    }

    #[test]
    fn the_page_needs_nothing_from_outside() {
        let page = page(&sample());
        for part in ["http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link"] {
            assert!(!page.contains(part), "{part}");
        }
    }

    #[test]
    fn text_from_the_machine_cannot_break_the_page() {
        let mut report = sample();
        report.environment.cpu_model = "<script>alert(1)</script>".into();
        let page = page(&report);
        assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
    }

    #[test]
    fn every_element_that_opens_closes() {
        let page = page(&sample());
        for element in
            ["section", "figure", "svg", "table", "tr", "td", "ul", "li", "dl", "text", "main", "div", "p"]
        {
            let opened =
                page.matches(&format!("<{element}>")).count() + page.matches(&format!("<{element} ")).count();
            let closed = page.matches(&format!("</{element}>")).count();
            assert_eq!(opened, closed, "{element}");
            assert!(opened > 0, "{element}");
        }
    }

    #[test]
    fn twice_the_capacity_is_shown_first() {
        assert_eq!(shown_load(&[0.5, 1.0, 2.0, 5.0, 10.0]), 2.0);
        assert_eq!(shown_load(&[1.0, 5.0]), 1.0);
        assert_eq!(shown_load(&[]), 2.0);
    }

    #[test]
    fn states_of_the_gate_become_stretches_of_time() {
        let report = sample();
        let series = &report.gate_series[0];
        let spans = spans(series, 2.0);
        assert_eq!(spans[0], ("normal", 0.0, 0.35));
        assert_eq!(spans[1], ("overload", 0.35, 0.7));
        assert!(spans.windows(2).all(|pair| pair[0].2 == pair[1].1 && pair[0].0 != pair[1].0));
        assert!(spans.iter().all(|span| span.2 <= 2.0));
    }
}
