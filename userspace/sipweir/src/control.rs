//! The control socket: a Unix stream socket that answers `status` with one JSON document.
//!
//! One thread serves one client at a time, with a bound on what it reads and on how long it waits, so that
//! no client can hold it up. The socket also is the instance's lock: who can connect to it finds a running
//! instance; a file that nobody answers on is a leftover and is taken over.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::{capabilities, config};

/// A request is one word.
const REQUEST_BYTES_MAX: usize = 64;
/// A local client that does not send or take its bytes within this time is cut off.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(1);

/// A process that was just killed still accepts connections until the kernel has closed its descriptors, some milliseconds
/// later. Who accepts them for longer is alive.
const DYING: Duration = Duration::from_millis(100);
/// Pause between two tries meanwhile.
const DYING_PAUSE: Duration = Duration::from_millis(2);

/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Why the control socket cannot be made or asked.
#[derive(Debug, Error)]
pub enum ControlError {
    /// Somebody answers on it.
    #[error("another sipweir answers on {0}; stop it, or give this one its own control.socket")]
    InUse(PathBuf),
    /// The file is something else.
    #[error("{0} exists and is no socket; remove it or change control.socket")]
    NoSocket(PathBuf),
    /// Path or permission.
    #[error("cannot make the control socket {path}: {source}; change control.socket or the permissions")]
    Bind {
        /// As configured.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The configured group does not exist.
    #[error("there is no group {0:?}; make it (`groupadd --system {0}`) or change control.group")]
    NoGroup(String),
    /// The socket cannot be given to the configured group.
    #[error(
        "cannot give {path} to the group {group}: {source}; change control.group, make the user that runs sipweir a member, \
         or add CAP_CHOWN"
    )]
    Group {
        /// As configured.
        group: String,
        /// As configured.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Nobody there.
    #[error("no sipweir answers on {path}: {source}; is it running, and is this its control.socket?")]
    Connect {
        /// As given.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It answered, but not with a status.
    #[error("the answer on {path} is no status: {source}")]
    Answer {
        /// As given.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The bound socket, before it is served; holds the lock.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    file: SocketFile,
}

/// The socket's file; removed when dropped.
#[derive(Debug)]
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _gone_already = std::fs::remove_file(&self.0);
    }
}

impl Control {
    /// Binds the socket, taking over the leftover of a crashed run.
    ///
    /// # Errors
    ///
    /// When an instance answers on it, or the path cannot be used.
    pub fn bind(config: &config::Control) -> Result<Self, ControlError> {
        use std::os::unix::fs::FileTypeExt;
        let path = config.socket.as_path();
        let failed = |source| ControlError::Bind { path: path.into(), source };
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(failed)?;
        }
        match std::fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => return Err(ControlError::NoSocket(path.into())),
            Ok(_) => {
                if outlives(path).map_err(failed)? {
                    return Err(ControlError::InUse(path.into()));
                }
                match std::fs::remove_file(path) {
                    // It was ending in order, and has removed its file itself.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    removed => removed.map_err(failed)?,
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(source) => return Err(failed(source)),
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        let file = SocketFile(path.into());
        // The group first: until then nobody but the owner gets in.
        if let Some(group) = &config.group {
            give_to(path, group)?;
        }
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(config.mode.0)).map_err(failed)?;
        Ok(Self { listener, file })
    }

    /// The bound socket and its file, for another service that is found by a path.
    pub(crate) fn into_parts(self) -> (UnixListener, SocketFile) {
        (self.listener, self.file)
    }

    /// Serves requests on a thread until the returned guard is dropped. `status` makes the document.
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    pub fn serve(self, status: impl Fn() -> String + Send + 'static) -> std::io::Result<Serving> {
        let stop = Arc::new(AtomicBool::new(false));
        let Self { listener, file } = self;
        let flag = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("control".into()).spawn(move || {
            capabilities::renounce_all_of_thread();
            for client in listener.incoming() {
                if flag.load(Ordering::Acquire) {
                    break;
                }
                // A client that went away or sent nonsense is no event worth a word.
                match client {
                    Ok(client) => drop(answer(client, &status)),
                    // Out of descriptors, most likely: the client stays in the backlog, so do not spin on it.
                    Err(_) => std::thread::sleep(ACCEPT_PAUSE),
                }
            }
        })?;
        Ok(Serving { stop, file, thread: Some(thread) })
    }
}

/// Gives a file to a group, by name or number.
fn give_to(path: &Path, group: &str) -> Result<(), ControlError> {
    let refused = |source| ControlError::Group { group: group.into(), path: path.into(), source };
    let id = match group.parse() {
        Ok(id) => id,
        Err(_) => match nix::unistd::Group::from_name(group).map_err(|errno| refused(errno.into()))? {
            Some(found) => found.gid.as_raw(),
            None => return Err(ControlError::NoGroup(group.into())),
        },
    };
    std::os::unix::fs::chown(path, None, Some(id)).map_err(refused)
}

/// Whether somebody goes on accepting connections on a socket file.
fn outlives(path: &Path) -> std::io::Result<bool> {
    let deadline = Instant::now() + DYING;
    loop {
        match UnixStream::connect(path) {
            // Only a refusal proves that nobody is there any more.
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound) => {
                return Ok(false);
            }
            Err(error) => return Err(error),
            Ok(_) if Instant::now() >= deadline => return Ok(true),
            Ok(_) => std::thread::sleep(DYING_PAUSE),
        }
    }
}

