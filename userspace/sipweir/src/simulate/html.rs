//! The results as one page: plots of the main measures against the first parameter with several numbers, the lines over
//! time, and all tables.

use model::plan::RunResult;
use model::simulate::Estimate;

use super::Report;
use super::table::{Grid, estimate, grids, parameter, parameter_keys};
use crate::page::{self, Axis, Plot, SERIES, Shape, escape};

/// What is plotted, with a head for people.
const PLOTTED: [(&str, &str); 6] = [
    ("goodput_within_t1_per_s", "Answered within T1, calls per second"),
    ("goodput_per_s", "Answered before the client gave up, calls per second"),
    ("failed_share", "Failed, share of the calls"),
    ("rejected_share", "Rejected, share of the calls"),
    ("copies_per_call", "Copies per call"),
    ("mean_delay_with_late_s", "Delay of all answers, seconds"),
];

/// What is drawn where calls have several sources.
const OF_SOURCES: (&str, &str) = ("goodput_fairness", "Jain's index over the goodputs of the sources");

/// More courses than this are no overview; the JSON has them all.
const COURSES_MAX: usize = 24;

/// The page.
pub(super) fn page(report: &Report) -> String {
    let tables: String = grids(report).iter().map(table).collect();
    let about: String =
        report.plan.about.split("\n\n").map(|part| format!("<p>{}</p>\n", escape(part))).collect();
    let body = format!(
        "<header><h1>{title}</h1>\n<div class=\"lead\">{about}</div></header>\n{plots}{courses}{tables}\
         <section><h2>How it was made</h2>\n<p>Event simulation over the gates and the waiting line of <code>sipweir run</code>: \
         <code>sipweir simulate --plan {file}</code>, version {version}, {seeds} replications of each run. Strokes and ± show the \
         95 % confidence interval of the mean.</p></section>\n",
        title = escape(&report.plan.title),
        plots = plots(report),
        courses = courses(report),
        file = escape(&report.file),
        version = env!("CARGO_PKG_VERSION"),
        seeds = report.plan.seeds,
    );
    page::document(&report.plan.title, &body)
}

/// Runs that differ in the parameter on the x axis only.
struct Series<'a> {
    name: String,
    points: Vec<(f64, &'a RunResult)>,
}

/// The first parameter that has several values, all of them numbers.
fn abscissa(results: &[RunResult]) -> Option<String> {
    parameter_keys(results).into_iter().find(|key| {
        let texts = results.iter().map(|result| parameter(result, key)).filter(|text| !text.is_empty());
        let numbers: Vec<Option<f64>> = texts.map(|text| text.parse().ok()).collect();
        numbers.iter().all(Option::is_some) && numbers.iter().any(|number| *number != numbers[0])
    })
}

fn series<'a>(results: &'a [RunResult], key: &str) -> Vec<Series<'a>> {
    let mut all: Vec<Series<'a>> = Vec::new();
    for result in results {
        let name = name(result, Some(key));
        let Ok(x) = parameter(result, key).parse() else { continue };
        match all.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push((x, result)),
            None => all.push(Series { name, points: vec![(x, result)] }),
        }
    }
    all
}

/// Mechanism and parameters, except one.
fn name(result: &RunResult, except: Option<&str>) -> String {
    let parameters = result.parameters.iter().filter(|(key, _)| Some(key.as_str()) != except);
    let parameters: Vec<String> = parameters.map(|(key, value)| format!("{key} = {value}")).collect();
    if parameters.is_empty() {
        result.mechanism.clone()
    } else {
        format!("{}, {}", result.mechanism, parameters.join(", "))
    }
}

fn class(number: usize) -> String {
    format!("series{}", number % SERIES)
}

const fn shape(number: usize) -> Shape {
    match number % 3 {
        0 => Shape::Circle,
        1 => Shape::Square,
        _ => Shape::Diamond,
    }
}

