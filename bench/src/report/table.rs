//! The report for people.

use std::fmt::{self, Display, Formatter};

use super::{Distribution, MethodCounts, Report};
use crate::clock::SECOND_NS;

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let seconds = |ns: u64| ns as f64 / SECOND_NS as f64;
        writeln!(
            f,
            "target {}  seed {}  elapsed {:.1} s  caller's core busy {:.0} %",
            self.config.target,
            self.config.seed,
            seconds(self.elapsed_ns),
            100.0 * self.cpu_ns as f64 / self.elapsed_ns.max(1) as f64,
        )?;
        let w = &self.window;
        writeln!(
            f,
            "window {:.1} s to {:.1} s: offered {:.1}/s  goodput {:.1}/s  within T1 {:.1}/s  answers received {:.1}/s",
            seconds(w.from_ns),
            seconds(w.until_ns),
            w.offered_per_s,
            w.goodput_per_s,
            w.goodput_in_t1_per_s,
            w.answers_received_per_s,
        )?;
        writeln!(f)?;
        writeln!(
            f,
            "{:<16}{:>10}{:>10}{:>10}{:>10}{:>9}{:>11}{:>10}{:>8}{:>11}{:>11}{:>11}",
            "",
            "offered",
            "answered",
            "in T1",
            "rejected",
            "failed",
            "unresolved",
            "copies",
            "/req",
            "p50",
            "p99",
            "max",
        )?;
        for report in &self.methods {
            row(f, report.method.name(), "window", &report.window)?;
            row(f, report.method.name(), "total", &report.total)?;
        }
        writeln!(f)?;
        for report in &self.methods {
            let t = &report.total;
            if t.rejected > 0 {
                let codes: Vec<_> =
                    t.rejected_by_code.iter().map(|(code, n)| format!("{code}: {n}")).collect();
                writeln!(
                    f,
                    "{} rejected by {}; {}",
                    report.method.name(),
                    codes.join(", "),
                    t.delay_to_refusal
                )?;
            }
            if t.delay_to_provisional.count > 0 {
                writeln!(f, "{} first provisional: {}", report.method.name(), t.delay_to_provisional)?;
            }
            if t.not_started > 0 {
                writeln!(
                    f,
                    "SPOILT: {} {} were not sent; raise max_live_calls",
                    t.not_started,
                    report.method.name()
                )?;
            }
        }
        let (c, r, t) = (&self.calls, &self.responses, &self.transport);
        writeln!(
            f,
            "calls answered {}: BYE answered {}, rejected {}, failed {}, still holding {}; answered then lost {}, ACK unheard {}",
            c.answered,
            c.bye_answered,
            c.bye_rejected,
            c.bye_failed,
            c.holding_at_end,
            c.answered_then_lost,
            c.ack_unheard,
        )?;
        writeln!(
            f,
            "responses beside the first: duplicates {} (contradicting {}), after failure {}, forgotten {}, strays {}, not understood {}",
            r.duplicates, r.contradictions, r.after_failure, r.forgotten, r.strays, r.not_understood,
        )?;
        writeln!(
            f,
            "datagrams sent {} (ACK {}), received {}; send errors: no room {}, refused {}, other {}; {:.0} sent per processor second",
            t.sent, t.acks, t.received, t.send_no_room, t.send_refused, t.send_errors, t.sent_per_cpu_s,
        )?;
        writeln!(f, "lateness of first sends: {}", self.send_lateness)?;
        if self.copy_lateness.count > 0 {
            writeln!(f, "lateness of copies: {}", self.copy_lateness)?;
        }
        Ok(())
    }
}

fn row(f: &mut Formatter<'_>, method: &str, view: &str, c: &MethodCounts) -> fmt::Result {
    writeln!(
        f,
        "{:<16}{:>10}{:>10}{:>10}{:>10}{:>9}{:>11}{:>10}{:>8.3}{:>11}{:>11}{:>11}",
        format!("{method} {view}"),
        c.offered,
        c.answered,
        c.answered_in_t1,
        c.rejected,
        c.failed,
        c.unresolved,
        c.copies,
        c.copies_per_request,
        delay(c.delay_to_answer.p50_us),
        delay(c.delay_to_answer.p99_us),
        delay(c.delay_to_answer.max_us),
    )
}

impl Display for Distribution {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "p50 {}, p90 {}, p99 {}, p99.9 {}, max {}",
            delay(self.p50_us),
            delay(self.p90_us),
            delay(self.p99_us),
            delay(self.p999_us),
            delay(self.max_us),
        )
    }
}

fn delay(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} us"),
        1_000..1_000_000 => format!("{:.2} ms", us as f64 / 1e3),
        _ => format!("{:.3} s", us as f64 / 1e6),
    }
}
