//! The two classifiers side by side: loads the program, runs cases through it in batches and has them judged.
//!
//! Reading the counters takes longer than a run of the program, so they are read once a batch. If their sums are not
//! what the runs should have counted, the batch is gone through again, packet by packet.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use sip::class::{Class, Reason, Verdict};
use xdp_prog::{Classifier, Counters, Meta};

use crate::case::Case;
use crate::judge::{Cell, FRAME_LEN, Guard};
use crate::minimise::minimise;
use crate::packet::Shape;

/// Cases between two looks at the counters.
pub const BATCH: u64 = 1024;

/// Room for any packet that is made, and its metadata.
const OUT_LEN: usize = 4096 + Meta::LEN;

/// Where the two differ, and about what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// The case, as small as it could be made.
    pub case: Case,
    /// The gate word under which they differ.
    pub word: u64,
    /// What they differ about.
    pub complaint: String,
}

/// One loaded program, with what it should have counted since its counters were last read.
struct Program {
    guard: Guard,
    classifier: Classifier,
    word: u64,
    counted: Counters,
    expected: BTreeMap<(u8, u8, u8), u64>,
}

/// Both settings of the program. It stays on the thread that made it.
pub struct Engine {
    programs: [Program; 2],
    packet: Vec<u8>,
    out: Vec<u8>,
    /// Packets that the program decided, and that it left to user space because of a bound or of something unclear.
    pub decided: u64,
    /// See [`Self::decided`].
    pub undecided: u64,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("decided", &self.decided).finish_non_exhaustive()
    }
}

impl Program {
    fn load(drop_not_sip: bool) -> Result<Self> {
        let guard = Guard::new(drop_not_sip);
        let classifier = Classifier::load(&guard.settings).context("loading the XDP program (needs root)")?;
        let counted = classifier.counters().context("reading its counters")?;
        Ok(Self { guard, classifier, word: 0, counted, expected: BTreeMap::new() })
    }

    fn set_gate(&mut self, word: u64) -> Result<()> {
        if self.word != word {
            for service in 0..self.guard.settings.services.len() {
                self.classifier.publish_gate(service, 0, word).context("setting the gate")?;
            }
            self.word = word;
        }
        Ok(())
    }

    /// Whether exactly what was expected was counted; forgets both.
    fn counted_as_expected(&mut self) -> Result<bool> {
        let now = self.classifier.counters().context("reading the counters")?;
        let counted: BTreeMap<_, _> = now
            .since(&self.counted)
            .iter()
            .map(|(class, verdict, reason, n)| ((class, verdict, reason), n))
            .collect();
        self.counted = now;
        Ok(std::mem::take(&mut self.expected) == counted)
    }
}

impl Engine {
    /// Loads the program twice: passing and dropping what is no SIP.
    ///
    /// # Errors
    ///
    /// Without root, or if the kernel refuses the program.
    pub fn new() -> Result<Self> {
        Ok(Self {
            programs: [Program::load(false)?, Program::load(true)?],
            packet: Vec::with_capacity(2 * FRAME_LEN as usize),
            out: vec![0; OUT_LEN],
            decided: 0,
            undecided: 0,
        })
    }

    /// Runs a case with the gate open and with the gate shedding.
    ///
    /// # Errors
    ///
    /// What the kernel says about a test run; a disagreement is no error but the answer.
    pub fn run(&mut self, case: &Case) -> Result<Option<Disagreement>> {
        for word in [0, case.shedding] {
            if let Err(complaint) = self.run_under(case, word)? {
                return Ok(Some(Disagreement { case: case.clone(), word, complaint }));
            }
        }
        Ok(None)
    }

    /// Runs a case under one gate word, without a look at the counters.
    fn run_under(&mut self, case: &Case, word: u64) -> Result<Result<Cell, String>> {
        let program = &mut self.programs[usize::from(case.drop_not_sip)];
        program.set_gate(word)?;
        case.shape.write(&case.datagram, &mut self.packet);
        let run = program.classifier.run_packet(&self.packet, &mut self.out).context("a test run")?;
        let judged = program.guard.judge(&self.packet, word, &run);
        if let Ok((class, verdict, reason)) = judged {
            *program.expected.entry((class as u8, verdict as u8, reason as u8)).or_default() += 1;
            if class == Class::Undecided && reason != Reason::HeadersUnread {
                self.undecided += 1;
            } else {
                self.decided += 1;
            }
        }
        Ok(judged)
    }

