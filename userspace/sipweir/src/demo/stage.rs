//! Where the demo plays: two network namespaces with a veth pair between them, and a folder for files.
//!
//! Everything carries the process id in its name, so that several demos can run at once and the leftovers of a
//! killed one are known for what they are.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The caller's address.
pub(crate) const CLIENT_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// The guarded server's address.
pub(crate) const SERVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// The name of both ends of the wire, each in its own namespace.
pub(crate) const DEVICE: &str = "sw0";

/// Where iproute2 keeps the names of namespaces.
const NAMES_FOLDER: &str = "/run/netns";
/// Not /tmp: the names can be guessed, and here only root can make such files.
const FILES_FOLDER: &str = "/run";
const CLIENT_PREFIX: &str = "swdemo-client-";
const SERVER_PREFIX: &str = "swdemo-server-";
const FOLDER_PREFIX: &str = "swdemo-files-";

/// Two namespaces with a wire, and a folder; all gone when it is dropped.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) client: Namespace,
    pub(crate) server: Namespace,
    pub(crate) folder: Folder,
}

impl Stage {
    /// Removes what dead demos left, then makes everything.
    pub(crate) fn set_up() -> anyhow::Result<Self> {
        strike_leftovers()?;
        let id = std::process::id();
        let stage = Self {
            client: Namespace::add(format!("{CLIENT_PREFIX}{id}"))?,
            server: Namespace::add(format!("{SERVER_PREFIX}{id}"))?,
            folder: Folder::make(Path::new(FILES_FOLDER).join(format!("{FOLDER_PREFIX}{id}")))?,
        };
        stage.lay_wire()?;
        Ok(stage)
    }

    /// One queue at each end: one worker, and the other cores are free for the caller.
    fn lay_wire(&self) -> anyhow::Result<()> {
        const MACS: [&str; 2] = ["02:77:00:00:00:01", "02:77:00:00:00:02"];
        let (client, server) = (&self.client.name, &self.server.name);
        let queues = ["numrxqueues", "1", "numtxqueues", "1"];
        let near = ["-n", client, "link", "add", DEVICE, "address", MACS[0]];
        let far = ["type", "veth", "peer", "name", DEVICE, "netns", server, "address", MACS[1]];
        ip(&[&near[..], &queues, &far, &queues].concat())?;
        for (end, address, peer, peer_mac) in [
            (client, CLIENT_ADDRESS, SERVER_ADDRESS, MACS[1]),
            (server, SERVER_ADDRESS, CLIENT_ADDRESS, MACS[0]),
        ] {
            ip(&["-n", end, "address", "add", &format!("{address}/16"), "dev", DEVICE])?;
            ip(&["-n", end, "link", "set", DEVICE, "up"])?;
            // No run starts with a question for a hardware address.
            let (peer, nud) = (peer.to_string(), ["nud", "permanent"]);
            ip(&[&["-n", end, "neighbour", "add", &peer, "lladdr", peer_mac, "dev", DEVICE], &nud[..]]
                .concat())?;
        }
        Ok(())
    }
}

/// A network namespace; removed when dropped.
#[derive(Debug)]
pub(crate) struct Namespace {
    name: String,
}

impl Namespace {
    fn add(name: String) -> anyhow::Result<Self> {
        ip(&["netns", "add", &name])?;
        Ok(Self { name })
    }

    /// Moves the calling thread in, for good. Sockets that it opens from now on are inside.
    pub(crate) fn enter(&self) -> anyhow::Result<()> {
        let path = Path::new(NAMES_FOLDER).join(&self.name);
        let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .with_context(|| format!("cannot enter namespace {}", self.name))
    }

    /// A command that runs `program` inside. `ip` replaces itself by it, so the child's process id is the program's.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(error) = ip(&["netns", "delete", &self.name]) {
            tracing::warn!("{error:#}");
        }
    }
}

