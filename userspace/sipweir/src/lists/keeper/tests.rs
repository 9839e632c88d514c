use std::collections::BTreeSet;
use std::path::PathBuf;

use xdp_prog::List;

use super::{Added, Keeper, Kernel, ListError, PAGE, Reloaded};
use crate::config::Lists;
use crate::lists::table::{Origin, Seconds, Until};
use crate::prefix::Prefix;

const NOW: Seconds = Seconds(1_800_000_000);

/// Remembers what was entered, and refuses one network.
#[derive(Debug, Default)]
struct Paper {
    entered: BTreeSet<(List, Prefix)>,
    log: Vec<(List, bool, Prefix)>,
    refused: Option<Prefix>,
}

impl Kernel for Paper {
    fn enter(&mut self, list: List, network: Prefix) -> Result<(), xdp_prog::Error> {
        if self.refused == Some(network) {
            return Err(xdp_prog::Error::TestRun("refused".to_owned()));
        }
        assert!(self.entered.insert((list, network)), "{network} entered twice");
        self.log.push((list, true, network));
        Ok(())
    }

    fn leave(&mut self, list: List, network: Prefix) -> Result<(), xdp_prog::Error> {
        assert!(self.entered.remove(&(list, network)), "{network} was not there");
        self.log.push((list, false, network));
        Ok(())
    }
}

fn network(text: &str) -> Prefix {
    text.parse().expect(text)
}

/// Two files, gone at the end, and a keeper that has not read them yet.
struct Desk {
    folder: PathBuf,
    keeper: Keeper<Paper>,
}

