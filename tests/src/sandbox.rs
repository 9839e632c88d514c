//! A program as systemd would start it by a unit file, where there is no systemd: its user, its capabilities, its address
//! families and its system calls.
//!
//! Taken from the unit are `AmbientCapabilities=`, `CapabilityBoundingSet=`, `NoNewPrivileges=`, `RestrictAddressFamilies=`
//! and `SystemCallFilter=` (an allow-list; groups such as `@system-service` as `systemd-analyze syscall-filter` has them).
//! What systemd does to the file system is not here.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use crate::command::run;
use crate::netns::NetNs;

/// A user and group without a name, as good as any.
const NOBODY: &str = "64999";

/// What a unit file restricts.
#[derive(Debug, Clone)]
pub struct Sandbox {
    capabilities: Vec<String>,
    families: Vec<String>,
    system_calls: Vec<String>,
}

impl Sandbox {
    /// Reads a unit file.
    ///
    /// # Panics
    /// If a setting that is relied on is not there, or is of a kind that is not understood.
    #[track_caller]
    #[must_use]
    pub fn of_unit(unit: &str) -> Self {
        let words = |key: &str| -> Vec<String> {
            let lines: Vec<&str> =
                unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect();
            assert_eq!(lines.len(), 1, "one line {key}= is expected");
            assert!(!lines[0].starts_with('~'), "{key} is no list of what is allowed");
            lines[0].split_whitespace().map(str::to_owned).collect()
        };
        let capabilities = words("AmbientCapabilities");
        assert_eq!(capabilities, words("CapabilityBoundingSet"));
        assert_eq!(words("NoNewPrivileges"), ["yes"]);
        Self {
            capabilities,
            families: words("RestrictAddressFamilies"),
            system_calls: words("SystemCallFilter"),
        }
    }

    /// The same without one address family.
    #[must_use]
    pub fn without_family(mut self, family: &str) -> Self {
        self.families.retain(|kept| kept != family);
        self
    }

    /// Starts a program in a namespace, in `folder`, with its output in `NAME.stdout` and `NAME.stderr` there.
    ///
    /// # Panics
    /// If it cannot be started.
    #[track_caller]
    #[must_use]
    pub fn start(
        &self,
        namespace: &NetNs,
        argv: &[&str],
        folder: &Path,
        environment: &[(&str, &str)],
    ) -> Child {
        let file = |name: &str| std::fs::File::create(folder.join(name)).expect("a file for its output");
        let (bounding, ambient) = (self.list("-all"), self.list(""));
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--no-new-privs"])
            .args(["--inh-caps", &bounding, "--ambient-caps", ambient.trim_start_matches(',')])
            .args(["--bounding-set", &bounding])
            .args(argv)
            .current_dir(folder)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(file("sandboxed.stdout"))
            .stderr(file("sandboxed.stderr"));
        let filters = [families_filter(&self.families), calls_filter(&self.system_calls)];
        // The filters are the thread's, and its children's.
        namespace.inside(|| {
            for filter in &filters {
                seccompiler::apply_filter(filter).expect("a seccomp filter");
            }
            command.spawn().expect("setpriv starts")
        })
    }

    /// Capabilities as setpriv(1) wants them.
    fn list(&self, first: &str) -> String {
        let names = self
            .capabilities
            .iter()
            .map(|name| format!("+{}", name.trim_start_matches("CAP_").to_lowercase()));
        std::iter::once(first.to_owned()).chain(names).collect::<Vec<_>>().join(",")
    }
}

/// socket(2) fails with EAFNOSUPPORT for any other family.
fn families_filter(families: &[String]) -> BpfProgram {
    let is_another = families.iter().map(|family| {
        let number = match family.as_str() {
            "AF_UNIX" => libc::AF_UNIX,
            "AF_INET" => libc::AF_INET,
            "AF_INET6" => libc::AF_INET6,
            "AF_NETLINK" => libc::AF_NETLINK,
            "AF_PACKET" => libc::AF_PACKET,
            "AF_XDP" => libc::AF_XDP,
            other => panic!("the address family {other} is not known here"),
        };
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, number as u64)
            .expect("a condition")
    });
    let rule = SeccompRule::new(is_another.collect()).expect("a rule");
    let refusal = SeccompAction::Errno(libc::EAFNOSUPPORT as u32);
    filter([(libc::SYS_socket, vec![rule])].into(), SeccompAction::Allow, refusal)
}

/// Any other call fails with EPERM.
fn calls_filter(names: &[String]) -> BpfProgram {
    let rules = expanded(names).iter().filter_map(|name| Some((number_of(name)?, Vec::new()))).collect();
    filter(rules, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow)
}

fn filter(
    rules: std::collections::BTreeMap<i64, Vec<SeccompRule>>,
    mismatch: SeccompAction,
    matched: SeccompAction,
) -> BpfProgram {
    let arch = std::env::consts::ARCH.try_into().expect("an architecture that seccompiler knows");
    SeccompFilter::new(rules, mismatch, matched, arch).and_then(TryInto::try_into).expect("a filter")
}

/// Groups taken apart.
fn expanded(names: &[String]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for name in names {
        if name.starts_with('@') {
            let said = run(&["systemd-analyze", "--no-pager", "syscall-filter", name]);
            let members =
                said.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
            let members: Vec<String> = members.filter(|member| member != name).map(str::to_owned).collect();
            assert!(!members.is_empty(), "systemd-analyze says of {name}: {said}");
            found.extend(expanded(&members));
        } else {
            found.insert(name.clone());
        }
    }
    found
}

/// The number of a system call, if this architecture has it. Read from the C compiler's own table, which the kernel's headers
/// bring.
fn number_of(name: &str) -> Option<i64> {
    use std::collections::HashMap;
    use std::sync::OnceLock;
    static NUMBERS: OnceLock<HashMap<String, i64>> = OnceLock::new();
    let numbers = NUMBERS.get_or_init(|| {
        let macros = run(&["sh", "-c", "echo '#include <asm/unistd.h>' | clang -E -dM -"]);
        let numbers = macros.lines().filter_map(|line| {
            let (name, number) = line.strip_prefix("#define __NR_")?.split_once(' ')?;
            Some((name.to_owned(), number.parse().ok()?))
        });
        numbers.collect()
    });
    numbers.get(name).copied()
}
