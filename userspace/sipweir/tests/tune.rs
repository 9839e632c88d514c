//! `sipweir tune` as it is called: its page, which is a configuration, its JSON, what it says of wrong options and impossible
//! wishes, and the rate that it takes from a running instance.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output};

use overload::{Hysteretic, HystereticConfig};
use serde_json::Value;
use sipweir::config::Config;
use sipweir::control::{Client, Control};
use sipweir::status::{Service, Status};

fn sipweir(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sipweir")).args(words).output().expect("sipweir runs")
}

/// Runs `sipweir tune` with words separated by spaces, with a short simulation unless they say otherwise.
fn tune(line: &str) -> Output {
    let short = if line.contains("--calls") { "" } else { " --calls 20000" };
    let line = format!("tune {line}{short}");
    sipweir(&line.split_whitespace().collect::<Vec<_>>())
}

fn json(line: &str) -> Value {
    let output = tune(&format!("{line} --json"));
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// What is on stderr and stdout of a call that must end with this status.
fn refusal(line: &str, status: i32) -> (String, String) {
    let output = tune(line);
    let [said, printed] = [output.stderr, output.stdout].map(|bytes| String::from_utf8(bytes).expect("text"));
    assert_eq!(output.status.code(), Some(status), "{line}: {said}");
    (said, printed)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("sipweir-tune-{name}-{}", std::process::id()))
}

/// The lines of a page or of `toml`, completed to the smallest configuration.
fn completed(lines: &str, service: &str) -> String {
    let head = format!("[service.{service}]\n");
    assert_eq!(lines.matches(&head).count(), 1, "{lines}");
    let more = format!("{head}listen = \"192.0.2.1:5060\"\nhandoff = \"kernel\"\n");
    format!("interface = \"lo\"\n{}", lines.replace(&head, &more))
}

const PLAIN: &str = "--service-rate 1000 --peak-load 3 --max-wait 0.2 --max-discard 0.001";

#[test]
fn the_page_is_a_configuration_that_check_takes_and_that_has_the_levels_it_names() {
    for (line, service) in [
        (PLAIN, "main"),
        ("--service-rate 1000 --peak-load 3 --reply-cost 20us --name trunk", "trunk"),
        ("--service-rate 40 --peak-rate 130 --max-discard 0.01", "main"),
        ("--service-rate 966.37 --peak-load 1.3 --max-wait 0.05 --service deterministic", "main"),
        ("--service-rate 60000 --peak-load 5", "main"),
        ("--service-rate 200 --mmpp 600:2,100:8 --max-wait 0.35 --max-discard 0.01", "main"),
        ("--service-rate 1000 --peak-load 4 --burst 2 --pause 10 --credentials 0.4", "main"),
    ] {
        let page = tune(line);
        assert!(page.status.success(), "{line}: {}", String::from_utf8_lossy(&page.stderr));
        let printed = String::from_utf8(page.stdout).expect("text");
        let page = completed(&printed, service);
        let path = file(&format!("page-{}", line.len()));
        std::fs::write(&path, &page).expect("write");
        let check = sipweir(&["check", path.to_str().expect("a path")]);
        std::fs::remove_file(&path).expect("remove");
        assert!(check.status.success(), "{}\n{page}", String::from_utf8_lossy(&check.stderr));

        let found = json(line);
        let lines = completed(found["toml"].as_str().expect("text"), service);
        assert!(printed.ends_with(found["toml"].as_str().expect("text")), "the page ends in the lines");
        let guarded = Config::parse("lines", &lines).expect("a configuration").service[service].clone();
        let gate = guarded.gate;
        let config = HystereticConfig {
            admit_below: gate.low.0,
            shed_at: gate.high.0,
            discard_at: gate.buffer.0,
            share: gate.admit,
        };
        // What the gate measures at the peak.
        let refused_per_s = number(&found["given"]["peak_rate"]) - number(&found["given"]["service_rate"]);
        let cost = number(&found["given"]["reply_cost"]);
        let rate_per_s =
            number(&found["given"]["service_rate"]) - cost * refused_per_s.max(0.0) / (1.0 - cost);
        let levels = Hysteretic::new(&config, 1_000_000, rate_per_s).expect("a gate").levels();
        let named = ["low", "high", "buffer"].map(|key| found[key].as_u64().expect("a number") as u32);
        assert_eq!(levels.as_tuple(), named.into(), "{line}\n{lines}");
        // What waits in sipweir and what waits in the server's sockets, in time or at least four messages, are the wait.
        let service_rate_per_s = number(&found["given"]["service_rate"]);
        let at_server_s =
            (0.03 * service_rate_per_s).floor().max(4.0).min(f64::from(guarded.server.queue_target))
                / service_rate_per_s;
        let (wait_s, longest_s) = (number(&found["max_wait"]), number(&found["given"]["max_wait"]));
        assert!((longest_s - at_server_s - wait_s - 5e-4).abs() <= 5.1e-4, "{line}: {wait_s}");
    }
}

