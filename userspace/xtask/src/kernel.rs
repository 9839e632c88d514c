//! The verdict tests of the XDP program on the oldest kernel that is promised, Debian 12's, in a machine of its own.
//!
//! A newer verifier accepts what an older one refuses, so tests on the running kernel do not show that the program
//! loads there. The machine is emulated (no KVM is needed) and has no disk: the kernel is that of Debian's package, and
//! the root file system is an initramfs with the test binaries, what they need, and busybox.

mod archive;
mod console;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use self::archive::Archive;
use self::console::Report;
use crate::cargo::{Cargo, workspace_root};
use crate::packages::{self, Purpose};
use crate::{command, probe};

/// Whether this machine can do it: its own binaries are what runs there.
pub(crate) const POSSIBLE: bool = cfg!(target_arch = "x86_64");

/// The test binaries that need no more than `BPF_PROG_TEST_RUN`.
const TESTS: [&str; 10] = [
    "verdicts",
    "gate",
    "lists",
    "monitor",
    "sweeps",
    "agreement",
    "transactions",
    "samples",
    "side_door",
    "answers",
];

/// The kernel's packages of Debian 12 stand between these, with the numbers of the release between them.
const PACKAGE: (&str, &str) = ("linux-image-6.1.", "-cloud-amd64");

/// From the machine's start to its being off. It takes 70 to 85 s.
const TIME_LIMIT: Duration = Duration::from_secs(900);

const INIT: &str = include_str!("kernel/init.sh");

/// Builds the tests, boots the kernel with them and prints how they went.
///
/// # Errors
/// If this is not x86-64, anything cannot be had or built, or a test fails or does not end in time.
pub(crate) fn run() -> Result<()> {
    if !POSSIBLE {
        bail!("`cargo xtask kernel` is for x86-64 only: it boots {}…{}", PACKAGE.0, PACKAGE.1);
    }
    packages::ensure(&[Purpose::Build, Purpose::Kernel])?;
    let folder = Folder::make()?;
    let initramfs = folder.0.join("initramfs");
    std::fs::write(&initramfs, pack(&build()?)?).context("cannot write the initramfs")?;
    let kernel = fetch(&folder.0)?;

    let console = boot(&kernel, &initramfs, &folder.0.join("console"))?;
    let report = Report::parse(&console);
    let checked = report.check(&TESTS);
    if checked.is_err() {
        eprintln!("{console}");
    }
    print!("{report}");
    checked
}

/// A folder for this run, removed at its end.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn make() -> Result<Self> {
        let path = workspace_root().join(format!("target/kernel-{}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("xtask: cannot remove {}: {error}", self.0.display());
        }
    }
}

/// Builds the test binaries and says where each is.
fn build() -> Result<Vec<(&'static str, PathBuf)>> {
    // Of the whole workspace, for the same features of the dependencies as in `cargo xtask test`; compiler messages go
    // to the terminal.
    let mut cargo =
        Cargo::new(["test", "--workspace", "--no-run", "--message-format", "json-render-diagnostics"]);
    for name in TESTS {
        cargo = cargo.arguments(&["--test", name]);
    }
    let messages = cargo.output()?;
    TESTS
        .into_iter()
        .map(|name| {
            let file =
                executable(&messages, name).with_context(|| format!("cargo built no test `{name}`"))?;
            Ok((name, file))
        })
        .collect()
}

/// The executable of a test of the XDP program, from cargo's messages: one JSON object a line.
fn executable(messages: &str, test: &str) -> Option<PathBuf> {
    let source = format!("/xdp-prog/tests/{test}.rs\"");
    let message =
        messages.lines().find(|line| line.contains(&source) && line.contains("\"executable\":\""))?;
    let (_, behind) = message.split_once("\"executable\":\"")?;
    let (path, _) = behind.split_once('"')?;
    Some(path.into())
}

/// The initramfs.
fn pack(tests: &[(&str, PathBuf)]) -> Result<Vec<u8>> {
    let busybox = probe::find_executable("busybox").context("busybox is not found")?;
    let mut needed = libraries(&busybox)?;
    let mut archive = Archive::default();
    archive.file(Path::new("/init"), INIT.as_bytes())?;
    archive.file(Path::new("/bin/busybox"), &read(&busybox)?)?;
    for (name, file) in tests {
        archive.file(&Path::new("/tests").join(name), &read(file)?)?;
        needed.append(&mut libraries(file)?);
    }
    for library in needed {
        archive.file(&library, &read(&library)?)?;
    }
    // `agreement` reads the corpora, seen from its crate's folder.
    archive.folder(&workspace_root().join("xdp-prog"))?;
    for file in files(&workspace_root().join("tests/corpus"))? {
        archive.file(&file, &read(&file)?)?;
    }
    archive.finish()
}

/// Every file below a folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let cannot_read = || format!("cannot read {}", folder.display());
        for entry in std::fs::read_dir(&folder).with_context(cannot_read)? {
            let path = entry.with_context(cannot_read)?.path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    Ok(found)
}

fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

/// The shared libraries that an executable needs, the loader among them.
fn libraries(file: &Path) -> Result<BTreeSet<PathBuf>> {
    // ldd fails for a static executable, which needs none.
    let output = Command::new("ldd").arg(file).env("LC_ALL", "C").output().context("cannot start ldd")?;
    if String::from_utf8_lossy(&output.stderr).contains("not a dynamic executable") {
        return Ok(BTreeSet::new());
    }
    if !output.status.success() {
        bail!("`ldd {}` failed ({})", file.display(), output.status);
    }
    listed_libraries(&String::from_utf8_lossy(&output.stdout))
}

