//! The thread that keeps the lists: it alone writes them, and takes out what is over.
//!
//! It has no capability, as no thread of a running instance has; the maps are reached by their descriptors.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use xdp_prog::{List, SourceLists};

use super::file::{FileError, read_all};
use super::table::{Origin, Seconds, Step, Table, Until};
use crate::prefix::Prefix;
use crate::{capabilities, config, counters};

/// How often it looks for what is over, while anything can be. A network may stay this much longer than it says.
const TICK: Duration = Duration::from_secs(1);
/// Networks of a list that are taken out in a tick; those above it have to wait. It takes some ten milliseconds, in which
/// nobody else is answered.
const EXPIRED_PER_TICK: usize = 16_384;
/// Requests that wait for the thread.
const REQUESTS_MAX: usize = 16;
/// A reload of millions of networks takes some seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How often who waits for a reload sees to other duties.
const MEANWHILE: Duration = Duration::from_millis(250);
/// Networks that are shown at a time.
pub const PAGE: usize = 1000;

/// Where networks are entered: the kernel, or a test.
trait Kernel {
    fn enter(&mut self, list: List, network: Prefix) -> Result<(), xdp_prog::Error>;
    fn leave(&mut self, list: List, network: Prefix) -> Result<(), xdp_prog::Error>;
}

impl Kernel for SourceLists {
    fn enter(&mut self, list: List, network: Prefix) -> Result<(), xdp_prog::Error> {
        Self::enter(self, list, network.network(), network.bits())
    }

    fn leave(&mut self, list: List, network: Prefix) -> Result<(), xdp_prog::Error> {
        self.remove(list, network.network(), network.bits())
    }
}

/// Why lists stay as they are.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// A file.
    #[error(transparent)]
    File(#[from] FileError),
    /// The kernel.
    #[error("the lists stay as they are: {0}")]
    Kernel(#[source] xdp_prog::Error),
    /// More than there is room for.
    #[error("there is room for {0} networks in each list; raise lists.room, which takes a restart")]
    Full(usize),
    /// Removing what is not there.
    #[error("{network} is not on the list; {}", match .held_by {
        Some(other) => format!("its sources are there by {other}"),
        None => "nor is a network that holds it".to_owned(),
    })]
    NotListed {
        /// Which.
        network: Prefix,
        /// The longest that holds it.
        held_by: Option<Prefix>,
    },
    /// An end in the past.
    #[error("that time is over already; the host's clock says {0}")]
    Over(jiff::Timestamp),
    /// The thread is gone, or busy.
    #[error("the thread that keeps the lists does not answer; try again")]
    NoAnswer,
}

/// What a reload has changed in a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// Networks on it now.
    pub networks: usize,
    /// New ones.
    pub entered: usize,
    /// Those that have left it.
    pub left: usize,
}

/// What an added network means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    /// False if it was there, and has only got another end.
    pub is_new: bool,
    /// It is denied in vain: it lies in an allowed network.
    pub is_allowed: bool,
}

/// Some networks of a list, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// At most [`PAGE`] of them.
    pub networks: Vec<(Prefix, Until, Origin)>,
    /// Whether there are more behind them.
    pub has_more: bool,
}

/// What is counted, for the status.
#[derive(Debug, Default)]
pub struct Counts {
    lists: [ListCounts; 2],
    /// Reloads that were refused, for a file or by the kernel.
    pub refused: counters::Count,
    /// Reloads that were done.
    pub reloads: counters::Count,
}

#[derive(Debug, Default)]
struct ListCounts {
    networks: counters::Count,
    expired: counters::Count,
}

impl Counts {
    /// Networks on a list.
    #[must_use]
    pub fn networks(&self, list: List) -> u64 {
        self.lists[list as usize].networks.get()
    }

    /// Networks whose time was over.
    #[must_use]
    pub fn expired(&self, list: List) -> u64 {
        self.lists[list as usize].expired.get()
    }
}

/// The lists, and what they are in the kernel.
#[derive(Debug)]
struct Keeper<K> {
    files: config::Lists,
    room: usize,
    kernel: K,
    tables: [Table; 2],
    counts: Arc<Counts>,
}

impl<K: Kernel> Keeper<K> {
    fn new(files: config::Lists, kernel: K) -> Self {
        let room = files.room as usize;
        Self { files, room, kernel, tables: Default::default(), counts: Arc::default() }
    }

    /// Reads the files anew, all or nothing; other files from now on if they are given.
    fn reload(&mut self, files: Option<config::Lists>, now: Seconds) -> Result<[Reloaded; 2], ListError> {
        let files = files.unwrap_or_else(|| self.files.clone());
        let reloaded = self.replace(&files, now);
        match &reloaded {
            Ok(_) => {
                self.files = files;
                self.counts.reloads.add(1);
            }
            Err(error) => {
                self.counts.refused.add(1);
                tracing::warn!(%error, "the lists of sources stay as they are");
            }
        }
        reloaded
    }

