//! Whether the kernel's own SIP helper (`nf_conntrack_sip`, an "application level gateway") is at work on this host,
//! and the command that ends it.
//!
//! The helper reads SIP that connection tracking gives to it. It drops what it cannot read (`process_sip_request` in
//! the kernel's `net/netfilter/nf_conntrack_sip.c`), after sipweir has counted it as handed over; together with
//! `nf_nat_sip` it rewrites addresses in messages; and it opens the firewall for media that messages announce. But it
//! sees only what sipweir hands over, and that on the hand-off device. So a host should have one or the other in the
//! path of its calls.
//!
//! # How to tell
//!
//! - `/sys/module/nf_conntrack_sip` is there when it is loaded *or* built in, since it has parameters; `initstate` in
//!   it only when it is loaded. `/proc/modules` has the line where sysfs is hidden, as in some containers.
//! - Connections get it automatically where the switch `net.netfilter.nf_conntrack_helper` is 1. Recent kernels (6.18
//!   among them) have no such switch; there only a firewall rule assigns it.
//! - `/proc/net/nf_conntrack_expect` names the helper behind each connection that it expects.
//!
//! A helper that is built in, not automatic, and expects nothing is no cause for a warning: many kernels have it, and
//! nobody can take it out. Not here: reading firewall rules, which come from several programs in several formats.

use std::fmt;
use std::path::PathBuf;

/// Where the kernel tells about it.
#[derive(Debug, Clone)]
pub struct Paths {
    /// The folder of loaded and built-in modules.
    pub sys_module: PathBuf,
    /// The list of loaded modules.
    pub modules: PathBuf,
    /// The switch by which helpers are assigned automatically.
    pub automatic: PathBuf,
    /// Connections that helpers expect.
    pub expectations: PathBuf,
}

impl Default for Paths {
    /// Those of this host; the last two are of the caller's network namespace.
    fn default() -> Self {
        Self {
            sys_module: "/sys/module".into(),
            modules: "/proc/modules".into(),
            automatic: "/proc/sys/net/netfilter/nf_conntrack_helper".into(),
            expectations: "/proc/thread-self/net/nf_conntrack_expect".into(),
        }
    }
}

/// The helper as it was found; shown, it is a warning that says what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SipHelper {
    /// It can be unloaded.
    pub is_module: bool,
    /// So can its companion that rewrites addresses.
    pub has_nat_module: bool,
    /// Connections to port 5060 get it without a rule that says so.
    pub is_automatic: bool,
}

const HELPER: &str = "nf_conntrack_sip";
const NAT: &str = "nf_nat_sip";

impl SipHelper {
    /// Looks for it; `None` if it is not there, or there and idle for good.
    #[must_use]
    pub fn find(paths: &Paths) -> Option<Self> {
        let loaded = read(&paths.modules);
        let is_loaded = |module: &str| {
            let listed = loaded.lines().any(|line| line.split_whitespace().next() == Some(module));
            listed || paths.sys_module.join(module).join("initstate").exists()
        };
        let is_module = is_loaded(HELPER);
        if !is_module && !paths.sys_module.join(HELPER).exists() {
            return None;
        }
        let is_automatic = read(&paths.automatic).trim() == "1";
        let is_at_work = || read(&paths.expectations).split_whitespace().any(is_of_helper);
        let found = Self { is_module, has_nat_module: is_loaded(NAT), is_automatic };
        (is_module || is_automatic || is_at_work()).then_some(found)
    }
}

/// Whether a word of the list of expectations names it: `sip`, or `sip-1` and so on for further ports, and behind a
/// slash what is expected.
fn is_of_helper(word: &str) -> bool {
    let name = word.split('/').next().unwrap_or_default();
    name.strip_prefix("sip").is_some_and(|rest| {
        rest.is_empty() || rest.strip_prefix('-').is_some_and(|number| number.parse::<u32>().is_ok())
    })
}

