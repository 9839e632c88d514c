//! What a running instance says: one line for each event, on standard error, for people, for programs or for the journal.
//!
//! ```text
//!   any thread ── tracing event ──▶ formatted line ──▶ bounded channel ──▶ thread "log" ──▶ standard error
//!                                                        └─ full: the line is lost and counted; so it is when the write fails
//! ```
//!
//! Nobody waits for the reader of standard error: a pipe that nobody empties fills the channel, and from then on lines are
//! lost, not turns of a worker; on a full disk lines are lost, too. A panic goes the same way, since its usual message would stop the thread that ought to end.
//! Which changes are worth a line, and how many, is for [`changes`].
//!
//! Not here: what commands print for their callers; that is output, and goes where they send it.

pub mod changes;

use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, IsTerminal as _, Write};
use std::os::fd::AsFd as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::{Event, Level, Subscriber};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, format};
use tracing_subscriber::registry::LookupSpan;

use crate::capabilities;

/// Lines between those who say something and the thread that writes. More than a start or an end says, less than a
/// reader that hangs should cost in memory (some 200 bytes each).
const LINES_MAX: usize = 1024;

/// How lines look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Time, level, words and numbers; in the journal without the time, which it has itself.
    #[default]
    Text,
    /// One JSON object for each line: timestamp, level, target, message and the numbers.
    Json,
}

/// Lines that found the channel full.
static DROPPED: OnceLock<ErrorCounter> = OnceLock::new();
/// Lines that could not be written.
static UNWRITTEN: AtomicU64 = AtomicU64::new(0);

/// Lines that were lost since nobody read standard error, or since it took none, such as a file on a full disk.
#[must_use]
pub fn lost() -> u64 {
    DROPPED.get().map_or(0, |counter| counter.dropped_lines() as u64) + UNWRITTEN.load(Ordering::Relaxed)
}

/// Counts what cannot be written, and goes on with the next line.
struct Counting<W>(W);

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        match self.0.write(line) {
            Err(error) if error.kind() != ErrorKind::Interrupted => {
                UNWRITTEN.fetch_add(1, Ordering::Relaxed);
                Ok(line.len())
            }
            written => written,
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// The open log; dropping it writes what is left, for a second at most.
#[must_use]
#[derive(Debug)]
pub struct Log {
    _writing: WorkerGuard,
}

/// Opens the log on standard error. `RUST_LOG` chooses levels; `info` and above otherwise.
///
/// # Errors
///
/// When standard error is closed.
pub fn start(look: Format) -> std::io::Result<Log> {
    // A descriptor of its own: whoever prints to standard error must not find its lock held by a write that hangs.
    let stderr = File::from(std::io::stderr().as_fd().try_clone_to_owned()?);
    let for_people =
        stderr.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let is_journal = is_journal(&stderr);
    // From a thread without capabilities, so that the writing one has none either.
    let opened = std::thread::spawn(|| {
        capabilities::renounce_all_of_thread();
        lossy(Counting(stderr))
    });
    let (writer, writing) =
        opened.join().map_err(|_panic| std::io::Error::other("the thread of the log panicked"))?;
    let _first = DROPPED.set(writer.error_counter());

    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(for_people);
    let text = format().with_ansi(for_people);
    // A second subscriber can only come from a program that embeds this one; it keeps its own.
    let _already_set = match (look, is_journal) {
        (Format::Text, false) => lines.event_format(text).try_init(),
        (Format::Text, true) => lines.event_format(Prioritised(text.without_time())).try_init(),
        (Format::Json, false) => lines.json().flatten_event(true).try_init(),
        (Format::Json, true) => lines
            .json()
            .flatten_event(true)
            .event_format(Prioritised(format().json().flatten_event(true)))
            .try_init(),
    };
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    Ok(Log { _writing: writing })
}

/// A writer that waits for nobody, and the thread behind it.
fn lossy(to: impl Write + Send + 'static) -> (NonBlocking, WorkerGuard) {
    NonBlockingBuilder::default().lossy(true).buffered_lines_limit(LINES_MAX).thread_name("log").finish(to)
}

/// Whether a descriptor leads to the journal: `JOURNAL_STREAM` has its device and inode, as systemd.exec(5) says.
fn is_journal(file: &File) -> bool {
    let Ok(stat) = rustix::fs::fstat(file) else { return false };
    std::env::var("JOURNAL_STREAM").is_ok_and(|stream| stream == format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// Lines that begin with their priority, `<3>` for an error, as sd-daemon(3) has it; the journal takes it off.
struct Prioritised<F>(F);

impl<F, S, N> FormatEvent<S, N> for Prioritised<F>
where
    F: FormatEvent<S, N>,
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write!(writer, "<{}>", priority(*event.metadata().level()))?;
        self.0.format_event(context, writer, event)
    }
}

/// The level in the terms of syslog(3).
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::mpsc::{Receiver, channel};

    use super::{LINES_MAX, lossy};

    /// A reader that takes nothing until it is let.
    struct Hanging(Receiver<()>);

    impl Write for Hanging {
        fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
            // An error: the other end is gone, so it is let.
            let _let_go = self.0.recv();
            Ok(line.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_nobody_reads_are_lost_and_counted_and_hold_up_nobody() {
        let (let_go, held) = channel();
        let (mut writer, writing) = lossy(Hanging(held));
        let lost = writer.error_counter();
        for _ in 0..2 * LINES_MAX {
            writer.write_all(b"a line\n").expect("never an error");
        }
        // One line is in the hands of the thread.
        assert!((LINES_MAX - 1..=LINES_MAX).contains(&lost.dropped_lines()), "{}", lost.dropped_lines());
        drop(let_go);
        drop(writing);
    }
}
