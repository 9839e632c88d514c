//! `cargo xtask deb`: a Debian package of the program, its unit, its example configuration and what explains it.
//!
//! Made by `dpkg-deb` from a folder, with no tool but those of every Debian. Manual pages and completions come from the
//! program itself; what it depends on is what the linker has found, in the versions it was linked with.

mod trial;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::cargo::{Cargo, workspace_root};
use crate::command;
use crate::packages::{self, Purpose};

/// Where packages and what they are made from go, below the workspace.
const FOLDER: &str = "out/deb";

/// What `cargo xtask deb` is asked for.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Install it below a folder, start it in a network namespace with its example configuration, and remove it again.
    #[arg(long = "try")]
    trial: bool,
    /// Of a build of this profile.
    #[arg(long, default_value = "release")]
    profile: String,
}

impl Options {
    /// A trial of the program that the tests have built already.
    pub(crate) fn of_tests() -> Self {
        Self { trial: true, profile: "dev".to_owned() }
    }
}

/// Makes the package, and tries it if that was asked for.
///
/// # Errors
/// If it cannot be built or made, or the trial fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    packages::ensure(&[Purpose::Build, Purpose::Package])?;
    let binary = build(&options.profile)?;
    let package = make(&binary)?;
    println!("{}", package.file.display());
    if options.trial {
        packages::ensure(&[Purpose::Namespaces])?;
        crate::need_root("the trial installs below a folder as root, and makes a network namespace")?;
        trial::run(&package)?;
        println!("installed, started, stopped and removed; nothing is left");
    }
    Ok(())
}

/// A package that was made.
#[derive(Debug)]
struct Package {
    file: PathBuf,
    /// Names of the packages that it depends on.
    depends: Vec<String>,
}

fn build(profile: &str) -> Result<PathBuf> {
    Cargo::new(["build", "--package", "sipweir", "--bin", "sipweir", "--profile", profile]).run()?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace_root().join("target"), PathBuf::from);
    // The profile `dev` is the one whose folder has another name.
    Ok(target.join(if profile == "dev" { "debug" } else { profile }).join("sipweir"))
}

fn make(binary: &Path) -> Result<Package> {
    let root = workspace_root();
    let stage = root.join(FOLDER).join("stage");
    if stage.exists() {
        std::fs::remove_dir_all(&stage).with_context(|| format!("cannot remove {}", stage.display()))?;
    }
    let tree = Tree { stage: stage.clone() };
    tree.run("usr/bin/sipweir", 0o755, |to| {
        command::output(Command::new("strip").arg("--strip-debug").arg("-o").arg(to).arg(binary))
    })?;
    tree.copy("lib/systemd/system/sipweir.service", 0o644, &root.join("packaging/sipweir.service"))?;
    tree.copy("etc/sipweir/sipweir.toml", 0o644, &root.join("docs/example.toml"))?;
    for page in ["operations.md", "configuration.md", "recipes.md", "marker.md", "tune.md"] {
        tree.copy(&format!("usr/share/doc/sipweir/{page}"), 0o644, &root.join("docs").join(page))?;
    }
    tree.write("usr/share/doc/sipweir/copyright", 0o644, &copyright(&root)?)?;
    tree.copy("usr/share/doc/sipweir/changelog", 0o644, &root.join("CHANGELOG.md"))?;
    tree.gzip(&["usr/share/doc/sipweir/changelog".into()])?;

    let made = stage.with_file_name("made");
    std::fs::create_dir_all(&made).with_context(|| format!("cannot make {}", made.display()))?;
    command::output(Command::new(binary).args(["generate", "completions"]).arg(&made))?;
    for (from, to) in [
        ("sipweir.bash", "usr/share/bash-completion/completions/sipweir"),
        ("_sipweir", "usr/share/zsh/vendor-completions/_sipweir"),
        ("sipweir.fish", "usr/share/fish/vendor_completions.d/sipweir.fish"),
    ] {
        tree.copy(to, 0o644, &made.join(from))?;
    }
    let manual = tree.folder("usr/share/man/man1")?;
    command::output(Command::new(binary).args(["generate", "man"]).arg(&manual))?;
    let pages = list(&manual)?.into_iter().map(|page| Path::new("usr/share/man/man1").join(page));
    tree.gzip(&pages.collect::<Vec<_>>())?;

    let said = command::output(Command::new(binary).arg("--version"))?;
    let version = said.split_whitespace().nth(1).context("the program does not say its version")?.to_owned();
    let architecture = command::output(Command::new("dpkg").arg("--print-architecture"))?.trim().to_owned();
    let depends = depends(binary)?;
    for script in ["postinst", "prerm", "postrm"] {
        tree.copy(&format!("DEBIAN/{script}"), 0o755, &root.join("packaging").join(script))?;
    }
    tree.write("DEBIAN/conffiles", 0o644, "/etc/sipweir/sipweir.toml\n")?;
    let control = control(&version, &architecture, &depends, tree.size_kib()?);
    tree.write("DEBIAN/control", 0o644, &control)?;

    let file = root.join(FOLDER).join(format!("sipweir_{version}-1_{architecture}.deb"));
    command::output(Command::new("dpkg-deb").args(["--root-owner-group", "--build"]).arg(&stage).arg(&file))?;
    let names = depends.iter().filter_map(|depend| depend.split(' ').next()).map(str::to_owned).collect();
    Ok(Package { file, depends: names })
}

