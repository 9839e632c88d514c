//! Small plots as SVG text: axes, grid, lines, steps, bands, labels. Colours are left to the page's style sheet, by
//! class, so that a plot is readable on light and on dark ground.

use std::fmt::Write as _;

use super::STYLE;

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

/// Ends that an axis can have: beyond them steps and shares leave the range of a float.
const SMALLEST: f64 = 1e-100;
const LARGEST: f64 = 1e100;

impl Axis {
    /// From 0 to at least `to`, with about `ticks` round ticks.
    pub(crate) fn linear(to: f64, ticks: u32, title: &str) -> Self {
        let to = if to.is_finite() { to.clamp(SMALLEST, LARGEST) } else { 1.0 };
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
        let to = if to.is_finite() { to.clamp(SMALLEST, LARGEST) } else { axis.to };
        axis.to = to;
        axis.ticks.retain(|(value, _)| *value <= to * (1.0 + 1e-9));
        axis
    }

    /// From one value to another, with about `ticks` round ticks between them.
    pub(crate) fn between(from: f64, to: f64, ticks: u32, title: &str) -> Self {
        let step = Self::linear(to - from, ticks, "").ticks.get(1).map_or(1.0, |tick| tick.0);
        let first = (from / step).ceil() as i64;
        let ticks = (first..).map(|n| n as f64 * step).take_while(|value| *value <= to + step * 1e-9);
        let ticks = ticks.map(|value| (value, number(value))).collect();
        Self { from, to, logarithmic: false, ticks, title: title.into() }
    }

    /// Names side by side, at 0, 1 and so on.
    pub(crate) fn named(names: &[&str], title: &str) -> Self {
        let ticks = names.iter().enumerate().map(|(n, name)| (n as f64, (*name).to_owned())).collect();
        Self { from: -0.5, to: names.len() as f64 - 0.5, logarithmic: false, ticks, title: title.into() }
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
        let values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max).min(LARGEST);
        let mut axis = if low >= SMALLEST && high / low >= FAR_APART {
            Self::logarithmic(low / 1.2, high * 1.2, &[], title)
        } else {
            Self::linear_exact(high.max(SMALLEST) * 1.05, 6, title)
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
        let path = self.path(points.into_iter().filter(|(x, y)| x.is_finite() && y.is_finite()));
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
        for (x, y) in points.into_iter().filter(|(x, y)| x.is_finite() && y.is_finite()) {
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

    /// Names of series with their markers, in a row along the top.
    pub(crate) fn legend(&mut self, series: &[(String, Shape, &str)]) {
        // Some seven pixels a letter.
        const LETTER: f64 = 7.0;
        let mut x = LEFT + 14.0;
        for (class, shape, name) in series {
            self.add(&shape.drawn(class, x, TOP + 10.0));
            self.text_at(x + 10.0, TOP + 14.0, "note", name);
            x += LETTER.mul_add(name.chars().count() as f64, 36.0);
        }
    }

    /// The finished plot as a file of its own, with its colours in it.
    pub(crate) fn finish_file(self, description: &str) -> String {
        let (width, height) = (self.width, self.height);
        let head = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" "
        );
        let ground = format!(
            "<style>\n{STYLE}</style>\n<rect width=\"{width}\" height=\"{height}\" fill=\"var(--panel)\"/>\n"
        );
        self.finish(description).replacen("<svg ", &head, 1).replacen(">\n", &format!(">\n{ground}"), 1)
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

/// A number for people: thousands apart, no needless decimals, powers of ten for what is far from 1.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if value != 0.0 && !(1e-4..1e15).contains(&size) {
        return if value.is_finite() { format!("{value:.2e}") } else { "–".to_owned() };
    }
    let whole = size >= 100.0 || (value - value.round()).abs() < 1e-9;
    let text = match size {
        _ if whole => format!("{value:.0}"),
        size if size < 1.0 => {
            // Two digits that count: ticks of a small axis differ.
            let digits = (1.0 - size.log10().floor()) as usize;
            format!("{value:.digits$}").trim_end_matches('0').to_owned()
        }
        _ => format!("{}", (value * 100.0).round() / 100.0),
    };
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
mod tests;
