//! What must be installed for which purpose, and installing what is not there.
//!
//! The table is written for Debian 12. On other systems the same tools under other package names do as well: only what
//! is not found is asked for, and where there is no apt the message lists the packages and stops.

use std::process::Command;

use anyhow::{Result, bail};

use crate::command;
use crate::probe::{self, Sign};
use crate::quiet_services::QuietServices;

/// What a package is needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Compiling the XDP program and libbpf, which loads it.
    Build,
    /// Network namespaces with veth pairs, in the demo and the tests.
    Namespaces,
    /// Tests against real SIP software.
    EndToEnd,
    /// Formatting C.
    Format,
    /// Booting another kernel.
    Kernel,
    /// Making a Debian package.
    Package,
}

/// A Debian package and how one sees that it is there.
#[derive(Debug)]
struct Package {
    name: &'static str,
    why: &'static str,
    purpose: Purpose,
    sign: Sign,
}

/// Every package that any command needs. cargo itself brought a C compiler for linking (build-essential or gcc).
const PACKAGES: [Package; 21] = [
    Package {
        name: "clang",
        why: "compiles the BPF programs",
        purpose: Purpose::Build,
        sign: Sign::Executable("clang"),
    },
    Package {
        name: "linux-libc-dev",
        why: "kernel headers for the XDP program",
        purpose: Purpose::Build,
        sign: Sign::Header("linux/bpf.h"),
    },
    Package {
        name: "libelf-dev",
        why: "libbpf reads object files with it",
        purpose: Purpose::Build,
        sign: Sign::Header("libelf.h"),
    },
    Package {
        name: "zlib1g-dev",
        why: "libbpf and libelf link with it",
        purpose: Purpose::Build,
        sign: Sign::Header("zlib.h"),
    },
    Package { name: "make", why: "builds libbpf", purpose: Purpose::Build, sign: Sign::Executable("make") },
    Package {
        name: "pkg-config",
        why: "finds libelf and zlib for libbpf",
        purpose: Purpose::Build,
        sign: Sign::Executable("pkg-config"),
    },
    Package {
        name: "iproute2",
        why: "makes network namespaces and veth pairs",
        purpose: Purpose::Namespaces,
        sign: Sign::Executable("ip"),
    },
    Package {
        name: "ethtool",
        why: "sets the queues of a network device",
        purpose: Purpose::Namespaces,
        sign: Sign::Executable("ethtool"),
    },
    Package {
        name: "nftables",
        why: "makes the firewall rules that `sipweir doctor` is tested with",
        purpose: Purpose::EndToEnd,
        sign: Sign::Executable("nft"),
    },
    Package {
        name: "sip-tester",
        why: "SIPp, the callers of the end-to-end tests",
        purpose: Purpose::EndToEnd,
        sign: Sign::Executable("sipp"),
    },
    Package {
        name: "kamailio",
        why: "the SIP server that the end-to-end tests guard",
        purpose: Purpose::EndToEnd,
        sign: Sign::Executable("kamailio"),
    },
    Package {
        name: "libsofia-sip-ua-dev",
        why: "Sofia-SIP, the other SIP stack that the end-to-end tests guard",
        purpose: Purpose::EndToEnd,
        sign: Sign::Header("sofia-sip-1.12/sofia-sip/nua.h"),
    },
    Package {
        name: "systemd",
        why: "checks the unit file, and knows groups of system calls; it is not started",
        purpose: Purpose::EndToEnd,
        sign: Sign::Executable("systemd-analyze"),
    },
    Package {
        name: "binutils",
        why: "strips the program",
        purpose: Purpose::Package,
        sign: Sign::Executable("strip"),
    },
    Package {
        name: "dpkg",
        why: "makes and tries the package",
        purpose: Purpose::Package,
        sign: Sign::Executable("dpkg-deb"),
    },
    Package {
        name: "python3-prometheus-client",
        why: "the reference parser of OpenMetrics, which reads what the end-to-end tests scrape",
        purpose: Purpose::EndToEnd,
        sign: Sign::Path("/usr/lib/python3/dist-packages/prometheus_client/openmetrics/parser.py"),
    },
    Package {
        name: "python3-jsonschema",
        why: "holds the status against its schema in the end-to-end tests",
        purpose: Purpose::EndToEnd,
        sign: Sign::Path("/usr/lib/python3/dist-packages/jsonschema/validators.py"),
    },
    Package {
        name: "tshark",
        why: "reads what `sipweir capture` has written in the end-to-end tests",
        purpose: Purpose::EndToEnd,
        sign: Sign::Executable("tshark"),
    },
    Package {
        name: "clang-format",
        why: "formats C",
        purpose: Purpose::Format,
        sign: Sign::Executable("clang-format"),
    },
    Package {
        name: "qemu-system-x86",
        why: "boots Debian 12's kernel",
        purpose: Purpose::Kernel,
        sign: Sign::Executable("qemu-system-x86_64"),
    },
    Package {
        name: "busybox-static",
        why: "the user space of that kernel's machine",
        purpose: Purpose::Kernel,
        sign: Sign::Executable("busybox"),
    },
];

