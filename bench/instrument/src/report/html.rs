//! The report as one page that needs nothing else: no scripts, no fonts, no network.

use std::fmt::Write as _;

use super::{Report, Row, figure, verdict};

const STYLE: &str = include_str!("style.css");

/// The longest bar, percent of its cell.
const BAR_PERCENT_MAX: f64 = 100.0;

/// The page.
pub(crate) fn page(report: &Report) -> String {
    let machine = &report.machine;
    let mut page = String::new();
    // Writing to a String cannot fail.
    let _ok = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>sipweir bench, {date}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>sipweir against the bare kernel, and against what would run instead</h1>\n\
         <p>{date}, revision {revision}; Linux {kernel} on {cpu}, {cores} cores, {memory} MiB, load {load} at the start; \
         {network}; {kind} run of {seconds:.0} s. Medians over rounds in which both sides took turns; what they mean \
         and what they do not show is in bench/METHODOLOGY.md.</p>\n\
         <table>\n<thead><tr><th>row</th><th>sipweir</th><th>rival</th><th></th><th>ratio</th><th>spread</th>\
         <th>target</th></tr></thead>\n<tbody>\n",
        date = escape(&machine.date),
        revision = escape(&machine.revision),
        kernel = escape(&machine.kernel),
        cpu = escape(&machine.cpu_model),
        cores = machine.cores,
        memory = machine.memory_mib,
        load = escape(&machine.load),
        network = machine.network,
        kind = if report.quick { "quick" } else { "full" },
        seconds = report.seconds,
    );
    for row in &report.rows {
        write_row(&mut page, report, row);
    }
    page.push_str("</tbody>\n</table>\n<h2>What else was found</h2>\n<dl>\n");
    for (scenario, details) in &report.details {
        let _ok = writeln!(page, "<dt>{}</dt>", escape(scenario));
        for (name, value) in details.iter().filter(|(name, _)| !name.starts_with("rounds_")) {
            let _ok = writeln!(page, "<dd>{}: {}</dd>", escape(name), escape(&shown(value)));
        }
    }
    page.push_str("</dl>\n</main>\n</body>\n</html>\n");
    page
}

fn write_row(page: &mut String, report: &Report, row: &Row) {
    let target = report.targets.get(&row.name);
    let class = match row.reaches(target) {
        Some(true) => "reached",
        Some(false) => "missed",
        None => "plain",
    };
    let largest = row.value.abs().max(row.rival_value.abs());
    let width = |value: f64| if largest > 0.0 { BAR_PERCENT_MAX * value.abs() / largest } else { 0.0 };
    let _ok = writeln!(
        page,
        "<tr class=\"{class}\"><th>{name}</th><td>{value} {unit}</td><td>{rival_value} {rival}</td>\
         <td class=\"bars\"><i style=\"width:{ours:.1}%\"></i><b style=\"width:{theirs:.1}%\"></b></td>\
         <td>{ratio}</td><td>{spread:.0} %</td><td>{verdict}</td></tr>",
        name = escape(&row.name),
        value = figure(row.value),
        unit = escape(&row.unit),
        rival_value = figure(row.rival_value),
        rival = escape(&row.rival),
        ours = width(row.value),
        theirs = width(row.rival_value),
        ratio = figure(row.ratio),
        spread = 100.0 * row.spread,
        verdict = escape(&verdict(row, target)),
    );
}

fn shown(value: &serde_json::Value) -> String {
    value.as_f64().map_or_else(|| value.to_string(), figure)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::page;
    use crate::report::{Machine, Report, Row};

    #[test]
    fn every_row_is_on_the_page_and_its_text_cannot_break_it() {
        let mut report = Report::new(Machine::read(), true, &[]);
        report.rows.push(Row {
            name: "a<b>".to_owned(),
            value: 1.0,
            unit: "Mpps".to_owned(),
            rival: "R & D".to_owned(),
            rival_value: 2.0,
            ratio: 0.5,
            spread: 0.1,
        });
        let page = page(&report);
        assert!(page.contains("<th>a&lt;b&gt;</th><td>1.00 Mpps</td><td>2.00 R &amp; D</td>"), "{page}");
        assert!(page.contains("width:50.0%") && page.contains("width:100.0%"));
        assert!(page.ends_with("</html>\n") && !page.contains("<script"));
    }
}
