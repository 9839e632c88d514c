//! The server's side of the control socket: many clients at once, and everything that they can take is bounded.
//!
//! ```text
//!  clients ──▶ reader: one thread, polls them all ──▶ queue ──▶ answerers: some threads, one client each
//!              (bytes, time, number)                  (length)  (time)
//! ```
//!
//! A client that says nothing only has a place with the reader, and the one that has been silent longest loses it when all
//! are taken. So a flood of clients that never ask does not keep out one that does. Nothing here is called by a worker.

use std::collections::VecDeque;
use std::fmt::Display;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use serde::Serialize;

use super::request::{REQUEST_BYTES_MAX, Refusal, Request, RequestError};
use super::{Control, SocketFile};
use crate::capabilities;

/// Clients that are read from at once; each takes a descriptor and [`REQUEST_BYTES_MAX`] bytes at most.
const CLIENTS_MAX: usize = 128;
/// Clients that are accepted before those are looked at that were there already.
const ACCEPTED_MAX: usize = 32;
/// Requests that wait for an answerer; a client beyond is told to come again.
const WAITING_MAX: usize = 64;
/// Threads that answer: while one carries out a change, or its client takes its time, others go on.
const ANSWERERS: usize = 4;
/// A client that does not send its request, or take its answer, within this time is cut off.
const CLIENT_TIME: Duration = Duration::from_secs(1);
/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The way back to a client: writing ends in an error when its time is over.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    deadline: Instant,
}

impl Client {
    fn new(stream: UnixStream) -> std::io::Result<Self> {
        stream.set_nonblocking(false)?;
        Ok(Self { stream, deadline: Instant::now() + CLIENT_TIME })
    }

    /// One JSON document on one line.
    ///
    /// # Errors
    ///
    /// When the client has gone or takes too long.
    pub fn tell(&mut self, document: &impl Serialize) -> std::io::Result<()> {
        // Whatever time the document took was not the client's.
        self.grant(CLIENT_TIME);
        let mut bytes = serde_json::to_vec(document)?;
        bytes.push(b'\n');
        self.write_all(&bytes)
    }

    /// Says why the request is not carried out.
    ///
    /// # Errors
    ///
    /// As [`Self::tell`].
    pub fn refuse(&mut self, reason: impl Display) -> std::io::Result<()> {
        self.tell(&Refusal { error: reason.to_string() })
    }

    /// Gives the client so much time from now on.
    pub fn grant(&mut self, time: Duration) {
        self.deadline = Instant::now() + time;
    }
}

impl Write for Client {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_write_timeout(Some(left))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A request as it came, and who sent it.
type Asked = (Result<Vec<u8>, RequestError>, UnixStream);

impl Control {
    /// Serves requests on threads of its own until the returned guard is dropped.
    ///
    /// `answer` carries out a request and tells the client, who is hung up on when it is dropped; it is called on several
    /// threads at once. What lasts, such as a stream of records, takes the client to a thread of its own. Its error is that
    /// the client has gone or takes too long, which is nobody else's business.
    ///
    /// # Errors
    ///
    /// When the system gives no descriptor or no thread.
    pub fn serve<F>(self, answer: F) -> std::io::Result<Serving>
    where
        F: Fn(Request, Client) -> std::io::Result<()> + Send + Sync + 'static,
    {
        let Self { listener, file } = self;
        listener.set_nonblocking(true)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        let told = stop.try_clone()?;
        let (asked, next) = crossbeam_channel::bounded(WAITING_MAX);
        let answer = Arc::new(answer);
        // From here on a failure drops the guard, which ends what has begun: the last sender is the reader's.
        let mut serving = Serving { stop, threads: Vec::new(), _file: file };
        let mut reader = Reader { listener, stop: told, clients: VecDeque::new(), asked };
        serving.threads.push(std::thread::Builder::new().name("control".into()).spawn(move || {
            capabilities::renounce_all_of_thread();
            reader.run();
        })?);
        for number in 0..ANSWERERS {
            let (answer, next) = (Arc::clone(&answer), next.clone());
            let thread = std::thread::Builder::new().name(format!("control-{number}"));
            serving.threads.push(thread.spawn(move || {
                capabilities::renounce_all_of_thread();
                answer_all(&*answer, &next);
            })?);
        }
        Ok(serving)
    }
}

fn answer_all(answer: &impl Fn(Request, Client) -> std::io::Result<()>, next: &Receiver<Asked>) {
    for (line, stream) in next {
        // A client that went away is no event worth a word.
        let _told =
            Client::new(stream).and_then(|mut client| match line.and_then(|line| Request::parse(&line)) {
                Ok(request) => answer(request, client),
                Err(error) => client.refuse(error),
            });
    }
}

/// A served control socket; dropping it ends its threads and removes the file.
#[derive(Debug)]
pub struct Serving {
    stop: OwnedFd,
    threads: Vec<JoinHandle<()>>,
    _file: SocketFile,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _told = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        for thread in self.threads.drain(..) {
            let _joined = thread.join();
        }
    }
}