    fn replace(&mut self, files: &config::Lists, now: Seconds) -> Result<[Reloaded; 2], ListError> {
        let mut reloaded = [Reloaded::default(); 2];
        let mut next = Vec::new();
        let mut steps = Vec::new();
        for list in List::ALL {
            let networks = read_all(files.files(list), self.room)?;
            let (table, of_list) = self.tables[list as usize].with_files(&networks, now);
            if table.len() > self.room {
                return Err(ListError::Full(self.room));
            }
            let of = &mut reloaded[list as usize];
            of.networks = table.len();
            of.entered = of_list.iter().filter(|step| matches!(step, Step::Enter(_))).count();
            of.left = of_list.len() - of.entered;
            next.push(table);
            steps.extend(of_list.into_iter().map(|step| (list, step)));
        }
        // Nobody who is allowed before and after is denied in between.
        steps.sort_by_key(|(list, step)| match (list, step) {
            (List::Allow, Step::Enter(_)) => 0,
            (List::Deny, Step::Enter(_)) => 1,
            (List::Deny, Step::Leave(_)) => 2,
            (List::Allow, Step::Leave(_)) => 3,
        });
        self.go(&steps)?;
        for (table, of_list) in self.tables.iter_mut().zip(next) {
            *table = of_list;
        }
        self.count();
        Ok(reloaded)
    }

    /// All steps, or none.
    fn go(&mut self, steps: &[(List, Step)]) -> Result<(), ListError> {
        for (index, step) in steps.iter().enumerate() {
            if let Err(error) = self.step(*step) {
                for (list, done) in steps[..index].iter().rev() {
                    let back = match *done {
                        Step::Enter(network) => Step::Leave(network),
                        Step::Leave(network) => Step::Enter(network),
                    };
                    // What was possible a moment ago.
                    if let Err(error) = self.step((*list, back)) {
                        tracing::error!(%error, "a list of sources could not be put back; start again");
                    }
                }
                return Err(ListError::Kernel(error));
            }
        }
        Ok(())
    }

    fn step(&mut self, (list, step): (List, Step)) -> Result<(), xdp_prog::Error> {
        match step {
            Step::Enter(network) => self.kernel.enter(list, network),
            Step::Leave(network) => self.kernel.leave(list, network),
        }
    }

    fn add(&mut self, list: List, network: Prefix, until: Until, now: Seconds) -> Result<Added, ListError> {
        if until <= Until::Time(now) {
            return Err(ListError::Over(jiff::Timestamp::from_second(now.0).unwrap_or_default()));
        }
        let table = &self.tables[list as usize];
        let is_new = table.origin_of(network).is_none();
        if is_new {
            if table.len() >= self.room {
                return Err(ListError::Full(self.room));
            }
            self.kernel.enter(list, network).map_err(ListError::Kernel)?;
        }
        self.tables[list as usize].add(network, until);
        self.count();
        let is_allowed = list == List::Deny && self.tables[List::Allow as usize].holder_of(network).is_some();
        Ok(Added { is_new, is_allowed })
    }

    fn remove(&mut self, list: List, network: Prefix) -> Result<Origin, ListError> {
        let table = &mut self.tables[list as usize];
        let Some(origin) = table.origin_of(network) else {
            return Err(ListError::NotListed { network, held_by: table.holder_of(network) });
        };
        self.kernel.leave(list, network).map_err(ListError::Kernel)?;
        table.remove(network);
        self.count();
        Ok(origin)
    }

    fn page(&self, list: List, after: Option<Prefix>) -> Page {
        let mut from = self.tables[list as usize].iter_from(after);
        let networks = from.by_ref().take(PAGE).collect();
        Page { networks, has_more: from.next().is_some() }
    }

    fn expire(&mut self, now: Seconds) {
        for list in List::ALL {
            let over = self.tables[list as usize].expire(now, EXPIRED_PER_TICK);
            for network in &over {
                if let Err(error) = self.kernel.leave(list, *network) {
                    tracing::error!(%error, "a source whose time is over is still on its list; start again");
                }
            }
            self.counts.lists[list as usize].expired.add(over.len() as u64);
        }
        self.count();
    }

    fn count(&self) {
        for (table, counts) in self.tables.iter().zip(&self.counts.lists) {
            counts.networks.set(table.len() as u64);
        }
    }

    fn ends(&self) -> bool {
        self.tables.iter().any(Table::has_ends)
    }

    fn answer(&mut self, request: Request) {
        let now = wall_clock();
        // Who asked may have gone.
        match request {
            Request::Reload(files, to) => drop(to.send(self.reload(files, now))),
            Request::Add(list, network, until, to) => drop(to.send(self.add(list, network, until, now))),
            Request::Remove(list, network, to) => drop(to.send(self.remove(list, network))),
            Request::Show(list, after, to) => drop(to.send(self.page(list, after))),
            Request::End => {}
        }
    }

