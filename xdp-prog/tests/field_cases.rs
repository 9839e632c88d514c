//! The field cases of `userspace/sip/tests/field_cases`, with the program in the kernel as a second judge: whatever a
//! chapter asks about a datagram or a packet is asked of both, with the gate open and with it shedding. Needs root.

#[path = "../../userspace/sip/tests/field_cases/chapters/mod.rs"]
mod chapters;
mod support;

/// Who is asked what a datagram or a packet is: user space and the program, which must not contradict it.
mod judge {
    use std::sync::mpsc::{Sender, channel};
    use std::sync::{LazyLock, Mutex};

    use sip::{Class, Datagram, Message, Reason, Verdict, verdict_of};

    use super::support::{self, Ip, OVERLOAD, Packet, decision, gate, set_gates};

    /// A packet, and who waits for what becomes of it under each gate word.
    type Question = (Vec<u8>, Sender<Vec<(u64, support::Decision)>>);

    /// The program stays on one thread, and tests come on many.
    static PROGRAM: LazyLock<Mutex<Sender<Question>>> = LazyLock::new(|| {
        let (ask, questions) = channel::<Question>();
        std::thread::spawn(move || {
            let mut classifier = support::classifier();
            for (packet, answer) in questions {
                let decisions = [0, gate(OVERLOAD, 0), gate(support::DISCARD, 0)].map(|word| {
                    set_gates(&mut classifier, word);
                    (word, decision(&classifier.test_run(&packet).expect("a run")))
                });
                answer.send(decisions.to_vec()).expect("a test that waits");
            }
        });
        Mutex::new(ask)
    });

    fn ask(packet: Vec<u8>) -> Vec<(u64, support::Decision)> {
        let (answer, decisions) = channel();
        PROGRAM.lock().expect("no test panics here").send((packet, answer)).expect("the program's thread");
        decisions.recv().expect("the program's answer")
    }

    pub(crate) fn classify(datagram: &[u8]) -> Message {
        let message = sip::classify(datagram);
        for ip in [Ip::V4, Ip::V6] {
            let packet = Packet { ip, ..Packet::with(datagram) };
            if datagram.len() + packet.headers_len() > 2048 {
                // Larger than a frame: it passes unread.
                continue;
            }
            for (word, (class, reason, verdict)) in ask(packet.bytes()) {
                let text = || format!("{class:?} {reason:?} {verdict:?}, gate {word:#x}: {message:?}");
                if class == Class::Undecided {
                    assert_eq!(verdict, Verdict::RingNew, "{}", text());
                    continue;
                }
                assert_eq!(class, message.class, "{}", text());
                let expected = match class {
                    Class::Original => Verdict::RingReject,
                    other => verdict_of(other),
                };
                assert_eq!(verdict, expected, "{}", text());
            }
        }
        message
    }

    pub(crate) fn parse(packet: &[u8]) -> Result<Datagram, (Class, Reason)> {
        let parsed = sip::parse_packet(packet, &crate::chapters::services(), 2048);
        for (_, (class, reason, verdict)) in ask(packet.to_vec()) {
            match parsed {
                Err(passed) => assert_eq!((class, reason, verdict), (passed.0, passed.1, Verdict::Pass)),
                Ok(_) => assert_ne!(verdict, Verdict::Drop, "{class:?} {reason:?}"),
            }
        }
        parsed.map(|(datagram, _service)| datagram)
    }
}
