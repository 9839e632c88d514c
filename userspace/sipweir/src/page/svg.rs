//! Small plots as SVG text: axes, grid, lines, steps, bands, labels. Colours are left to the page's style sheet, by
//! class, so that a plot is readable on light and on dark ground.

use std::fmt::Write as _;

/// Room around the plotting area, for tick labels and titles.
const LEFT: f64 = 68.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 44.0;

/// One axis.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    from: f64,
    to: f64,
    logarithmic: bool,
    ticks: Vec<(f64, String)>,
    title: String,
}

impl Axis {
    /// From 0 to at least `to`, with about `ticks` round ticks.
    pub(crate) fn linear(to: f64, ticks: u32, title: &str) -> Self {
        let to = to.max(1e-9);
        let rough = to / f64::from(ticks);
        let power = 10_f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * power);
        let count = (to / step - 1e-9).ceil().max(1.0);
        let ticks =
            (0..=count as u32).map(|n| f64::from(n) * step).map(|value| (value, number(value))).collect();
        Self { from: 0.0, to: count * step, logarithmic: false, ticks, title: title.into() }
    }

    /// From 0 to exactly `to`.
    pub(crate) fn linear_exact(to: f64, ticks: u32, title: &str) -> Self {
        let mut axis = Self::linear(to, ticks, title);
        axis.to = to;
        axis.ticks.retain(|(value, _)| *value <= to * (1.0 + 1e-9));
        axis
    }

    /// Logarithmic, with ticks at the given values.
    pub(crate) fn logarithmic(from: f64, to: f64, ticks: &[(f64, &str)], title: &str) -> Self {
        let ticks = ticks.iter().filter(|(value, _)| (from..=to).contains(value));
        let ticks = ticks.map(|(value, label)| (*value, (*label).to_owned())).collect();
        Self { from, to, logarithmic: true, ticks, title: title.into() }
    }

    /// An axis that shows all of these values: with a tick at each of them if they are few, logarithmic if they are far apart.
    pub(crate) fn through(values: &[f64], title: &str) -> Self {
        const FAR_APART: f64 = 20.0;
        const FEW: usize = 12;
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut axis = if low > 0.0 && high / low >= FAR_APART {
            Self::logarithmic(low / 1.2, high * 1.2, &[], title)
        } else {
            Self::linear_exact(high.max(1e-9) * 1.05, 6, title)
        };
        if values.len() <= FEW {
            axis.ticks = values.iter().map(|value| (*value, number(*value))).collect();
        }
        axis
    }

    /// Where a value lies, 0 to 1; what is outside lies on the edge.
    fn share(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value.max(self.from) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        share.clamp(0.0, 1.0)
    }
}

/// A plot that is being drawn, back to front.
#[derive(Debug)]
pub(crate) struct Plot {
    width: f64,
    height: f64,
    x: Axis,
    y: Axis,
    body: String,
}

impl Plot {
    /// An empty plot with grid and axes.
    pub(crate) fn new(width: f64, height: f64, x: Axis, y: Axis) -> Self {
        let mut plot = Self { width, height, x, y, body: String::new() };
        plot.draw_axes();
        plot
    }

    fn draw_axes(&mut self) {
        let (left, right, top, bottom) = (LEFT, self.width - RIGHT, TOP, self.height - BOTTOM);
        for (value, label) in self.y.ticks.clone() {
            let y = self.y_at(value);
            self.add(&format!(
                "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
            ));
            self.text_at(left - 7.0, y + 4.0, "tick end", &label);
        }
        for (value, label) in self.x.ticks.clone() {
            let x = self.x_at(value);
            self.add(&format!(
                "<line class=\"grid\" y1=\"{top}\" y2=\"{bottom}\" x1=\"{x:.1}\" x2=\"{x:.1}\"/>"
            ));
            self.text_at(x, bottom + 17.0, "tick middle", &label);
        }
        let (x_title, y_title) = (self.x.title.clone(), self.y.title.clone());
        self.text_at((left + right) / 2.0, self.height - 7.0, "title middle", &x_title);
        let middle = (top + bottom) / 2.0;
        self.add(&format!(
            "<text class=\"title middle\" transform=\"translate(12 {middle:.1}) rotate(-90)\">{}</text>",
            escape(&y_title)
        ));
    }

