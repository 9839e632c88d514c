//! The notifier that throttles presence notifications, driven by chance, against the closed form.

use model::notifications::Notifications;
use overload::distributed::Notifier;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

const EVENTS: u32 = 1_000_000;

/// Shares of the updates and tokens, which come in random order, that leave no update waiting, and that send one.
fn simulated(ratio: f64, depth: u32) -> [f64; 2] {
    let mut random = Pcg64::seed_from_u64(1);
    let mut notifier = Notifier::new(depth);
    let token_below = ratio / (1.0 + ratio) * 2.0_f64.powi(32);
    let (mut valid, mut sent) = (0, 0);
    for event in 0..EVENTS {
        let told = if f64::from(random.next_u32()) < token_below {
            notifier.token()
        } else {
            notifier.update(event)
        };
        sent += u32::from(told.is_some());
        // Events of the merged Poisson streams see time averages.
        valid += u32::from(notifier.is_valid());
    }
    [valid, sent].map(|count| f64::from(count) / f64::from(EVENTS))
}

#[test]
fn the_notifier_behaves_as_the_closed_form_says() {
    for (ratio, depth) in [(0.5, 4), (1.0, 8), (2.0, 0), (0.9, 30)] {
        let theory = Notifications::new(1.0, ratio, depth).unwrap().solve();
        let [valid, sent] = simulated(ratio, depth);
        // One update in 1 + ratio events.
        let expected = theory.notification_rate_per_s / (1.0 + ratio);
        for (found, expected) in [(valid, theory.valid_access_probability), (sent, expected)] {
            assert!((found - expected).abs() < 0.01 * expected, "{ratio} {depth}: {found} {expected}");
        }
    }
}