/// Makes sure that everything for these purposes is there: looks, says what is missing and why, installs it, looks again.
///
/// # Errors
/// If something is missing and this is not root, or there is no apt, or apt fails, or what apt installed is still not
/// found.
pub(crate) fn ensure(purposes: &[Purpose]) -> Result<()> {
    let missing = missing(purposes);
    if missing.is_empty() {
        return Ok(());
    }
    let reasons = missing
        .iter()
        .map(|package| format!("{} ({})", package.name, package.why))
        .collect::<Vec<_>>()
        .join(", ");
    if !probe::is_root()? {
        bail!("missing: {reasons}. Not root, so install them yourself: {}", apt_line(&missing));
    }
    if probe::find_executable("apt-get").is_none() {
        bail!(
            "missing: {reasons}. There is no apt-get here; install what your system calls these Debian packages"
        );
    }
    eprintln!("xtask: installing {reasons}");
    install(&missing)?;

    let still: Vec<String> = missing
        .iter()
        .filter(|package| !package.sign.is_there())
        .map(|package| format!("{} of package {}", package.sign, package.name))
        .collect();
    if !still.is_empty() {
        bail!("apt-get reported success, but these are not found: {}", still.join(", "));
    }
    Ok(())
}

fn missing(purposes: &[Purpose]) -> Vec<&'static Package> {
    PACKAGES
        .iter()
        .filter(|package| purposes.contains(&package.purpose) && !package.sign.is_there())
        .collect()
}

fn apt_line(packages: &[&Package]) -> String {
    let names = packages.iter().map(|package| package.name).collect::<Vec<_>>().join(" ");
    format!("apt-get install -y --no-install-recommends {names}")
}

fn install(packages: &[&Package]) -> Result<()> {
    let daemon = "kamailio";
    let ran_before = probe::is_running(daemon);
    let quiet = QuietServices::begin()?;
    // The package lists of a fresh image are empty and those of an old one are stale, so a first failure is expected.
    if apt_get_install(packages).is_err() {
        eprintln!("xtask: apt-get update, then once more");
        apt_get(&["update", "-qq"])?;
        apt_get_install(packages)?;
    }
    quiet.end(packages.iter().any(|package| package.name == daemon).then_some(daemon))?;
    if !ran_before && probe::is_running(daemon) {
        bail!(
            "installing started a {daemon} daemon, which would take the SIP port; stop it and run this again"
        );
    }
    Ok(())
}

fn apt_get_install(packages: &[&Package]) -> Result<()> {
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
    arguments.extend(packages.iter().map(|package| package.name));
    apt_get(&arguments)
}

/// Runs apt-get with its chatter kept back unless it fails.
pub(crate) fn apt_get(arguments: &[&str]) -> Result<()> {
    let mut apt_get = Command::new("apt-get");
    command::output(apt_get.args(arguments).env("DEBIAN_FRONTEND", "noninteractive")).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_package_stands_twice_in_the_table() {
        for (index, package) in PACKAGES.iter().enumerate() {
            assert!(PACKAGES[..index].iter().all(|other| other.name != package.name), "{}", package.name);
        }
    }

    #[test]
    fn the_line_for_the_user_names_exactly_what_is_missing() {
        let packages: Vec<&Package> = PACKAGES.iter().filter(|p| p.purpose == Purpose::EndToEnd).collect();
        assert_eq!(
            apt_line(&packages),
            "apt-get install -y --no-install-recommends nftables sip-tester kamailio libsofia-sip-ua-dev systemd \
             python3-prometheus-client python3-jsonschema tshark"
        );
    }

    #[test]
    fn nothing_is_missing_for_no_purpose() {
        assert!(missing(&[]).is_empty());
    }
}