    /// A line through points.
    pub(crate) fn line(&mut self, class: &str, points: impl IntoIterator<Item = (f64, f64)>) {
        let path = self.path(points);
        if !path.is_empty() {
            self.add(&format!("<path class=\"line {class}\" d=\"M{path}\"/>"));
        }
    }

    /// A marker at each point; the shape tells series apart without colour.
    pub(crate) fn markers(
        &mut self,
        class: &str,
        shape: Shape,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) {
        for (x, y) in points {
            let (x, y) = (self.x_at(x), self.y_at(y));
            self.add(&shape.drawn(class, x, y));
        }
    }

    /// A vertical stroke at each point, from low to high: how sure a value is.
    pub(crate) fn spreads(&mut self, class: &str, spreads: impl IntoIterator<Item = (f64, f64, f64)>) {
        for (x, low, high) in spreads {
            let (x, low, high) = (self.x_at(x), self.y_at(low), self.y_at(high));
            self.add(&format!(
                "<line class=\"spread {class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{low:.1}\" y2=\"{high:.1}\"/>"
            ));
        }
    }

    /// A label that ends at a point.
    pub(crate) fn note(&mut self, class: &str, (x, y): (f64, f64), label: &str) {
        let (x, y) = (self.x_at(x), self.y_at(y));
        self.text_at(x - 4.0, y - 5.0, &format!("note end {class}"), label);
    }

    /// A strip over the whole height.
    pub(crate) fn band(&mut self, class: &str, from: f64, to: f64) {
        let (x, end) = (self.x_at(from), self.x_at(to));
        let (width, height) = (end - x, self.height - BOTTOM - TOP);
        self.add(&format!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        ));
    }

    /// A horizontal rule with a label above its left or right end.
    pub(crate) fn rule_y(&mut self, class: &str, value: f64, label: &str) {
        let (y, right) = (self.y_at(value), self.width - RIGHT);
        self.add(&format!(
            "<line class=\"rule {class}\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
        ));
        self.text_at(right - 4.0, y - 5.0, &format!("note end {class}"), label);
    }

    /// A vertical rule with a label at its top.
    pub(crate) fn rule_x(&mut self, class: &str, value: f64, label: &str) {
        let (x, bottom) = (self.x_at(value), self.height - BOTTOM);
        self.add(&format!(
            "<line class=\"rule {class}\" y1=\"{TOP}\" y2=\"{bottom}\" x1=\"{x:.1}\" x2=\"{x:.1}\"/>"
        ));
        self.text_at(x + 5.0, TOP + 12.0, &format!("note {class}"), label);
    }

    /// The finished plot; `description` is what a screen reader says.
    pub(crate) fn finish(self, description: &str) -> String {
        let (width, height) = (self.width, self.height);
        format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
            escape(description),
            self.body
        )
    }

    fn path(&self, points: impl IntoIterator<Item = (f64, f64)>) -> String {
        let points = points.into_iter().map(|(x, y)| format!("{:.1} {:.1}", self.x_at(x), self.y_at(y)));
        points.collect::<Vec<_>>().join("L")
    }

    fn x_at(&self, value: f64) -> f64 {
        LEFT + self.x.share(value) * (self.width - LEFT - RIGHT)
    }

    fn y_at(&self, value: f64) -> f64 {
        self.height - BOTTOM - self.y.share(value) * (self.height - TOP - BOTTOM)
    }

    fn text_at(&mut self, x: f64, y: f64, class: &str, text: &str) {
        self.add(&format!("<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(text)));
    }

    fn add(&mut self, element: &str) {
        // Writing to a String cannot fail.
        let _ok = writeln!(self.body, "{element}");
    }
}

/// Shapes of markers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    Circle,
    Square,
    Diamond,
}

impl Shape {
    fn drawn(self, class: &str, x: f64, y: f64) -> String {
        match self {
            Self::Circle => format!("<circle class=\"mark {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\"/>"),
            Self::Square => {
                let (x, y) = (x - 4.0, y - 4.0);
                format!("<rect class=\"mark {class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"8\" height=\"8\"/>")
            }
            Self::Diamond => {
                format!(
                    "<path class=\"mark {class}\" d=\"M{x:.1} {:.1}l5.5 5.5l-5.5 5.5l-5.5 -5.5z\"/>",
                    y - 5.5
                )
            }
        }
    }

    /// A small picture of line and marker for a legend.
    pub(crate) fn sample(self, class: &str) -> String {
        format!(
            "<svg class=\"sample\" viewBox=\"0 0 28 14\" aria-hidden=\"true\"><path class=\"line {class}\" d=\"M0 7L28 7\"/>{}</svg>",
            self.drawn(class, 14.0, 7.0)
        )
    }
}

