//! The answerer against clients in order and out of it.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::{CLIENT_TIME, Endpoint, HEAD_BYTES_MAX, ServeError, Serving};
use crate::config::MetricsListen;

const DOCUMENT: &str = "# EOF\n";

fn start() -> (SocketAddr, Serving) {
    let any_port = MetricsListen::Tcp("127.0.0.1:0".parse().expect("address"));
    let endpoint = Endpoint::bind(&any_port).expect("bind");
    let address = endpoint.address();
    (address, endpoint.serve(|| DOCUMENT.to_owned()).expect("thread"))
}

fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut client = TcpStream::connect(address).expect("connect");
    client.write_all(request).expect("send");
    client.shutdown(Shutdown::Write).expect("shut down");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn a_scraper_gets_the_document_with_its_type_and_length() {
    let (address, _serving) = start();
    let answer = ask(address, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(
        head.contains("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"),
        "{head}"
    );
    assert!(head.contains(&format!("Content-Length: {}\r\n", DOCUMENT.len())), "{head}");
    assert_eq!(body, DOCUMENT);
    assert!(ask(address, b"GET /metrics?name[]=up HTTP/1.0\r\n\r\n").ends_with(DOCUMENT));
    let head = ask(address, b"HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.contains("Content-Length: 6\r\n") && head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn what_is_no_scrape_is_told_what_there_is() {
    let (address, _serving) = start();
    for (request, status) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "404 "),
        (b"GET /metricsX HTTP/1.1\r\n\r\n", "404 "),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "405 "),
        (b"\0\xff\r\n\r\n", "400 "),
        (b"GET /metrics HTTP/1.1\r\nHost: cut", "400 "),
        (b"", "400 "),
    ] {
        let answer = ask(address, request);
        assert_eq!(answer.get(9..13), Some(status), "{answer}");
    }
}

#[test]
fn a_head_without_end_is_read_no_further_than_the_limit() {
    let (address, _serving) = start();
    let mut client = TcpStream::connect(address).expect("connect");
    let endless = [b'x'; 2 * HEAD_BYTES_MAX];
    // The answerer hangs up on the rest.
    let _cut_off = client.write_all(b"GET /").and_then(|()| client.write_all(&endless));
    let mut answer = Vec::new();
    let _reset = client.read_to_end(&mut answer);
    assert!(ask(address, b"GET /metrics HTTP/1.1\r\n\r\n").ends_with(DOCUMENT));
}

#[test]
fn a_silent_client_and_a_slow_one_are_cut_off_in_time() {
    let (address, _serving) = start();
    let silent = TcpStream::connect(address).expect("connect");
    let mut slow = TcpStream::connect(address).expect("connect");
    let begin = Instant::now();
    let dripping = std::thread::spawn(move || {
        // A byte now and then: each read succeeds, the whole takes too long.
        while slow.write_all(b"G").is_ok() && begin.elapsed() < 10 * CLIENT_TIME {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    assert!(ask(address, b"GET /metrics HTTP/1.1\r\n\r\n").ends_with(DOCUMENT));
    // Each of the two had its time, and no more; the rest is for a busy machine.
    assert!(begin.elapsed() < 5 * CLIENT_TIME, "{:?}", begin.elapsed());
    dripping.join().expect("cut off");
    drop(silent);
}

#[test]
fn it_is_served_on_a_unix_socket_whose_file_goes_with_it() {
    let path = std::env::temp_dir().join(format!("sipweir-metrics-{}", std::process::id()));
    let listen = MetricsListen::Unix(path.clone());
    let serving = Endpoint::bind(&listen).expect("bind").serve(|| DOCUMENT.to_owned()).expect("thread");
    let taken = Endpoint::bind(&listen).expect_err("somebody answers there");
    assert!(matches!(taken, ServeError::Unix(_)));
    let said = taken.to_string();
    assert!(said.starts_with("metrics.listen: ") && !said.contains("control"), "{said}");
    let mut client = UnixStream::connect(&path).expect("connect");
    client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("send");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    assert!(answer.ends_with(DOCUMENT), "{answer}");
    drop(serving);
    assert!(!path.exists());
}

#[test]
fn an_address_that_is_taken_is_named_with_its_key() {
    let (address, _serving) = start();
    let error = Endpoint::bind(&MetricsListen::Tcp(address)).expect_err("taken");
    let said = error.to_string();
    assert!(said.contains(&address.to_string()) && said.contains("metrics.listen"), "{said}");
}
