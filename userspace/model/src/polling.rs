//! Two queues polled in turn by one server with switch-over times: mean waits, exhaustive and gated.
//!
//! # Assumptions
//!
//! Arrivals at each queue are Poisson, service times of a queue have any law with a given mean and squared coefficient
//! of variation, buffers are unlimited. The server visits queue 1, switches, visits queue 2, switches. Exhaustive: a
//! visit ends when the queue is empty; gated: it serves those that were there when it began. All times are independent.
//! ρ < 1, and the switch-over times are not both 0.
//!
//! # Symbols
//!
//! | symbol | meaning | unit |
//! |---|---|---|
//! | λ_i, b_i, β_i | arrival rate, first and second moment of the service time of queue i | 1/s, s, s² |
//! | ρ_i, ρ | λ_i b_i, their sum | |
//! | d_i | variance of the switch-over that follows queue i | s² |
//! | s | mean of both switch-overs together | s |
//! | I_i, V_i | time between visits to queue i (end to begin), its variance | s, s² |
//! | C_i | time between the beginnings of visits to queue i; the mean C = s/(1−ρ) is the same for both | s |
//! | W_i | time until service begins | s |
//!
//! # Solution
//!
//! Exhaustive, x_i = ρ_i/(1−ρ_i), c_i = λ_i β_i/(1−ρ_i)³, E\[I_i\] = s(1−ρ_i)/(1−ρ): a visit to queue i is a busy period
//! begun by the arrivals of I_i, so
//!
//! ```text
//!   V_1 = d_2 + d_1(1+2x_2) + x_2² V_2 + c_2 E[I_2]         V_2 likewise with 1 and 2 exchanged
//!   W_i = λ_i β_i/(2(1−ρ_i)) + E[I_i]/2 + V_i/(2 E[I_i])
//! ```
//!
//! Gated, e_i = λ_i β_i C, u = e_1 + d_1, with A = Var C_1, c the covariance of a visit to queue 2 and its switch-over
//! with the cycle before them, R their variance:
//!
//! ```text
//!   Var C_2 = R + ρ_1² A + 2ρ_1 c + u                       R = ρ_2² Var C_2 + e_2 + d_2
//!   c = R + ρ_2(ρ_1 c + ρ_1² A + u)                         A = ρ_1² A + u + R + 2ρ_2(ρ_1 c + ρ_1² A + u)
//!   W_i = (1+ρ_i)(C + Var C_i/C)/2
//! ```
//!
//! # Sources
//!
//! Gaidamaka, Zaripova: polling for SIP servers, ITMM 2015. Tests hold the waits against the pseudo-conservation law
//! (Boxma, Groenendijk 1987) and a simulation.

use crate::parameter::{self, ParameterError};

/// When a visit ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VisitDiscipline {
    /// When the queue is empty.
    Exhaustive,
    /// When those have been served that were there at its beginning.
    Gated,
}

/// A time of which mean and variation are known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeMoments {
    /// Mean, in seconds.
    pub mean_s: f64,
    /// Squared coefficient of variation: 0 fixed, 1 exponential.
    pub scv: f64,
}

impl TimeMoments {
    fn check(self, name: &'static str) -> Result<Self, ParameterError> {
        parameter::positive(name, self.mean_s)?;
        if !(0.0..=1e6).contains(&self.scv) {
            return Err(ParameterError::new(name, self.scv, "given with an scv between 0 and 1e6"));
        }
        Ok(self)
    }

    fn variance(self) -> f64 {
        self.scv * self.mean_s * self.mean_s
    }

    fn second_moment(self) -> f64 {
        (1.0 + self.scv) * self.mean_s * self.mean_s
    }
}

/// A queue: who comes, and what serving one takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PolledQueue {
    /// λ_i.
    pub arrival_rate_per_s: f64,
    /// Service time.
    pub service: TimeMoments,
}

impl PolledQueue {
    fn load(&self) -> f64 {
        self.arrival_rate_per_s * self.service.mean_s
    }

    /// λ_i β_i, in seconds.
    fn arriving_square_s(&self) -> f64 {
        self.arrival_rate_per_s * self.service.second_moment()
    }
}

/// The model's parameters, checked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Polling {
    discipline: VisitDiscipline,
    queues: [PolledQueue; 2],
    /// The switch-over that follows each queue.
    switches: [TimeMoments; 2],
}

