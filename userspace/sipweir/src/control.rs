//! The control socket: a Unix stream socket that is asked by `sipweir status` and its like.
//!
//! The socket also is the instance's lock: who can connect to it finds a running instance; a file that nobody answers on is a
//! leftover and is taken over. What can be asked is in `control/request.rs`, how many are served at once in
//! `control/serve.rs`, the client's side in `control/ask.rs`. What is answered is the running instance's business
//! (`run/requests.rs`).

mod ask;
mod request;
mod serve;

pub use ask::{ask, ask_status, open};
pub use request::{REQUEST_BYTES_MAX, Refusal, Request, RequestError};
pub use serve::{Client, Serving};

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::config;

/// A process that was just killed still accepts connections until the kernel has closed its descriptors, some milliseconds
/// later. Who accepts them for longer is alive.
const DYING: Duration = Duration::from_millis(100);
/// Pause between two tries meanwhile.
const DYING_PAUSE: Duration = Duration::from_millis(2);

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
    /// It does not carry out the request.
    #[error("{0}")]
    Refused(String),
    /// It answered something else than was asked for.
    #[error("cannot understand the answer on {path}: {source}; is that sipweir of the same version?")]
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

#[cfg(test)]
mod tests {
    use super::{Client, Control, ControlError, Request, ask_status};
    use std::os::unix::net::UnixListener;
    use std::path::{Path, PathBuf};

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("sipweir-control-{name}-{}", std::process::id()))
    }

    fn at(path: &Path) -> crate::config::Control {
        crate::config::Control { socket: path.into(), ..Default::default() }
    }

    fn document(_request: Request, mut client: Client) -> std::io::Result<()> {
        client.tell(&crate::status::Status { interface: "eth9".into(), ..Default::default() })
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
