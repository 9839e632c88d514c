//! The place where metrics are scraped: a bounded answerer of one HTTP request at a time.
//!
//! Written here and not taken from a server crate, because what a server has beyond this is what must not be here: threads
//! per client, kept connections, bodies, routing. A request is read up to a limit of bytes and of time, its head parsed by
//! `httparse`, and answered with `Connection: close`. It listens on loopback addresses and Unix sockets only.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use thiserror::Error;

use super::CONTENT_TYPE;
use crate::config::MetricsListen;
use crate::control::{Control, ControlError, SocketFile};
use crate::{capabilities, config};

/// Bytes of a request's head that are read: many times what any scraper sends.
const HEAD_BYTES_MAX: usize = 8192;
/// Header lines that are looked at; those of a scraper are about five.
const HEADERS_MAX: usize = 64;
/// A client that has not sent its request, or not taken the answer, within this time is cut off. Longer: it could hold up
/// others for so long.
const CLIENT_TIME: Duration = Duration::from_secs(1);
/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Why metrics cannot be served.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The address is taken, or not of this host.
    #[error(
        "cannot listen for metrics on {address}: {source}; change metrics.listen, or stop who listens there"
    )]
    Address {
        /// As configured.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The Unix socket cannot be made.
    #[error("metrics.listen: {}", unix_reason(.0))]
    Unix(#[source] ControlError),
    /// No descriptor or no thread.
    #[error("cannot serve metrics: {0}")]
    System(#[from] std::io::Error),
}

/// [`ControlError`] advises to change the key of the control socket, which this is not.
fn unix_reason(error: &ControlError) -> String {
    match error {
        ControlError::InUse(path) => format!("somebody answers on {}; choose another path", path.display()),
        ControlError::NoSocket(path) => {
            format!("{} exists and is no socket; remove it or choose another path", path.display())
        }
        ControlError::Bind { path, source } => {
            format!(
                "cannot make the socket {}: {source}; choose another path or change the permissions",
                path.display()
            )
        }
        other => other.to_string(),
    }
}

/// The bound socket, before it is served.
#[derive(Debug)]
pub struct Endpoint {
    listener: Listener,
    /// Removed with it.
    _file: Option<SocketFile>,
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}

/// What both kinds of connection have.
trait Client: Read + Write {
    fn set_times(&self, limit: Duration) -> std::io::Result<()>;
}

impl Client for TcpStream {
    fn set_times(&self, limit: Duration) -> std::io::Result<()> {
        self.set_nonblocking(false)?;
        self.set_read_timeout(Some(limit))?;
        self.set_write_timeout(Some(limit))
    }
}

impl Client for UnixStream {
    fn set_times(&self, limit: Duration) -> std::io::Result<()> {
        self.set_nonblocking(false)?;
        self.set_read_timeout(Some(limit))?;
        self.set_write_timeout(Some(limit))
    }
}

impl Endpoint {
    /// Binds the socket; the leftover of a crashed run is taken over.
    ///
    /// # Errors
    ///
    /// When the address or the path cannot be used.
    pub fn bind(listen: &MetricsListen) -> Result<Self, ServeError> {
        match listen {
            MetricsListen::Tcp(address) => {
                let refused = |source| ServeError::Address { address: *address, source };
                let listener = TcpListener::bind(address).map_err(refused)?;
                listener.set_nonblocking(true)?;
                Ok(Self { listener: Listener::Tcp(listener), _file: None })
            }
            MetricsListen::Unix(path) => {
                let like = config::Control { socket: path.clone(), ..config::Control::default() };
                let (listener, file) = Control::bind(&like).map_err(ServeError::Unix)?.into_parts();
                listener.set_nonblocking(true)?;
                Ok(Self { listener: Listener::Unix(listener), _file: Some(file) })
            }
        }
    }

    /// The port that was obtained, for tests that let the system choose.
    #[cfg(test)]
    fn address(&self) -> SocketAddr {
        match &self.listener {
            Listener::Tcp(listener) => listener.local_addr().expect("bound"),
            Listener::Unix(_) => panic!("no port"),
        }
    }

    /// Serves scrapes on a thread until the returned guard is dropped. `text` makes the document.
    ///
    /// # Errors
    ///
    /// When the system gives no descriptor or no thread.
    pub fn serve(self, text: impl Fn() -> String + Send + 'static) -> Result<Serving, ServeError> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(std::io::Error::from)?;
        let told = stop.try_clone()?;
        let thread = std::thread::Builder::new().name("metrics".into()).spawn(move || {
            capabilities::renounce_all_of_thread();
            while self.wait(&told) {
                let accepted = match &self.listener {
                    Listener::Tcp(listener) => listener.accept().map(|(client, _)| answer(client, &text)),
                    Listener::Unix(listener) => listener.accept().map(|(client, _)| answer(client, &text)),
                };
                match accepted {
                    // A client that went away or sent nonsense is no event worth a word.
                    Ok(_answered) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    // Out of descriptors, most likely: the client stays in the backlog, so do not spin on it.
                    Err(_) => std::thread::sleep(ACCEPT_PAUSE),
                }
            }
        })?;
        Ok(Serving { stop, thread: Some(thread) })
    }

    /// Waits for a client; false when it is time to stop.
    fn wait(&self, stop: &OwnedFd) -> bool {
        let mut waited = [PollFd::new(&self.listener, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        // EINTR: the caller finds nobody to accept, and comes back.
        let _woken = poll(&mut waited, None);
        waited[1].revents().is_empty()
    }
}

/// Served metrics; dropping it ends the thread and closes the socket.
#[derive(Debug)]
pub struct Serving {
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _told = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _joined = thread.join();
        }
    }
}

/// What a client is told.
struct Answer {
    status: &'static str,
    kind: &'static str,
    body: String,
    /// HEAD: the length of the body, and no body.
    is_head: bool,
}

impl Answer {
    fn refusal(status: &'static str, body: &str) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", body: body.to_owned(), is_head: false }
    }
}

fn answer(mut client: impl Client, text: &impl Fn() -> String) -> std::io::Result<()> {
    let request = read_head(&mut client)?;
    let answer = judge(&request, text);
    let Answer { status, kind, body, is_head } = &answer;
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let mut bytes = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n",
        body.len()
    );
    if !is_head {
        bytes.push_str(body);
    }
    write_within(&mut client, bytes.as_bytes())
}

/// Reads up to the empty line that ends a head, or as far as limits go.
fn read_head(client: &mut impl Client) -> std::io::Result<Vec<u8>> {
    let deadline = Instant::now() + CLIENT_TIME;
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    while head.len() < HEAD_BYTES_MAX && !head.windows(4).any(|window| window == b"\r\n\r\n") {
        client.set_times(time_left(deadline)?)?;
        let len = client.read(&mut chunk)?;
        if len == 0 {
            break;
        }
        head.extend_from_slice(&chunk[..len]);
    }
    Ok(head)
}

fn write_within(client: &mut impl Client, mut bytes: &[u8]) -> std::io::Result<()> {
    let deadline = Instant::now() + CLIENT_TIME;
    while !bytes.is_empty() {
        client.set_times(time_left(deadline)?)?;
        let len = client.write(bytes)?;
        if len == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
        bytes = &bytes[len..];
    }
    Ok(())
}

fn time_left(deadline: Instant) -> std::io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn judge(head: &[u8], text: &impl Fn() -> String) -> Answer {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    if !matches!(request.parse(head), Ok(httparse::Status::Complete(_))) {
        return Answer::refusal("400 Bad Request", "no request that sipweir can read\n");
    }
    let path = request.path.unwrap_or_default();
    let path = path.split_once('?').map_or(path, |(path, _query)| path);
    match (request.method, path) {
        (Some(method @ ("GET" | "HEAD")), "/metrics") => {
            Answer { status: "200 OK", kind: CONTENT_TYPE, body: text(), is_head: method == "HEAD" }
        }
        (Some("GET" | "HEAD"), _) => Answer::refusal("404 Not Found", "there is only /metrics\n"),
        _ => Answer::refusal("405 Method Not Allowed", "only GET and HEAD\n"),
    }
}

#[cfg(test)]
mod tests;
