//! One frame of the live view, from its state. Pure: writes into a buffer of any size.
//!
//! ```text
//!   title                                           below 110 columns: classes, or the XDP program's by key x
//!   services, with answers and the gate's history   from there on: both
//!   classes │ drops by reason
//!   workers │ busiest sources
//!   keys
//! ```

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};

use super::rates::{AnswerRates, ClassRates, KernelRate, Loss, Rates, ServiceRates};
use super::state::{Classes, Sort, State};

/// From this width on the XDP program's table stands beside that of the service's classes.
const WIDE: u16 = 110;
/// Below this nothing sensible fits.
const WIDTH_MIN: u16 = 40;
const HEIGHT_MIN: u16 = 10;

/// What the terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    /// Colours; without them reverse and bold say the same.
    pub(super) colour: bool,
    /// Characters beyond ASCII.
    pub(super) unicode: bool,
}

impl Look {
    fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The gate and the server: what is not normal shall be seen.
    fn state(self, state: &str) -> Style {
        let (colour, modifier) = match state {
            "normal" | "up" => (Color::Green, Modifier::empty()),
            "overload" | "missing" => (Color::Yellow, Modifier::BOLD),
            _ => (Color::Red, Modifier::BOLD),
        };
        if self.colour { Style::new().fg(colour) } else { Style::new().add_modifier(modifier) }
    }

