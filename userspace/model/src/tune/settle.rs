//! Settings that keep the limits in the simulation, too.
//!
//! The models leave out what the simulation has (`verify.rs`). Where it surely misses a limit that was wished, the model is asked
//! for as much more as the simulation saw too little, until both keep the limit or the model can give no more.

use super::verify::{Effort, Verified};
use super::{Impossible, Recommendation, TuneError, Tuning};
use crate::simulate::Estimate;

/// How often the model is asked for more. Each round is a search and a simulation; the second most often ends it.
pub const ROUNDS: u32 = 4;
/// What is asked for beyond what was missed, as a part of it, so that the next round is not as likely to miss again.
const BEYOND: f64 = 0.05;

/// A recommendation and what the simulation saw of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Settled {
    /// The settings.
    pub chosen: Recommendation,
    /// What was seen.
    pub verified: Verified,
    /// Why the model could be asked for no more, if that ended the rounds. Where the simulation misses a limit without it, all
    /// rounds were not enough.
    pub no_more: Option<Impossible>,
}

impl Tuning {
    /// The settings to take, simulated. The same effort gives the same settings, on any number of threads.
    ///
    /// # Errors
    /// As [`Tuning::solve`] and [`Tuning::verify`].
    pub fn recommend(&self, effort: Effort) -> Result<Settled, TuneError> {
        let mut asked = self.clone();
        let mut chosen = self.solve()?;
        let mut verified = self.verify(&chosen, effort)?;
        let mut no_more = None;
        for _ in 0..ROUNDS {
            if !self.ask_for_more(&mut asked, &verified) {
                break;
            }
            match asked.solve() {
                Ok(stricter) => chosen = stricter,
                // The wishes are possible; only more than them is not.
                Err(TuneError::Impossible(why)) => {
                    no_more = Some(why);
                    break;
                }
                Err(error) => return Err(error),
            }
            verified = self.verify(&chosen, effort)?;
        }
        Ok(Settled { chosen, verified, no_more })
    }

    /// Makes the limits stricter that were missed; false if none was.
    fn ask_for_more(&self, asked: &mut Self, verified: &Verified) -> bool {
        let wished = &self.demand;
        let mut missed = false;
        if let Some(seen) = verified.states[2].filter(|seen| misses_most(seen, wished.max_discard)) {
            asked.demand.max_discard *= wished.max_discard / seen.mean * (1.0 - BEYOND);
            missed = true;
        }
        if let Some((cycle_s, seen)) = wished.min_cycle_s.zip(verified.cycle_s)
            && misses_least(&seen, cycle_s)
        {
            asked.demand.min_cycle_s =
                asked.demand.min_cycle_s.map(|asked_s| asked_s * cycle_s / seen.mean * (1.0 + BEYOND));
            missed = true;
        }
        missed
    }
}

/// Whether a number is surely above the most that is allowed.
pub(super) fn misses_most(seen: &Estimate, most: f64) -> bool {
    seen.interval().0 > most
}

/// Whether a number is surely below the least that is allowed.
pub(super) fn misses_least(seen: &Estimate, least: f64) -> bool {
    seen.interval().1 < least
}