#[test]
fn the_lines_of_a_long_queue_bring_the_frames_that_it_needs() {
    let found = json("--service-rate 60000 --peak-load 5");
    let lines = completed(found["toml"].as_str().expect("text"), "main");
    let config = Config::parse("lines", &lines).expect("a configuration");
    let buffer = found["buffer"].as_u64().expect("a number");
    assert!(
        buffer > 20_000 && u64::from(sipweir::run::places(&config).expect("places")) >= buffer,
        "{lines}"
    );
    assert!(!json(PLAIN)["toml"].as_str().expect("text").contains("frames"));
}

#[test]
fn json_has_both_columns_and_the_limits_hold_in_both() {
    let found = json(&format!("{PLAIN} --min-cycle 0.3 --calls 600000"));
    let keys: Vec<_> = found.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "admit",
            "buffer",
            "buffer_time",
            "differs",
            "given",
            "high",
            "high_time",
            "low",
            "low_time",
            "max_wait",
            "model",
            "possible",
            "remarks",
            "simulation",
            "toml"
        ]
    );
    assert_eq!(found["possible"], true);
    assert_eq!(
        (found["buffer"].as_u64(), number(&found["buffer_time"]), number(&found["admit"])),
        (Some(200), 0.2, 0.26)
    );
    // 30 of the 200 ms are for what waits in the server's own sockets.
    assert!((number(&found["max_wait"]) - 0.17).abs() < 1e-9, "{found}");
    for (name, within) in [
        ("p_discard", 0.0..=0.001),
        ("cycle_time", 0.3..=0.35),
        ("reject_probability", 0.66..=0.675),
        ("mean_wait", 0.1..=0.2),
        ("answer_p99", 0.15..=0.2),
        ("return_time", 0.25..=0.35),
        ("p_overload", 0.8..=1.0),
    ] {
        let (model, simulation) = (number(&found["model"][name]), &found["simulation"][name]);
        let (value, half_width) = (number(&simulation["value"]), number(&simulation["half_width"]));
        assert!(within.contains(&model), "{name}: {model}");
        if name == "p_discard" {
            // A discard or two in all of the time simulated: the limit is what can be compared.
            assert!(value - half_width <= 0.001, "{value} ± {half_width}");
            continue;
        }
        assert!(
            (value - model).abs() <= 2.0 * half_width + 0.03 * model,
            "{name}: {model}, {value} ± {half_width}"
        );
    }
    assert_eq!(found["differs"], Value::Array(Vec::new()), "{found}");
    assert!(number(&found["simulation"]["copies_per_call"]["value"]) < 1e-3);
    assert_eq!(
        found,
        json(&format!("{PLAIN} --min-cycle 0.3 --calls 600000")),
        "the same call gives the same answer"
    );
}

#[test]
fn model_and_simulation_that_differ_are_named() {
    // The chain of other laws has one rate of service only, that of overload, also where nothing is refused.
    let found =
        json("--service-rate 300 --peak-load 1.3 --reply-cost 0.2 --service deterministic --calls 400000");
    let differs = found["differs"].as_array().expect("a list");
    assert!(!differs.is_empty(), "{found}");
    let remarks = found["remarks"].as_array().expect("a list");
    assert!(
        remarks
            .iter()
            .any(|remark| remark.as_str().is_some_and(|text| text.contains("differ beyond chance"))),
        "{found}"
    );
}