impl Desk {
    fn new(name: &str, room: u32) -> Self {
        let folder = std::env::temp_dir().join(format!("sipweir-keeper-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (deny, allow) = (vec![folder.join("deny")], vec![folder.join("allow")]);
        let desk = Self { folder, keeper: Keeper::new(Lists { deny, allow, room }, Paper::default()) };
        desk.write("", "");
        desk
    }

    fn write(&self, deny: &str, allow: &str) {
        for (name, text) in [("deny", deny), ("allow", allow)] {
            std::fs::write(self.folder.join(name), text).expect("a file");
        }
    }

    fn entered(&self) -> Vec<String> {
        let entered = self.keeper.kernel.entered.iter();
        entered.map(|(list, network)| format!("{} {network}", list.name())).collect()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).expect("removed");
    }
}

#[test]
fn a_reload_enters_allowed_networks_first_and_takes_them_out_last() {
    let mut desk = Desk::new("order", 10);
    desk.write("10.0.0.0/8\n", "10.1.0.0/16\n");
    let done = Reloaded { networks: 1, entered: 1, left: 0 };
    assert_eq!(desk.keeper.reload(None, NOW).expect("reloaded"), [done; 2]);
    desk.write("11.0.0.0/8\n", "");
    let [denied, allowed] = desk.keeper.reload(None, NOW).expect("reloaded");
    assert_eq!(denied, Reloaded { networks: 1, entered: 1, left: 1 });
    assert_eq!(allowed, Reloaded { networks: 0, entered: 0, left: 1 });
    let expected = [
        (List::Allow, true, "10.1.0.0/16"),
        (List::Deny, true, "10.0.0.0/8"),
        (List::Deny, true, "11.0.0.0/8"),
        (List::Deny, false, "10.0.0.0/8"),
        (List::Allow, false, "10.1.0.0/16"),
    ];
    assert_eq!(desk.keeper.kernel.log, expected.map(|(list, enters, text)| (list, enters, network(text))));
    assert_eq!((desk.keeper.counts.reloads.get(), desk.keeper.counts.networks(List::Deny)), (2, 1));
}

#[test]
fn a_reload_that_fails_anywhere_changes_nothing() {
    let mut desk = Desk::new("fails", 3);
    desk.write("192.0.2.1\n192.0.2.2\n", "192.0.2.0/24\n");
    desk.keeper.reload(None, NOW).expect("reloaded");
    let before = desk.entered();
    desk.write("192.0.2.3\n", "no network\n");
    assert!(matches!(desk.keeper.reload(None, NOW), Err(ListError::File(_))));
    assert_eq!(desk.entered(), before);
    desk.write("192.0.2.3\n192.0.2.4\n", "");
    desk.keeper.kernel.refused = Some(network("192.0.2.4"));
    assert!(matches!(desk.keeper.reload(None, NOW), Err(ListError::Kernel(_))));
    assert_eq!(desk.entered(), before);
    desk.keeper.kernel.refused = None;
    desk.write("192.0.2.1\n192.0.2.2\n192.0.2.3\n", "192.0.2.0/24\n");
    desk.keeper.add(List::Deny, network("192.0.2.9"), Until::Ever, NOW).expect("added");
    assert!(matches!(desk.keeper.reload(None, NOW), Err(ListError::Full(3))), "with what was added");
    assert_eq!(desk.entered().len(), before.len() + 1);
    assert_eq!(desk.keeper.counts.refused.get(), 3);
    // And other files count only if they can be used.
    let elsewhere = Lists { deny: vec![desk.folder.join("nowhere")], ..Lists::default() };
    assert!(desk.keeper.reload(Some(elsewhere), NOW).is_err());
    desk.write("", "");
    desk.keeper.reload(None, NOW).expect("the files of before");
    assert_eq!(desk.entered(), ["deny 192.0.2.9/32"]);
}

#[test]
fn networks_are_added_and_removed_one_by_one() {
    let mut desk = Desk::new("one", 2);
    desk.write("192.0.2.0/24\n", "");
    desk.keeper.reload(None, NOW).expect("reloaded");
    let keeper = &mut desk.keeper;
    let one = network("192.0.2.1");
    let added = |is_new, is_allowed| Added { is_new, is_allowed };
    assert_eq!(keeper.add(List::Deny, one, Until::Ever, NOW).expect("added"), added(true, false));
    assert_eq!(keeper.add(List::Deny, one, Until::Ever, NOW).expect("there"), added(false, false));
    assert!(matches!(keeper.add(List::Deny, network("::1"), Until::Ever, NOW), Err(ListError::Full(2))));
    assert!(matches!(keeper.add(List::Allow, one, Until::Time(NOW), NOW), Err(ListError::Over(_))));
    assert_eq!(keeper.remove(List::Deny, one).expect("removed"), Origin::Command);
    let error = keeper.remove(List::Deny, one).expect_err("gone").to_string();
    assert!(error.contains("by 192.0.2.0/24"), "{error}");
    keeper.add(List::Allow, network("192.0.0.0/16"), Until::Ever, NOW).expect("added");
    assert_eq!(keeper.add(List::Deny, one, Until::Ever, NOW).expect("added"), added(true, true), "in vain");
    assert_eq!(keeper.remove(List::Deny, network("192.0.2.0/24")).expect("removed"), Origin::File);
    assert_eq!(desk.entered(), ["deny 192.0.2.1/32", "allow 192.0.0.0/16"]);
    let [denied, _] = desk.keeper.reload(None, NOW).expect("reloaded");
    assert_eq!(denied.entered, 1, "what was from the file comes back");
}

#[test]
fn what_is_over_leaves_the_kernel_and_is_counted() {
    let mut desk = Desk::new("over", 10);
    desk.write("192.0.2.1 2027-01-15T08:00:05Z\n192.0.2.2\n", "192.0.2.3 2027-01-15T08:00:04Z\n");
    desk.keeper.reload(None, NOW).expect("reloaded");
    assert!(desk.keeper.ends());
    desk.keeper.expire(Seconds(NOW.0 + 3));
    assert_eq!(desk.entered().len(), 3);
    desk.keeper.expire(Seconds(NOW.0 + 5));
    assert_eq!(desk.entered(), ["deny 192.0.2.2/32"]);
    assert!(!desk.keeper.ends());
    let counts = &desk.keeper.counts;
    assert_eq!((counts.expired(List::Deny), counts.expired(List::Allow)), (1, 1));
    assert_eq!((counts.networks(List::Deny), counts.networks(List::Allow)), (1, 0));
}

#[test]
fn a_long_list_is_shown_page_by_page() {
    let mut desk = Desk::new("pages", 5000);
    let text: String = (0..2500).map(|n| format!("10.0.{}.{}\n", n / 250, n % 250)).collect();
    desk.write(&text, "");
    desk.keeper.reload(None, NOW).expect("reloaded");
    let (mut seen, mut after) = (0, None);
    loop {
        let page = desk.keeper.page(List::Deny, after);
        seen += page.networks.len();
        after = page.networks.last().map(|(network, ..)| *network);
        if !page.has_more {
            break;
        }
        assert_eq!(page.networks.len(), PAGE);
    }
    assert_eq!(seen, 2500);
}

#[test]
fn who_waits_for_a_long_reload_sees_to_other_duties_and_hears_what_became_of_it() {
    let (requests, receiver) = std::sync::mpsc::sync_channel(1);
    let handle = super::Handle { requests, counts: std::sync::Arc::default() };
    let busy = std::thread::spawn(move || {
        let super::Request::Reload(_, to) = receiver.recv().expect("a request") else { panic!("a reload") };
        std::thread::sleep(3 * super::MEANWHILE);
        to.send(Ok([Reloaded { networks: 7, ..Reloaded::default() }; 2])).expect("it is waited for");
        // Then it is gone in the middle of the next one.
        drop(receiver.recv().expect("a request"));
    });
    let mut looked = 0;
    let reloaded = handle.reload_while(Lists::default(), || looked += 1).expect("reloaded");
    assert_eq!(reloaded[0].networks, 7);
    assert!(looked >= 1, "nobody looked after anything else");
    let gone = handle.reload_while(Lists::default(), || ());
    assert!(matches!(gone, Err(ListError::NoAnswer)), "{gone:?}");
    busy.join().expect("joined");
}
