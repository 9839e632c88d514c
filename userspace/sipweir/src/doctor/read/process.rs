//! Facts of the kernel and of this process.

use std::collections::BTreeSet;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use super::{core_number, of_netdev, text};
use crate::doctor::facts::{CAPABILITIES, Kernel, Process, Reading, Unread};
use crate::{cores, netdev};

/// This process.
pub(super) fn process() -> Process {
    Process {
        missing_capabilities: missing_capabilities(),
        is_initial_user_namespace: text("/proc/self/uid_map").map(|map| is_whole(&map)),
        memlock: Ok(getrlimit(Resource::Memlock).current),
        cores: cores::available(),
    }
}

/// The kernel; what takes rights is asked only with them, since a refusal for want of rights looks like want of the thing.
pub(super) fn kernel(process: &Process) -> Kernel {
    let may_load = match &process.missing_capabilities {
        Err(reason) => Err(reason.clone()),
        Ok(missing) => {
            let lacking: Vec<&str> = ["CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN"]
                .into_iter()
                .filter(|name| missing.contains(name))
                .collect();
            match (lacking.is_empty(), &process.is_initial_user_namespace) {
                (false, _) => Err(Unread(format!("this process lacks {}", lacking.join(", ")))),
                (true, Ok(false)) => Err(Unread("this process is in a user namespace of its own".to_owned())),
                (true, _) => Ok(()),
            }
        }
    };
    let missing_bpf = may_load.clone().and_then(|()| {
        let missing = xdp_prog::missing_types().map_err(|error| Unread(in_full(&error)))?;
        Ok(missing.into_iter().map(str::to_owned).collect())
    });
    Kernel {
        release: Ok(rustix::system::uname().release().to_string_lossy().into_owned()),
        af_xdp: af_xdp(),
        missing_bpf,
        load: may_load.map(|()| load()),
        jit: core_number("bpf_jit_enable"),
        jit_harden: core_number("bpf_jit_harden"),
        veth: of_netdev(netdev::can_make_veth()),
    }
}

fn missing_capabilities() -> Reading<BTreeSet<&'static str>> {
    let sets = capabilities(None).map_err(|errno| Unread(format!("capget: {errno}")))?;
    let of = [
        CapabilitySet::BPF,
        CapabilitySet::PERFMON,
        CapabilitySet::NET_ADMIN,
        CapabilitySet::NET_RAW,
        CapabilitySet::IPC_LOCK,
    ];
    // CAP_SYS_ADMIN contains the first two (bpf_capable, perfmon_capable in the kernel's capability.h).
    let has = |capability: CapabilitySet| {
        let contains = CapabilitySet::BPF | CapabilitySet::PERFMON;
        sets.effective.contains(capability)
            || (contains.contains(capability) && sets.effective.contains(CapabilitySet::SYS_ADMIN))
    };
    Ok(CAPABILITIES
        .into_iter()
        .zip(of)
        .filter(|(_, capability)| !has(*capability))
        .map(|(name, _)| name)
        .collect())
}

/// Whether a map of user numbers is the one of the initial namespace: all numbers, as they are.
fn is_whole(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn af_xdp() -> Reading<bool> {
    match socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None) {
        Ok(_socket) => Ok(true),
        Err(Errno::AFNOSUPPORT) => Ok(false),
        Err(Errno::PERM | Errno::ACCESS) => Err(Unread("opening one takes CAP_NET_RAW".to_owned())),
        Err(errno) => Err(Unread(format!("opening one: {errno}"))),
    }
}

/// Both programs, loaded and freed.
fn load() -> Result<(), String> {
    let key = xdp_prog::HashKey(Box::new([0; xdp_prog::HASH_KEY_WORDS]));
    let service = xdp_prog::ServiceAddress { ip: None, port: 5060, reply_owed: true };
    let settings = xdp_prog::Settings::new(key, vec![service]);
    let mut classifier = xdp_prog::Classifier::load(&settings).map_err(|error| in_full(&error))?;
    let lists = classifier.take_source_lists().ok_or("the lists of sources are not there")?;
    xdp_prog::SideDoor::load(&settings, &[], &lists).map(drop).map_err(|error| in_full(&error))
}

/// An error with what the kernel said.
fn in_full(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::is_whole;

    #[test]
    fn only_the_map_of_all_numbers_is_the_initial_namespaces() {
        assert!(is_whole("         0          0 4294967295\n"));
        assert!(!is_whole("         0       1000          1\n"));
        assert!(!is_whole("0 0 4294967295\n5 5 1\n"));
        assert!(!is_whole(""));
    }
}
