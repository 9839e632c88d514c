//! Which findings explain an error of attaching or binding. The kernel says one number for many reasons; the findings named
//! here are those that may be the reason, so that a failed start and `sipweir doctor` say the same.

use rustix::io::Errno;

use crate::netdev;

const KERNEL: [&str; 4] = ["kernel.version", "kernel.bpf", "kernel.programs", "kernel.af_xdp"];
const RIGHTS: [&str; 2] = ["process.capabilities", "process.user_namespace"];
const MEMORY: [&str; 1] = ["process.memlock"];
/// Why a driver refuses a program, or a socket.
const DRIVER: [&str; 7] = [
    "interface.native_xdp",
    "interface.driver",
    "interface.mtu",
    "interface.queues",
    "interface.zero_copy",
    "offload.lro",
    "offload.gro_hw",
];

/// The checks that may explain this error; none for errors that say all there is to say.
#[must_use]
pub fn explain(error: &anyhow::Error) -> Vec<&'static str> {
    for cause in error.chain() {
        if let Some(error) = cause.downcast_ref::<xdp_prog::Error>() {
            return of_program(error);
        }
        if let Some(error) = cause.downcast_ref::<afxdp::Error>() {
            return of_socket(error);
        }
        if let Some(error) = cause.downcast_ref::<netdev::Error>() {
            return of_device(error);
        }
    }
    Vec::new()
}

fn of_program(error: &xdp_prog::Error) -> Vec<&'static str> {
    use xdp_prog::Error;
    match error {
        Error::NotPermitted { .. } => RIGHTS.to_vec(),
        Error::OtherProgram { .. } => vec!["interface.xdp_program"],
        Error::ModeRefused { .. } => DRIVER.to_vec(),
        Error::NoInterface { .. } => vec!["interface.state"],
        Error::NoMemory { .. } => MEMORY.to_vec(),
        Error::Kernel { .. } => KERNEL.to_vec(),
        Error::System { source, .. } => Errno::from_io_error(source).map_or_else(Vec::new, of_errno),
        _ => Vec::new(),
    }
}

fn of_socket(error: &afxdp::Error) -> Vec<&'static str> {
    use afxdp::Error;
    match error {
        Error::Permission { .. } => RIGHTS.to_vec(),
        Error::LockedMemory { .. } => MEMORY.to_vec(),
        Error::NoAfXdp { .. } => KERNEL.to_vec(),
        Error::NoZeroCopy { .. } | Error::EgressNeedsCopy { .. } => {
            vec!["interface.zero_copy", "interface.driver"]
        }
        Error::NoQueue { .. } => vec!["interface.queues", "interface.driver"],
        Error::NoDevice { .. } => vec!["interface.state"],
        Error::QueueBusy { .. } => vec!["interface.xdp_program"],
        Error::Kernel { source, .. } => of_errno(*source),
        _ => Vec::new(),
    }
}

fn of_device(error: &netdev::Error) -> Vec<&'static str> {
    use netdev::Error;
    match error {
        Error::Permission { .. } => RIGHTS.to_vec(),
        Error::NoVeth => vec!["kernel.veth"],
        Error::Refused { source, .. } => of_errno(*source),
        _ => Vec::new(),
    }
}

/// By the kernel's number alone.
fn of_errno(errno: Errno) -> Vec<&'static str> {
    match errno {
        Errno::PERM | Errno::ACCESS => RIGHTS.to_vec(),
        Errno::BUSY | Errno::EXIST => vec!["interface.xdp_program"],
        Errno::INVAL | Errno::OPNOTSUPP | Errno::RANGE | Errno::NOSPC => DRIVER.to_vec(),
        Errno::NOMEM | Errno::NOBUFS => [&MEMORY[..], &["interface.driver", "interface.queues"]].concat(),
        Errno::NODEV | Errno::NETDOWN | Errno::NXIO => vec!["interface.state"],
        Errno::AFNOSUPPORT | Errno::PROTONOSUPPORT | Errno::NOSYS => KERNEL.to_vec(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use anyhow::Context as _;

    use super::{Errno, explain};
    use crate::netdev;

    #[test]
    fn each_answer_of_the_kernel_leads_to_what_may_be_its_reason() {
        let bind =
            |source| afxdp::Error::Kernel { action: "binding", device: "eth0".into(), queue: 0, source };
        for (errno, expected) in [
            (Errno::PERM, "process.capabilities"),
            (Errno::BUSY, "interface.xdp_program"),
            (Errno::INVAL, "interface.driver"),
            (Errno::OPNOTSUPP, "interface.zero_copy"),
            (Errno::NOMEM, "process.memlock"),
            (Errno::NOBUFS, "process.memlock"),
            (Errno::NETDOWN, "interface.state"),
        ] {
            let error = Err::<(), _>(bind(errno)).context("set-up").expect_err("an error");
            assert!(explain(&error).contains(&expected), "{errno}: {:?}", explain(&error));
        }
        assert!(explain(&anyhow::Error::new(bind(Errno::INTR))).is_empty());
        assert!(explain(&anyhow::anyhow!("something else")).is_empty());
    }

    #[test]
    fn errors_of_attaching_are_found_below_their_context() {
        let refused = |source| xdp_prog::Error::ModeRefused { ifindex: 3, mode: "native", source };
        let error = anyhow::Error::new(refused(io::Error::from_raw_os_error(34))).context("eth0");
        assert!(explain(&error).contains(&"interface.mtu"));
        let other = xdp_prog::Error::OtherProgram { ifindex: 3, program: "id 7".into() };
        assert_eq!(explain(&anyhow::Error::new(other).context("eth0")), ["interface.xdp_program"]);
        let device = anyhow::Error::new(netdev::Error::NoVeth);
        assert_eq!(explain(&device), ["kernel.veth"]);
    }
}
