//! `sipweir top`: what a running instance does, live, in a terminal.
//!
//! ```text
//!   thread "poller" ── status or error ──▶ State ──▶ draw ──▶ terminal
//!                   ◀── interval ─────────   ▲
//!                                           keys
//! ```
//!
//! It knows only the status document of the control socket, so it costs the instance what `sipweir status` costs it, and
//! may be ended at any time. A thread of its own asks, so that keys work while nobody answers. The terminal is given back
//! when it ends, also by a signal or a panic.

mod draw;
mod rates;
mod state;
mod terminal;
#[cfg(test)]
mod testing;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::time::Duration;

use anyhow::Context as _;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::cli::{environment, print_text};
use crate::config::Control;
use crate::control::{self, ControlError};
use crate::status::Status;
use draw::Look;
use state::State;
use terminal::Terminal;

/// Of a frame as text, where no terminal says another.
const TEXT_SIZE: (u16, u16) = (80, 24);
/// How long the view may lag behind a key or an answer.
const TICK: Duration = Duration::from_millis(50);

/// What it is called with.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Pause between two looks, 0.1 to 3600 seconds.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    interval: Duration,
    /// Print one frame as text after one interval, and end; also for pipes.
    #[arg(long)]
    once: bool,
    /// Control socket of the instance.
    #[arg(long, value_name = "PATH", default_value_os_t = Control::default().socket)]
    socket: PathBuf,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no number of seconds from 0.1 to 3600");
    let seconds: f64 = text.parse().map_err(|_parse| wrong())?;
    if !(0.1..=3600.0).contains(&seconds) {
        return Err(wrong());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Shows it until the user has seen enough.
#[must_use]
pub fn main(args: &Args) -> ExitCode {
    let shown = if args.once {
        once(args)
    } else if terminal::is_dumb() {
        plain(args)
    } else {
        live(args)
    };
    environment(shown)
}

/// One frame as text.
fn once(args: &Args) -> anyhow::Result<()> {
    let mut state = State::new(args.interval);
    state.look(control::ask_status(&args.socket)?);
    std::thread::sleep(args.interval);
    state.look(control::ask_status(&args.socket)?);
    print_text(&text(&state))
}

/// A frame after each interval, one below the other, where the cursor cannot be moved.
fn plain(args: &Args) -> anyhow::Result<()> {
    let stop = stop_flag()?;
    let mut state = State::new(args.interval);
    let poller = Poller::start(&args.socket, args.interval)?;
    while !stop.load(Ordering::Acquire) {
        match poller.answers.recv_timeout(TICK) {
            Ok(answer) => {
                note(&mut state, answer);
                if state.rates().is_some() || state.why().is_some() {
                    print_text(&text(&state))?;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => anyhow::bail!("the thread that asks has ended"),
        }
    }
    Ok(())
}

/// The view that is drawn anew in place.
fn live(args: &Args) -> anyhow::Result<()> {
    anyhow::ensure!(terminal::is_there(), "standard output is no terminal; use `sipweir top --once`");
    let stop = stop_flag()?;
    let mut state = State::new(args.interval);
    let poller = Poller::start(&args.socket, args.interval)?;
    let mut terminal = Terminal::take()?;
    let look = terminal::look();
    let mut changed = true;
    while !stop.load(Ordering::Acquire) && !state.is_done() {
        if changed {
            terminal.show(|area, buffer| draw::draw(&state, look, area, buffer))?;
        }
        let interval = state.interval();
        changed = match terminal.next(TICK)? {
            terminal::Event::Key(key) => {
                state.press(key);
                true
            }
            terminal::Event::Resized => true,
            terminal::Event::Nothing => false,
        };
        if state.interval() != interval {
            poller.pause_for(state.interval());
        }
        while let Ok(answer) = poller.answers.try_recv() {
            note(&mut state, answer);
            changed = true;
        }
    }
    Ok(())
}

fn note(state: &mut State, answer: Result<Status, ControlError>) {
    match answer {
        Ok(status) => state.look(status),
        Err(error) => state.trouble(error.to_string()),
    }
}

/// A frame without colours, without what is blank at the ends of lines and below.
fn text(state: &State) -> String {
    let (width, height) = terminal::size().unwrap_or(TEXT_SIZE);
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    draw::draw(state, Look { colour: false, unicode: terminal::look().unicode }, area, &mut buffer);
    let rows: Vec<String> = buffer.content().chunks(usize::from(width)).map(row).collect();
    let mut text = rows.join("\n").trim_end().to_owned();
    text.push('\n');
    text
}

fn row(cells: &[ratatui::buffer::Cell]) -> String {
    let row: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
    row.trim_end().to_owned()
}

/// Set by the signals that end a program.
fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot catch signals")?;
    }
    Ok(stop)
}

/// Asks now and then. Its thread ends when nobody listens any more.
struct Poller {
    answers: Receiver<Result<Status, ControlError>>,
    interval: Sender<Duration>,
}

impl Poller {
    fn start(socket: &Path, interval: Duration) -> anyhow::Result<Self> {
        // While the terminal takes nothing, nothing is piled up for it.
        let (answer, answers) = sync_channel(1);
        let (changes, change) = channel();
        let socket = socket.to_owned();
        let asking = move || {
            let mut interval = interval;
            while answer.send(control::ask_status(&socket)).is_ok() {
                match change.recv_timeout(interval) {
                    Ok(changed) => interval = changed,
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
        };
        std::thread::Builder::new()
            .name("poller".into())
            .spawn(asking)
            .context("cannot start the thread that asks")?;
        Ok(Self { answers, interval: changes })
    }

    fn pause_for(&self, interval: Duration) {
        // A thread that has ended is seen by its answers.
        let _ended = self.interval.send(interval);
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, parse_interval};

    #[test]
    fn an_interval_is_a_number_of_seconds_within_bounds() {
        assert_eq!(parse_interval("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "-1", "nan", "inf", "1e9", "soon", ""] {
            assert!(parse_interval(wrong).is_err(), "{wrong}");
        }
    }
}