fn plots(report: &Report) -> String {
    let Some(key) = abscissa(&report.results) else { return String::new() };
    let series = series(&report.results, &key);
    let legend = series.iter().enumerate().map(|(number, series)| {
        format!("<li>{} {}</li>", shape(number).sample(&class(number)), escape(&series.name))
    });
    let several_sources = report.results.iter().any(|result| !result.sources.is_empty());
    let plotted = PLOTTED.iter().chain(several_sources.then_some(&OF_SOURCES));
    let figures = plotted.map(|(measure, title)| figure(&series, &key, measure, title));
    format!(
        "<section><h2>Against {}</h2>\n<ul class=\"legend\">{}</ul>\n<div class=\"pair\">{}</div></section>\n",
        escape(&key),
        legend.collect::<String>(),
        figures.collect::<String>()
    )
}

fn figure(series: &[Series<'_>], key: &str, measure: &str, title: &str) -> String {
    let points: Vec<Vec<(f64, Estimate)>> = series
        .iter()
        .map(|series| {
            let point = |(x, result): &(f64, &RunResult)| Some((*x, estimate(&result.measures, measure)?));
            series.points.iter().filter_map(point).collect()
        })
        .collect();
    let mut xs: Vec<f64> = points.iter().flatten().map(|point| point.0).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let tops = points.iter().flatten().map(|(_, estimate)| finite_interval(estimate).1);
    let top = tops.fold(0.0, f64::max);
    if xs.is_empty() || top <= 0.0 {
        return String::new();
    }
    let mut plot = Plot::new(520.0, 330.0, Axis::through(&xs, key), Axis::linear(top, 5, title));
    for (number, points) in points.iter().enumerate() {
        let class = class(number);
        plot.line(&class, points.iter().map(|(x, estimate)| (*x, estimate.mean)));
        plot.spreads(
            &class,
            points.iter().map(|(x, estimate)| {
                let (low, high) = finite_interval(estimate);
                (*x, low, high)
            }),
        );
        plot.markers(&class, shape(number), points.iter().map(|(x, estimate)| (*x, estimate.mean)));
    }
    format!(
        "<figure><figcaption>{}</figcaption>{}</figure>",
        escape(title),
        plot.finish(&format!("{title} against {key}"))
    )
}

/// The confidence interval, or the mean alone where there is none.
fn finite_interval(estimate: &Estimate) -> (f64, f64) {
    if estimate.half_width.is_finite() { estimate.interval() } else { (estimate.mean, estimate.mean) }
}

/// The lines over time, where the plan has them sampled.
fn courses(report: &Report) -> String {
    let sampled: Vec<&RunResult> =
        report.results.iter().filter(|result| !result.samples.is_empty()).collect();
    if sampled.is_empty() {
        return String::new();
    }
    let figures: String = sampled.iter().take(COURSES_MAX).map(|result| course(result)).collect();
    let rest = match sampled.len().saturating_sub(COURSES_MAX) {
        0 => String::new(),
        more => format!(" {more} more runs are in the JSON."),
    };
    let fluid = if sampled.iter().any(|result| result.fluid.is_some()) {
        " The dashed line is the fluid model, all nodes together."
    } else {
        ""
    };
    format!(
        "<section><h2>Lines over time</h2>\n<p>Messages that wait, in the first replication, one line for each node.{fluid}{rest}</p>\n\
         <div class=\"triple\">{figures}</div></section>\n"
    )
}

fn course(result: &RunResult) -> String {
    let end_s = result.samples.last().map_or(1.0, |sample| sample.at as f64 / 1e9);
    let lines = result.samples.iter().flat_map(|sample| sample.lines.iter().map(|line| *line as f64));
    let fluid = result.fluid.iter().flat_map(|fluid| fluid.line.iter().map(|point| point.1));
    let top = lines.chain(fluid).fold(1.0, f64::max);
    let x = Axis::linear_exact(end_s.max(1e-9), 5, "seconds");
    let mut plot = Plot::new(400.0, 250.0, x, Axis::linear(top, 4, "messages"));
    if let Some(fluid) = &result.fluid {
        plot.line("limit dashed series7", fluid.line.iter().copied());
    }
    for (number, node) in result.nodes.iter().enumerate() {
        let class = class(number);
        plot.line(
            &class,
            result.samples.iter().map(|sample| (sample.at as f64 / 1e9, sample.lines[number] as f64)),
        );
        if let (Some(last), true) = (result.samples.last(), result.nodes.len() > 1) {
            plot.note(&class, (end_s, last.lines[number] as f64), &node.name);
        }
    }
    let name = name(result, None);
    format!(
        "<figure><figcaption>{}</figcaption>{}</figure>",
        escape(&name),
        plot.finish(&format!("Lines over time: {name}"))
    )
}

fn table(grid: &Grid) -> String {
    let head: String =
        grid.head.iter().map(|cell| format!("<th scope=\"col\">{}</th>", escape(cell))).collect();
    let row = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            if column < grid.names {
                format!("<th scope=\"row\">{}</th>", escape(cell))
            } else {
                format!("<td>{}</td>", escape(cell))
            }
        });
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    format!(
        "<section><h2>{}</h2><div class=\"scroll\"><table><thead><tr>{head}</tr></thead><tbody>\n{}</tbody></table></div></section>\n",
        grid.title,
        grid.rows.iter().map(row).collect::<String>()
    )
}

