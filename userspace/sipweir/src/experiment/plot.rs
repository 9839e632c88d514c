//! What was measured in units of the theory, as a picture: a point for each quantity of each run, with its interval.

use super::comparison::{Comparison, Quantity, Value};
use crate::page::{Axis, Plot, SERIES, Shape};

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 360.0;
/// How far apart the runs of one quantity are drawn, in parts of the way to the next quantity.
const APART: f64 = 0.16;
/// Agreement that is asked for.
const TOLERANCE: f64 = 0.05;
/// The axis goes no further from 1 than this, or one rare quantity would hide all others. What lies beyond is drawn at the edge
/// with its ratio beside it; an interval that reaches the edge goes on.
const FARTHEST: f64 = 0.6;

/// The picture as a file of its own.
pub(super) fn draw(comparison: &Comparison) -> String {
    let mut names: Vec<&str> = Vec::new();
    for quantity in comparison.cases.iter().flat_map(|case| &case.quantities) {
        if !names.contains(&quantity.name) {
            names.push(quantity.name);
        }
    }
    let all = || comparison.cases.iter().flat_map(|case| &case.quantities).filter_map(ratio);
    let far = all().flat_map(|[low, _, high]| [1.0 - low, high - 1.0]).fold(2.0 * TOLERANCE, f64::max);
    let far = far.min(FARTHEST) * 1.1;
    let (lowest, highest) = (1.0 - far, 1.0 + far);
    let title = format!("measured / {}", comparison.theory);
    let mut plot =
        Plot::new(WIDTH, HEIGHT, Axis::named(&names, ""), Axis::between(lowest, highest, 6, &title));
    plot.rule_y("", 1.0, "");
    plot.rule_y("edge", 1.0 + TOLERANCE, "+5 %");
    plot.rule_y("edge", 1.0 - TOLERANCE, "−5 %");
    let middle = (comparison.cases.len() as f64 - 1.0) / 2.0;
    let mut legend = Vec::new();
    for (number, case) in comparison.cases.iter().enumerate() {
        let class = format!("series{}", number % SERIES);
        let shape = [Shape::Circle, Shape::Square, Shape::Diamond][number % 3];
        for quantity in &case.quantities {
            let place = names.iter().position(|name| *name == quantity.name);
            if let (Some(place), Some([low, value, high])) = (place, ratio(quantity)) {
                let x = (number as f64 - middle).mul_add(APART, place as f64);
                plot.spreads(&class, [(x, low, high)]);
                plot.markers(&class, shape, [(x, value)]);
                if !(lowest..=highest).contains(&value) {
                    plot.note(&class, (x, value), &format!("{value:.2}"));
                }
            }
        }
        legend.push((class, shape, case.name.as_str()));
    }
    plot.legend(&legend);
    plot.finish_file(&format!(
        "{}: what was measured in units of the {}",
        comparison.experiment, comparison.theory
    ))
}

/// Measured over theory with the ends of the intervals of both together; none where the theory is 0.
fn ratio(quantity: &Quantity) -> Option<[f64; 3]> {
    let Quantity { measured, theory, .. } = quantity;
    let value = measured.value / theory.value;
    let part = |value: &Value| (value.half_width.unwrap_or(0.0) / value.value).abs();
    // Independent errors add by their squares.
    let spread = value * part(measured).hypot(part(theory));
    let spread = if spread.is_finite() { spread } else { 0.0 };
    value.is_finite().then_some([value - spread, value, value + spread])
}

#[cfg(test)]
mod tests {
    use super::{draw, ratio};
    use crate::experiment::comparison::{Case, Comparison, Quantity, Value};

    fn quantity(name: &'static str, measured: f64, theory: f64) -> Quantity {
        let measured = Value { value: measured, half_width: Some(0.1 * measured) };
        Quantity { name, unit: "", measured, theory: Value::plain(theory) }
    }

    #[test]
    fn a_ratio_has_the_intervals_of_both_and_none_to_nothing() {
        let [low, value, high] = ratio(&quantity("a", 2.0, 4.0)).expect("a ratio");
        assert!((value - 0.5).abs() < 1e-12 && (high - 0.55).abs() < 1e-12 && (low - 0.45).abs() < 1e-12);
        assert_eq!(ratio(&quantity("a", 0.0, 0.0)), None);
    }

    #[test]
    fn a_ratio_beyond_the_axis_is_named_at_its_edge() {
        let drawn = |measured: f64| {
            let quantities = vec![quantity("P2", measured, 1.0), quantity("P1", 1.0, 1.0)];
            let cases = vec![Case { name: "a".to_owned(), quantities }];
            draw(&Comparison { experiment: "test", theory: "closed form", cases })
        };
        assert!(drawn(7.25).contains(">7.25<") && drawn(0.21).contains(">0.21<"));
        assert!(!drawn(1.25).contains(">1.25<"), "the axis shows it");
    }

    #[test]
    fn every_quantity_of_every_run_is_drawn_once() {
        let case = |name: &str, measured: f64| Case {
            name: name.to_owned(),
            quantities: vec![
                quantity("P0", measured, 1.0),
                quantity("cycle", 1.0, 1.0),
                quantity("none", 0.0, 0.0),
            ],
        };
        let comparison = Comparison {
            experiment: "test",
            theory: "closed form",
            cases: vec![case("load 1.2", 1.01), case("load 1.5", 0.98)],
        };
        let svg = draw(&comparison);
        // Two quantities and the legend, in each of two runs.
        for class in ["mark series0", "mark series1"] {
            assert_eq!(svg.matches(class).count(), 3, "{class}");
        }
        for part in ["load 1.2", "load 1.5", ">P0<", ">cycle<", "measured / closed form"] {
            assert!(svg.contains(part), "{part}");
        }
        assert!(!svg.contains("NaN"));
    }
}