/// The paths of what ldd lists: `name => path (address)`, or `path (address)` for the loader. The kernel's own
/// (`linux-vdso.so.1`) has no path.
fn listed_libraries(listed: &str) -> Result<BTreeSet<PathBuf>> {
    if let Some(line) = listed.lines().find(|line| line.contains("not found")) {
        bail!("ldd: {}", line.trim());
    }
    let path = |line: &str| {
        let found = line.split_once(" => ").map_or(line, |(_, path)| path);
        let path = found.split(" (").next().unwrap_or(found).trim();
        path.starts_with('/').then(|| PathBuf::from(path))
    };
    Ok(listed.lines().filter_map(path).collect())
}

/// Downloads and unpacks the kernel's package; returns the kernel.
fn fetch(folder: &Path) -> Result<PathBuf> {
    // As in `packages`: the lists may be empty or stale, so a first failure is expected.
    let package = match download(folder) {
        Ok(package) => package,
        Err(_) => {
            eprintln!("xtask: apt-get update, then once more");
            packages::apt_get(&["update", "-qq"])?;
            download(folder)?
        }
    };
    let downloaded = std::fs::read_dir(folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .with_context(|| format!("apt-get reported success, but there is no file of {package}"))?;
    command::output(Command::new("dpkg-deb").arg("--extract").arg(&downloaded).arg(folder))?;
    let release = package.trim_start_matches("linux-image-");
    Ok(folder.join("boot").join(format!("vmlinuz-{release}")))
}

/// Downloads the newest package of that kernel into the folder; returns its name.
fn download(folder: &Path) -> Result<String> {
    let known = command::output(Command::new("apt-cache").args(["pkgnames", PACKAGE.0]))?;
    let package = newest(&known).with_context(|| {
        format!("apt knows no package {}…{}; its sources must name Debian 12", PACKAGE.0, PACKAGE.1)
    })?;
    eprintln!("xtask: apt-get download {package}");
    command::output(Command::new("apt-get").args(["download", "-qq", package]).current_dir(folder))?;
    Ok(package.to_owned())
}

/// The newest of the kernel's packages among these names, one a line.
fn newest(names: &str) -> Option<&str> {
    let numbers = |name: &str| -> Option<Vec<u32>> {
        let release = name.strip_prefix(PACKAGE.0)?.strip_suffix(PACKAGE.1)?;
        release.split('-').map(|number| number.parse().ok()).collect()
    };
    names.lines().filter(|name| numbers(name).is_some()).max_by_key(|name| numbers(name))
}

/// Boots it, waits until the machine is off or the time is up, and returns what it wrote to its console.
fn boot(kernel: &Path, initramfs: &Path, console: &Path) -> Result<String> {
    eprintln!("xtask: booting {} (a minute or two)", kernel.display());
    let start = Instant::now();
    let mut machine = Command::new("qemu-system-x86_64")
        .args(["-accel", "tcg", "-m", "1500", "-smp", "1", "-nic", "none", "-no-reboot"])
        .args(["-display", "none", "-monitor", "none", "-append", "console=ttyS0 panic=-1 quiet"])
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(initramfs)
        .arg("-serial")
        .arg(format!("file:{}", console.display()))
        .stdin(Stdio::null())
        .spawn()
        .context("cannot start qemu-system-x86_64")?;
    let status = loop {
        if let Some(status) = machine.try_wait().context("cannot wait for qemu")? {
            break status;
        }
        if start.elapsed() > TIME_LIMIT {
            eprintln!("xtask: not off after {} s; ending it", TIME_LIMIT.as_secs());
            machine.kill().context("cannot end qemu")?;
            break machine.wait().context("cannot wait for qemu")?;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    eprintln!("xtask: qemu ended after {} s ({status})", start.elapsed().as_secs());
    Ok(String::from_utf8_lossy(&read(console)?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_are_found_in_cargo_s_messages() {
        let messages = concat!(
            r#"{"target":{"src_path":"/w/overload/tests/gate.rs"},"executable":"/w/target/deps/gate-1"}"#,
            "\n",
            r#"{"target":{"src_path":"/w/xdp-prog/tests/gate.rs"},"message":"unused variable"}"#,
            "\n",
            r#"{"target":{"src_path":"/w/xdp-prog/tests/gate.rs"},"executable":"/w/target/deps/gate-2","fresh":true}"#,
            "\n",
        );
        assert_eq!(executable(messages, "gate"), Some("/w/target/deps/gate-2".into()));
        assert_eq!(executable(messages, "sweeps"), None);
    }

    #[test]
    fn libraries_and_loader_are_listed_and_the_kernel_s_own_is_not() {
        let listed = "\tlinux-vdso.so.1 (0x00007ff)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007ff)\n\
            \t/lib64/ld-linux-x86-64.so.2 (0x00007ff)\n";
        let expected = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(listed_libraries(listed).expect("all found"), expected.map(PathBuf::from).into());
        assert!(listed_libraries("\tlibelf.so.1 => not found\n").is_err());
    }

    #[test]
    fn the_newest_kernel_is_taken_by_number() {
        let names = "linux-image-6.1.0-9-cloud-amd64\nlinux-image-6.1.0-57-cloud-amd64\nlinux-image-6.1.0-58-amd64\n\
            linux-image-6.1.0-59-cloud-amd64-dbg\nlinux-image-6.1.0-0.deb11.60-cloud-amd64\n";
        assert_eq!(newest(names), Some("linux-image-6.1.0-57-cloud-amd64"));
        assert_eq!(newest(""), None);
    }
}
