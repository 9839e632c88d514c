//! The client's side: one request, one answer.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use super::ControlError;
use super::request::{Refusal, Request};
use crate::status::Status;

/// How long an answer may take that is made of what is in memory. Beside two hundred clients that flood the socket it takes
/// some hundred milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks a running instance for its status document.
///
/// # Errors
///
/// As [`ask`].
pub fn ask_status(path: &Path) -> Result<Status, ControlError> {
    ask(path, &Request::Status {}, PATIENCE)
}

/// Asks a running instance, and waits so long for the whole answer.
///
/// # Errors
///
/// When nobody answers in time, when the instance refuses, or when it answers something else.
pub fn ask<T: DeserializeOwned>(
    path: &Path,
    request: &Request,
    patience: Duration,
) -> Result<T, ControlError> {
    let wrong = |source| ControlError::Answer { path: path.into(), source };
    let line = request.line().map_err(|error| ControlError::Refused(error.to_string()))?;
    let answer = exchange(path, &line, patience)
        .map_err(|source| ControlError::Connect { path: path.into(), source })?;
    if let Ok(Refusal { error }) = serde_json::from_slice(&answer) {
        return Err(ControlError::Refused(error));
    }
    serde_json::from_slice(&answer).map_err(|error| wrong(Box::new(error)))
}

/// Sends a request whose answer is a stream; a read waits so long at most.
///
/// # Errors
///
/// When nobody is there.
pub fn open(path: &Path, request: &Request, patience: Duration) -> Result<UnixStream, ControlError> {
    let line = request.line().map_err(|error| ControlError::Refused(error.to_string()))?;
    let sent = UnixStream::connect(path).and_then(|mut stream| {
        stream.set_write_timeout(Some(patience))?;
        stream.set_read_timeout(Some(patience))?;
        stream.write_all(&line)?;
        Ok(stream)
    });
    sent.map_err(|source| ControlError::Connect { path: path.into(), source })
}

fn exchange(path: &Path, line: &[u8], patience: Duration) -> std::io::Result<Vec<u8>> {
    let deadline = Instant::now() + patience;
    let mut stream = UnixStream::connect(path)?;
    stream.set_write_timeout(Some(patience))?;
    stream.write_all(line)?;
    let mut answer = Vec::new();
    let mut chunk = [0; 16 * 1024];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut chunk)? {
            0 => return Ok(answer),
            len => answer.extend_from_slice(&chunk[..len]),
        }
    }
}