/// A folder with its files; removed when dropped.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    fn make(path: PathBuf) -> anyhow::Result<Self> {
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self { path })
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
    }
}

/// Removes namespaces and folders of demos whose process is dead, and ends what still runs in them.
fn strike_leftovers() -> anyhow::Result<()> {
    for name in leftovers(Path::new(NAMES_FOLDER), &[CLIENT_PREFIX, SERVER_PREFIX]) {
        for pid in ip(&["netns", "pids", &name])?.lines() {
            let pid = pid.trim().parse().ok().and_then(Pid::from_raw);
            // It may end by itself at this moment; then there is nothing to do.
            let _ended = pid.map(|pid| rustix::process::kill_process(pid, Signal::KILL));
        }
        ip(&["netns", "delete", &name])?;
    }
    for name in leftovers(Path::new(FILES_FOLDER), &[FOLDER_PREFIX]) {
        let path = Path::new(FILES_FOLDER).join(name);
        fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}

/// Names in `folder` that are a prefix and the id of a process that does not live.
fn leftovers(folder: &Path, prefixes: &[&str]) -> Vec<String> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| {
            let pid = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)?.parse::<u32>().ok());
            pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
        })
        .collect()
}

/// Runs `ip` to its end; its output.
fn ip(arguments: &[&str]) -> anyhow::Result<String> {
    let output = match Command::new("ip").args(arguments).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("the demo needs the command `ip`; install the package iproute2")
        }
        other => other.context("cannot run `ip`")?,
    };
    if !output.status.success() {
        bail!("`ip {}`: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::{CLIENT_PREFIX, SERVER_PREFIX, Stage, leftovers};
    use std::fs;
    use std::path::Path;

    #[test]
    fn only_names_of_dead_processes_are_leftovers() {
        let folder = std::env::temp_dir().join(format!("sipweir-leftovers-{}", std::process::id()));
        fs::create_dir(&folder).expect("folder");
        let dead = u32::MAX;
        let living = std::process::id();
        for name in [
            format!("{CLIENT_PREFIX}{dead}"),
            format!("{CLIENT_PREFIX}{living}"),
            format!("{SERVER_PREFIX}{dead}x"),
            format!("other-{dead}"),
        ] {
            fs::write(folder.join(name), "").expect("file");
        }
        let found = leftovers(&folder, &[CLIENT_PREFIX, SERVER_PREFIX]);
        fs::remove_dir_all(&folder).expect("remove");
        assert_eq!(found, [format!("{CLIENT_PREFIX}{dead}")]);
        assert_eq!(leftovers(Path::new("/nonexistent"), &[CLIENT_PREFIX]), [""; 0]);
    }

    /// Needs root, like all that makes namespaces.
    #[test]
    fn a_stage_carries_packets_and_leaves_nothing_behind() {
        let stage = Stage::set_up().expect("a stage");
        let files = stage.folder.file("");
        let names =
            [&stage.client, &stage.server].map(|namespace| Path::new("/run/netns").join(&namespace.name));
        let server =
            inside(&stage.server, || std::net::UdpSocket::bind((super::SERVER_ADDRESS, 0)).expect("bind"));
        let client =
            inside(&stage.client, || std::net::UdpSocket::bind((super::CLIENT_ADDRESS, 0)).expect("bind"));
        client.send_to(b"hello", server.local_addr().expect("address")).expect("send");
        server.set_read_timeout(Some(std::time::Duration::from_secs(5))).expect("timeout");
        let mut buffer = [0; 16];
        assert_eq!(server.recv(&mut buffer).expect("a datagram"), 5);
        assert!(names.iter().all(|name| name.exists()) && files.exists());
        drop(stage);
        assert!(names.iter().all(|name| !name.exists()) && !files.exists());
    }

    fn inside<R: Send>(namespace: &super::Namespace, work: impl FnOnce() -> R + Send) -> R {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                namespace.enter().expect("enter");
                work()
            });
            thread.join().expect("no panic")
        })
    }
}
