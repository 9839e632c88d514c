//! Where and how the numbers came about, so that others can be compared with them.

use std::fs;

use serde::Serialize;

use super::plan::{Marker, Plan, ServiceTime};
use crate::status::Mode;

/// The conditions of a demo.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Environment {
    pub(super) version: &'static str,
    /// `debug` builds are slower.
    pub(super) build: &'static str,
    pub(super) kernel: String,
    pub(super) architecture: String,
    pub(super) cpu_model: String,
    pub(super) cores: usize,
    pub(super) worker_core: usize,
    pub(super) caller_core: usize,
    /// Both sides of the wire are on this machine.
    pub(super) network: &'static str,
    /// `native` or `generic`; known after the first run.
    pub(super) xdp: String,
    /// `copy` or `zero_copy`; known after the first run.
    pub(super) af_xdp: String,
    pub(super) quick: bool,
    pub(super) warm_up_s: f64,
    pub(super) window_s: f64,
    pub(super) tail_s: f64,
    pub(super) service_time: ServiceTime,
    pub(super) marker: Marker,
    /// The large buffer of `fifo` and `priority`.
    pub(super) buffer_messages: u32,
    pub(super) seed: u64,
}

impl Environment {
    pub(super) fn read(plan: &Plan) -> Self {
        let system = rustix::system::uname();
        let text = |name: &std::ffi::CStr| name.to_string_lossy().into_owned();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
            kernel: text(system.release()),
            architecture: text(system.machine()),
            cpu_model: cpu_model(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            cores: crate::cores::available().len(),
            worker_core: plan.worker_core,
            caller_core: plan.caller_core,
            network: "veth pair between two network namespaces, one queue",
            xdp: String::new(),
            af_xdp: String::new(),
            quick: plan.quick,
            warm_up_s: plan.phases.warm_up.as_secs_f64(),
            window_s: plan.phases.window.as_secs_f64(),
            tail_s: plan.phases.tail.as_secs_f64(),
            service_time: plan.service_time,
            marker: plan.marker,
            buffer_messages: plan.buffer(),
            seed: plan.seed,
        }
    }

    pub(super) fn obtained(&mut self, mode: &Mode) {
        self.xdp.clone_from(&mode.xdp);
        self.af_xdp.clone_from(&mode.af_xdp);
    }
}

/// The processor's name; ARM systems give none in this file.
fn cpu_model(cpuinfo: &str) -> String {
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or("unknown", |(_, name)| name.trim()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::cpu_model;

    #[test]
    fn the_processor_is_named_or_unknown() {
        assert_eq!(
            cpu_model("processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\nflags: x\n"),
            "Some CPU @ 2.0GHz"
        );
        assert_eq!(cpu_model("processor\t: 0\nBogoMIPS\t: 50\n"), "unknown");
    }
}
