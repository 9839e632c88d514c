//! What each program that asks for services (`services.h`) is loaded with: read-only data before it is loaded, the table
//! after; and how a table with a copy for each CPU is read.

use std::mem::MaybeUninit;

use libbpf_rs::{MapCore, MapFlags, OpenObject};

use crate::settings::service_key;
use crate::{Error, Settings};

/// Writes the read-only data of `services.h`. A macro, since each program's generated code has a type of its own for it.
macro_rules! write_services {
    ($rodata:expr, $settings:expr) => {{
        let (rodata, settings): (_, &$crate::Settings) = (&mut *$rodata, $settings);
        rodata.service_ports = settings.port_bitmap();
        rodata.has_exact_v4 = settings.has_exact_v4().into();
        rodata.has_exact_v6 = settings.has_exact_v6().into();
        rodata.has_any_address = settings.has_any_address().into();
        if let Some(first) = settings.services.first() {
            let place = &mut rodata.first_service;
            (place.address, place.port, place.family) = $crate::settings::service_key(first).fields();
        }
    }};
}
pub(crate) use write_services;

/// Fills the service table.
pub(crate) fn enter_services(table: &impl MapCore, settings: &Settings) -> Result<(), Error> {
    for (index, service) in (0_u32..).zip(&settings.services) {
        let entered = table.update(&service_key(service).bytes(), &index.to_ne_bytes(), MapFlags::NO_EXIST);
        entered.map_err(|error| Error::from_libbpf(format!("entering service {index}"), &error))?;
    }
    Ok(())
}

/// A place for libbpf's object, which the generated code borrows. It has the size of a pointer and is never freed, so load once
/// a process, not once a packet.
pub(crate) fn object_place() -> &'static mut MaybeUninit<OpenObject> {
    Box::leak(Box::new(MaybeUninit::uninit()))
}

/// An entry of words, summed over CPUs; `what` is what is counted there.
pub(crate) fn sum_of_cpus<const WORDS: usize>(
    table: &impl MapCore,
    key: u32,
    what: &str,
) -> Result<[u64; WORDS], Error> {
    let tables = table.lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY);
    let tables =
        tables.map_err(|error| Error::from_libbpf(format!("reading the counters of {what}"), &error))?;
    let mut sums = [0_u64; WORDS];
    for table in tables.unwrap_or_default() {
        for (sum, word) in sums.iter_mut().zip(table.as_chunks::<8>().0) {
            *sum += u64::from_ne_bytes(*word);
        }
    }
    Ok(sums)
}
