use proptest::prelude::{prop_assert, proptest};

use super::{LossConfig, LossControl};
use crate::config::Problem;
use crate::distributed::{Algorithm, Announcement, CATEGORIES_MAX, Category, ClientControl, Response};

const SECOND: u64 = 1_000_000_000;

fn told(oc: u32, seq: u64) -> Response {
    let announcement = Announcement { algorithm: Algorithm::Loss, value: oc, validity_ms: Some(60_000), seq };
    Response { announcement: Some(announcement), ..Response::new(200, 0) }
}

fn shares(first: &[f64]) -> [f64; CATEGORIES_MAX] {
    std::array::from_fn(|place| first.get(place).copied().unwrap_or(0.0))
}

#[test]
fn the_examples_of_the_rfc_hold() {
    let ten = LossControl::reductions(10, shares(&[0.4, 0.6]));
    assert!((ten[0] - 0.25).abs() < 1e-12 && ten[1] == 0.0, "{ten:?}");
    let ninety = LossControl::reductions(90, shares(&[0.8, 0.2]));
    assert!(ninety[0] == 1.0 && (ninety[1] - 0.5).abs() < 1e-12, "{ninety:?}");
    let three = LossControl::reductions(70, shares(&[0.5, 0.1, 0.4]));
    assert!(three[0] == 1.0 && three[1] == 1.0 && (three[2] - 0.25).abs() < 1e-9, "{three:?}");
}

/// The dropped part of each of two categories, of which `firsts` of ten requests are the first, with evenly spread draws.
fn dropped(oc: u32, firsts: u64) -> [f64; 2] {
    let mut control = LossControl::new(&LossConfig::default()).unwrap();
    let category = |i: u64| if i % 10 < firsts { Category::FIRST } else { Category::SECOND };
    for i in 0..1000 {
        assert!(control.ask(i, category(i), 0), "nothing is announced yet");
    }
    control.hear(1000, &told(oc, 1));
    let (mut asked, mut refused) = ([0_u32; 2], [0_u32; 2]);
    for i in 0..100_000_u64 {
        let place = usize::from(category(i) != Category::FIRST);
        // Multiples of the golden ratio: as even as can be, and independent of the category.
        let draw = ((i + 1) as u32).wrapping_mul(0x9e37_79b9);
        asked[place] += 1;
        refused[place] += u32::from(!control.ask(1000 + i, category(i), draw));
    }
    [0, 1].map(|place| f64::from(refused[place]) / f64::from(asked[place]))
}

#[test]
fn a_client_drops_the_parts_of_the_examples() {
    for (oc, firsts, parts) in
        [(10, 4, [0.25, 0.0]), (90, 8, [1.0, 0.5]), (0, 4, [0.0, 0.0]), (100, 4, [1.0, 1.0])]
    {
        let found = dropped(oc, firsts);
        for place in 0..2 {
            assert!((found[place] - parts[place]).abs() < 0.005, "oc = {oc}: {found:?}");
        }
    }
}

#[test]
fn control_ends_with_its_validity() {
    let mut control = LossControl::new(&LossConfig::default()).unwrap();
    control.hear(0, &told(100, 1));
    assert!(!control.ask(60 * SECOND - 1, Category::FIRST, u32::MAX));
    assert!(control.ask(60 * SECOND, Category::FIRST, 0));
}

#[test]
fn the_mix_is_that_of_the_last_two_periods() {
    let config = LossConfig { categories: 2, mix_period_ns: SECOND };
    let mut control = LossControl::new(&config).unwrap();
    for i in 0..100 {
        control.ask(i, Category::SECOND, 0);
    }
    for i in 0..100 {
        control.ask(SECOND + i, Category::FIRST, 0);
    }
    assert_eq!(control.mix.shares()[..2], [0.5, 0.5]);
    control.ask(2 * SECOND, Category::FIRST, 0);
    assert_eq!(control.mix.shares()[..2], [1.0, 0.0]);
    control.ask(9 * SECOND, Category::SECOND, 0);
    assert_eq!(control.mix.shares()[..2], [0.0, 1.0], "long ago is nothing");
}

#[test]
fn categories_beyond_the_configured_ones_count_as_the_last() {
    let mut control = LossControl::new(&LossConfig { categories: 1, ..LossConfig::default() }).unwrap();
    control.hear(0, &told(50, 1));
    for _ in 0..100 {
        assert!(!control.ask(0, Category::new(7), 0));
        assert!(control.ask(0, Category::new(200), u32::MAX));
    }
}

#[test]
fn each_wrong_parameter_is_named() {
    for (config, field) in [
        (LossConfig { categories: 0, ..LossConfig::default() }, "categories"),
        (LossConfig { categories: 9, ..LossConfig::default() }, "categories"),
        (LossConfig { mix_period_ns: 0, ..LossConfig::default() }, "mix_period_ns"),
    ] {
        let problems = LossControl::new(&config).unwrap_err().problems;
        assert_eq!(problems.iter().map(Problem::field).collect::<Vec<_>>(), [field]);
    }
}

proptest! {
    #[test]
    fn the_parts_add_up_to_oc_and_none_is_touched_before_those_ahead_of_it_are_used_up(
        oc in 0_u32..=100, weights in proptest::array::uniform8(1_u32..100),
    ) {
        let all: u32 = weights.iter().sum();
        let shares = weights.map(|weight| f64::from(weight) / f64::from(all));
        let parts = LossControl::reductions(oc, shares);
        let sum: f64 = parts.iter().zip(shares).map(|(part, share)| part * share).sum();
        prop_assert!((sum - f64::from(oc) / 100.0).abs() < 1e-9, "{parts:?}");
        for pair in parts.windows(2) {
            prop_assert!((0.0..=1.0 + 1e-9).contains(&pair[0]));
            prop_assert!(pair[1] < 1e-9 || pair[0] > 1.0 - 1e-9, "{parts:?}");
        }
    }
}