    /// Until it is told to end, or everybody who could ask is gone.
    fn run(mut self, requests: &Receiver<Request>) {
        let mut expired = std::time::Instant::now();
        loop {
            let request = if self.ends() {
                requests.recv_timeout(TICK.saturating_sub(expired.elapsed()))
            } else {
                requests.recv().map_err(RecvTimeoutError::from)
            };
            match request {
                Ok(Request::End) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(request) => self.answer(request),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if expired.elapsed() >= TICK {
                expired = std::time::Instant::now();
                self.expire(wall_clock());
            }
        }
    }
}

/// Ends are times of the wall clock: who sets it moves them.
fn wall_clock() -> Seconds {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Seconds(since.as_secs().cast_signed())
}

enum Request {
    Reload(Option<config::Lists>, SyncSender<Result<[Reloaded; 2], ListError>>),
    Add(List, Prefix, Until, SyncSender<Result<Added, ListError>>),
    Remove(List, Prefix, SyncSender<Result<Origin, ListError>>),
    Show(List, Option<Prefix>, SyncSender<Page>),
    End,
}

/// Asks the thread, from any other.
#[derive(Debug, Clone)]
pub struct Handle {
    requests: SyncSender<Request>,
    counts: Arc<Counts>,
}

impl Handle {
    fn ask<T>(&self, request: impl FnOnce(SyncSender<T>) -> Request) -> Result<T, ListError> {
        let (sender, receiver) = sync_channel(1);
        self.requests.try_send(request(sender)).map_err(|_full| ListError::NoAnswer)?;
        receiver.recv_timeout(ANSWER_TIMEOUT).map_err(|_time_out| ListError::NoAnswer)
    }

    /// Reads the files anew, all or nothing; other files from now on if they are given. What was added by command stays. The
    /// two lists as `List` numbers them.
    ///
    /// # Errors
    ///
    /// A file that cannot be used, no room, the kernel's refusal: nothing has changed.
    pub fn reload(&self, files: Option<config::Lists>) -> Result<[Reloaded; 2], ListError> {
        self.ask(|to| Request::Reload(files, to))?
    }

    /// As [`Self::reload`], for a thread with other duties, which it sees to `meanwhile`. It waits for as long as it takes, so that
    /// what it hears is what has become of it.
    ///
    /// # Errors
    ///
    /// As [`Self::reload`].
    pub fn reload_while(
        &self,
        files: config::Lists,
        mut meanwhile: impl FnMut(),
    ) -> Result<[Reloaded; 2], ListError> {
        let (sender, receiver) = sync_channel(1);
        let request = Request::Reload(Some(files), sender);
        self.requests.try_send(request).map_err(|_full| ListError::NoAnswer)?;
        loop {
            match receiver.recv_timeout(MEANWHILE) {
                Ok(reloaded) => return reloaded,
                Err(RecvTimeoutError::Timeout) => meanwhile(),
                Err(RecvTimeoutError::Disconnected) => return Err(ListError::NoAnswer),
            }
        }
    }

    /// Adds a network to a list until the end of the instance, or an earlier time; or gives it another end.
    ///
    /// # Errors
    ///
    /// No room, the kernel's refusal, a time that is over.
    pub fn add(&self, list: List, network: Prefix, until: Until) -> Result<Added, ListError> {
        self.ask(|to| Request::Add(list, network, until, to))?
    }

    /// Takes a network out of a list; one from a file comes back at the next reload.
    ///
    /// # Errors
    ///
    /// That very network is not there.
    pub fn remove(&self, list: List, network: Prefix) -> Result<Origin, ListError> {
        self.ask(|to| Request::Remove(list, network, to))?
    }

    /// Networks of a list behind `after`.
    ///
    /// # Errors
    ///
    /// The thread does not answer.
    pub fn show(&self, list: List, after: Option<Prefix>) -> Result<Page, ListError> {
        self.ask(|to| Request::Show(list, after, to))
    }

    /// What is counted.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

/// The running thread; dropping this ends it.
#[derive(Debug)]
pub struct Keeping {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Keeping {
    /// Reads the files, enters their networks into the empty lists, and keeps them from then on.
    ///
    /// # Errors
    ///
    /// A file that cannot be used, too many networks, or no thread.
    pub fn start(files: &config::Lists, lists: SourceLists) -> anyhow::Result<Self> {
        let mut keeper = Keeper::new(files.clone(), lists);
        let [denied, allowed] = keeper.replace(files, wall_clock())?;
        if denied.networks + allowed.networks > 0 {
            tracing::info!(denied = denied.networks, allowed = allowed.networks, "lists of sources");
        }
        let counts = Arc::clone(&keeper.counts);
        let (requests, receiver) = sync_channel(REQUESTS_MAX);
        let thread = std::thread::Builder::new().name("lists".into()).spawn(move || {
            capabilities::renounce_all_of_thread();
            keeper.run(&receiver);
        });
        let thread = Some(thread.context("cannot start the thread that keeps the lists")?);
        Ok(Self { handle: Handle { requests, counts }, thread })
    }

    /// For whoever asks.
    #[must_use]
    pub const fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        // A thread that panicked is gone already.
        let _gone = self.handle.requests.send(Request::End);
        if let Some(thread) = self.thread.take() {
            let _joined = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