#[test]
fn impossible_wishes_name_the_limit_and_the_nearest_is_possible() {
    for (line, limits) in [
        ("--service-rate 1000 --peak-load 3 --max-wait 0.004", &["max-wait"][..]),
        ("--service-rate 1000 --peak-load 3 --min-cycle 20", &["min-cycle"]),
        ("--service-rate 1000 --peak-load 3 --reply-cost 0.5", &["reply-cost", "peak-load"]),
        (
            "--service-rate 1000 --peak-rate 3000 --reply-cost 0.5",
            &["reply-cost", "peak-rate", "service-rate"],
        ),
        ("--service-rate 1000 --peak-rate 3000 --reply-cost 0.5ms", &["reply-cost", "peak-rate"]),
        ("--service-rate 20 --peak-load 3 --max-wait 0.2 --reply-cost 2ms", &["max-wait"]),
        ("--service-rate 8 --peak-load 3 --max-wait 0.3 --reply-cost 0.1ms", &["service-rate"]),
        ("--service-rate 10 --peak-rate 30 --burst 2", &["service-rate"]),
        ("--service-rate 1000 --peak-load 3 --reply-cost .4 --burst 2", &["reply-cost", "peak-load"]),
        ("--service-rate 100 --peak-load 3 --max-wait 0.1 --min-cycle 0.3", &["min-cycle", "max-wait"]),
    ] {
        let (said, printed) = refusal(line, 2);
        assert!(printed.is_empty(), "{printed}");
        assert!(
            said.starts_with(&format!("sipweir: --{} ", limits[0])) && said.contains("cannot be met"),
            "{said}"
        );
        let (again, printed) = refusal(&format!("{line} --json"), 2);
        assert_eq!(again, said);
        let found: Value = serde_json::from_str(&printed).expect("JSON");
        assert_eq!((&found["possible"], &found["together"]), (&Value::Bool(false), &Value::Bool(false)));
        let unmet = found["unmet"].as_array().expect("a list");
        assert_eq!(
            unmet.iter().map(|unmet| unmet["limit"].as_str().expect("a name")).collect::<Vec<_>>(),
            limits
        );
        for unmet in unmet {
            let (name, nearest) = (unmet["limit"].as_str().expect("a name"), number(&unmet["nearest"]));
            let option = unmet["option"].as_str().expect("an option");
            assert!(option.starts_with(&format!("--{name} ")), "{option}");
            let shown = option.split(' ').next_back().expect("a value");
            assert!(said.contains(shown), "{shown} in {said}");
            assert!(shown.ends_with('s') || shown == nearest.to_string(), "{shown}: {nearest}");
            let words: Vec<_> = line.split_whitespace().collect();
            let kept = words
                .chunks(2)
                .filter(|option| option[0] != format!("--{name}"))
                .map(|option| option.join(" "));
            json(&format!("{} {option}", kept.collect::<Vec<_>>().join(" ")));
        }
    }
    let (said, printed) =
        refusal("--service-rate 1000 --peak-load 3 --reply-cost 0.5 --max-wait 0.004 --json", 2);
    let found: Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!(found["together"], true, "{said}");
    let options: BTreeMap<_, _> = (found["unmet"].as_array().expect("a list").iter())
        .map(|unmet| (unmet["limit"].as_str().expect("a name"), number(&unmet["nearest"])))
        .collect();
    json(&format!(
        "--service-rate 1000 --peak-load 3 --reply-cost {} --max-wait {}",
        options["reply-cost"], options["max-wait"]
    ));
}

#[test]
fn wrong_options_are_named_with_their_range() {
    let with = |options: &str| format!("--service-rate 1000 {options}");
    for (line, said) in [
        (with("--peak-load -3"), "--peak-load -3 must be between 0.01 and 100"),
        (with("--peak-load many"), "--peak-load"),
        (with(""), "--peak-load"),
        ("--peak-load 3".into(), "--service-rate"),
        ("--service-rate 0 --peak-load 3".into(), "--service-rate 0 must be a number above 0"),
        (
            "--service-rate 1 --peak-load 3".into(),
            "--service-rate 1 must be above 2, since a service must end before T1",
        ),
        (with("--peak-load 3 --peak-rate 3000"), "--peak-rate"),
        (with("--peak-rate 1e9"), "--peak-rate 1000000000 must be between 10 and 100000"),
        (
            with("--peak-load 3 --max-wait 0.5"),
            "--max-wait 0.5 must be above 0 and at most 0.499: waiting and service",
        ),
        (with("--peak-load 3 --max-discard 2"), "--max-discard 2 must be between 0 and 1"),
        (with("--peak-load 3 --min-cycle -1"), "--min-cycle -1 must be a finite number of at least 0"),
        (with("--peak-load 3 --reply-cost -0.1"), "--reply-cost -0.1 must be at least 0 and below 1"),
        (
            with("--peak-load 3 --reply-cost 2ms"),
            "--reply-cost 2ms must be at least 0 and below 1ms, which is a service",
        ),
        (with("--peak-load 3 --reply-cost dear"), "--reply-cost dear must be a part of a service"),
        (with("--peak-load 3 --credentials 1.5"), "--credentials 1.5 must be between 0 and 1"),
        (with("--peak-load 3 --burst 0"), "--burst 0 must be between 0.001 and 1000000 seconds"),
        (with("--peak-load 3 --burst 1 --pause -1"), "--pause -1 must be between 0.001"),
        (with("--peak-load 3 --pause 1"), "--burst"),
        (
            with("--peak-load 3 --burst 1 --base-load 4"),
            "--base-load 4 must be between 0 and the load of the peak, 3",
        ),
        (with("--mmpp 3000:1,500"), "--mmpp line 1 \"500\" must be a phase"),
        (with("--mmpp /nonexistent"), "--mmpp /nonexistent must be phases"),
        (with("--mmpp 1:1,2:1"), "--mmpp 2 must be a highest rate between 10 and"),
        (with("--peak-load 3 --service normal"), "--service normal must be exponential,"),
        (
            with("--peak-load 3 --service hyperexponential:4"),
            "--service hyperexponential:4 must be exponential, deterministic",
        ),
        (
            with("--peak-load 3 --burst 1 --service deterministic"),
            "--service deterministic must be exponential together with bursts",
        ),
        (with("--peak-load 3 --seeds 1"), "--seeds"),
    ] {
        let (answer, printed) = refusal(&line, 2);
        assert!(printed.is_empty() && answer.contains(said), "{line}\n  said: {answer}  expected: {said}");
    }
}

