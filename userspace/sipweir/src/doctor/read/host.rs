//! Facts of the host that belong to no interface.

use std::collections::BTreeMap;
use std::fs;

use super::{core_number, of_netdev, optional, text};
use crate::doctor::check::parse_list;
use crate::doctor::facts::{Host, Reading, Unread};
use crate::netdev;
use crate::sip_helper::{self, SipHelper};

const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0";
const NODES: &str = "/sys/devices/system/node";

/// This host.
pub(super) fn host() -> Host {
    Host {
        sip_helper: sip_helper(&sip_helper::Paths::default()),
        firewall: of_netdev(netdev::Firewall::read()),
        legacy_tables: legacy_tables(),
        clock: clock(),
        busy_poll: core_number("busy_poll"),
        backlog: core_number("netdev_max_backlog"),
        cpus: cpus(),
        nodes: nodes(),
    }
}

/// What cannot be read says nothing to [`SipHelper`], so one of the two lists of modules must be there.
fn sip_helper(paths: &sip_helper::Paths) -> Reading<Option<SipHelper>> {
    if let Err(error) = fs::read_to_string(&paths.modules)
        && !paths.sys_module.is_dir()
    {
        return Err(Unread(format!("{}: {error}", paths.modules.display())));
    }
    Ok(SipHelper::find(paths))
}

fn legacy_tables() -> Reading<Vec<String>> {
    let mut tables = Vec::new();
    for family in ["ip", "ip6"] {
        let names = optional(format!("/proc/thread-self/net/{family}_tables_names"))?.unwrap_or_default();
        tables.extend(names.lines().map(|table| format!("{family} {table}")));
    }
    Ok(tables)
}

fn clock() -> Reading<(String, Vec<String>)> {
    let available = text(format!("{CLOCK}/available_clocksource"))?;
    let current = text(format!("{CLOCK}/current_clocksource"))?;
    Ok((current, available.split_whitespace().map(str::to_owned).collect()))
}

/// Those that could be on, as drivers count them; the ones there are if that is not told.
fn cpus() -> usize {
    let possible = text("/sys/devices/system/cpu/possible").ok().and_then(|list| parse_list(&list));
    possible.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), |list| list.len())
}

fn nodes() -> Reading<Option<BTreeMap<u32, Vec<usize>>>> {
    let entries = match fs::read_dir(NODES) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Unread(format!("{NODES}: {error}"))),
    };
    let mut nodes = BTreeMap::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(node) = name.strip_prefix("node").and_then(|number| number.parse().ok()) else { continue };
        let path = entry.path().join("cpulist");
        let list = text(&path)?;
        let cores = parse_list(&list);
        nodes.insert(
            node,
            cores.ok_or_else(|| Unread(format!("{} says {list:?}, which is no list", path.display())))?,
        );
    }
    Ok(Some(nodes))
}

#[cfg(test)]
mod tests {
    use super::sip_helper;
    use crate::sip_helper::Paths;

    #[test]
    fn where_no_list_of_modules_can_be_read_the_helper_is_unknown() {
        let nowhere = std::path::PathBuf::from("/proc/sipweir-is-not-here");
        let paths = Paths { modules: nowhere.clone(), sys_module: nowhere, ..Paths::default() };
        let reason = sip_helper(&paths).expect_err("nothing to read").to_string();
        assert!(reason.starts_with("/proc/sipweir-is-not-here: "), "{reason}");
        assert!(sip_helper(&Paths { sys_module: "/sys/module".into(), ..paths }).is_ok());
    }
}
