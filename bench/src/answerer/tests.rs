use super::*;
use crate::response;

const INVITE: &[u8] = b"INVITE sip:a@b SIP/2.0 rtx=1\r\nVia: SIP/2.0/UDP 10.0.0.1:5;branch=z9hG4bKx;rport\r\n\
    v: SIP/2.0/UDP p;branch=z9hG4bKy\r\nRecord-Route: <sip:p;lr>\r\nFrom: <sip:c@d>;tag=1\r\nTo: <sip:a@b>\r\n\
    Call-ID: q\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n";

#[test]
fn an_answer_repeats_what_it_must() {
    let (source, local) = ("192.0.2.1:99".parse().unwrap(), "192.0.2.2:5060".parse().unwrap());
    let mut out = Vec::new();
    Request::parse(INVITE).unwrap().answer(200, source, local, &mut out);
    let text = String::from_utf8(out.clone()).unwrap();
    assert!(text.starts_with(
        "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 10.0.0.1:5;branch=z9hG4bKx;rport=99;received=192.0.2.1\r\n\
         v: SIP/2.0/UDP p;branch=z9hG4bKy\r\nRecord-Route: <sip:p;lr>\r\nFrom: <sip:c@d>;tag=1\r\nTo: <sip:a@b>;tag="
    ));
    assert!(text.contains("Call-ID: q\r\nCSeq: 1 INVITE\r\nContact: <sip:answerer@192.0.2.2:5060>\r\n"));
    let read = response::parse(&out).unwrap();
    assert_eq!((read.code, read.branch, read.to_tag.map(<[u8]>::len)), (200, &b"x"[..], Some(16)));
}

#[test]
fn responses_and_fragments_get_no_answer() {
    assert!(Request::parse(b"SIP/2.0 200 OK\r\nVia: x\r\n\r\n").is_none());
    assert!(Request::parse(&INVITE[..80]).is_none());
    assert!(Request::parse(b"").is_none());
}

/// Sends `count` INVITEs at once and waits for as many answers.
fn serve(config: &AnswererConfig, count: u64) -> (Duration, AnswererCounts) {
    let answerer = Answerer::start(config).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    enlarge_buffers(&socket, 4 << 20).unwrap();
    let start = monotonic_ns();
    for _ in 0..count {
        socket.send_to(INVITE, answerer.address()).unwrap();
    }
    let mut buffer = [0; 2048];
    for _ in 0..count {
        socket.recv(&mut buffer).unwrap();
    }
    (Duration::from_nanos(monotonic_ns() - start), answerer.stop())
}

#[test]
fn capacity_is_kept_over_many_short_services() {
    for service in [Service::Fixed, Service::Exponential] {
        let bind = "127.0.0.1:0".parse().unwrap();
        let config = AnswererConfig { service, service_ns: 500_000, ..AnswererConfig::new(bind) };
        // 1,000 services of 0.5 ms; the exponential sum has a standard deviation of 3.2 %.
        let (took, counts) = serve(&config, 1_000);
        let took_ms = took.as_millis();
        assert!((430..650).contains(&took_ms), "{service:?}: {took_ms} ms rather than 500");
        assert_eq!((counts.invite, counts.answered), (1_000, 1_000));
    }
}
