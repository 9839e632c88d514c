use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{CLIENT_TIME, CLIENTS_MAX, Client, Serving};
use crate::config;
use crate::control::{Control, ControlError, REQUEST_BYTES_MAX, Request, ask};

fn serve(
    name: &str,
    answer: impl Fn(Request, Client) -> std::io::Result<()> + Send + Sync + 'static,
) -> (PathBuf, Serving) {
    let path = std::env::temp_dir().join(format!("sipweir-serve-{name}-{}", std::process::id()));
    let at = config::Control { socket: path.clone(), ..Default::default() };
    let serving = Control::bind(&at).expect("bind").serve(answer).expect("threads");
    (path, serving)
}

fn told(_request: Request, mut client: Client) -> std::io::Result<()> {
    client.tell(&json!({ "told": true }))
}

fn status(path: &Path) -> Result<Value, ControlError> {
    ask(path, &Request::Status {}, Duration::from_secs(5))
}

/// What comes back for these bytes.
fn answer_to(path: &Path, bytes: &[u8]) -> String {
    let mut client = UnixStream::connect(path).expect("connect");
    client.set_read_timeout(Some(5 * CLIENT_TIME)).expect("time-out");
    // It may have hung up already, having read enough.
    let _written = client.write_all(bytes);
    let mut answer = Vec::new();
    let _end = client.read_to_end(&mut answer);
    String::from_utf8(answer).expect("text")
}

#[test]
fn a_request_is_answered_in_every_form_and_however_it_comes() {
    let (path, _serving) = serve("forms", told);
    for line in
        ["status\n", "{\"request\":\"status\"}\n", "status\nand what comes after the line is not read"]
    {
        assert_eq!(answer_to(&path, line.as_bytes()), "{\"told\":true}\n", "{line}");
    }
    let mut client = UnixStream::connect(&path).expect("connect");
    for byte in b"status" {
        client.write_all(&[*byte]).expect("written");
        std::thread::sleep(Duration::from_millis(2));
    }
    client.shutdown(std::net::Shutdown::Write).expect("the end of the request");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("answer");
    assert_eq!(answer, "{\"told\":true}\n");
}

#[test]
fn garbage_is_told_what_is_wrong() {
    let (path, _serving) = serve("garbage", told);
    assert!(answer_to(&path, b"\0\xff\n").contains("unknown variant"));
    assert!(answer_to(&path, b"{\"request\":\"status\",\"x\":1}\n").contains("unknown field `x`"));
    for long in [REQUEST_BYTES_MAX, 10 * REQUEST_BYTES_MAX] {
        assert!(answer_to(&path, &vec![b'x'; long]).contains("at most 4096 bytes"), "{long}");
    }
    let longest = [vec![b' '; REQUEST_BYTES_MAX - 7], b"status\n".to_vec()].concat();
    assert_eq!(answer_to(&path, &longest), "{\"told\":true}\n");
    assert_eq!(status(&path).expect("it goes on"), json!({ "told": true }));
}

#[test]
fn a_refusal_is_an_error_of_who_asks() {
    let (path, _serving) = serve("refusal", |_request, mut client| client.refuse("not on Sundays"));
    let error = status(&path).expect_err("refused");
    assert!(matches!(&error, ControlError::Refused(why) if why == "not on Sundays"), "{error}");
}

#[test]
fn one_that_takes_its_time_does_not_hold_up_the_others() {
    let gate = Arc::new(Barrier::new(2));
    let held = Arc::clone(&gate);
    let first = std::sync::atomic::AtomicBool::new(true);
    let (path, _serving) = serve("several", move |_request, mut client| {
        if first.swap(false, std::sync::atomic::Ordering::SeqCst) {
            held.wait();
        }
        client.tell(&json!(1))
    });
    let slow = path.clone();
    let slow = std::thread::spawn(move || status(&slow).expect("at last"));
    std::thread::sleep(Duration::from_millis(50));
    for _ in 0..10 {
        // One of these may be the first.
        assert!(slow.is_finished() || status(&path).is_ok());
    }
    gate.wait();
    assert_eq!(slow.join().expect("joined"), json!(1));
}

#[test]
fn silent_clients_lose_their_place_to_those_who_ask_and_their_time_is_bounded() {
    let (path, _serving) = serve("silent", told);
    let mut silent: Vec<_> =
        (0..2 * CLIENTS_MAX).map(|_| UnixStream::connect(&path).expect("connect")).collect();
    let asked = Instant::now();
    assert_eq!(status(&path).expect("answered"), json!({ "told": true }));
    assert!(asked.elapsed() < CLIENT_TIME, "it waited for the silent ones: {:?}", asked.elapsed());
    let mut last = silent.pop().expect("one");
    last.set_read_timeout(Some(10 * CLIENT_TIME)).expect("time-out");
    // A byte now and then does not buy time.
    let mut byte = [0];
    let begun = Instant::now();
    while last.write_all(b"x").is_ok() && begun.elapsed() < 10 * CLIENT_TIME {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(begun.elapsed() < 5 * CLIENT_TIME, "it was never cut off");
    assert!(matches!(last.read(&mut byte), Ok(0) | Err(_)));
}

#[test]
fn a_client_that_does_not_take_its_answer_is_cut_off() {
    let (end, ended) = std::sync::mpsc::channel();
    let end = std::sync::Mutex::new(end);
    let (path, _serving) = serve("greedy", move |_request, mut client| {
        let outcome = client.tell(&"x".repeat(16 << 20));
        end.lock().expect("lock").send(outcome.map_err(|error| error.kind())).expect("the test waits");
        Ok(())
    });
    let mut greedy = UnixStream::connect(&path).expect("connect");
    greedy.write_all(b"status\n").expect("asked");
    let outcome = ended.recv_timeout(10 * CLIENT_TIME).expect("it gives up");
    assert!(outcome.is_err(), "16 MiB do not fit into a socket");
}
