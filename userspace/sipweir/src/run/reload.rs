//! A running instance takes over a changed configuration: all of it, or nothing.
//!
//! ```text
//!   compare ─▶ what needs a restart? ─▶ make all changes ─▶ XDP program, lists ─▶ side door, workers ─▶ it holds
//!   └────────── a refusal here has changed nothing ─────────────────────┘         cannot fail
//! ```
//!
//! Everything that can be wrong is found before anything changes. The programs come first: what they then let through to
//! the workers is judged there again, by old rules or by new ones, each of which is right for a message that came in between.
//! The workers take their changes between two turns, and are waited for, so that what was answered as applied holds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use xdp_prog::List;

use super::plan::Plan;
use super::{Instance, service_manager};
use crate::change::WorkerChange;
use crate::config::keys::{self, Difference, Reload};
use crate::config::{Config, GateKind, Idle, NotSip};
use crate::lists::file::read_all;
use crate::lists::keeper;
use crate::privileged::Privileged;
use crate::reload::{Changed, Outcome, Reloaded, Restart};

/// A worker turns once a second at the least, and at once when it is roused.
const WORKERS_PATIENCE: Duration = Duration::from_secs(2);
/// Pause between two looks at whether the workers have taken their changes.
const WORKERS_PAUSE: Duration = Duration::from_micros(200);

/// A configuration is some KiB long. More, or what has no end, is not read on behalf of a client.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Reads a file and finds everything that is wrong with it by itself.
pub(super) fn read(file: &Path) -> Result<Config, String> {
    // What cannot be looked at cannot be read either, which is said below.
    if std::fs::metadata(file).is_ok_and(|found| !found.is_file() || found.len() > FILE_BYTES_MAX) {
        return Err(format!("{} is no file of at most {} MiB", file.display(), FILE_BYTES_MAX >> 20));
    }
    let config = Config::read(file).map_err(|error| error.to_string())?;
    super::check(&config).map_err(|error| format!("{}: {error:#}", file.display()))?;
    for list in List::ALL {
        let read = read_all(config.lists.files(list), config.lists.room as usize);
        read.map_err(|error| error.to_string())?;
    }
    Ok(config)
}

impl Instance {
    /// Reads the file of the start again and takes it over, as at SIGHUP.
    pub(super) fn reload_from_file(&mut self) {
        let Some(file) = self.current.get().file.clone() else {
            tracing::warn!("there is no file to be read again: this instance was configured by a program");
            return;
        };
        let reloaded = match read(&file) {
            Ok(next) => self.reload(next, false),
            Err(problem) => refused(Reloaded::unusable(Some(file), problem)),
        };
        // It is in the log.
        drop(reloaded);
    }

    /// Takes a configuration over, or says what would change.
    pub(super) fn reload(&mut self, next: Config, only_check: bool) -> Reloaded {
        let file = next.file.clone();
        let before = self.current.get();
        let found = match keys::differences(&before, &next) {
            Ok(found) => found,
            Err(error) => return refused(Reloaded::unusable(file, error.to_string())),
        };
        let restart = self.needs_restart(&before, &next, &found);
        let changed: Vec<Changed> =
            found.into_iter().map(|Difference { key, from, to, .. }| Changed { key, from, to }).collect();
        let outcome = if only_check { Outcome::WouldApply } else { Outcome::Applied };
        let mut reloaded = Reloaded { outcome, file, changed, restart, ..Reloaded::default() };
        if !reloaded.restart.is_empty() {
            reloaded.outcome = Outcome::Refused;
            return if only_check { reloaded } else { refused(reloaded) };
        }
        let changes = match self.changes_of_workers(&next) {
            Ok(changes) => changes,
            Err(error) => return refused(Reloaded::unusable(reloaded.file, format!("{error:#}"))),
        };
        if only_check {
            return reloaded;
        }
        service_manager::reloading();
        match self.apply(next, changes) {
            Ok(lists) => {
                reloaded.lists = lists;
                let keys: Vec<&str> = reloaded.changed.iter().map(|changed| changed.key.as_str()).collect();
                tracing::info!(keys = keys.join(" "), "took over the configuration");
            }
            Err(error) => reloaded = refused(Reloaded::unusable(reloaded.file, format!("{error:#}"))),
        }
        service_manager::ready(&self.interface.name);
        reloaded
    }

