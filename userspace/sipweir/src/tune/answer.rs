//! What is printed: a page for people that is TOML as a whole, its explanations being comments; or JSON.
//!
//! The keys of the JSON are a promise: they are added, not renamed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ::model::simulate::Estimate;
use ::model::tune::{Impossible, Quantity, ROUNDS, Settled, Tuning, Unit};
use overload::Threshold;
use serde::Serialize;

use super::settings::Settings;
use crate::numbers::{self, digits, unit_of};

/// Digits of what is printed, but for uncertainties.
const DIGITS: i32 = 4;

/// All that is to be said.
#[derive(Debug)]
pub(super) struct Answer {
    /// What was asked, what must be refused, and so on: sentences.
    remarks: Vec<String>,
    quantities: Vec<Quantity>,
    copies: Option<Estimate>,
    settings: Settings,
    places: [u32; 3],
    admit: f64,
    given: Given,
}

/// The keys of `given`.
#[derive(Debug, Clone, Serialize)]
struct Given {
    service_rate: f64,
    peak_rate: f64,
    reply_cost: f64,
    max_wait: f64,
    max_discard: f64,
    min_cycle: f64,
}

/// The keys of the JSON.
#[derive(Debug, Serialize)]
pub(super) struct AnswerJson<'a> {
    possible: bool,
    given: &'a Given,
    low: u32,
    high: u32,
    buffer: u32,
    low_time: Option<f64>,
    high_time: Option<f64>,
    buffer_time: Option<f64>,
    admit: f64,
    max_wait: f64,
    model: BTreeMap<&'static str, Option<f64>>,
    simulation: BTreeMap<&'static str, Option<SimulatedJson>>,
    differs: Vec<&'static str>,
    remarks: &'a [String],
    toml: &'a str,
}

/// A simulated number.
#[derive(Debug, Serialize)]
struct SimulatedJson {
    value: f64,
    /// Half the width of its 95 % confidence interval.
    half_width: f64,
}

/// Impossible wishes.
#[derive(Debug, Serialize)]
pub(super) struct ImpossibleJson {
    possible: bool,
    /// Whether all of them must give way, or one.
    together: bool,
    unmet: Vec<UnmetJson>,
}

#[derive(Debug, Serialize)]
struct UnmetJson {
    limit: &'static str,
    wanted: f64,
    nearest: f64,
    /// The nearest, as it is to be called.
    option: String,
}

/// What is said of impossible wishes in JSON.
pub(super) fn impossible(impossible: &Impossible) -> ImpossibleJson {
    let unmet = impossible.unmet.iter();
    let unmet = unmet.map(|unmet| UnmetJson {
        limit: unmet.limit.name(),
        wanted: unmet.wanted,
        nearest: unmet.nearest,
        option: format!("--{} {}", unmet.limit.name(), unmet.limit.shown(unmet.nearest)),
    });
    ImpossibleJson { possible: false, together: impossible.together, unmet: unmet.collect() }
}

impl Answer {
    pub(super) fn new(
        tuning: &Tuning,
        Settled { chosen, verified, no_more }: &Settled,
        settings: Settings,
        note: Option<String>,
    ) -> Self {
        let (low, high, buffer) = chosen.levels.as_tuple();
        let demand = tuning.demand();
        let given = Given {
            service_rate: demand.service_rate_per_s,
            peak_rate: tuning.peak_rate_per_s(),
            reply_cost: demand.refusal_services(),
            max_wait: demand.max_wait_s,
            max_discard: demand.max_discard,
            min_cycle: demand.min_cycle_s.unwrap_or(chosen.min_cycle_s),
        };
        let quantities = tuning.quantities(chosen, verified);
        let mut remarks = Vec::from_iter(note);
        let at_peak_per_s = chosen.peak_service_rate_per_s;
        if given.peak_rate > at_peak_per_s {
            let refused = 1.0 - at_peak_per_s / given.peak_rate;
            remarks.push(format!(
                "at the peak the server serves {} of {} per second: a share of {} must be refused whatever the gate",
                digits(at_peak_per_s, DIGITS),
                digits(given.peak_rate, DIGITS),
                digits(refused, DIGITS)
            ));
        }
        if demand.min_cycle_s.is_none() {
            remarks.push(format!(
                "no --min-cycle was given: {} was taken, so that the gate does not chatter at the peak",
                time(chosen.min_cycle_s)
            ));
        }
        if buffer < chosen.buffer_in_time {
            remarks.push(format!(
                "buffer is {buffer} messages and not {}, which the wait allows: for bursts, and for other laws of service than \
                 exponential, the model is not asked for longer lines",
                chosen.buffer_in_time
            ));
        }
        let at_server_s = demand.max_wait_s - settings.max_wait_s;
        remarks.push(format!(
            "max_wait leaves {} of the wait for what stands in the server's own sockets",
            time(at_server_s)
        ));
        let end = if no_more.is_some() {
            "the model can give no more".to_owned()
        } else {
            format!("asking the model {ROUNDS} times for more was not enough")
        };
        remarks.extend(quantities.iter().filter(|quantity| quantity.misses).map(|quantity| {
            format!("the simulation misses the limit on {}, and {end}: wish for less", quantity.name)
        }));
        let differing: Vec<_> =
            quantities.iter().filter(|quantity| quantity.differs).map(|quantity| quantity.name).collect();
        remarks.push(if differing.is_empty() {
            "model and simulation agree".to_owned()
        } else {
            format!(
                "model and simulation differ beyond chance in {}: the simulation, which has refusals one by one, max_wait \
                 and callers that send again, is nearer to what will be",
                differing.join(", ")
            )
        });
        Self {
            remarks,
            quantities,
            copies: verified.copies,
            settings,
            places: [low, high, buffer],
            admit: chosen.admit,
            given,
        }
    }

