//! From facts to findings. Pure: nothing here reads the system, so every branch has a test with made-up facts.

pub mod driver;
mod interface;
mod kernel;
mod machine;
mod offload;
mod queues;
mod stack;
#[cfg(test)]
mod tests;

use super::facts::{Facts, Unread, Wanted};
use super::finding::Finding;
pub(in crate::doctor) use queues::parse_list;

/// All findings, in the order in which a packet meets what they are about.
#[must_use]
pub fn diagnose(facts: &Facts, wanted: &Wanted) -> Vec<Finding> {
    let mut findings = kernel::findings(facts, wanted);
    match &facts.interface {
        None => {}
        Some(Err(absent)) => findings.push(interface::absent(absent)),
        Some(Ok(interface)) => {
            findings.extend(interface::findings(interface, wanted));
            findings.extend(driver::findings(interface, wanted, facts.host.cpus));
            findings.extend(queues::findings(interface, &facts.process, &facts.host, wanted));
            findings.extend(offload::findings(interface, wanted));
            findings.extend(stack::findings_of_interface(interface, &facts.host, wanted));
        }
    }
    findings.extend(stack::findings(&facts.host, wanted));
    findings.extend(machine::findings(&facts.host));
    findings
}

/// A finding about something that could not be read.
fn unread(check: &'static str, subject: &str, reason: &Unread, why: &str) -> Finding {
    Finding::unknown(check, format!("Not known: {subject} ({reason})."), why)
}