/// A client that has not sent its whole request.
#[derive(Debug)]
struct Silent {
    stream: UnixStream,
    line: Vec<u8>,
    deadline: Instant,
}

/// What is known after a look at a client.
enum Look {
    More,
    Asked(Result<Vec<u8>, RequestError>),
    Gone,
}

impl Silent {
    /// Takes what is there.
    fn look(&mut self) -> Look {
        let mut chunk = [0; 1024];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) if self.line.is_empty() => return Look::Gone,
                Ok(0) => return Look::Asked(Ok(std::mem::take(&mut self.line))),
                Ok(len) => match chunk[..len].iter().position(|byte| *byte == b'\n') {
                    Some(end) if self.line.len() + end < REQUEST_BYTES_MAX => {
                        self.line.extend_from_slice(&chunk[..end]);
                        return Look::Asked(Ok(std::mem::take(&mut self.line)));
                    }
                    None if self.line.len() + len < REQUEST_BYTES_MAX => {
                        self.line.extend_from_slice(&chunk[..len]);
                    }
                    _ => return Look::Asked(Err(RequestError::TooLong)),
                },
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Look::More,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Look::Gone,
            }
        }
    }
}

/// Accepts clients and reads their requests.
struct Reader {
    listener: UnixListener,
    stop: OwnedFd,
    /// By age, the oldest first, which is by deadline, too.
    clients: VecDeque<Silent>,
    asked: Sender<Asked>,
}

impl Reader {
    fn run(&mut self) {
        while let Some(ready) = self.wait() {
            let waiting = self.clients.len();
            // Those that were there, once around: in the order of their ages again afterwards.
            for number in 0..waiting {
                let Some(client) = self.clients.pop_front() else { break };
                if ready.get(number).is_some_and(|is_ready| *is_ready) {
                    self.look(client);
                } else {
                    self.clients.push_back(client);
                }
            }
            self.accept();
            let now = Instant::now();
            while self.clients.front().is_some_and(|oldest| oldest.deadline <= now) {
                self.clients.pop_front();
            }
        }
    }

    /// Waits for something to do, and says which clients have sent something; `None` when it is time to stop.
    fn wait(&self) -> Option<Vec<bool>> {
        let mut waited = Vec::with_capacity(2 + self.clients.len());
        waited.push(PollFd::new(&self.stop, PollFlags::IN));
        waited.push(PollFd::new(&self.listener, PollFlags::IN));
        waited.extend(self.clients.iter().map(|client| PollFd::new(&client.stream, PollFlags::IN)));
        let until =
            self.clients.front().map(|oldest| oldest.deadline.saturating_duration_since(Instant::now()));
        let until = until.and_then(|left| Timespec::try_from(left).ok());
        // EINTR: nobody is ready, and the caller comes back.
        let _woken = poll(&mut waited, until.as_ref());
        let mut ready = waited.iter().map(|waited| !waited.revents().is_empty());
        let is_over = ready.next().unwrap_or(true);
        (!is_over).then(|| ready.skip(1).collect())
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTED_MAX {
            match self.listener.accept() {
                Ok((stream, _address)) => {
                    if stream.set_nonblocking(true).is_ok() {
                        let deadline = Instant::now() + CLIENT_TIME;
                        self.look(Silent { stream, line: Vec::new(), deadline });
                    }
                    if self.clients.len() > CLIENTS_MAX {
                        self.clients.pop_front();
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // Out of descriptors, most likely: somebody who says nothing gives up theirs. Otherwise the client stays in
                // the backlog, so do not spin on it.
                Err(_) if self.clients.pop_front().is_some() => {}
                Err(_) => return std::thread::sleep(ACCEPT_PAUSE),
            }
        }
    }

    fn look(&mut self, mut client: Silent) {
        match client.look() {
            Look::More => self.clients.push_back(client),
            Look::Gone => {}
            Look::Asked(line) => match self.asked.try_send((line, client.stream)) {
                Ok(()) | Err(TrySendError::Disconnected(_)) => {}
                Err(TrySendError::Full((_, stream))) => {
                    // It is not waited for: such a line always fits into the socket.
                    let busy =
                        Refusal { error: format!("{WAITING_MAX} requests wait already; ask again later") };
                    let _told = serde_json::to_vec(&busy).map(|busy| (&stream).write(&busy));
                }
            },
        }
    }
}

#[cfg(test)]
mod tests;
