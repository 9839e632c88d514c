//! Whether the kernel has what sipweir is made of, and whether this process may use it.

use super::unread;
use crate::doctor::facts::{Facts, Kernel, Process, Wanted};
use crate::doctor::finding::Finding;

/// The oldest kernel that the tests run on (`cargo xtask kernel`).
const OLDEST: (u32, u32) = (6, 1);

/// Why this matters in each finding about rights, and in the error of a start without them.
pub(super) const CAPABILITIES_WHY: &str = "Loading and attaching the XDP program takes CAP_BPF, CAP_PERFMON (without it the \
    verifier refuses packet offsets that are not constant) and CAP_NET_ADMIN; AF_XDP and raw sockets take CAP_NET_RAW; \
    CAP_IPC_LOCK lifts the limit of locked memory.";

/// All findings about kernel and process.
pub(super) fn findings(facts: &Facts, wanted: &Wanted) -> Vec<Finding> {
    let queues = match &facts.interface {
        Some(Ok(interface)) => interface.rx_queues,
        _ => 1,
    };
    let kernel = &facts.kernel;
    vec![
        version(kernel),
        af_xdp(kernel),
        bpf(kernel),
        programs(kernel),
        jit(kernel),
        veth(kernel, wanted),
        capabilities(&facts.process),
        user_namespace(&facts.process),
        memlock(&facts.process, wanted, queues),
    ]
}

fn version(kernel: &Kernel) -> Finding {
    const CHECK: &str = "kernel.version";
    const WHY: &str = "sipweir is tested from Linux 6.1 on; older kernels refuse its programs.";
    let release = match &kernel.release {
        Ok(release) => release,
        Err(reason) => return unread(CHECK, "the kernel's version", reason, WHY),
    };
    match numbers(release) {
        Some(numbers) if numbers >= OLDEST => Finding::fine(CHECK, format!("Linux {release}"), WHY),
        Some(_) => Finding::failure(CHECK, format!("Linux {release} is older than 6.1."), WHY)
            .advice("install a kernel of version 6.1 or newer and boot it"),
        None => Finding::unknown(CHECK, format!("{release:?} is no version that can be read."), WHY)
            .command("uname -r"),
    }
}

