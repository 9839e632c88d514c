//! `sipweir-caller`: the caller and the answerer from a shell.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, bail};
use bench::{
    Answerer, AnswererConfig, Arrival, CallerConfig, Hold, Marker, Mix, Progress, RateStep, Service, Sources,
    monotonic_ns,
};
use clap::{Args, Parser, Subcommand, ValueEnum};

/// Open-loop SIP load over UDP with RFC 3261 timers.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Offer calls to a server and report what became of them.
    Call(Box<CallArgs>),
    /// Be a minimal server of a given capacity.
    Answer(AnswerArgs),
    /// Measure what one core of this machine can do as a caller.
    SelfTest {
        /// Core for the caller's thread.
        #[arg(long)]
        core: Option<usize>,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ArrivalArg {
    Poisson,
    Constant,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum MarkerArg {
    Off,
    Field,
    Uri,
}

#[derive(Debug, Args)]
struct CallArgs {
    /// Server, as ADDRESS:PORT.
    target: SocketAddr,
    /// A whole configuration in JSON (see the `config` of a report); target and seed on the command line win, other options are ignored.
    #[arg(long)]
    config: Option<PathBuf>,
    /// Local address; may be given several times.
    #[arg(long = "source")]
    sources: Vec<IpAddr>,
    /// First source port; 0 lets the kernel choose.
    #[arg(long, default_value_t = 0)]
    first_port: u16,
    /// Client sockets, spread over the addresses.
    #[arg(long, default_value_t = 16)]
    sockets: u16,
    /// Do not connect the sockets: answers from elsewhere count, ICMP errors are not seen.
    #[arg(long)]
    unconnected: bool,
    /// Arrival process.
    #[arg(long, value_enum, default_value = "poisson")]
    arrival: ArrivalArg,
    /// Calls per second.
    #[arg(long, default_value_t = 100.0)]
    rate: f64,
    /// Another rate from a time on, as TIME=RATE (`30s=2000`); may be given several times, in order.
    #[arg(long = "step", value_parser = parse_step)]
    steps: Vec<RateStep>,
    /// Weight of INVITE calls.
    #[arg(long, default_value_t = 1.0)]
    invite: f64,
    /// Weight of REGISTER.
    #[arg(long, default_value_t = 0.0)]
    register: f64,
    /// Weight of OPTIONS.
    #[arg(long, default_value_t = 0.0)]
    options: f64,
    /// Calls start for this long.
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    duration: Duration,
    /// Left out of the window at the start.
    #[arg(long, default_value = "0s", value_parser = parse_duration)]
    warm_up: Duration,
    /// Left out of the window at the end.
    #[arg(long, default_value = "0s", value_parser = parse_duration)]
    tail: Duration,
    /// Longest wait for calls to end; 64·T1 + hold + 2 s when absent.
    #[arg(long, value_parser = parse_duration)]
    drain: Option<Duration>,
    /// Copy numbers in requests.
    #[arg(long, value_enum, default_value = "off")]
    marker: MarkerArg,
    /// RFC 3261 T1.
    #[arg(long, default_value = "500ms", value_parser = parse_duration)]
    t1: Duration,
    /// RFC 3261 T2.
    #[arg(long, default_value = "4s", value_parser = parse_duration)]
    t2: Duration,
    /// Mean time from answer to BYE.
    #[arg(long, default_value = "1s", value_parser = parse_duration)]
    hold: Duration,
    /// Hold times are exponential.
    #[arg(long)]
    hold_exponential: bool,
    /// Host part of the Request-URI.
    #[arg(long)]
    domain: Option<String>,
    /// Leave rport out of Via.
    #[arg(long)]
    no_rport: bool,
    /// Leave the session description out of INVITE.
    #[arg(long)]
    no_body: bool,
    /// Most calls alive at once.
    #[arg(long, default_value_t = 400_000)]
    max_live_calls: u32,
    /// Core for the caller's thread.
    #[arg(long)]
    core: Option<usize>,
    /// Seed; drawn from the clock when absent, and printed. A seed used again within 64·T1 sends the same transactions.
    #[arg(long)]
    seed: Option<u64>,
    /// Write the whole report here, in JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct AnswerArgs {
    /// Address to serve, as ADDRESS:PORT.
    bind: SocketAddr,
    /// Answer to requests outside a dialog.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(200..700))]
    status: u16,
    /// Send 180 before the answer to an INVITE.
    #[arg(long)]
    ringing: bool,
    /// Requests outside a dialog per second; no limit when absent.
    #[arg(long)]
    capacity: Option<f64>,
    /// Cost of ACK and BYE, as a share of the others'.
    #[arg(long, default_value_t = 0.0)]
    in_dialog_share: f64,
    /// Service times are exponential.
    #[arg(long)]
    exponential: bool,
    /// Ignore so many copies of every request before one is served.
    #[arg(long, default_value_t = 0)]
    drop_first: u8,
    /// Answer nothing.
    #[arg(long)]
    silent: bool,
    /// Receive buffer: the server's queue.
    #[arg(long, default_value_t = 4 << 20)]
    receive_buffer: usize,
    /// End after this time; on SIGINT or SIGTERM when absent.
    #[arg(long, value_parser = parse_duration)]
    duration: Option<Duration>,
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Call(args) => call(&args),
        Command::Answer(args) => answer(&args),
        Command::SelfTest { core } => self_test(core),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("sipweir-caller: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn call(args: &CallArgs) -> anyhow::Result<ExitCode> {
    let mut config = match &args.config {
        Some(file) => {
            let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            serde_json::from_str(&text).with_context(|| format!("in {}", file.display()))?
        }
        None => config_of(args),
    };
    config.target = args.target;
    if let Some(seed) = args.seed {
        config.seed = seed;
    }
    let stop = stop_flag()?;
    let report = bench::run(&config, &stop, &Progress::default())?;
    print!("{report}");
    if let Some(file) = &args.json {
        let text = serde_json::to_string_pretty(&report)?;
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn config_of(args: &CallArgs) -> CallerConfig {
    let t1_ns = nanos(args.t1);
    let hold_ns = nanos(args.hold);
    let drain_ns = args.drain.map_or_else(
        || t1_ns.saturating_mul(64).saturating_add(hold_ns).saturating_add(2_000_000_000),
        nanos,
    );
    CallerConfig {
        sources: Sources {
            addresses: args.sources.clone(),
            first_port: args.first_port,
            sockets: args.sockets,
            connected: !args.unconnected,
        },
        arrival: match args.arrival {
            ArrivalArg::Poisson => Arrival::Poisson,
            ArrivalArg::Constant => Arrival::Constant,
        },
        rate_per_s: args.rate,
        steps: args.steps.clone(),
        mix: Mix { invite: args.invite, register: args.register, options: args.options },
        duration_ns: nanos(args.duration),
        warm_up_ns: nanos(args.warm_up),
        tail_ns: nanos(args.tail),
        drain_ns,
        marker: match args.marker {
            MarkerArg::Off => Marker::Off,
            MarkerArg::Field => Marker::Field,
            MarkerArg::Uri => Marker::Uri,
        },
        t1_ns,
        t2_ns: nanos(args.t2),
        hold: Hold { mean_ns: hold_ns, exponential: args.hold_exponential },
        domain: args.domain.clone(),
        rport: !args.no_rport,
        body: !args.no_body,
        max_live_calls: args.max_live_calls,
        core: args.core,
        seed: monotonic_ns(),
        ..CallerConfig::new(args.target)
    }
}

fn answer(args: &AnswerArgs) -> anyhow::Result<ExitCode> {
    let service_ns = match args.capacity {
        None => 0.0,
        Some(per_s) if per_s > 0.0 => 1e9 / per_s,
        Some(per_s) => bail!("--capacity {per_s}: must be above 0"),
    };
    let config = AnswererConfig {
        status: args.status,
        ringing: args.ringing,
        service: if args.exponential { Service::Exponential } else { Service::Fixed },
        service_ns: service_ns as u64,
        in_dialog_ns: (service_ns * args.in_dialog_share) as u64,
        drop_first: args.drop_first,
        silent: args.silent,
        receive_buffer_bytes: args.receive_buffer,
        seed: monotonic_ns(),
        ..AnswererConfig::new(args.bind)
    };
    let stop = stop_flag()?;
    let answerer = Answerer::start(&config)?;
    println!("answering on {}", answerer.address());
    let end = args.duration.map(|duration| monotonic_ns().saturating_add(nanos(duration)));
    while !stop.load(Relaxed) && end.is_none_or(|end| monotonic_ns() < end) {
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("{:#?}", answerer.stop());
    Ok(ExitCode::SUCCESS)
}

fn self_test(core: Option<usize>) -> anyhow::Result<ExitCode> {
    let (text, reached) = bench::self_test(core)?;
    print!("{text}");
    Ok(if reached { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Set by SIGINT and SIGTERM.
fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot catch signals")?;
    }
    Ok(stop)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Reads `10s`, `0.5s`, `500ms`, `250us`, `2m`.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).ok_or("needs a unit: us, ms, s or m")?;
    let (number, unit) = text.split_at(unit_at);
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        other => return Err(format!("{other}: the unit must be us, ms, s or m")),
    };
    let value: f64 = number.trim().parse().map_err(|error| format!("{number}: {error}"))?;
    Duration::try_from_secs_f64(value * seconds).map_err(|error| error.to_string())
}

fn parse_step(text: &str) -> Result<RateStep, String> {
    let (at, rate) = text.split_once('=').ok_or("must be TIME=RATE, as in 30s=2000")?;
    let rate_per_s = rate.parse().map_err(|error| format!("{rate}: {error}"))?;
    Ok(RateStep { at_ns: nanos(parse_duration(at)?), rate_per_s })
}
