//! Whether a package does: installed by dpkg below a folder, its program started with its example configuration in a network
//! namespace that has that address, stopped, and purged.
//!
//! Dependencies are checked against the host's packages. Scripts run without chroot (`DPKG_ROOT`), since the folder has no
//! shell; so the steps that need a running systemd are not tried.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::Package;
use crate::cargo::workspace_root;
use crate::command;

/// The address of the example's service, and its interface.
const ADDRESS: &str = "192.0.2.1/24";
const INTERFACE: &str = "eth0";

/// The control socket of that configuration, below the root.
const SOCKET: &str = "run/sipweir/control.sock";

/// From start to the first status, and from SIGTERM to the end.
const PATIENCE: Duration = Duration::from_secs(30);

/// What must be there after the installation.
const FILES: [&str; 7] = [
    "usr/bin/sipweir",
    "lib/systemd/system/sipweir.service",
    "etc/sipweir/sipweir.toml",
    "usr/share/man/man1/sipweir.1.gz",
    "usr/share/man/man1/sipweir-run.1.gz",
    "usr/share/bash-completion/completions/sipweir",
    "usr/share/doc/sipweir/copyright",
];

/// Tries a package.
///
/// # Errors
/// If any step fails, or anything is left.
pub(super) fn run(package: &Package) -> Result<()> {
    let root = Root::make(&package.depends)?;
    let before = root.files()?;
    root.dpkg(&["--install"], &package.file)?;
    for file in FILES {
        if !root.0.join(file).is_file() {
            bail!("the package does not bring {file}");
        }
    }
    if !root.users()?.contains("sipweir:") {
        bail!("the package makes no user sipweir");
    }
    started(&root)?;
    root.dpkg(&["--purge"], Path::new("sipweir"))?;
    let left: Vec<_> = root.files()?.difference(&before).cloned().collect();
    if !left.is_empty() || root.users()?.contains("sipweir:") {
        bail!("after purging it there is left: {left:?}, users: {}", root.users()?);
    }
    Ok(())
}

/// Starts the installed program with the installed configuration, asks it, and ends it.
fn started(root: &Root) -> Result<()> {
    let program = root.0.join("usr/bin/sipweir");
    let configuration = root.0.join("etc/sipweir/sipweir.toml");
    command::output(Command::new(&program).arg("check").arg(&configuration))?;
    let namespace = Namespace::make()?;
    let mut running = Running::start(&namespace, &program, &configuration)?;
    // Below its root, which is not ours.
    let socket = Path::new("/proc").join(running.0.id().to_string()).join("root").join(SOCKET);
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        let asked =
            command::output(Command::new(&program).args(["status", "--json", "--socket"]).arg(&socket));
        match asked {
            Ok(status) => break status,
            Err(_) if Instant::now() < deadline && running.0.try_wait()?.is_none() => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(error) => {
                return Err(error.context("the installed program does not guard; it has said why above"));
            }
        }
    };
    if !status.contains("192.0.2.1:5060") {
        bail!("the installed program guards another service: {status}");
    }
    running.end()
}

/// The folder that stands for a host's root, removed at the end.
struct Root(PathBuf);

impl Root {
    fn make(depends: &[String]) -> Result<Self> {
        let root = Self(workspace_root().join(format!("{}/root-{}", super::FOLDER, std::process::id())));
        for folder in ["etc", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "var/log"]
        {
            let folder = root.0.join(folder);
            std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        for file in ["passwd", "group", "shadow", "gshadow"] {
            std::fs::write(root.0.join("etc").join(file), "")
                .context("cannot make the files of the users")?;
        }
        let mut status = command::output(Command::new("dpkg-query").arg("--status").args(depends))?;
        status.push('\n');
        std::fs::write(root.0.join("var/lib/dpkg/status"), status).context("cannot write dpkg's status")?;
        Ok(root)
    }

    fn dpkg(&self, action: &[&str], what: &Path) -> Result<()> {
        // The dependencies of the dependencies are not there, and not asked for.
        let mut dpkg = Command::new("dpkg");
        dpkg.arg("--root")
            .arg(&self.0)
            .args(["--force-script-chrootless", "--no-triggers"])
            .args(action)
            .arg(what);
        command::output(&mut dpkg).map(drop)
    }

    fn users(&self) -> Result<String> {
        std::fs::read_to_string(self.0.join("etc/passwd")).context("cannot read etc/passwd")
    }

    /// Every file and folder but those of dpkg itself and those that `useradd` leaves beside the users' files.
    fn files(&self) -> Result<BTreeSet<String>> {
        let said =
            command::output(Command::new("find").arg(&self.0).args(["-mindepth", "1", "-printf", "%P\n"]))?;
        let others = [
            "var/lib/dpkg",
            "var/log",
            "etc/passwd",
            "etc/group",
            "etc/shadow",
            "etc/gshadow",
            "etc/.pwd",
            "etc/sub",
        ];
        let kept = said.lines().filter(|line| !others.iter().any(|other| line.starts_with(other)));
        Ok(kept.map(str::to_owned).collect())
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("xtask: cannot remove {}: {error}", self.0.display());
        }
    }
}

/// A network namespace with the example's interface and address, removed at the end.
struct Namespace(String);

impl Namespace {
    fn make() -> Result<Self> {
        let name = format!("swt-deb-{}", std::process::id());
        command::output(Command::new("ip").args(["netns", "add", &name]))?;
        let namespace = Self(name);
        let ip = |words: &str| {
            command::output(Command::new("ip").args(["-n", &namespace.0]).args(words.split(' ')))
        };
        ip("link set lo up")?;
        ip(&format!("link add {INTERFACE} type veth peer name wire"))?;
        ip(&format!("address add {ADDRESS} dev {INTERFACE}"))?;
        ip(&format!("link set {INTERFACE} up"))?;
        ip("link set wire up")?;
        Ok(namespace)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(error) = command::output(Command::new("ip").args(["netns", "del", &self.0])) {
            eprintln!("xtask: {error:#}");
        }
    }
}

/// The running program, killed if nothing else ends it.
struct Running(Child);

impl Running {
    /// With a `/run` of its own: the example's control socket is where an instance of this host would have it.
    fn start(namespace: &Namespace, program: &Path, configuration: &Path) -> Result<Self> {
        let own_run = "mount -t tmpfs tmpfs /run && exec \"$0\" run --config \"$1\"";
        let child = Command::new("ip")
            .args(["netns", "exec", &namespace.0, "unshare", "--mount", "sh", "-c", own_run])
            .arg(program)
            .arg(configuration)
            .stdin(Stdio::null())
            .spawn()
            .context("cannot start the installed program")?;
        Ok(Self(child))
    }

    fn end(&mut self) -> Result<()> {
        command::output(Command::new("kill").args(["-TERM", &self.0.id().to_string()]))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.0.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("the installed program ended with {status}"),
                None if Instant::now() >= deadline => bail!("the installed program does not end on SIGTERM"),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended, unless a step before has failed.
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}