/// The first two numbers of a release such as `6.1.0-18-amd64`.
pub(super) fn numbers(release: &str) -> Option<(u32, u32)> {
    let (major, rest) = release.split_once('.')?;
    let minor = rest.split(|character: char| !character.is_ascii_digit()).next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn af_xdp(kernel: &Kernel) -> Finding {
    const CHECK: &str = "kernel.af_xdp";
    const WHY: &str = "Packets reach the workers by AF_XDP sockets.";
    match &kernel.af_xdp {
        Ok(true) => Finding::fine(CHECK, "AF_XDP sockets can be opened", WHY),
        Ok(false) => Finding::failure(CHECK, "This kernel has no AF_XDP sockets.", WHY)
            .advice("boot a kernel with CONFIG_XDP_SOCKETS=y; distributions' usual kernels have it"),
        Err(reason) => unread(CHECK, "whether there are AF_XDP sockets", reason, WHY),
    }
}

fn bpf(kernel: &Kernel) -> Finding {
    const CHECK: &str = "kernel.bpf";
    const WHY: &str = "The XDP program sorts packets, the sk_lookup program catches what the stack put together, and both \
                       keep tables.";
    match &kernel.missing_bpf {
        Ok(missing) if missing.is_empty() => {
            Finding::fine(CHECK, "all types of BPF programs and maps that are used are there", WHY)
        }
        Ok(missing) => Finding::failure(CHECK, format!("This kernel lacks {}.", missing.join(", ")), WHY)
            .advice("boot a kernel with CONFIG_BPF_SYSCALL=y, CONFIG_XDP_SOCKETS=y and CONFIG_INET=y, of version 6.1 or newer"),
        Err(reason) => unread(CHECK, "which BPF programs the kernel takes", reason, WHY),
    }
}

fn programs(kernel: &Kernel) -> Finding {
    const CHECK: &str = "kernel.programs";
    const WHY: &str =
        "The kernel's verifier decides whether sipweir's programs may run; it depends on version and rights.";
    match &kernel.load {
        Ok(Ok(())) => Finding::fine(CHECK, "sipweir's programs pass the verifier", WHY),
        Ok(Err(said)) => Finding::failure(CHECK, format!("sipweir's programs are refused: {said}."), WHY)
            .advice("mend the other failures first; if there are none, report this with `uname -r`"),
        Err(reason) => unread(CHECK, "whether sipweir's programs pass the verifier", reason, WHY),
    }
}

fn jit(kernel: &Kernel) -> Finding {
    const CHECK: &str = "kernel.jit";
    const WHY: &str = "Each packet runs through the XDP program: interpreted it costs several times as much as compiled, \
                       and hardened compilation hides its constants at a price for every instruction.";
    match (&kernel.jit, &kernel.jit_harden) {
        (Err(reason), _) => unread(CHECK, "whether BPF is compiled", reason, WHY),
        (Ok(0), _) => {
            Finding::warning(CHECK, "BPF programs are interpreted (net.core.bpf_jit_enable is 0).", WHY)
                .command("sysctl -w net.core.bpf_jit_enable=1")
        }
        (Ok(2), _) => Finding::warning(
            CHECK,
            "BPF programs are dumped into the kernel log (net.core.bpf_jit_enable is 2).",
            WHY,
        )
        .command("sysctl -w net.core.bpf_jit_enable=1"),
        (Ok(_), Ok(2)) => Finding::warning(
            CHECK,
            "BPF programs of root are hardened, too (net.core.bpf_jit_harden is 2).",
            WHY,
        )
        .command("sysctl -w net.core.bpf_jit_harden=1"),
        (Ok(_), Err(reason)) => unread(CHECK, "whether BPF is hardened", reason, WHY),
        (Ok(_), Ok(_)) => Finding::fine(CHECK, "BPF programs are compiled", WHY),
    }
}

fn veth(kernel: &Kernel, wanted: &Wanted) -> Finding {
    const CHECK: &str = "kernel.veth";
    const WHY: &str = "Messages reach a server on this host by a veth pair that sipweir makes.";
    if !wanted.kernel_handoff {
        return Finding::fine(CHECK, "not needed: no service has handoff = \"kernel\"", WHY);
    }
    match &kernel.veth {
        Ok(true) => Finding::fine(CHECK, "veth devices can be made", WHY),
        Ok(false) => Finding::failure(CHECK, "This kernel has no veth devices.", WHY)
            .command("modprobe veth")
            .advice("if there is no such module: boot a kernel with CONFIG_VETH"),
        Err(reason) => unread(CHECK, "whether there are veth devices", reason, WHY),
    }
}

fn capabilities(process: &Process) -> Finding {
    const CHECK: &str = "process.capabilities";
    let missing = match &process.missing_capabilities {
        Ok(missing) => missing,
        Err(reason) => return unread(CHECK, "this process's capabilities", reason, CAPABILITIES_WHY),
    };
    // Without it the limit of locked memory decides, which is a finding of its own.
    let fatal = missing.iter().any(|&name| name != "CAP_IPC_LOCK");
    let names = missing.iter().copied().collect::<Vec<_>>().join(", ");
    let what = format!("This process lacks {names}.");
    let unit = "AmbientCapabilities=CAP_BPF CAP_PERFMON CAP_NET_ADMIN CAP_NET_RAW CAP_IPC_LOCK";
    let advice = format!("run as root, or put into the unit: {unit}");
    match (missing.is_empty(), fatal) {
        (true, _) => Finding::fine(CHECK, "all five are there", CAPABILITIES_WHY),
        (_, true) => Finding::failure(CHECK, what, CAPABILITIES_WHY).advice(advice),
        (_, false) => Finding::warning(CHECK, what, CAPABILITIES_WHY).advice(advice),
    }
}

fn user_namespace(process: &Process) -> Finding {
    const CHECK: &str = "process.user_namespace";
    const WHY: &str = "Capabilities of a user namespace do not count for BPF, whatever their names.";
    match &process.is_initial_user_namespace {
        Ok(true) => Finding::fine(CHECK, "the host's own", WHY),
        Ok(false) => Finding::failure(CHECK, "This process is in a user namespace of its own, as in a rootless container.", WHY)
            .advice("run sipweir on the host, or in a container without user namespace (--privileged, or --userns=host with the capabilities)"),
        Err(reason) => unread(CHECK, "whether this is the host's user namespace", reason, WHY),
    }
}

fn memlock(process: &Process, wanted: &Wanted, queues: u32) -> Finding {
    const CHECK: &str = "process.memlock";
    const WHY: &str =
        "Frames are memory that the NIC writes to, so it is locked; above the limit the kernel refuses them.";
    let needed = wanted.locked_per_queue.saturating_mul(u64::from(queues));
    let is_exempt = matches!(&process.missing_capabilities, Ok(missing) if !missing.contains("CAP_IPC_LOCK"));
    let mib = |bytes: u64| bytes.div_ceil(1024 * 1024);
    match &process.memlock {
        _ if is_exempt => {
            Finding::fine(CHECK, format!("CAP_IPC_LOCK: no limit for the {} MiB of frames", mib(needed)), WHY)
        }
        Ok(None) => Finding::fine(CHECK, format!("no limit for the {} MiB of frames", mib(needed)), WHY),
        Ok(Some(limit)) if *limit >= needed => Finding::fine(
            CHECK,
            format!("{} MiB, {} are needed for frames", limit / (1024 * 1024), mib(needed)),
            WHY,
        ),
        Ok(Some(limit)) => Finding::failure(
            CHECK,
            format!(
                "The limit of locked memory is {} KiB; the frames need {} MiB (RX queues: {queues}).",
                limit / 1024,
                mib(needed)
            ),
            WHY,
        )
        .command("ulimit -l unlimited")
        .advice("in a unit: LimitMEMLOCK=infinity, or CAP_IPC_LOCK; or lower frames.count"),
        Err(reason) => unread(CHECK, "the limit of locked memory", reason, WHY),
    }
}