#[cfg(test)]
pub(super) mod tests {
    use model::plan::{Plan, execute};

    use super::{Report, page};

    const PLAN: &str = r#"
title = "small <plan>"
about = "One.\n\nTwo."
[run]
duration_s = 10
cool_down_s = 0
seeds = 2
sample_s = 1
fluid = true
[source.callers]
rate_per_s = 200
to = "server"
[node.server]
rate_per_s = 100
[mechanism.fifo.gate]
kind = "fifo"
buffer = [20, 100]
[mechanism.shed]
room = 100
[mechanism.shed.gate]
kind = "hysteretic"
low = 5
high = 10
buffer = [20, 30]
admit = 0.25
"#;

    /// A report of real, short runs.
    pub(in crate::simulate) fn sample() -> Report {
        let plan = Plan::parse(PLAN).expect("a plan");
        let results = execute(&plan, 1, |_| {}).expect("results");
        Report { file: "plans/small.toml".into(), plan, results }
    }

    #[test]
    fn the_page_shows_each_measure_each_run_and_each_table() {
        let report = sample();
        let page = page(&report);
        // Five measures that are not all zero, and four courses.
        assert!(page.matches("<figure>").count() >= 4 + 4, "{}", page.matches("<figure>").count());
        for part in [
            "small &lt;plan&gt;",
            "Against gate.buffer",
            "shed",
            "plans/small.toml",
            "2 replications",
            "Fluid model",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert_eq!(
            page.matches("class=\"line limit dashed series7\"").count(),
            2,
            "the fluid model knows fifo only"
        );
    }

    #[test]
    fn the_page_needs_nothing_from_outside_and_everything_that_opens_closes() {
        let page = page(&sample());
        for part in ["http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link"] {
            assert!(!page.contains(part), "{part}");
        }
        for element in
            ["section", "figure", "svg", "table", "tr", "td", "th", "ul", "li", "text", "main", "div", "p"]
        {
            let opened =
                page.matches(&format!("<{element}>")).count() + page.matches(&format!("<{element} ")).count();
            assert_eq!(opened, page.matches(&format!("</{element}>")).count(), "{element}");
            assert!(opened > 0, "{element}");
        }
        for part in ["NaN", "inf"] {
            let around = page.find(part).map(|at| &page[at.saturating_sub(60)..page.len().min(at + 60)]);
            assert_eq!(around, None, "{part} is no number for a page");
        }
    }
}
