//! Clock, and what the kernel does with time.

use super::unread;
use crate::doctor::facts::Host;
use crate::doctor::finding::Finding;

/// Sources that the kernel reads without leaving user space (their `vdso_clock_mode` in the kernel is not `NONE`).
const FAST: [&str; 5] =
    ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "riscv_clocksource"];

/// All findings about them.
pub(super) fn findings(host: &Host) -> Vec<Finding> {
    vec![clock(host), busy_poll(host)]
}

fn clock(host: &Host) -> Finding {
    const CHECK: &str = "host.clock_source";
    const WHY: &str = "A worker reads the clock in each turn, and the program for each packet. Some sources answer in 20 ns from \
                       user space, others take a system call and a slow device.";
    let (current, available) = match &host.clock {
        Ok(clock) => clock,
        Err(reason) => return unread(CHECK, "the clock source", reason, WHY),
    };
    if FAST.contains(&current.as_str()) {
        return Finding::fine(CHECK, current.clone(), WHY);
    }
    let finding =
        Finding::warning(CHECK, format!("The clock source is {current:?}, which is slow to read."), WHY);
    match FAST.into_iter().find(|fast| available.iter().any(|name| name == fast)) {
        Some(fast) => finding.command(format!("echo {fast} > /sys/devices/system/clocksource/clocksource0/current_clocksource")),
        None => finding.advice("`dmesg | grep -i clocksource` says why none of the fast ones is there; on machines whose TSC is sound, boot with tsc=reliable"),
    }
}

fn busy_poll(host: &Host) -> Finding {
    const CHECK: &str = "host.busy_poll";
    const WHY: &str = "With it poll(2) spins before it sleeps, also for an idle worker, and takes CPU from the server; sipweir decides \
                       itself when to wait awake (`workers.idle`).";
    match &host.busy_poll {
        Ok(0) => Finding::fine(CHECK, "off (net.core.busy_poll is 0)", WHY),
        Ok(us) => Finding::warning(
            CHECK,
            format!("Every poll(2) on this host spins for up to {us} µs (net.core.busy_poll)."),
            WHY,
        )
        .command("sysctl -w net.core.busy_poll=0"),
        Err(reason) => unread(CHECK, "net.core.busy_poll", reason, WHY),
    }
}