    /// Whether the counters say what the runs since the last look should have counted.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn counters_agree(&mut self) -> Result<bool> {
        let mut agree = true;
        for program in &mut self.programs {
            agree &= program.counted_as_expected()?;
        }
        Ok(agree)
    }

    /// Runs a case with a look at the counters after each run, which is slow and misses nothing.
    ///
    /// # Errors
    ///
    /// As [`Self::run`].
    pub fn run_closely(&mut self, case: &Case) -> Result<Option<Disagreement>> {
        self.counters_agree()?;
        for word in [0, case.shedding] {
            if let Some(complaint) = self.complaint_about(case, word)? {
                return Ok(Some(Disagreement { case: case.clone(), word, complaint }));
            }
        }
        Ok(None)
    }

    fn complaint_about(&mut self, case: &Case, word: u64) -> Result<Option<String>> {
        let judged = self.run_under(case, word)?;
        let counted = {
            let program = &self.programs[usize::from(case.drop_not_sip)];
            program.classifier.counters().context("reading the counters")?.since(&program.counted)
        };
        let agree = self.counters_agree()?;
        Ok(match judged {
            Err(complaint) => Some(complaint),
            Ok(cell) if !agree => {
                Some(format!("user space says {cell:?}, the program counted {}", named(&counted)))
            }
            Ok(_) => None,
        })
    }

    /// Makes the case of a disagreement as small as it can be while the two still differ, about whatever.
    ///
    /// # Errors
    ///
    /// As [`Self::run`].
    pub fn minimise(&mut self, found: Disagreement) -> Result<Disagreement> {
        let Disagreement { mut case, word, .. } = found.clone();
        for simpler in [
            Case { shape: Shape::PLAIN, drop_not_sip: false, ..case.clone() },
            Case { shape: Shape { damage: None, tags: 0, padding: 0, ..case.shape }, ..case.clone() },
            Case { shape: Shape { tags: 0, ..case.shape }, ..case.clone() },
        ] {
            if self.complaint_about(&simpler, word)?.is_some() {
                case = simpler;
                break;
            }
        }
        let mut failed = None;
        case.datagram = minimise(&case.datagram.clone(), |datagram| {
            let shorter = Case { datagram: datagram.to_vec(), ..case.clone() };
            match self.complaint_about(&shorter, word) {
                Ok(complaint) => complaint.is_some(),
                Err(error) => {
                    failed.get_or_insert(error);
                    false
                }
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        Ok(match self.complaint_about(&case, word)? {
            Some(complaint) => Disagreement { case, word, complaint },
            None => found,
        })
    }
}

/// Counter cells by name.
fn named(counters: &Counters) -> String {
    let cells = counters.iter().map(|(class, verdict, reason, packets)| {
        let class = Class::from_u8(class).map_or("?", Class::name);
        let verdict = Verdict::from_u8(verdict).map_or("?", Verdict::name);
        let reason = Reason::from_u8(reason).map_or("?", Reason::name);
        format!("{packets} × {class}, {verdict}, {reason}")
    });
    cells.collect::<Vec<_>>().join("; ")
}

/// These need root, as the engine does.
#[cfg(test)]
mod tests {
    use super::*;

    /// Two that really disagree: user space believes that what is no SIP is dropped, and the program passes it on.
    fn mistaken() -> Engine {
        let mut engine = Engine::new().expect("the program");
        engine.programs[0].guard = Guard::new(true);
        engine
    }

    #[test]
    fn a_disagreement_is_found_and_made_small() {
        let mut engine = mistaken();
        let shape = Shape { ipv6: true, tags: 2, padding: 6, ..Shape::PLAIN };
        let request = b"OPTIONS sip:x SIP/2.0\r\nTo: <x>\r\n\r\n".to_vec();
        let case = Case { datagram: request, shape, ..Case::default() };
        assert_eq!(engine.run(&case).expect("a run"), None, "no disagreement about a request");

        let web = Case { datagram: b"GET /index.html HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), ..case };
        let found = engine.run(&web).expect("a run").expect("a disagreement");
        assert_eq!((&found.case, found.word), (&web, 0));
        let smallest = engine.minimise(found).expect("runs");
        // One byte, as an empty datagram is a keep-alive.
        assert_eq!(smallest.case, Case { datagram: b"a".to_vec(), ..Case::default() });
        assert!(smallest.complaint.contains("to be dropped"), "{}", smallest.complaint);
    }

    #[test]
    fn a_packet_that_is_counted_twice_is_noticed() {
        let mut engine = Engine::new().expect("the program");
        let case = Case { datagram: b"BYE sip:x SIP/2.0\r\n\r\n".to_vec(), ..Case::default() };
        assert_eq!(engine.run(&case).expect("a run"), None);
        assert!(engine.counters_agree().expect("counters"));
        assert_eq!(engine.run(&case).expect("a run"), None);
        let once_more = engine.programs[0].classifier.run_packet(&engine.packet, &mut engine.out);
        assert!(once_more.is_ok());
        assert!(!engine.counters_agree().expect("counters"));
    }
}