fn answer(mut client: UnixStream, status: &impl Fn() -> String) -> std::io::Result<()> {
    client.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    client.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    // One deadline for the whole request: a client that sends a byte now and then must not hold up the others.
    let deadline = Instant::now() + CLIENT_TIMEOUT;
    let mut request = Vec::new();
    let mut byte = [0];
    while request.len() < REQUEST_BYTES_MAX && Instant::now() < deadline {
        if client.read(&mut byte)? == 0 || byte[0] == b'\n' {
            break;
        }
        request.push(byte[0]);
    }
    match request.as_slice() {
        b"status" => client.write_all(status().as_bytes()),
        _ => client.write_all(b"{\"error\":\"unknown request; there is: status\"}"),
    }
}

/// A served control socket; dropping it ends the thread and removes the file.
#[derive(Debug)]
pub struct Serving {
    stop: Arc<AtomicBool>,
    file: SocketFile,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // Rouses the accept; then nobody can find the socket any more.
        let _roused = UnixStream::connect(&self.file.0);
        if let Some(thread) = self.thread.take() {
            let _joined = thread.join();
        }
    }
}

/// Asks a running instance for its status document.
///
/// # Errors
///
/// When nobody answers, or not with JSON.
pub fn ask_status(path: &Path) -> Result<crate::status::Status, ControlError> {
    let connect = |source| ControlError::Connect { path: path.into(), source };
    let mut stream = UnixStream::connect(path).map_err(connect)?;
    stream.set_read_timeout(Some(5 * CLIENT_TIMEOUT)).map_err(connect)?;
    stream.write_all(b"status\n").map_err(connect)?;
    let mut document = String::new();
    stream.read_to_string(&mut document).map_err(connect)?;
    serde_json::from_str(&document)
        .map_err(|source| ControlError::Answer { path: path.into(), source: Box::new(source) })
}

#[cfg(test)]
mod tests {
    use super::{Control, ControlError, ask_status};
    use std::io::Write;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::{Path, PathBuf};

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("sipweir-control-{name}-{}", std::process::id()))
    }

    fn at(path: &Path) -> crate::config::Control {
        crate::config::Control { socket: path.into(), ..Default::default() }
    }

    fn document() -> String {
        serde_json::to_string(&crate::status::Status { interface: "eth9".into(), ..Default::default() })
            .expect("json")
    }

    #[test]
    fn a_client_gets_the_status_and_the_file_is_gone_afterwards() {
        let path = path("plain");
        let serving = Control::bind(&at(&path)).expect("bind").serve(document).expect("thread");
        assert_eq!(ask_status(&path).expect("status").interface, "eth9");
        drop(serving);
        assert!(!path.exists());
    }

    #[test]
    fn a_second_instance_is_refused_and_a_leftover_is_taken_over() {
        let path = path("second");
        let leftover = UnixListener::bind(&path).expect("bind");
        assert!(matches!(Control::bind(&at(&path)), Err(ControlError::InUse(_))));
        drop(leftover);
        assert!(path.exists());
        let serving = Control::bind(&at(&path)).expect("takes over").serve(document).expect("thread");
        assert!(matches!(Control::bind(&at(&path)), Err(ControlError::InUse(_))));
        drop(serving);
    }

    #[test]
    fn the_socket_of_a_process_that_is_just_dying_is_taken_over() {
        let path = path("dying");
        let dying = UnixListener::bind(&path).expect("bind");
        let (accepted, killed) = std::sync::mpsc::channel();
        let death = std::thread::spawn(move || {
            // It dies after the new instance has got through to it.
            let client = dying.accept();
            accepted.send(()).expect("the test waits");
            drop((client, dying));
        });
        let control = Control::bind(&at(&path)).expect("takes over");
        killed.recv().expect("it was asked while it lived");
        death.join().expect("joined");
        drop(control);
        assert!(!path.exists());
    }

    #[test]
    fn garbage_and_silent_clients_do_not_stop_it() {
        let path = path("garbage");
        let _serving = Control::bind(&at(&path)).expect("bind").serve(document).expect("thread");
        for garbage in [&b"\0\xff\n"[..], &[b'x'; 4096], b""] {
            let mut client = UnixStream::connect(&path).expect("connect");
            // The server may have hung up already.
            let _written = client.write_all(garbage);
        }
        assert_eq!(ask_status(&path).expect("status").interface, "eth9");
    }

    #[test]
    fn a_file_that_is_no_socket_is_left_alone() {
        let path = path("file");
        std::fs::write(&path, "mine").expect("write");
        assert!(matches!(Control::bind(&at(&path)), Err(ControlError::NoSocket(_))));
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "mine");
        std::fs::remove_file(&path).expect("remove");
    }

    #[test]
    fn the_socket_has_the_configured_mode_and_group() {
        use std::os::unix::fs::MetadataExt as _;
        let path = path("mode");
        let found = |path: &Path| {
            std::fs::metadata(path).map(|file| (file.mode() & 0o7777, file.gid())).expect("socket")
        };
        let own = rustix::process::getegid().as_raw();
        let bound = Control::bind(&at(&path)).expect("bind");
        assert_eq!(found(&path), (0o660, own));
        drop(bound);
        let group = if rustix::process::geteuid().is_root() { 12 } else { own };
        let text = format!("mode = \"0600\"\ngroup = \"{group}\"\n");
        let mut config: crate::config::Control = toml::from_str(&text).expect("valid");
        config.socket.clone_from(&path);
        let bound = Control::bind(&config).expect("bind");
        assert_eq!(found(&path), (0o600, group));
        drop(bound);
        config.group = Some("root".into());
        assert_eq!(Control::bind(&config).is_ok(), rustix::process::geteuid().is_root());
        config.group = Some("no such group".into());
        assert!(matches!(Control::bind(&config), Err(ControlError::NoGroup(_))));
    }

    #[test]
    fn asking_nobody_says_so() {
        let error = ask_status(&path("nobody")).expect_err("nobody there");
        assert!(matches!(error, ControlError::Connect { .. }), "{error}");
    }
}
