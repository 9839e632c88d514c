//! `sipweir model` as it is called: the program itself, its JSON, its table, and what it says of wrong parameters.

use std::process::{Command, Output};

use serde_json::Value;

/// Runs `sipweir model` with words separated by spaces.
fn model(line: &str) -> Output {
    let run = Command::new(env!("CARGO_BIN_EXE_sipweir")).arg("model").args(line.split_whitespace()).output();
    run.expect("sipweir runs")
}

/// The JSON of a call that must succeed.
fn json(line: &str) -> Value {
    let output = model(&format!("{line} --json"));
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The one line on stderr of a call that must be refused with exit status 2 and no answer.
fn refusal(line: &str) -> String {
    let output = model(line);
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(2), "{line}: {said}");
    assert!(output.stdout.is_empty(), "{line}");
    said
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = value.as_object().expect("an object").keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[track_caller]
fn assert_close(value: &Value, reference: f64) {
    let number = value.as_f64().unwrap_or(f64::NAN);
    assert!((number / reference - 1.0).abs() < 1e-6, "{value}, reference {reference}");
}

const GATE: &str = "--service-rate 200 --low 74 --high 85 --buffer 100 --admit .5";

#[test]
fn hysteresis_answers_with_every_key() {
    let found = json(&format!("hysteresis --arrival-rate 240 {GATE}"));
    let reference = [
        ("cycle_time", 0.449_947_01),
        ("mean_in_system", 75.997_745),
        // (E[N] − P(busy))/(λ (1 − rejected)), where P(busy) is 1 to seven digits.
        ("mean_wait", 74.997_745 / (240.0 * (1.0 - 0.166_666_734_9))),
        ("p_discard", 7.823_957_818e-5),
        ("p_normal", 0.666_744_769_9),
        ("p_overload", 0.333_176_990_6),
        ("reject_probability", 0.166_666_734_9),
        ("return_time", 0.149_947_19),
        ("return_time_p50", 0.129_335_4),
        ("return_time_p99", 0.446_961_8),
        ("return_time_sd", 0.086_383_826),
    ];
    assert_eq!(keys(&found), reference.map(|(key, _)| key));
    for (key, value) in reference {
        assert_close(&found[key], value);
    }
}

#[test]
fn hysteresis_takes_other_service_laws_with_the_law_of_the_return_time() {
    let found = json(&format!("hysteresis --arrival-rate 240 {GATE} --service deterministic"));
    assert_close(&found["p_overload"], 0.333_333_098_1);
    assert_close(&found["return_time"], 0.141_793_93);
    assert_close(&found["cycle_time"], 0.425_381_93);
    assert_eq!(keys(&found).len(), 11);
    // Less variation, shorter and less spread out.
    let exponential = json(&format!("hysteresis --arrival-rate 240 {GATE}"));
    for key in ["return_time_sd", "return_time_p50", "return_time_p99"] {
        let (fixed, other) = (found[key].as_f64(), exponential[key].as_f64());
        assert!(
            fixed.is_some_and(|fixed| fixed > 0.0) && (fixed < other || key == "return_time_p50"),
            "{key}"
        );
    }
    for same in ["gamma:1", "hyperexponential:1"] {
        let found = json(&format!("hysteresis --arrival-rate 240 {GATE} --service {same}"));
        for (key, value) in exponential.as_object().expect("an object") {
            assert_close(&found[key], value.as_f64().expect("a number"));
        }
    }
    let bursty = json(&format!("hysteresis --arrival-rate 240 {GATE} --service hyperexponential:4"));
    assert!(bursty["p_discard"].as_f64() > exponential["p_discard"].as_f64());
}

#[test]
fn hysteresis_takes_bursts_from_the_line_and_from_a_file() {
    let line = json(&format!("hysteresis {GATE} --mmpp 400:1,80:1"));
    for (key, reference) in [
        ("p_overload", 0.349_519_69),
        ("p_discard", 0.021_563_055),
        ("return_time", 0.523_740_87),
        ("cycle_time", 1.411_385_7),
        ("reject_probability", 0.308_619_04),
    ] {
        assert_close(&line[key], reference);
    }
    let path = std::env::temp_dir().join(format!("sipweir-mmpp-{}", std::process::id()));
    std::fs::write(&path, "# busy, quiet\n400 1\n80 1\n").expect("write");
    let file = json(&format!("hysteresis --arrival-rate 240 {GATE} --mmpp {}", path.display()));
    assert_eq!(line, file);

    std::fs::write(&path, "400 1\n80 one\n").expect("write");
    let said = refusal(&format!("hysteresis {GATE} --mmpp {}", path.display()));
    assert!(said.contains("--mmpp") && said.contains("line 2 \"80 one\" must be a phase"), "{said}");
    std::fs::remove_file(path).expect("remove");
}

#[test]
fn thresholds_are_chosen_and_impossible_wishes_answered() {
    const LOAD: &str = "thresholds --arrival-rate 240 --service-rate 200 --buffer 100 --admit .5";
    let found = json(&format!("{LOAD} --max-discard 1e-4 --min-cycle .42"));
    assert_eq!(keys(&found), ["cycle_time", "high", "low", "p_discard", "return_time"]);
    assert_eq!((found["low"].as_u64(), found["high"].as_u64()), (Some(74), Some(85)));
    assert_close(&found["return_time"], 0.149_947_19);
    assert_close(&found["p_discard"], 7.823_957_818e-5);

    let said = refusal(&format!("{LOAD} --max-discard 1 --min-cycle 60"));
    let nearest = said.split("at most ").nth(1).and_then(|rest| rest.split(',').next()).expect("a number");
    assert!(said.contains("--min-cycle 60 cannot be met"), "{said}");
    json(&format!("{LOAD} --max-discard 1 --min-cycle {nearest}"));
}

#[test]
fn polling_gives_a_wait_for_each_queue() {
    let queues = "--queue 20:.01 --queue 120:.004:1 --switch .0005";
    for (discipline, reference) in
        [("exhaustive", [0.016_640_625, 0.011_753_906]), ("gated", [0.013_410_342, 0.014_860_274])]
    {
        let found = json(&format!("polling --discipline {discipline} {queues}"));
        assert_eq!(keys(&found), ["waits"]);
        let waits = found["waits"].as_array().expect("a list");
        assert_eq!(waits.len(), 2);
        waits.iter().zip(reference).for_each(|(wait, reference)| assert_close(wait, reference));
        let twice = json(&format!("polling --discipline {discipline} {queues}:0 --switch .0005"));
        assert_eq!(twice, found);
    }
}

#[test]
fn random_control_and_notifications_meet_their_references() {
    let found = json(
        "random --arrival-rate 220 --service-rate 200 --min-threshold 25 --max-threshold 80 --buffer 100 \
         --initial-probability .16",
    );
    assert_eq!(keys(&found), ["mean_in_system", "reject_probability"]);
    assert!((found["reject_probability"].as_f64().expect("a number") - 0.096_191).abs() < 1e-6);
    assert!((found["mean_in_system"].as_f64().expect("a number") - 21.9753).abs() < 1e-4);

    let found = json("notifications --update-rate 10 --token-rate 5 --depth 4");
    assert_eq!(keys(&found), ["notification_rate", "valid_access_probability"]);
    assert_close(&found["valid_access_probability"], 0.492_063_49);
    assert_close(&found["notification_rate"], 4.920_634_9);
}

#[test]
fn the_fluid_model_meets_its_references_by_name_and_from_a_plan() {
    let line = |scenario: &str, discipline: &str, buffer: u32| {
        format!("fluid --scenario {scenario} --discipline {discipline} --buffer {buffer}")
    };
    let found = json(&line("slowdown", "fifo", 200_000));
    assert_eq!(
        keys(&found),
        [
            "copies_per_call",
            "failed_share",
            "final_queue",
            "mean_delay",
            "peak_queue",
            "safe_buffer",
            "series"
        ]
    );
    let number = |found: &Value, key: &str| found[key].as_f64().expect("a number");
    assert!((number(&found, "peak_queue") - 120_401.0).abs() < 0.5);
    assert!((number(&found, "copies_per_call") - 5.5567).abs() < 5e-5);
    let series = found["series"].as_array().expect("a list");
    assert_eq!(series.len(), 300);
    let at = |second: usize| series[second - 1]["queues"][0].as_f64().expect("a number");
    assert!((at(300) - at(200) - 40_000.0).abs() < 1e-3 && series[299]["time"] == 300.0);

    let priority = json(&line("slowdown", "priority", 5_000));
    assert!((number(&priority, "copies_per_call") - 0.35263).abs() < 5e-6);
    assert!((number(&priority, "mean_delay") - 0.84375).abs() < 1e-9);
    assert_eq!((number(&priority, "failed_share"), number(&priority, "safe_buffer")), (0.0, 7_500.0));
    assert!(number(&json(&line("burst", "fifo", 200_000)), "final_queue") > 50_000.0);
    assert!(number(&json(&line("burst", "fifo", 1_000)), "final_queue") < 1.0);

    let plans = concat!(env!("CARGO_MANIFEST_DIR"), "/../model/plans");
    assert_eq!(json(&line(&format!("{plans}/s2.toml"), "fifo", 200_000)), found);
    for (line, said) in [
        (line("nowhere.toml", "fifo", 1), "--scenario nowhere.toml: is neither slowdown nor burst nor"),
        (line(&format!("{plans}/y1.toml"), "fifo", 1), "source.callers.rate_per_s: a modulated rate"),
        (line(&format!("{plans}/tandem.toml"), "fifo", 1), "node.edge.state has several values; give one"),
        (line(&format!("{plans}/network.toml"), "fifo", 1), "has several values; give one"),
        (line("slowdown", "fifo", 0), "--buffer 0 must be between 1 and 1000000 messages"),
        (line("slowdown", "lifo", 5), "fifo, priority"),
    ] {
        let answer = refusal(&line);
        assert!(answer.contains(said), "{line}\n  said: {answer}  expected: {said}");
    }
}

/// Options of a call that is right, and what is asked.
const CALLS: [(&str, &str); 10] = [
    ("hysteresis", "arrival-rate=240 service-rate=200 low=74 high=85 buffer=100 admit=.5"),
    (
        "hysteresis",
        "arrival-rate=240 service-rate=200 low=74 high=85 buffer=100 admit=.5 service=deterministic",
    ),
    ("hysteresis", "arrival-rate=240 service-rate=200 low=74 high=85 buffer=100 admit=.5 service=gamma:2"),
    ("hysteresis", "service-rate=200 low=74 high=85 buffer=100 admit=.5 mmpp=400:1,80:1"),
    ("thresholds", "arrival-rate=240 service-rate=200 buffer=100 admit=.5 max-discard=1e-4 min-cycle=.42"),
    ("polling", "discipline=gated queue=20:.01 queue=120:.004 switch=.0005"),
    ("polling", "discipline=exhaustive queue=20:.01 queue=120:.004 switch=.0005"),
    (
        "random",
        "arrival-rate=220 service-rate=200 min-threshold=25 max-threshold=80 buffer=100 initial-probability=.16",
    ),
    ("fluid", "scenario=slowdown discipline=priority buffer=5000"),
    ("notifications", "update-rate=10 token-rate=5 depth=4"),
];

const HOSTILE: [&str; 26] = [
    "",
    "0",
    "-0",
    "-1",
    "NaN",
    "inf",
    "-inf",
    "1e300",
    "1e-300",
    "5e-324",
    "1e12",
    "1e-9",
    "1e13",
    "0.5",
    "1.6",
    "1",
    "1000001",
    "4294967295",
    "18446744073709551615",
    "99999999999999999999",
    "1:1",
    "1e12:1e-9:1e6",
    "20:.01:NaN",
    "1e-9:1e-9",
    "0:1",
    "gamma:1e4",
];

/// Every number of an answer.
fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Number(number) => number.as_f64().into_iter().collect(),
        Value::Array(list) => list.iter().flat_map(numbers).collect(),
        Value::Object(keys) => keys.values().flat_map(numbers).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn no_value_of_any_option_brings_the_program_down_or_makes_it_print_nonsense() {
    for (command, options) in CALLS {
        for (place, option) in options.split_whitespace().enumerate() {
            let name = option.split('=').next().expect("a name");
            for value in HOSTILE {
                let others = options.split_whitespace().enumerate().filter(|(other, _)| *other != place);
                let others: String = others.map(|(_, option)| format!(" --{option}")).collect();
                let line = format!("{command} --{name}={value}{others} --json");
                let output = model(&line);
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                if output.status.code() == Some(2) {
                    // Limits may be out of reach because of another option; then the answer names the limit.
                    let names_it = said.contains(name) || said.contains("cannot be met");
                    assert!(
                        output.stdout.is_empty() && names_it && !said.contains("panicked"),
                        "{line}: {said}"
                    );
                    continue;
                }
                assert!(output.status.success(), "{line}: {:?} {said}", output.status);
                let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
                for number in numbers(&found) {
                    assert!(number >= 0.0, "{line}: {found}");
                }
                for (key, value) in found.as_object().expect("an object") {
                    let is_share =
                        key.starts_with("p_") || key.ends_with("probability") || key.ends_with("share");
                    // Only times and lengths may be unknown or beyond a number.
                    let is_time = key.ends_with("time") || key.contains("time_") || key == "safe_buffer";
                    assert!(!value.is_null() || is_time, "{line}: {key} of {found}");
                    assert!(
                        !is_share || value.as_f64().is_some_and(|share| share <= 1.0 + 1e-12),
                        "{line}: {key} {value}"
                    );
                }
            }
        }
    }
}

#[test]
fn wrong_parameters_are_named_with_their_range() {
    let gate = |change: &str| format!("hysteresis {change}");
    let rates = "--arrival-rate 240 --service-rate 200";
    for (line, said) in [
        (gate(&format!("--arrival-rate -5 {GATE}")), "--arrival-rate -5 must be a number above 0"),
        (gate(&format!("--arrival-rate 0 {GATE}")), "--arrival-rate 0 must be a number above 0"),
        (gate(&format!("--arrival-rate NaN {GATE}")), "--arrival-rate NaN must be a number above 0"),
        (gate(&format!("--arrival-rate many {GATE}")), "--arrival-rate"),
        (gate(GATE), "--arrival-rate"),
        (
            gate(&format!("{rates} --low 90 --high 85 --buffer 100 --admit .5")),
            "--low 90 must be between 1 and high 85",
        ),
        (gate(&format!("{rates} --low -1 --high 85 --buffer 100 --admit .5")), "--low"),
        (
            gate(&format!("{rates} --low 74 --high 100 --buffer 100 --admit .5")),
            "--high 100 must be between 1 and 99",
        ),
        (
            gate(&format!("{rates} --low 74 --high 85 --buffer 0 --admit .5")),
            "--buffer 0 must be between 2 and",
        ),
        (
            gate(&format!("{rates} --low 74 --high 85 --buffer 100 --admit 1.5")),
            "--admit 1.5 must be between 0 and 1",
        ),
        (
            gate(&format!("{rates} --low 74 --high 85 --buffer 100 --admit -.1")),
            "--admit -0.1 must be between 0 and 1",
        ),
        (
            gate(&format!("--arrival-rate 240 {GATE} --service normal")),
            "--service normal must be exponential,",
        ),
        (
            gate(&format!("--arrival-rate 240 {GATE} --service gamma:-1")),
            "--service gamma:-1 must be given with a CV2",
        ),
        (gate(&format!("{GATE} --mmpp 400:1,80")), "--mmpp line 1 \"80\" must be a phase"),
        (
            gate(&format!("{GATE} --mmpp -400:1,80:1")),
            "--mmpp rate -400 of phase 1 must be 0 or a number above 0",
        ),
        (gate(&format!("{GATE} --mmpp /nonexistent")), "--mmpp /nonexistent must be phases"),
        (
            gate(&format!("--arrival-rate 400 {GATE} --mmpp 400:1,80:1")),
            "--arrival-rate 400 must be left out, or 240",
        ),
        (
            gate(&format!("{GATE} --mmpp 400:1,80:1 --service deterministic")),
            "--service deterministic must be exponential",
        ),
        (
            format!("thresholds {rates} --buffer 100 --admit .5 --max-discard 2 --min-cycle 1"),
            "--max-discard 2 must be between 0 and 1",
        ),
        (
            format!("thresholds {rates} --buffer 100 --admit .5 --max-discard .1 --min-cycle -1"),
            "--min-cycle -1 must be a finite number of at least 0",
        ),
        (
            "polling --discipline gated --queue 20:.01 --switch .1".into(),
            "--queue given 1 times must be given twice",
        ),
        (
            "polling --discipline gated --queue 20:.01 --queue 20 --switch .1".into(),
            "--queue \"20\" must be RATE:MEAN",
        ),
        (
            "polling --discipline gated --queue 20:.01 --queue 90:.01 --switch .1".into(),
            "--queue rates and means must be such that the loads rate × mean sum to less than 1",
        ),
        (
            "polling --discipline gated --queue 1:.1 --queue 1:.1 --switch 0".into(),
            "--switch 0 must be a number above 0",
        ),
        ("polling --discipline often --queue 1:.1 --queue 1:.1 --switch 1".into(), "exhaustive, gated"),
        (
            format!(
                "random {rates} --min-threshold 25 --max-threshold 80 --buffer 100 --initial-probability 1.6"
            ),
            "--initial-probability 1.6 must be between 0 and 1: it is the probability of rejection at min-threshold, which \
             a published P0 of 1.6 cannot be",
        ),
        (
            format!(
                "random {rates} --min-threshold 80 --max-threshold 25 --buffer 100 --initial-probability .16"
            ),
            "--min-threshold 80 must be between 0 and 24",
        ),
        (
            "notifications --update-rate 0 --token-rate 1 --depth 1".into(),
            "--update-rate 0 must be a number above 0",
        ),
        (
            "notifications --update-rate 1 --token-rate inf --depth 1".into(),
            "--token-rate inf must be a number above 0",
        ),
    ] {
        let answer = refusal(&line);
        assert!(answer.contains(said), "{line}\n  said: {answer}  expected: {said}");
    }
}

#[test]
fn without_json_a_reader_gets_a_table() {
    let output = model(&format!("hysteresis --arrival-rate 240 {GATE}"));
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text.lines().count(), 11, "{text}");
    let line = text.lines().find(|line| line.starts_with("return_time_p99")).expect("the quantile");
    assert!(line.contains("446.962 ms") && line.contains("one return in a hundred"), "{line}");
}

