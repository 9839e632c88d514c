//! First passage from n in overload to normal, service by service, for numbers of which transforms are made.
//!
//! With β_i = E\[e^(−sS); A'=i\] and killing at rate s, T_n = E\[e^(−s·time to normal)\] from a service begun at (1,n)
//! obeys
//!
//! ```text
//!   T_n = Σ_i β_i T_(n−1+i) + E[e^(−sS); A' ≥ B−n] E[e^(−sS)]^(B−1−H) T_H        i < B−n,  T_(L−1) = 1
//! ```
//!
//! States are taken out from B−1 down. Seen by those who look away while more are in the system, n leads down to n−1
//! (`fall`), by discarding to H (`back`), or is killed there; the probability of leaving is the sum of these and never 1
//! less something (Grassmann, Taksar, Heyman 1985), so that a passage of 10^17 services keeps its digits at s ≈ 10^−17.

use std::ops::{AddAssign, Div, Mul};

/// What transforms are made of: complex numbers, or power series at 0.
pub(super) trait Number: Copy + Default + AddAssign + Mul<Output = Self> + Div<Output = Self> {
    const ONE: Self;
}

/// One service and the discards at a value of s.
pub(super) struct Services<T> {
    /// β_i.
    pub(super) arrivals: Vec<T>,
    /// Σ of β_i over at least i, by i up to B−L.
    pub(super) at_least: Vec<T>,
    /// 1 − E\[e^(−sS)\].
    pub(super) killed: T,
    /// E\[e^(−sS)\]^(B−1−H), and 1 less it.
    pub(super) discard: T,
    pub(super) discard_killed: T,
}

/// The levels as indices.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) low: usize,
    pub(super) high: usize,
    pub(super) buffer: usize,
}

/// T_n by n − (L−1), for n < B.
pub(super) fn passages<T: Number>(services: &Services<T>, bounds: Bounds) -> Vec<T> {
    let Bounds { low, high, buffer } = bounds;
    let mut exits = vec![Exit::default(); buffer - low];
    for n in (low..buffer).rev() {
        exits[n - low] = leave(services, bounds, n, &exits);
    }
    let mut found = Vec::with_capacity(buffer - low + 1);
    found.push(T::ONE);
    for (n, exit) in (low..).zip(&exits) {
        let mut passage = exit.fall * found[n - low];
        if n > high {
            passage += exit.back * found[high + 1 - low];
        }
        found.push(passage);
    }
    found
}

/// How a state is left for good: to the one below, to H by discarding, or killed.
#[derive(Debug, Clone, Copy, Default)]
struct Exit<T> {
    fall: T,
    back: T,
    killed: T,
}

fn leave<T: Number>(
    services: &Services<T>,
    Bounds { low, high, buffer }: Bounds,
    n: usize,
    exits: &[Exit<T>],
) -> Exit<T> {
    let Services { arrivals, at_least, discard, discard_killed, .. } = services;
    let none = T::default();
    let of = |list: &[T], i: usize| list.get(i).copied().unwrap_or(none);
    let discards = of(at_least, buffer - n);
    let mut back = discards * *discard;
    let mut killed = services.killed;
    killed += discards * *discard_killed;
    // The highest state that one service leads to, and H where a discard leads there.
    let mut span = (buffer - n).min(arrivals.len()).saturating_sub(2);
    if at_least.len() > buffer - n {
        span = span.max(high.saturating_sub(n));
    }
    // From n + m, before it falls to n: what goes back to H, what is killed.
    let (mut backs, mut kills) = (none, none);
    let mut kills_from_high = none;
    for m in 1..=span {
        let exit = exits[n + m - low];
        backs = sum(exit.back, exit.fall * backs);
        kills = sum(exit.killed, exit.fall * kills);
        if n + m == high {
            kills_from_high = kills;
        }
        if m + 1 < buffer - n {
            let arrives = of(arrivals, m + 1);
            back += arrives * backs;
            killed += arrives * kills;
        }
    }
    let down = of(arrivals, 0);
    if n > high {
        let leaving = sum(sum(down, back), killed);
        return Exit { fall: down / leaving, back: back / leaving, killed: killed / leaving };
    }
    // From H it falls to n again, or is killed on the way; a way back to where it began is no way.
    killed += back * kills_from_high;
    let leaving = sum(down, killed);
    Exit { fall: down / leaving, back: none, killed: killed / leaving }
}

fn sum<T: Number>(mut a: T, b: T) -> T {
    a += b;
    a
}
