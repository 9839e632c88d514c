//! What the kernel can, asked without loading the program, and names of programs that others have loaded.

use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{MapType, ProgramType};

use crate::Error;

/// Every type of program that it cannot do without, by the name in `linux/bpf.h`.
const PROGRAMS: [(ProgramType, &str); 2] =
    [(ProgramType::Xdp, "BPF_PROG_TYPE_XDP"), (ProgramType::SkLookup, "BPF_PROG_TYPE_SK_LOOKUP")];

/// Every type of map that is used.
const MAPS: [(MapType, &str); 6] = [
    (MapType::Array, "BPF_MAP_TYPE_ARRAY"),
    (MapType::PercpuArray, "BPF_MAP_TYPE_PERCPU_ARRAY"),
    (MapType::Hash, "BPF_MAP_TYPE_HASH"),
    (MapType::LpmTrie, "BPF_MAP_TYPE_LPM_TRIE"),
    (MapType::Xskmap, "BPF_MAP_TYPE_XSKMAP"),
    (MapType::Sockmap, "BPF_MAP_TYPE_SOCKMAP"),
];

/// The types of programs and maps that are used here and not there in the kernel.
///
/// # Errors
///
/// When the kernel cannot be asked. A kernel that refuses for want of rights looks as if it had nothing, so ask only with
/// CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON.
pub fn missing_types() -> Result<Vec<&'static str>, Error> {
    let mut missing = Vec::new();
    for (kind, name) in PROGRAMS {
        if !kind.is_supported().map_err(|error| Error::from_libbpf(format!("probing {name}"), &error))? {
            missing.push(name);
        }
    }
    for (kind, name) in MAPS {
        if !kind.is_supported().map_err(|error| Error::from_libbpf(format!("probing {name}"), &error))? {
            missing.push(name);
        }
    }
    Ok(missing)
}

/// The name of a loaded program, if the kernel tells (it wants CAP_BPF and CAP_SYS_ADMIN for it).
#[must_use]
pub fn program_name(id: u32) -> Option<String> {
    let info = ProgInfoIter::default().find(|info| info.id == id)?;
    Some(info.name.to_string_lossy().into_owned())
}
