//! Medians, and ratios of two sides that took turns. A shared machine changes its speed from minute to minute; the
//! ratio of two neighbouring measurements hardly feels it, so ratios are formed within a round and only then ordered.

use serde::Serialize;

/// The middle value; the mean of both for an even number. NaN for none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => f64::NAN,
        (len, middle) if len.is_multiple_of(2) => f64::midpoint(sorted[middle - 1], sorted[middle]),
        (_, middle) => sorted[middle],
    }
}

/// Two sides, a value each a round.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Rounds {
    pub(crate) values: Vec<f64>,
    pub(crate) rival_values: Vec<f64>,
}

impl Rounds {
    pub(crate) fn push(&mut self, value: f64, rival_value: f64) {
        self.values.push(value);
        self.rival_values.push(rival_value);
    }

    pub(crate) fn value(&self) -> f64 {
        median(&self.values)
    }

    pub(crate) fn rival_value(&self) -> f64 {
        median(&self.rival_values)
    }

    /// The median of the rounds' ratios.
    pub(crate) fn ratio(&self) -> f64 {
        median(&self.ratios())
    }

    /// The largest less the smallest ratio of a round, as a share of the median ratio.
    pub(crate) fn spread(&self) -> f64 {
        let ratios = self.ratios();
        let (least, most) = ratios
            .iter()
            .fold((f64::MAX, f64::MIN), |(least, most), ratio| (least.min(*ratio), most.max(*ratio)));
        if ratios.is_empty() { f64::NAN } else { (most - least) / self.ratio() }
    }

    fn ratios(&self) -> Vec<f64> {
        self.values.iter().zip(&self.rival_values).map(|(value, rival)| value / rival).collect()
    }
}

/// Measures both sides in each round, in changing order, so that neither always comes second.
pub(crate) fn alternate(
    rounds: u32,
    mut subject: impl FnMut() -> anyhow::Result<f64>,
    mut rival: impl FnMut() -> anyhow::Result<f64>,
) -> anyhow::Result<Rounds> {
    let mut all = Rounds::default();
    for round in 0..rounds {
        if round % 2 == 0 {
            let value = subject()?;
            all.push(value, rival()?);
        } else {
            let rival_value = rival()?;
            all.push(subject()?, rival_value);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::{Rounds, alternate, median};

    #[test]
    fn the_median_is_the_middle_whatever_the_order() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-12);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_machine_that_slows_down_for_both_sides_leaves_ratio_and_spread_alone() {
        let mut rounds = Rounds::default();
        for speed in [1.0, 0.5, 0.25] {
            rounds.push(3.0 * speed, 6.0 * speed);
        }
        assert!((rounds.ratio() - 0.5).abs() < 1e-12);
        assert!(rounds.spread().abs() < 1e-12);
        assert!((rounds.value() - 1.5).abs() < 1e-12);
    }

    #[test]
    fn the_spread_is_that_of_the_ratios() {
        let rounds = Rounds { values: vec![1.0, 2.0, 3.0], rival_values: vec![2.0, 2.0, 2.0] };
        assert!((rounds.ratio() - 1.0).abs() < 1e-12);
        assert!((rounds.spread() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_sides_change_their_order() {
        let order = std::cell::RefCell::new(String::new());
        let note = |side: char, value: f64| {
            order.borrow_mut().push(side);
            Ok(value)
        };
        let rounds = alternate(3, || note('s', 1.0), || note('r', 2.0)).expect("measured");
        assert_eq!(*order.borrow(), "srrssr");
        assert_eq!((rounds.values.len(), rounds.rival_values), (3, vec![2.0; 3]));
    }
}
