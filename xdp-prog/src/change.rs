//! What can change while the program runs: words that it reads anew for each packet, and the table of probers.
//!
//! A packet that is decided meanwhile meets each word as it was or as it will be, and what is in both settings holds all the
//! time: new entries come first, and old ones go last. Only [`Settings`] that differ in these are a change; all others are
//! written before the verifier runs. It takes no privilege: words are mapped, and a map is changed by an open descriptor.

use std::collections::BTreeSet;
use std::net::IpAddr;

use libbpf_rs::{MapCore, MapFlags};

use crate::load::{Classifier, missing};
use crate::settings::{EMERGENCY_NUMBERS_MAX, prober_key};
use crate::{Error, Settings};

/// What was told last and is not read back from the kernel.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Keys of the table of probers.
    probers: BTreeSet<[u8; 20]>,
    /// The host's own addresses.
    locals: BTreeSet<IpAddr>,
    /// The side door lets nobody through.
    is_all_monitored: bool,
}

impl Classifier {
    /// Tells the running program what of these settings can change: who is owed a reply, what becomes of what is no SIP,
    /// emergency numbers, probers, and whether all services are only watched. The rest must be as when it was loaded.
    ///
    /// # Errors
    ///
    /// [`Error::Settings`], [`Error::NoMemory`] for the table of probers; nothing has changed then.
    pub fn change(&mut self, settings: &Settings) -> Result<(), Error> {
        settings.check()?;
        let keys = settings.probers.iter().map(|&(network, bits)| prober_key(network, bits));
        let probers: BTreeSet<[u8; 20]> = keys.collect();
        self.enter_probers(&probers)?;

        let data =
            self.skeleton.maps.data_live_data.as_deref_mut().ok_or_else(|| missing("live settings"))?;
        let live = &mut data.live;
        place_numbers(&mut live.emergency_numbers, &settings.emergency_numbers);
        live.has_emergency_numbers = u64::from(!settings.emergency_numbers.is_empty());
        live.has_probers = u64::from(!probers.is_empty());
        live.reply_owed = settings.reply_owed_bits();
        live.not_sip_drop = u64::from(settings.not_sip_drop);

        for gone in self.told.probers.difference(&probers) {
            let deleted = self.skeleton.maps.probers.delete(gone);
            deleted.map_err(|error| Error::from_libbpf("taking out a prober", &error))?;
        }
        self.told.probers = probers;
        self.told.is_all_monitored = settings.is_all_monitored();
        self.tell_locals()
    }

    /// Says which addresses are the host's own: a packet from the wire that claims to come from one of them, and that the
    /// side door would let through for it, is dropped. Nobody is told where all services are only watched.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfTable`] with too many addresses, or what the kernel says. The next call tries again.
    pub fn set_local_addresses(&mut self, addresses: BTreeSet<IpAddr>) -> Result<(), Error> {
        self.told.locals = addresses;
        self.tell_locals()
    }

    fn tell_locals(&mut self) -> Result<(), Error> {
        let told = if self.told.is_all_monitored { BTreeSet::new() } else { self.told.locals.clone() };
        self.locals.set(&self.skeleton.maps.locals, told)
    }

    /// Enters those that are new, all or none.
    fn enter_probers(&self, probers: &BTreeSet<[u8; 20]>) -> Result<(), Error> {
        let table = &self.skeleton.maps.probers;
        let mut entered = Vec::new();
        for new in probers.difference(&self.told.probers) {
            if let Err(error) = table.update(new, &1_u32.to_ne_bytes(), MapFlags::ANY) {
                for undone in entered {
                    // It was entered a moment ago, so it is there.
                    let _deleted = table.delete(undone);
                }
                return Err(Error::from_libbpf("entering a prober", &error));
            }
            entered.push(new);
        }
        Ok(())
    }
}

/// Makes `places` hold these numbers. Those that stay keep their places.
fn place_numbers(places: &mut [u64; EMERGENCY_NUMBERS_MAX], numbers: &[u64]) {
    let mut new: Vec<u64> = numbers.iter().copied().filter(|number| !places.contains(number)).collect();
    // Free ones first: an old number goes as late as can be.
    for is_free in [true, false] {
        for place in places.iter_mut() {
            if (*place == 0) == is_free && !numbers.contains(place) {
                *place = new.pop().unwrap_or(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EMERGENCY_NUMBERS_MAX, place_numbers};

    #[test]
    fn numbers_that_stay_keep_their_places_and_all_fit() {
        let mut places = [0; EMERGENCY_NUMBERS_MAX];
        place_numbers(&mut places, &[110, 112]);
        let kept = places.iter().position(|number| *number == 112);
        place_numbers(&mut places, &[112, 911, 999]);
        assert_eq!(places.iter().position(|number| *number == 112), kept);
        let mut found: Vec<u64> = places.into_iter().filter(|number| *number != 0).collect();
        found.sort_unstable();
        assert_eq!(found, [112, 911, 999]);
        let full: Vec<u64> = (1..=16).collect();
        place_numbers(&mut places, &full);
        places.sort_unstable();
        assert_eq!(places.to_vec(), full);
        place_numbers(&mut places, &[]);
        assert_eq!(places, [0; EMERGENCY_NUMBERS_MAX]);
    }
}
