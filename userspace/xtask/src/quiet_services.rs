//! Installing a package with a daemon without its daemon being started.
//!
//! Debian's maintainer scripts ask `/usr/sbin/policy-rc.d` before they start a service (invoke-rc.d(8)); 101 means "not
//! allowed". The file is there only while apt runs, and a file that somebody else put there is left as it is.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

const POLICY_FILE: &str = "/usr/sbin/policy-rc.d";
const POLICY: &str = "#!/bin/sh\n# Temporary, of sipweir's `cargo xtask`: no service starts while its packages are installed.\nexit 101\n";

/// While it lives, packages that are installed start no service.
#[derive(Debug)]
pub(crate) struct QuietServices {
    /// The policy file, if it is this one's and must go.
    made: Option<PathBuf>,
}

impl QuietServices {
    pub(crate) fn begin() -> Result<Self> {
        Self::begin_with(Path::new(POLICY_FILE))
    }

    fn begin_with(policy_file: &Path) -> Result<Self> {
        let created = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o755).open(policy_file);
        match created {
            Ok(mut file) => {
                let quiet = Self { made: Some(policy_file.to_owned()) };
                file.write_all(POLICY.as_bytes())
                    .with_context(|| format!("cannot write {}", policy_file.display()))?;
                Ok(quiet)
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(Self { made: None }),
            Err(error) => Err(error).with_context(|| format!("cannot create {}", policy_file.display())),
        }
    }

    /// Ends it. Under systemd, a daemon that was just installed is also taken out of the next boot.
    pub(crate) fn end(self, installed_daemon: Option<&str>) -> Result<()> {
        drop(self);
        let Some(daemon) = installed_daemon.filter(|_| Path::new("/run/systemd/system").exists()) else {
            return Ok(());
        };
        let output = Command::new("systemctl").args(["disable", "--quiet", daemon]).output();
        let output = output.with_context(|| format!("cannot start systemctl disable {daemon}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            eprintln!(
                "xtask: {daemon} will start at the next boot: systemctl disable failed: {}",
                said.trim_end()
            );
        }
        Ok(())
    }
}

impl Drop for QuietServices {
    fn drop(&mut self) {
        if let Some(policy_file) = &self.made
            && let Err(error) = std::fs::remove_file(policy_file)
        {
            let name = policy_file.display();
            eprintln!("xtask: remove {name} yourself, it keeps services from starting: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy_file(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("sipweir-xtask-{name}-{}", std::process::id()))
    }

    #[test]
    fn services_are_refused_while_it_lives_and_no_longer() {
        let file = policy_file("refused");
        let quiet = QuietServices::begin_with(&file).expect("policy file");
        let status = Command::new(&file).status().expect("an executable policy");
        assert_eq!(status.code(), Some(101));
        quiet.end(None).expect("end");
        assert!(!file.exists());
    }

    #[test]
    fn a_policy_of_the_machine_is_left_as_it_is() {
        let file = policy_file("kept");
        std::fs::write(&file, "mine").expect("write");
        drop(QuietServices::begin_with(&file).expect("policy file"));
        assert_eq!(std::fs::read_to_string(&file).expect("still there"), "mine");
        std::fs::remove_file(&file).expect("remove");
    }
}