/// What cannot be read says nothing.
fn read(path: &std::path::Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Why it should not be at work on the same host.
pub const WHY: &str = "Of what sipweir hands over it may drop or rewrite messages, which still count as handed over, and what \
                       sipweir refuses it never sees, so that firewall rules that rely on it miss calls.";

/// How to find the rules that assign it.
pub const RULES: &str = "Rules that assign it, and keep it in use, show up in \
                         `nft list ruleset | grep -e 'ct helper' -e 'type \"sip\"'` and \
                         `iptables-save -t raw | grep 'helper sip'`; delete them first.";

/// Ends its automatic use.
pub const STOP_AUTOMATIC: &str = "sysctl -w net.netfilter.nf_conntrack_helper=0";

impl SipHelper {
    /// What was found, as a sentence.
    #[must_use]
    pub fn state(&self) -> String {
        let state = if self.is_module { "loaded" } else { "built into this kernel and at work" };
        format!("the kernel's SIP helper {HELPER} is {state}.")
    }

    /// The command that unloads it, if it can be.
    #[must_use]
    pub fn unload(&self) -> Option<String> {
        let nat = if self.has_nat_module { "nf_nat_sip " } else { "" };
        self.is_module.then(|| format!("modprobe -r {nat}{HELPER}"))
    }
}

impl fmt::Display for SipHelper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {WHY}", self.state())?;
        if self.is_automatic {
            write!(f, " Stop its automatic use: `{STOP_AUTOMATIC}`.")?;
        }
        if let Some(command) = self.unload() {
            write!(f, " Unload it: `{command}`.")?;
        }
        if !self.is_automatic {
            write!(f, " {RULES}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::{Paths, SipHelper};

    /// A kernel of the test's own making.
    struct Kernel(PathBuf);

    impl Kernel {
        fn new(name: &str) -> Self {
            let root = std::env::temp_dir().join(format!("sipweir-helper-{name}-{}", std::process::id()));
            fs::create_dir_all(&root).expect("directory");
            Self(root)
        }

        fn with(self, file: &str, content: &str) -> Self {
            let path = self.0.join(file);
            fs::create_dir_all(path.parent().expect("a parent")).expect("directory");
            fs::write(path, content).expect("write");
            self
        }

        fn find(&self) -> Option<SipHelper> {
            let at = |file: &str| Path::new(&self.0).join(file);
            SipHelper::find(&Paths {
                sys_module: at("sys"),
                modules: at("modules"),
                automatic: at("automatic"),
                expectations: at("expectations"),
            })
        }

        fn says(&self) -> String {
            self.find().expect("found").to_string()
        }
    }

    impl Drop for Kernel {
        fn drop(&mut self) {
            let _left = fs::remove_dir_all(&self.0);
        }
    }

    const LINE: &str = "nf_conntrack_sip 45056 1 nf_nat_sip, Live 0x0000000000000000\n";

    #[test]
    fn a_kernel_without_it_gets_no_warning() {
        assert_eq!(Kernel::new("none").find(), None);
        let others = Kernel::new("others")
            .with(
                "modules",
                "nf_conntrack 200704 3 nf_nat,nf_conntrack_sip_like, Live 0x0\nxnf_conntrack_sip 1 0\n",
            )
            .with("sys/nf_conntrack/initstate", "live\n")
            .with("automatic", "1\n");
        assert_eq!(others.find(), None);
    }

    #[test]
    fn a_loaded_module_is_found_by_either_list_and_the_command_unloads_it() {
        let by_proc = Kernel::new("proc").with("modules", &format!("x_tables 53248 0 - Live 0x0\n{LINE}"));
        let by_sys = Kernel::new("sys")
            .with("sys/nf_conntrack_sip/initstate", "live\n")
            .with("sys/nf_nat_sip/initstate", "live\n")
            .with("automatic", "0\n");
        let found = SipHelper { is_module: true, has_nat_module: false, is_automatic: false };
        assert_eq!(by_proc.find(), Some(found));
        assert_eq!(by_sys.find(), Some(SipHelper { has_nat_module: true, ..found }));
        assert!(by_proc.says().contains("`modprobe -r nf_conntrack_sip`"), "{}", by_proc.says());
        assert!(by_sys.says().contains("`modprobe -r nf_nat_sip nf_conntrack_sip`"), "{}", by_sys.says());
        assert!(by_sys.says().contains("nft list ruleset") && !by_sys.says().contains("sysctl"));
    }

    #[test]
    fn automatic_assignment_is_ended_by_its_switch_also_where_the_helper_is_built_in() {
        let module = Kernel::new("auto-module").with("modules", LINE).with("automatic", "1\n");
        let built_in = Kernel::new("auto-built-in")
            .with("sys/nf_conntrack_sip/parameters/ports", "5060")
            .with("automatic", "1\n");
        for kernel in [&module, &built_in] {
            let said = kernel.says();
            assert!(said.contains("`sysctl -w net.netfilter.nf_conntrack_helper=0`"), "{said}");
        }
        assert!(module.says().contains("modprobe -r"));
        assert!(!built_in.says().contains("modprobe"), "what is built in cannot be unloaded");
    }

    #[test]
    fn a_built_in_helper_is_a_warning_only_where_it_is_at_work() {
        let built_in = |name| Kernel::new(name).with("sys/nf_conntrack_sip/parameters/ports", "5060");
        let idle = "297 l3proto = 2 proto=17 src=192.0.2.1 dst=192.0.2.2 sport=0 dport=30000 ftp\n";
        assert_eq!(built_in("idle").find(), None);
        assert_eq!(built_in("off").with("automatic", "0\n").with("expectations", idle).find(), None);
        for word in ["sip/signalling", "sip", "sip-1/audio"] {
            let kernel = built_in("busy").with("expectations", &idle.replace("ftp", word));
            let found = SipHelper { is_module: false, has_nat_module: false, is_automatic: false };
            assert_eq!(kernel.find(), Some(found), "{word}");
            assert!(kernel.says().contains("at work") && kernel.says().contains("nft list ruleset"));
        }
        let other = idle.replace("ftp", "sippy/audio");
        assert_eq!(built_in("other").with("expectations", &other).find(), None);
    }
}