    /// What differs and cannot change while this instance runs: by the table of keys, and by how it was set up.
    fn needs_restart(&self, before: &Config, next: &Config, found: &[Difference]) -> Vec<Restart> {
        let mut needed = Vec::new();
        let mut need = |key: String, reason: &str| needed.push(Restart { key, reason: reason.to_owned() });
        for difference in found {
            if let Reload::Restart(reason) = difference.reload {
                need(difference.key.clone(), reason);
            }
        }
        let services =
            before.service.iter().filter_map(|(name, old)| Some((name, old, next.service.get(name)?)));
        for (name, old, new) in services {
            if (old.gate.kind == GateKind::Fifo) != (new.gate.kind == GateKind::Fifo) {
                need(
                    format!("service.{name}.gate.kind"),
                    "fifo has another waiting line and another XDP program",
                );
            }
            let is_watched = |service: &crate::config::Service| service.monitored().is_all();
            if self.device.is_none() && is_watched(old) && !is_watched(new) {
                let reason = "no hand-off device was made, since all was only watched";
                need(format!("service.{name}.mode"), reason);
            }
        }
        needed
    }

    /// What each worker has to swap.
    pub(super) fn changes_of_workers(&self, next: &Config) -> anyhow::Result<Vec<WorkerChange>> {
        let of_worker = |queue: u32| {
            let services = next.service.iter().enumerate();
            let lanes = services
                .map(|(lane, (name, service))| self.plan.change(lane, name, service, &self.arrivals, queue))
                .collect::<anyhow::Result<_>>()?;
            Ok(WorkerChange {
                lanes,
                privileged: Privileged::new(&next.privileges),
                spin: next.workers.idle == Idle::Spin,
                drop_not_sip: next.xdp.not_sip == NotSip::Drop,
            })
        };
        self.workers.iter().map(|worker| of_worker(worker.queue)).collect()
    }

    /// Tells everybody. An error says that nothing has changed.
    fn apply(
        &mut self,
        next: Config,
        changes: Vec<WorkerChange>,
    ) -> anyhow::Result<BTreeMap<String, keeper::Reloaded>> {
        let settings = Plan::change_settings(&self.settings, &next);
        self.classifier.change(&settings).context("the XDP program keeps its settings")?;
        // Files may have changed since they were looked at, and be longer than there is room for.
        // Millions of networks take longer than the service manager waits for a sign of life.
        let alive = || self.watchdog.look(self.workers.iter().map(|worker| &*worker.counters));
        let lists = match self.lists.handle().reload_while(next.lists.clone(), alive) {
            Ok(lists) => lists,
            Err(error) => {
                // What is taken back was possible before.
                self.classifier
                    .change(&self.settings)
                    .context("the XDP program has settings of two files")?;
                return Err(error.into());
            }
        };
        // Words in memory that is mapped.
        self.door.change(&settings)?;
        self.settings = settings;
        self.tell_workers(next, changes);
        Ok(List::ALL.into_iter().map(|list| (list.name().to_owned(), lists[list as usize])).collect())
    }

    /// Has the workers go by another configuration, which then holds.
    pub(super) fn tell_workers(&mut self, mut next: Config, changes: Vec<WorkerChange>) {
        for (worker, change) in self.workers.iter().zip(changes) {
            // What an earlier change has replaced, if its worker was late.
            drop(worker.changes.taken());
            worker.changes.put(change);
            worker.wake.notify();
        }
        self.wait_for_workers();
        // SIGHUP and a restart read the file of the start, whatever was tried meanwhile.
        next.file.clone_from(&self.current.get().file);
        self.current.set(next);
    }

    fn wait_for_workers(&self) {
        let deadline = Instant::now() + WORKERS_PATIENCE;
        for worker in &self.workers {
            while worker.changes.taken().is_none() {
                if Instant::now() >= deadline || worker.thread.is_finished() {
                    tracing::warn!(
                        queue = worker.queue,
                        "a worker does not turn, so it has not taken the change yet"
                    );
                    break;
                }
                std::thread::sleep(WORKERS_PAUSE);
            }
        }
    }
}

/// Says in the log why nothing has changed.
fn refused(reloaded: Reloaded) -> Reloaded {
    let file = reloaded.file.as_ref().map(|file: &PathBuf| file.display().to_string()).unwrap_or_default();
    tracing::error!(file, "the changed configuration was not taken over: {}", reloaded.text().trim_end());
    reloaded
}