    fn bars(self) -> [char; 9] {
        if self.unicode {
            [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']
        } else {
            ['_', '.', ':', '-', '=', '+', '*', '%', '#']
        }
    }
}

/// Draws the state into the whole of a buffer's area.
pub(super) fn draw(state: &State, look: Look, area: Rect, buffer: &mut Buffer) {
    if area.width < WIDTH_MIN || area.height < HEIGHT_MIN {
        let text = format!("too small: at least {WIDTH_MIN} columns and {HEIGHT_MIN} rows");
        return line(buffer, area, 0, &text, look.title());
    }
    let services = state.rates().map_or(0, |rates| rates.services.len());
    let shown = services.clamp(1, usize::from((area.height - 6) / 4).max(1));
    let services_height = 1 + 2 * u16::try_from(shown).unwrap_or(1);
    let [title, table, body, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(services_height),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_title(state, look, title, buffer);
    draw_keys(state, look, keys, buffer);
    if state.is_help() {
        return draw_help(look, table.union(body), buffer);
    }
    let Some(rates) = state.rates() else {
        return line(buffer, table, 1, " waiting for two answers of sipweir …", Style::new());
    };
    draw_services(state, rates, shown, look, table, buffer);
    let columns = if area.width < WIDE { 2 } else { 3 };
    let [upper, lower] = Layout::vertical([Constraint::Fill(1); 2]).areas(body);
    let split = |area| Layout::horizontal(vec![Constraint::Fill(1); columns]).spacing(2).split(area);
    let (upper, lower, whole) = (split(upper), split(lower), split(body));
    if columns == 3 {
        draw_classes(state, look, upper[0], buffer);
        draw_kernel(state, &rates.kernel, look, whole[1], buffer);
    } else if state.classes() == Classes::Service {
        draw_classes(state, look, upper[0], buffer);
    } else {
        draw_kernel(state, &rates.kernel, look, upper[0], buffer);
    }
    draw_workers(state, rates, look, lower[0], buffer);
    draw_losses(state, &rates.losses, look, upper[columns - 1], buffer);
    draw_sources(state, rates, look, lower[columns - 1], buffer);
}

fn draw_title(state: &State, look: Look, area: Rect, buffer: &mut Buffer) {
    let every = state.interval().as_secs_f64();
    let text = match (state.why(), state.rates()) {
        (Some(why), _) => format!("{why}; trying again every {every} s"),
        (None, None) => "sipweir".to_owned(),
        (None, Some(rates)) => {
            let (version, interface, up) = (&rates.version, &rates.interface, duration(rates.uptime_s));
            let paused = if state.is_paused() { "  PAUSED" } else { "" };
            format!("sipweir {version} on {interface}, up {up}, every {every} s{paused}")
        }
    };
    let style = if state.why().is_some() { look.state("down") } else { look.title() };
    line(buffer, area, 0, &text, style);
}

fn draw_keys(state: &State, look: Look, area: Rect, buffer: &mut Buffer) {
    let text = match state.filter() {
        (filter, true) => format!("filter: {filter}_  (Enter keeps it, Esc clears it)"),
        (filter, false) => {
            let sort = if state.sort() == Sort::Rate { "rate" } else { "name" };
            let filter = if filter.is_empty() { String::new() } else { format!(": {filter}") };
            format!(
                "q quit  p pause  s sort by {sort}  / filter{filter}  x xdp  arrows service, worker  ? help"
            )
        }
    };
    line(buffer, area, 0, &text, look.heading());
}

const HELP: &[&str] = &[
    " q          quit                         p, space   hold the figures, or go on",
    " up, down   choose a service             left, right   one worker, or all of them",
    " s          sort by rate or by name      /, f       show only rows with these letters",
    " x          classes of the service, or of the XDP program",
    " + -        longer or shorter pause between two looks",
    "",
    " in         messages that workers took in          served     given to the server",
    " answer     refused with an answer                 drop       all others: refused in silence,",
    "            or copies that one answer serves, and what is late, damaged or no SIP",
    " rate       measured service rate of the server    at srv     by its receive queue",
    " answers    final ones of the server itself        503        the share of its own refusals in them",
    " gate's line: half for overload, full for discard, by the share of the time; youngest right",
    " sources    an estimate from a sample of what workers took in, of the last seconds",
];

fn draw_help(look: Look, area: Rect, buffer: &mut Buffer) {
    line(buffer, area, 0, "Keys and words", look.heading());
    for (row, text) in (1..).zip(HELP) {
        line(buffer, area, row, text, Style::new());
    }
}

fn draw_services(state: &State, rates: &Rates, shown: usize, look: Look, area: Rect, buffer: &mut Buffer) {
    let heading = format!(
        "{:<16} {:<8} {:>6} {:>6} {:>6} {:<7} {:>6} {:>6} {:>6}",
        " service", "gate", "admits", "wait", "at srv", "server", "rate", "in/s", "srvd/s"
    );
    line(buffer, area, 0, &heading, look.heading());
    // The chosen one is always among those shown.
    let first = (state.service() + 1).saturating_sub(shown);
    for (place, service) in (0..shown).zip(rates.services.iter().skip(first)) {
        let row = 1 + 2 * u16::try_from(place).unwrap_or(0);
        let sum = |of: fn(&ClassRates) -> f64| rate(service.classes.iter().map(of).sum());
        let chosen = if first + place == state.service() { '>' } else { ' ' };
        let name: String = service.name.chars().take(15).collect();
        let text = format!(
            "{chosen}{name:<15} {:<8} {:>5.0}% {:>6} {:>6} {:<7} {:>6} {:>6} {:>6}",
            service.gate,
            service.admits * 100.0,
            service.waiting,
            service.at_server,
            service.server,
            rate(service.service_rate_per_s),
            sum(|class| class.received),
            sum(|class| class.served),
        );
        let style = if chosen == '>' { look.title() } else { Style::new() };
        line(buffer, area, row, &text, style);
        paint(buffer, area, row, 17, 8, look.state(&service.gate));
        paint(buffer, area, row, 47, 7, look.state(&service.server));
        draw_history(state, service, look, area, row + 1, buffer);
    }
}

fn draw_history(
    state: &State,
    service: &ServiceRates,
    look: Look,
    area: Rect,
    row: u16,
    buffer: &mut Buffer,
) {
    let mode = match service.mode.as_str() {
        "monitor" => "watched, ",
        "monitor_some" => "partly watched, ",
        _ => "",
    };
    let answers = service.answers.as_ref().map_or_else(String::new, answers);
    let label = format!("  {answers}{mode}gate ");
    let width = usize::from(area.width).saturating_sub(label.chars().count() + 1);
    let bars = look.bars();
    let mut youngest: Vec<char> = state
        .history(&service.name)
        .rev()
        .take(width)
        .map(|closed| {
            // Something is seen of any time in which the gate was not normal.
            let step = (closed.clamp(0.0, 1.0) * 8.0).ceil() as usize;
            bars[step.min(8)]
        })
        .collect();
    youngest.reverse();
    let line_of: String = youngest.into_iter().collect();
    line(buffer, area, row, &format!("{label}{line_of:>width$}"), Style::new());
}

/// What the server answers, in front of the gate's history.
fn answers(rates: &AnswerRates) -> String {
    let AnswerRates { finals, unavailable } = *rates;
    let share = if finals > 0.0 { 100.0 * unavailable / finals } else { 0.0 };
    format!("answers {}/s, 503 {}%, ", rate(finals), rate(share))
}

fn draw_classes(state: &State, look: Look, area: Rect, buffer: &mut Buffer) {
    let Some(service) = state.chosen() else { return };
    let (whose, classes) = match state.worker().and_then(|worker| service.workers.get(worker)) {
        None => (service.name.clone(), &service.classes),
        Some(worker) => (format!("{} q{}", service.name, worker.queue), &worker.classes),
    };
    let whose: String = format!(" {whose}").chars().take(10).collect();
    let heading = format!("{whose:<10} {:>6} {:>6} {:>6} {:>6}", "in/s", "served", "answer", "drop");
    let rows = classes.iter().map(|class| {
        let [received, served, answered, dropped] =
            [class.received, class.served, class.answered, class.dropped].map(rate);
        let name = &class.class;
        let text = format!(" {name:<9} {received:>6} {served:>6} {answered:>6} {dropped:>6}");
        (class.class.as_str(), class.received, text)
    });
    draw_rows(state, look, area, buffer, &heading, rows);
}

fn draw_kernel(state: &State, kernel: &[KernelRate], look: Look, area: Rect, buffer: &mut Buffer) {
    let heading = format!("{:<10} {:<19} {:>6}", " xdp", "verdict", "in/s");
    let names: Vec<String> = kernel.iter().map(|row| format!("{:<9} {}", row.class, row.verdict)).collect();
    let rows = kernel
        .iter()
        .zip(&names)
        .map(|(row, name)| (name.as_str(), row.per_s, format!(" {name:<29} {:>6}", rate(row.per_s))));
    draw_rows(state, look, area, buffer, &heading, rows);
}

fn draw_losses(state: &State, others: &[Loss], look: Look, area: Rect, buffer: &mut Buffer) {
    let own = state.chosen().map_or(&[][..], |service| &service.losses);
    let heading = format!("{:<31} {:>6}", " drops and refusals by reason", "per s");
    let rows = own.iter().chain(others).map(|loss| {
        let reason: String = loss.reason.chars().take(30).collect();
        (loss.reason.as_str(), loss.per_s, format!(" {reason:<30} {:>6}", rate(loss.per_s)))
    });
    draw_rows(state, look, area, buffer, &heading, rows);
}

fn draw_workers(state: &State, rates: &Rates, look: Look, area: Rect, buffer: &mut Buffer) {
    let heading =
        format!("{:<6} {:>4} {:>4} {:>6} {:>6} {:>6}", " queue", "core", "cpu", "in/s", "srvd/s", "wait");
    let names: Vec<String> = rates.workers.iter().map(|worker| worker.queue.to_string()).collect();
    let rows = rates.workers.iter().zip(&names).enumerate().map(|(index, (worker, name))| {
        let chosen = if state.worker() == Some(index) { '>' } else { ' ' };
        let text = format!(
            "{chosen}{name:<5} {:>4} {:>3.0}% {:>6} {:>6} {:>6}",
            worker.core,
            worker.cpu * 100.0,
            rate(worker.received),
            rate(worker.served),
            worker.waiting
        );
        (name.as_str(), worker.received, text)
    });
    // In queue order, so that arrows go down; and no letters to filter by.
    line(buffer, area, 0, &heading, look.heading());
    for (row, (.., text)) in (1..area.height).zip(rows) {
        line(buffer, area, row, &text, Style::new());
    }
}

fn draw_sources(state: &State, rates: &Rates, look: Look, area: Rect, buffer: &mut Buffer) {
    let heading = format!("{:<24} {:>6} {:>6}", " source (sampled)", "in/s", "shed");
    let rows = rates.sources.busiest.iter().map(|source| {
        let address = &source.address;
        let (received, refused) = (rate(source.messages_per_s), rate(source.refused_per_s));
        (address.as_str(), source.messages_per_s, format!(" {address:<23} {received:>6} {refused:>6}"))
    });
    draw_rows(state, look, area, buffer, &heading, rows);
}

/// A table: rows are name, rate and text.
fn draw_rows<'a>(
    state: &State,
    look: Look,
    area: Rect,
    buffer: &mut Buffer,
    heading: &str,
    rows: impl Iterator<Item = (&'a str, f64, String)>,
) {
    line(buffer, area, 0, heading, look.heading());
    let mut rows: Vec<_> = rows.filter(|(name, ..)| state.shows(name)).collect();
    match state.sort() {
        Sort::Rate => rows.sort_by(|a, b| b.1.total_cmp(&a.1)),
        Sort::Name => rows.sort_by(|a, b| a.0.cmp(b.0)),
    }
    for (row, (.., text)) in (1..area.height).zip(rows) {
        line(buffer, area, row, &text, Style::new());
    }
}

/// One line, cut off where the area ends; headings fill it.
fn line(buffer: &mut Buffer, area: Rect, row: u16, text: &str, style: Style) {
    if row >= area.height {
        return;
    }
    let width = usize::from(area.width);
    let text = if style.add_modifier.contains(Modifier::REVERSED) {
        format!("{text:<width$}")
    } else {
        text.to_owned()
    };
    buffer.set_stringn(area.x, area.y + row, text, width, style);
}

/// Gives some columns of a line a style.
fn paint(buffer: &mut Buffer, area: Rect, row: u16, column: u16, width: u16, style: Style) {
    let rect = Rect { x: area.x + column, y: area.y + row, width, height: 1 };
    buffer.set_style(rect.intersection(area), style);
}

/// A rate in six characters.
fn rate(per_s: f64) -> String {
    match per_s {
        small if small < 0.05 => "0".to_owned(),
        small if small < 9.95 => format!("{small:.1}"),
        medium if medium < 99_999.5 => format!("{medium:.0}"),
        large if large < 9_999_500.0 => format!("{:.0}k", large / 1e3),
        huge => format!("{:.0}M", huge / 1e6),
    }
}

/// Days, hours, minutes and seconds.
fn duration(seconds: f64) -> String {
    let seconds = seconds as u64;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let clock = format!("{hours:02}:{minutes:02}:{:02}", seconds % 60);
    if days > 0 { format!("{days} d {clock}") } else { clock }
}

#[cfg(test)]
mod tests;