    pub(super) fn json(&self) -> AnswerJson<'_> {
        let [low, high, buffer] = self.places;
        let seconds = |threshold: Threshold| match threshold {
            Threshold::Time(ns) => Some(ns as f64 / 1e9),
            Threshold::Messages(_) => None,
        };
        let [low_time, high_time, buffer_time] = self.settings.thresholds.map(seconds);
        let simulated =
            |estimate: Estimate| SimulatedJson { value: estimate.mean, half_width: estimate.half_width };
        let simulation = self.quantities.iter().map(|quantity| (quantity.name, quantity.simulated));
        let simulation = simulation.chain([("copies_per_call", self.copies)]);
        AnswerJson {
            possible: true,
            given: &self.given,
            low,
            high,
            buffer,
            low_time,
            high_time,
            buffer_time,
            admit: self.admit,
            max_wait: self.settings.max_wait_s,
            model: self.quantities.iter().map(|quantity| (quantity.name, quantity.computed)).collect(),
            simulation: simulation.map(|(name, estimate)| (name, estimate.map(simulated))).collect(),
            differs: self
                .quantities
                .iter()
                .filter(|quantity| quantity.differs)
                .map(|quantity| quantity.name)
                .collect(),
            remarks: &self.remarks,
            toml: &self.settings.toml,
        }
    }

    pub(super) fn text(&self) -> String {
        let head = ["", "limit", "model", "simulation", ""].map(str::to_owned);
        let rows: Vec<[String; 5]> = std::iter::once(head).chain(self.quantities.iter().map(row)).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths = [0, 1, 2, 3].map(width);
        let mut text = String::new();
        for [name, limit, model, simulation, meaning] in &rows {
            let line = format!(
                "# {name:0$}  {limit:>1$}  {model:>2$}  {simulation:>3$}  {meaning}",
                widths[0], widths[1], widths[2], widths[3]
            );
            // Writing to a String cannot fail.
            let _ok = writeln!(text, "{}", line.trim_end());
        }
        text.push_str("#\n");
        for remark in &self.remarks {
            let _ok = writeln!(text, "# {remark}");
        }
        text.push('\n');
        text.push_str(&self.settings.toml);
        text
    }
}

/// A line of the table.
fn row(quantity: &Quantity) -> [String; 5] {
    let shown = |value: f64| match quantity.unit {
        Unit::Share => digits(value, DIGITS),
        Unit::Seconds => time(value),
    };
    let simulated = |estimate: Estimate| {
        if estimate.mean == 0.0 {
            return "none seen".to_owned();
        }
        let (unit_s, unit) = match quantity.unit {
            Unit::Share => (1.0, ""),
            Unit::Seconds => unit_of(estimate.mean),
        };
        let [mean, half_width] = [(estimate.mean, DIGITS), (estimate.half_width, 2)]
            .map(|(value, count)| digits(value / unit_s, count));
        format!("{mean} ± {half_width} {unit}").trim_end().to_owned()
    };
    [
        quantity.name.to_owned(),
        quantity.limit.map_or_else(String::new, shown),
        quantity.computed.map_or_else(|| "not known".to_owned(), shown),
        quantity.simulated.map_or_else(|| "none seen".to_owned(), simulated),
        quantity.meaning.to_owned(),
    ]
}

fn time(time_s: f64) -> String {
    numbers::time(time_s, DIGITS)
}