/// A number for people: thousands apart, no needless decimals.
pub(crate) fn number(value: f64) -> String {
    let whole = value.abs() >= 100.0 || (value - value.round()).abs() < 1e-9;
    let text = if whole { format!("{value:.0}") } else { format!("{}", (value * 100.0).round() / 100.0) };
    let (sign, rest) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let (digits, decimals) = rest.find('.').map_or((rest, ""), |dot| rest.split_at(dot));
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{decimals}")
}

/// Text as HTML or XML content and attribute value.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::{Axis, BOTTOM, LEFT, Plot, RIGHT, Shape, TOP, escape, number};

    #[test]
    fn linear_ticks_are_round_and_cover_the_values() {
        for (to, expected) in [
            (2100.0, vec!["0", "500", "1,000", "1,500", "2,000", "2,500"]),
            (2000.0, vec!["0", "500", "1,000", "1,500", "2,000"]),
            (1.0, vec!["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        ] {
            let axis = Axis::linear(to, 5, "");
            let labels: Vec<_> = axis.ticks.iter().map(|(_, label)| label.as_str()).collect();
            assert_eq!(labels, expected);
            assert!(axis.to >= to);
        }
        assert_eq!(Axis::linear_exact(14.0, 7, "").to, 14.0);
    }

    #[test]
    fn an_axis_through_values_is_logarithmic_when_they_are_far_apart() {
        let far = Axis::through(&[1000.0, 5000.0, 200_000.0], "");
        assert!(far.logarithmic && far.ticks.len() == 3);
        let near = Axis::through(&[0.0, 100.0, 200.0], "");
        assert!(!near.logarithmic && near.to > 200.0);
    }

    #[test]
    fn values_lie_where_they_should_and_never_outside() {
        let axis = Axis::logarithmic(1.0, 1000.0, &[(1.0, "1"), (5000.0, "5000")], "");
        assert_eq!(axis.ticks.len(), 1);
        for (value, share) in
            [(1.0, 0.0), (10.0, 1.0 / 3.0), (1000.0, 1.0), (0.0, 0.0), (1e9, 1.0), (-1.0, 0.0)]
        {
            assert!((axis.share(value) - share).abs() < 1e-12, "{value}");
        }
        let linear = Axis::linear(10.0, 5, "");
        assert_eq!((linear.share(5.0), linear.share(11.0), linear.share(-1.0)), (0.5, 1.0, 0.0));
    }

    #[test]
    fn a_plot_draws_its_points_into_its_area() {
        let (width, height) = (300.0, 200.0);
        let mut plot = Plot::new(width, height, Axis::linear(10.0, 5, "x"), Axis::linear(1.0, 5, "y & z"));
        plot.line("fifo", [(0.0, 0.0), (10.0, 1.0)]);
        plot.markers("fifo", Shape::Circle, [(0.0, 1.0)]);
        plot.line("none", []);
        let svg = plot.finish("a \"plot\"");
        let line = format!("M{LEFT:.1} {:.1}L{:.1} {TOP:.1}", height - BOTTOM, width - RIGHT);
        assert!(svg.contains(&line), "{line} is not in {svg}");
        assert!(svg.contains(&format!("cx=\"{LEFT:.1}\" cy=\"{TOP:.1}\"")));
        assert!(
            svg.contains("y &amp; z") && svg.contains("a &quot;plot&quot;") && !svg.contains("line none")
        );
    }

    #[test]
    fn a_spread_reaches_from_low_to_high() {
        let mut plot = Plot::new(300.0, 200.0, Axis::linear(10.0, 5, "x"), Axis::linear(1.0, 5, "y"));
        plot.spreads("a", [(10.0, 0.0, 1.0)]);
        let (right, bottom) = (300.0 - RIGHT, 200.0 - BOTTOM);
        let stroke = format!("x1=\"{right:.1}\" x2=\"{right:.1}\" y1=\"{bottom:.1}\" y2=\"{TOP:.1}\"");
        assert!(plot.finish("").contains(&stroke), "{stroke}");
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        let shown = [0.0, 0.5, 12.345, 999.0, 1234.4, -1_234_567.0].map(number);
        assert_eq!(shown, ["0", "0.5", "12.35", "999", "1,234", "-1,234,567"]);
        assert_eq!(escape("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
    }
}
