//! The table of metrics, by subject.
//!
//! Counters of closed sets with few members are there from the start, so that a rate sees their first count. Those of several
//! labels (`messages_finished`, `xdp_packets`) would be thousands of rows that stay 0 for ever; their rows appear with the first
//! count.

mod gate;
mod instance;
mod kernel;
mod messages;
mod server;
mod transactions;
mod ways;
mod workers;

use super::{Metric, Samples};
use crate::status::{self, Status};

/// Metrics by subject, in the order of a message's way.
static SUBJECTS: [&[Metric]; 8] = [
    instance::METRICS,
    messages::METRICS,
    gate::METRICS,
    server::METRICS,
    transactions::METRICS,
    workers::METRICS,
    kernel::METRICS,
    ways::METRICS,
];

/// Every metric of sipweir.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    SUBJECTS.into_iter().flatten()
}

fn by_service(status: &Status, mut each: impl FnMut(&str, &status::Service)) {
    status.services.iter().for_each(|(name, service)| each(name, service));
}

/// A whole number of each service.
fn whole_of_services(status: &Status, samples: &mut Samples, number: fn(&status::Service) -> u64) {
    by_service(status, |name, service| samples.whole([name], number(service)));
}

/// A measure of each service.
fn real_of_services(status: &Status, samples: &mut Samples, measure: fn(&status::Service) -> f64) {
    by_service(status, |name, service| samples.real([name], measure(service)));
}

/// A gauge of each service at each worker.
fn at_workers(status: &Status, samples: &mut Samples, gauge: fn(&status::AtWorker) -> f64) {
    by_service(status, |name, service| {
        for worker in &service.workers {
            samples.real([name, &worker.queue.to_string()], gauge(worker));
        }
    });
}

/// A counter of each worker.
fn of_workers(status: &Status, samples: &mut Samples, count: fn(&status::Worker) -> u64) {
    for worker in &status.workers {
        samples.whole([&worker.queue.to_string()], count(worker));
    }
}