#[test]
fn a_name_that_no_service_can_have_is_a_wrong_option() {
    let output = sipweir(&["tune", "--service-rate", "1000", "--peak-load", "3", "--name", "a\nb"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.starts_with("sipweir: --name \"a\\nb\" must be the name of a service"), "{said}");
}

/// An instance that has measured these rates, with so many messages each.
fn instance(services: &[(&str, f64, u64)]) -> Value {
    let services = services.iter().map(|(name, service_rate_per_s, served)| {
        let outcomes =
            BTreeMap::from([("original".to_owned(), BTreeMap::from([("handed_over".to_owned(), *served)]))]);
        (
            (*name).to_owned(),
            Service { service_rate_per_s: *service_rate_per_s, outcomes, ..Service::default() },
        )
    });
    serde_json::to_value(Status { services: services.collect(), ..Status::default() }).expect("JSON")
}

#[test]
fn the_rate_of_a_running_instance_is_taken_from_its_socket() {
    let socket = file("socket");
    let ask = |more: &str| format!("--instance {} --peak-load 3 --max-wait 0.2 {more}", socket.display());
    let at = sipweir::config::Control { socket: socket.clone(), ..Default::default() };
    let serve = |status: Value| {
        let answer = move |_request, mut client: Client| client.tell(&status);
        Control::bind(&at).expect("bind").serve(answer).expect("threads")
    };

    let (said, _) = refusal(&ask(""), 1);
    assert!(said.contains("no sipweir answers on"), "{said}");
    let serving = serve(instance(&[("trunk", 800.0, 100_000)]));
    let found = json(&ask(""));
    assert_eq!((number(&found["given"]["service_rate"]), found["buffer"].as_u64()), (800.0, Some(160)));
    let toml = found["toml"].as_str().expect("text");
    assert!(toml.starts_with("[service.trunk]\n") && toml.contains("initial_rate = 800\n"), "{toml}");
    drop(serving);

    let serving = serve(instance(&[("a", 800.0, 100_000), ("b", 500.0, 600)]));
    let (said, _) = refusal(&ask(""), 1);
    assert!(said.contains("the services a, b; choose one with --name"), "{said}");
    let (said, _) = refusal(&ask("--name c"), 1);
    assert!(said.contains("no such service; it has a, b"), "{said}");
    let found = json(&ask("--name b"));
    assert_eq!(number(&found["given"]["service_rate"]), 500.0);
    assert!(found["remarks"][0].as_str().is_some_and(|text| text.contains("600 messages only")), "{found}");
    drop(serving);

    // What has served nothing shows its first guess, which is no measurement.
    let _serving = serve(instance(&[("main", 1000.0, 0)]));
    let (said, _) = refusal(&ask(""), 1);
    assert!(said.contains("has served nothing yet"), "{said}");
    let (said, _) = refusal(&ask("--service-rate 5"), 2);
    assert!(said.contains("--service-rate"), "{said}");
}

#[test]
fn the_document_shows_what_the_commands_print() {
    let page = include_str!("../../../docs/tune.md");
    let mut shown = 0;
    for block in page.split("```\n").skip(1).step_by(2) {
        for call in block.split("$ sipweir tune ").skip(1) {
            let (line, expected) = call.split_once('\n').expect("an answer below the command");
            let words: Vec<_> = std::iter::once("tune").chain(line.split_whitespace()).collect();
            let output = sipweir(&words);
            let answer = [output.stdout, output.stderr].concat();
            assert_eq!(String::from_utf8_lossy(&answer), expected, "sipweir tune {line}");
            shown += 1;
        }
    }
    // Also that no block was taken for the text between two.
    assert_eq!(shown, page.matches("$ sipweir tune ").count());
    assert!(shown > 0);
}