impl Polling {
    /// The model for these queues, and for the switch-overs that follow each.
    ///
    /// # Errors
    /// The first parameter that is outside its range, and an offered load of 1 or more.
    pub fn new(
        discipline: VisitDiscipline,
        queues: [PolledQueue; 2],
        switches: [TimeMoments; 2],
    ) -> Result<Self, ParameterError> {
        for queue in &queues {
            parameter::positive("queue", queue.arrival_rate_per_s)?;
            queue.service.check("queue")?;
        }
        for switch in switches {
            switch.check("switch")?;
        }
        let load = queues[0].load() + queues[1].load();
        if load >= 1.0 {
            let range = format!("such that the loads rate × mean sum to less than 1 (they sum to {load})");
            return Err(ParameterError::new("queue", "rates and means", range));
        }
        Ok(Self { discipline, queues, switches })
    }

    /// W_1 and W_2 in seconds, not counting service.
    #[must_use]
    pub fn waits_s(&self) -> [f64; 2] {
        match self.discipline {
            VisitDiscipline::Exhaustive => self.exhaustive(),
            VisitDiscipline::Gated => self.gated(),
        }
    }

    fn exhaustive(&self) -> [f64; 2] {
        let rho = self.queues.map(|queue| queue.load());
        let idle = 1.0 - rho[0] - rho[1];
        let switch_s = self.switches[0].mean_s + self.switches[1].mean_s;
        let d = self.switches.map(TimeMoments::variance);
        let x = rho.map(|rho| rho / (1.0 - rho));
        let between = rho.map(|rho| switch_s * (1.0 - rho) / idle);
        // What V_i is apart from the other queue's variance.
        let own = |i: usize| {
            let other = 1 - i;
            let busy_square = self.queues[other].arriving_square_s() / (1.0 - rho[other]).powi(3);
            d[other] + d[i] * 2.0_f64.mul_add(x[other], 1.0) + busy_square * between[other]
        };
        let both = (x[0] * x[1]).powi(2);
        [0, 1].map(|i| {
            let other = 1 - i;
            let variance = (own(i) + x[other].powi(2) * own(other)) / (1.0 - both);
            self.queues[i].arriving_square_s() / (2.0 * (1.0 - rho[i]))
                + between[i] / 2.0
                + variance / (2.0 * between[i])
        })
    }

    fn gated(&self) -> [f64; 2] {
        let [rho1, rho2] = self.queues.map(|queue| queue.load());
        let cycle = (self.switches[0].mean_s + self.switches[1].mean_s) / (1.0 - rho1 - rho2);
        let noise = |i: usize| self.queues[i].arriving_square_s() * cycle + self.switches[i].variance();
        let (u, w) = (noise(0), noise(1));
        // Rows: the equations of R, c and A with Var C_2 put in; columns: A, R, c and the constant.
        let square2 = rho2 * rho2;
        let [variance1, r, c] = solve_three([
            [-square2 * rho1 * rho1, 1.0 - square2, -2.0 * square2 * rho1, square2.mul_add(u, w)],
            [-rho2 * rho1 * rho1, -1.0, rho2.mul_add(-rho1, 1.0), rho2 * u],
            [
                1.0 - rho1 * rho1 * 2.0_f64.mul_add(rho2, 1.0),
                -1.0,
                -2.0 * rho1 * rho2,
                u * 2.0_f64.mul_add(rho2, 1.0),
            ],
        ]);
        let variance2 = r + rho1 * rho1 * variance1 + 2.0 * rho1 * c + u;
        [(rho1, variance1), (rho2, variance2)]
            .map(|(rho, variance)| (1.0 + rho) * (cycle + variance / cycle) / 2.0)
    }
}

/// Three linear equations, coefficients and then the right side, by Cramer's rule.
fn solve_three(rows: [[f64; 4]; 3]) -> [f64; 3] {
    let determinant = |columns: [usize; 3]| {
        let [a, b, c] = rows.map(|row| columns.map(|column| row[column]));
        a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0])
            + a[2] * (b[0] * c[1] - b[1] * c[0])
    };
    let all = determinant([0, 1, 2]);
    [[3, 1, 2], [0, 3, 2], [0, 1, 3]].map(|columns| determinant(columns) / all)
}

#[cfg(test)]
mod tests;
