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
    for (value, share) in [(1.0, 0.0), (10.0, 1.0 / 3.0), (1000.0, 1.0), (0.0, 0.0), (1e9, 1.0), (-1.0, 0.0)]
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
    assert!(svg.contains("y &amp; z") && svg.contains("a &quot;plot&quot;") && !svg.contains("line none"));
}

#[test]
fn axes_of_names_and_of_spans_have_their_ticks() {
    let named = Axis::named(&["P0", "P1"], "");
    assert_eq!((named.share(0.0), named.share(1.0)), (0.25, 0.75));
    let span = Axis::between(0.93, 1.08, 5, "");
    let labels: Vec<&str> = span.ticks.iter().map(|tick| tick.1.as_str()).collect();
    assert_eq!(labels, ["0.95", "1", "1.05"]);
}

#[test]
fn a_file_has_its_name_space_its_colours_and_its_legend() {
    let mut plot = Plot::new(300.0, 200.0, Axis::named(&["a"], "x"), Axis::linear(1.0, 5, "y"));
    plot.legend(&[("series0".to_owned(), Shape::Circle, "load 1.2")]);
    let file = plot.finish_file("a plot");
    assert!(file.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"300\""), "{file}");
    assert_eq!((file.matches("<svg").count(), file.matches("<style>").count()), (1, 1));
    assert!(file.contains("--series0:") && file.contains(">load 1.2</text>"));
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
    let odd = [0.000_25, 0.0075, 1e-7, 1e300, f64::INFINITY, f64::NAN].map(number);
    assert_eq!(odd, ["0.00025", "0.0075", "1.00e-7", "1.00e300", "–", "–"]);
}

#[test]
fn axes_and_lines_of_odd_values_stay_drawable() {
    for to in [0.0, -1.0, 5e-324, 1e300, f64::INFINITY, f64::NAN] {
        for axis in [
            Axis::linear(to, 5, "x"),
            Axis::linear_exact(to, 5, "x"),
            Axis::through(&[to], "x"),
            Axis::through(&[1.0, to, f64::NAN], "x"),
        ] {
            let mut plot = Plot::new(300.0, 200.0, axis, Axis::linear(1.0, 5, "y"));
            plot.line("a", [(0.0, f64::NAN), (to, 0.5), (1.0, f64::INFINITY)]);
            plot.markers("a", Shape::Circle, [(f64::NAN, 1.0), (to, 0.5)]);
            let svg = plot.finish("odd");
            assert!(!svg.contains("NaN") && !svg.contains("inf") && svg.len() < 5_000, "{to}: {svg}");
        }
    }
    let small: Vec<String> = Axis::linear(0.0004, 4, "").ticks.into_iter().map(|tick| tick.1).collect();
    assert_eq!(small, ["0", "0.0001", "0.0002", "0.0003", "0.0004"]);
}

#[test]
fn text_is_escaped() {
    assert_eq!(escape("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
}
