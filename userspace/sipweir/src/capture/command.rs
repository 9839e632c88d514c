//! `sipweir capture`: asks a running instance for packets, and writes them into a file of one's own.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::filter::{Fate, Filter};
use super::pcapng;
use super::record::{Line, PROGRESS, read_line, read_packet};
use crate::cli::environment;
use crate::config::Control;
use crate::control::{self, Refusal, Request};

/// The instance says something every [`PROGRESS`]; after so long it is gone.
const PATIENCE: Duration = PROGRESS.saturating_mul(20);

/// What it is called with.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file to write, in pcapng; - for standard output.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Only packets that this became of; shed, if no --reason is given.
    #[arg(long, value_enum)]
    verdict: Option<Fate>,
    /// Only those with this outcome or reason, as in `sipweir status`.
    #[arg(long)]
    reason: Option<String>,
    /// Only those of this class.
    #[arg(long)]
    class: Option<String>,
    /// Only those for this service.
    #[arg(long)]
    service: Option<String>,
    /// End after so many packets.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    duration: Option<Duration>,
    /// One of N packets, by lot.
    #[arg(long, value_name = "1/N", default_value = "1/1", value_parser = parse_sample)]
    sample: u32,
    /// Control socket of the instance.
    #[arg(long, value_name = "PATH", default_value_os_t = Control::default().socket)]
    socket: PathBuf,
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| (0.001..=1e7).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| format!("{text:?} is no number of seconds above 0"))
}

fn parse_sample(text: &str) -> Result<u32, String> {
    let number = text.strip_prefix("1/").unwrap_or(text).parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{text:?} is no sample such as 1/100"))
}

impl Args {
    fn request(&self) -> Request {
        let default = if self.reason.is_none() { Some(Fate::Shed) } else { None };
        let filter = Filter {
            verdict: self.verdict.or(default),
            reason: self.reason.clone(),
            class: self.class.clone(),
            service: self.service.clone(),
            one_in: self.sample,
        };
        let duration_ms =
            self.duration.map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
        Request::Capture { filter, count: self.count, duration_ms }
    }
}

/// Captures until the count or duration is reached, or until it is told to end.
#[must_use]
pub fn main(args: &Args) -> ExitCode {
    environment(capture(args))
}

fn capture(args: &Args) -> anyhow::Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot catch signals")?;
    }
    let stream = control::open(&args.socket, &args.request(), PATIENCE)?;
    let mut input = BufReader::new(stream);
    // After the instance has agreed, so that a refusal leaves an older file as it is.
    let first = read_line(&mut input).context("the instance does not answer")?;
    let first = first.context("the instance has hung up")?;
    if let Ok(Refusal { error }) = serde_json::from_slice(&first) {
        bail!("{error}");
    }
    let Line::Begun { interface } = line(&first)? else { bail!("the instance says something else first") };
    let mut output = Output::create(&args.out)?;
    output.write(&pcapng::head(&interface)?)?;
    output.flush()?;
    let lost = pass_on(&mut input, &mut output, &stop)?;
    output.flush()?;
    eprintln!("sipweir: {} packets in {}, {lost} lost for want of a buffer", output.packets, output.name);
    Ok(())
}

/// Passes packets on until the end; how many were lost.
fn pass_on(
    input: &mut BufReader<std::os::unix::net::UnixStream>,
    output: &mut Output,
    stop: &AtomicBool,
) -> anyhow::Result<u64> {
    let (mut bytes, mut known_lost) = (Vec::new(), 0);
    while !stop.load(Ordering::Acquire) {
        // A signal ends the wait; what is asked for by it is looked at above.
        match input.fill_buf() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            _ => {}
        }
        let next = read_line(input).context("the instance has fallen silent")?;
        let Some(next) = next else {
            output.flush()?;
            bail!("the instance has ended; {} has {} packets until then", output.name, output.packets);
        };
        match line(&next)? {
            Line::Packet(record) => {
                read_packet(input, &record, &mut bytes).context("the instance broke off in a packet")?;
                output.write(&pcapng::packet(&record, &bytes)?)?;
                output.packets += 1;
            }
            Line::Progress { lost } => {
                known_lost = lost;
                // Whoever follows the file sees what there is.
                output.flush()?;
            }
            Line::End { lost } => return Ok(lost),
            Line::Begun { .. } => bail!("the instance begins twice"),
        }
    }
    Ok(known_lost)
}

fn line(bytes: &[u8]) -> anyhow::Result<Line> {
    serde_json::from_slice(bytes)
        .context("cannot understand the instance; is that sipweir of the same version?")
}

/// The file.
struct Output {
    name: String,
    file: BufWriter<Box<dyn Write>>,
    packets: u64,
}

impl Output {
    fn create(path: &Path) -> anyhow::Result<Self> {
        let (name, file): (_, Box<dyn Write>) = if path == Path::new("-") {
            ("standard output".to_owned(), Box::new(std::io::stdout()))
        } else {
            let name = path.display().to_string();
            let file = File::create(path).with_context(|| format!("cannot create {name}"))?;
            (name, Box::new(file))
        };
        Ok(Self { name, file: BufWriter::new(file), packets: 0 })
    }

    fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.file.write_all(bytes).with_context(|| self.failed())
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        self.file.flush().with_context(|| self.failed())
    }

    fn failed(&self) -> String {
        format!("cannot write {}, which may end in the middle of one of {} packets", self.name, self.packets)
    }
}

#[cfg(test)]
mod tests {
    use super::{parse_sample, parse_seconds};
    use std::time::Duration;

    #[test]
    fn samples_are_one_of_a_number_and_durations_seconds() {
        assert_eq!((parse_sample("1/100"), parse_sample("7")), (Ok(100), Ok(7)));
        for wrong in ["0", "1/0", "2/3", "", "1/x", "-1"] {
            assert!(parse_sample(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        assert!(["0", "-1", "nan", "x"].into_iter().all(|wrong| parse_seconds(wrong).is_err()));
    }
}