fn control(version: &str, architecture: &str, depends: &[String], size_kib: u64) -> String {
    format!(
        "Package: sipweir\nVersion: {version}-1\nArchitecture: {architecture}\nMaintainer: sipweir <sipweir@localhost>\n\
         Installed-Size: {size_kib}\nDepends: {}\nSection: net\nPriority: optional\n\
         Description: overload control in front of a SIP server\n \
         sipweir sits on the NIC of a SIP server (XDP, AF_XDP), sorts SIP over UDP there, serves\n \
         originals before retransmissions and refuses what is too much. The server stays as it is.\n",
        depends.join(", ")
    )
}

/// The packages of the libraries that the program was linked with, and passwd for `useradd`.
fn depends(binary: &Path) -> Result<Vec<String>> {
    let said = command::output(Command::new("ldd").arg(binary))?;
    let libraries = said.lines().filter_map(|line| line.split_once(" => ")?.1.split(' ').next());
    let mut depends = BTreeSet::from(["passwd".to_owned()]);
    for library in libraries {
        // Since /lib became a link to /usr/lib, a file is known by one of two names.
        let owner = [library.to_owned(), format!("/usr{library}")]
            .into_iter()
            .find_map(|name| command::output(Command::new("dpkg-query").args(["--search", &name])).ok());
        let owner = owner.with_context(|| format!("no package has {library}"))?;
        let package = owner.split(':').next().unwrap_or_default().to_owned();
        let query = ["--show", "--showformat", "${source:Upstream-Version}\n", &package];
        let version = command::output(Command::new("dpkg-query").args(query))?;
        let version = version.lines().next().unwrap_or_default();
        depends.insert(format!("{package} (>= {version})"));
    }
    if depends.len() < 3 {
        bail!("ldd names no libraries of the program: {said}");
    }
    Ok(depends.into_iter().collect())
}

/// Debian's machine-readable form, with the licences in full.
fn copyright(root: &Path) -> Result<String> {
    let mut text = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
                    Upstream-Name: sipweir\n\nFiles: *\nCopyright: the authors of sipweir\n\
                    License: Expat or Apache-2.0, the BPF programs also under GPL-2\n\n"
        .to_owned();
    let licence = root.join("LICENSE-MIT");
    text +=
        &std::fs::read_to_string(&licence).with_context(|| format!("cannot read {}", licence.display()))?;
    text += "\nApache-2.0 and GPL-2 are in /usr/share/common-licenses.\n";
    Ok(text)
}

fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        names.push(PathBuf::from(
            entry.with_context(|| format!("cannot read {}", folder.display()))?.file_name(),
        ));
    }
    names.sort();
    Ok(names)
}

/// The folder that a package is made from; paths are those on the host.
struct Tree {
    stage: PathBuf,
}

impl Tree {
    fn folder(&self, path: &str) -> Result<PathBuf> {
        let folder = self.stage.join(path);
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        // dpkg-deb takes the rights as they are, whatever the umask.
        let mut parent = folder.as_path();
        while parent.starts_with(&self.stage) {
            std::fs::set_permissions(parent, std::fs::Permissions::from_mode(0o755))
                .with_context(|| format!("cannot change {}", parent.display()))?;
            let Some(next) = parent.parent() else { break };
            parent = next;
        }
        Ok(folder)
    }

    fn run<T>(&self, path: &str, mode: u32, make: impl FnOnce(&Path) -> Result<T>) -> Result<()> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let file = self.folder(folder)?.join(name);
        make(&file)?;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode))
            .with_context(|| format!("cannot change {}", file.display()))
    }

    fn copy(&self, path: &str, mode: u32, from: &Path) -> Result<()> {
        self.run(path, mode, |to| {
            std::fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))
        })
    }

    fn write(&self, path: &str, mode: u32, text: &str) -> Result<()> {
        self.run(path, mode, |to| {
            std::fs::write(to, text).with_context(|| format!("cannot write {}", to.display()))
        })
    }

    fn gzip(&self, paths: &[PathBuf]) -> Result<()> {
        let files = paths.iter().map(|path| self.stage.join(path));
        command::output(Command::new("gzip").args(["--best", "--no-name"]).args(files)).map(drop)
    }

    fn size_kib(&self) -> Result<u64> {
        let said = command::output(Command::new("du").args(["-sk"]).arg(&self.stage))?;
        said.split_whitespace().next().and_then(|kib| kib.parse().ok()).context("du names no size")
    }
}

#[cfg(test)]
mod tests {
    use super::control;

    #[test]
    fn the_control_file_has_what_dpkg_wants_and_its_description_is_indented() {
        let text = control("1.2.3", "amd64", &["libc6 (>= 2.36)".into(), "passwd".into()], 4711);
        assert!(text.contains("Version: 1.2.3-1\n") && text.contains("Depends: libc6 (>= 2.36), passwd\n"));
        let (_, description) = text.split_once("Description: ").expect("a description");
        assert!(description.lines().skip(1).all(|line| line.starts_with(' ')), "{description}");
        assert!(text.ends_with('\n'));
    }
}