#[test]
fn what_is_beyond_a_number_is_null() {
    let found =
        json("hysteresis --arrival-rate 100 --service-rate 1 --low 1 --high 900 --buffer 1000 --admit 1");
    assert_eq!(found["return_time"], Value::Null);
    assert_eq!(found["return_time_p99"], Value::Null);
    assert_close(&found["reject_probability"], 0.99);
}

#[test]
fn a_simulation_is_json_as_a_whole_where_no_file_is_named() {
    let plan = std::env::temp_dir().join(format!("sipweir-json-{}.toml", std::process::id()));
    let content = "title = \"short\"\n[run]\nduration_s = 2\ncool_down_s = 0\nseeds = 2\n[source.callers]\n\
                   rate_per_s = 100\nto = \"server\"\n[node.server]\nrate_per_s = 200\n\
                   [mechanism.one.gate]\nkind = \"fifo\"\nbuffer = 9\n";
    std::fs::write(&plan, content).expect("write");
    let output = Command::new(env!("CARGO_BIN_EXE_sipweir"))
        .args(["simulate", "--plan", plan.to_str().expect("a path"), "--json", "--threads", "1"])
        .output()
        .expect("sipweir runs");
    std::fs::remove_file(&plan).expect("remove");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON and nothing else");
    assert_eq!(found["title"], "short");
}

#[test]
fn the_document_shows_what_the_commands_print() {
    let page = include_str!("../../../docs/model.md");
    let mut shown = 0;
    for block in page.split("```\n").skip(1).step_by(2) {
        for call in block.split("$ sipweir model ").skip(1) {
            let (line, expected) = call.split_once('\n').expect("an answer below the command");
            let output = model(line);
            let answer = [output.stdout, output.stderr].concat();
            assert_eq!(String::from_utf8_lossy(&answer), expected, "sipweir model {line}");
            shown += 1;
        }
    }
    // Also that no block was taken for the text between two.
    assert_eq!(shown, page.matches("$ sipweir model ").count());
    assert!(shown > 0);
}
