//! What the live view knows and what its keys change. Pure: statuses and keys come in, `draw` reads.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::rates::{Rates, ServiceRates};
use crate::status::Status;

/// Steps of the gate's history that are kept: more than the columns of any terminal.
const HISTORY: usize = 512;
/// Choices of the pause between two looks. Shorter: the view would show its own noise.
const INTERVALS_MS: [u64; 7] = [200, 500, 1000, 2000, 5000, 10_000, 30_000];
/// A filter is a few letters.
const FILTER_MAX: usize = 24;

/// What a key says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    /// A letter or sign.
    Char(char),
    /// To the row above.
    Up,
    /// To the row below.
    Down,
    /// Back by one.
    Left,
    /// On by one.
    Right,
    /// Ends what is being typed.
    Enter,
    /// Drops what is being typed.
    Escape,
    /// Takes the last letter back.
    Backspace,
    /// Ends it, whatever is being typed.
    Quit,
}

/// Order of the rows of all tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Sort {
    /// The most first.
    #[default]
    Rate,
    /// By name.
    Name,
}

/// Which figures the table of classes shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Classes {
    /// Of the chosen service, at all workers or at the chosen one.
    #[default]
    Service,
    /// Of the XDP program, all services together.
    Kernel,
}

/// What is shown.
#[derive(Debug)]
pub(super) struct State {
    /// The last look, to compare the next one with.
    last: Option<Status>,
    /// What happened between the last two.
    rates: Option<Rates>,
    /// How closed each gate was, 0 to 1, the youngest last.
    history: BTreeMap<String, VecDeque<f64>>,
    /// Why there is nothing new.
    trouble: Option<String>,
    interval: Duration,
    /// Index of the chosen service.
    service: usize,
    /// Index of the chosen worker; `None`: all of them.
    worker: Option<usize>,
    sort: Sort,
    classes: Classes,
    filter: String,
    typing: bool,
    paused: bool,
    help: bool,
    done: bool,
}

impl State {
    /// Before the first look.
    #[must_use]
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            last: None,
            rates: None,
            history: BTreeMap::new(),
            trouble: None,
            interval,
            service: 0,
            worker: None,
            sort: Sort::default(),
            classes: Classes::default(),
            filter: String::new(),
            typing: false,
            paused: false,
            help: false,
            done: false,
        }
    }

    /// Takes a look in: the history goes on in any case, the rest unless paused.
    pub(super) fn look(&mut self, now: Status) {
        self.trouble = None;
        if let Some(last) = &self.last {
            let rates = Rates::between(last, &now);
            for service in &rates.services {
                let history = self.history.entry(service.name.clone()).or_default();
                if history.len() == HISTORY {
                    history.pop_front();
                }
                history.push_back(service.closed);
            }
            if !self.paused || self.rates.is_none() {
                self.service = self.service.min(rates.services.len().saturating_sub(1));
                self.worker = self.worker.filter(|worker| *worker < rates.workers.len());
                self.rates = Some(rates);
            }
        }
        self.last = Some(now);
    }

    /// Notes that nobody answered. What was shown last stays.
    pub(super) fn trouble(&mut self, why: String) {
        self.trouble = Some(why);
        // Whoever answers next need not be the same.
        self.last = None;
    }

    /// Does what a key says.
    pub(super) fn press(&mut self, key: Key) {
        if key == Key::Quit {
            self.done = true;
        }
        if self.typing {
            return self.type_key(key);
        }
        let services = self.rates.as_ref().map_or(0, |rates| rates.services.len());
        let workers = self.rates.as_ref().map_or(0, |rates| rates.workers.len());
        match key {
            Key::Char('q') => self.done = true,
            Key::Char('?' | 'h') => self.help = !self.help,
            Key::Escape if self.help => self.help = false,
            Key::Escape => self.filter.clear(),
            Key::Char('p' | ' ') => self.paused = !self.paused,
            Key::Char('s') => {
                self.sort = if self.sort == Sort::Rate { Sort::Name } else { Sort::Rate };
            }
            Key::Char('x') => {
                self.classes =
                    if self.classes == Classes::Service { Classes::Kernel } else { Classes::Service };
            }
            Key::Char('/' | 'f') => self.typing = true,
            Key::Char('+') => self.interval = self.neighbour(1),
            Key::Char('-') => self.interval = self.neighbour(-1),
            Key::Down | Key::Char('j') => self.service = (self.service + 1).min(services.saturating_sub(1)),
            Key::Up | Key::Char('k') => self.service = self.service.saturating_sub(1),
            Key::Right | Key::Char('l') => {
                self.worker = match self.worker {
                    None => (workers > 0).then_some(0),
                    Some(worker) => (worker + 1 < workers).then_some(worker + 1),
                };
            }
            Key::Left => {
                self.worker = match self.worker {
                    None => workers.checked_sub(1),
                    Some(worker) => worker.checked_sub(1),
                };
            }
            Key::Char(_) | Key::Enter | Key::Backspace | Key::Quit => {}
        }
    }

    fn type_key(&mut self, key: Key) {
        match key {
            Key::Enter => self.typing = false,
            Key::Escape => {
                self.typing = false;
                self.filter.clear();
            }
            Key::Backspace => drop(self.filter.pop()),
            Key::Char(letter) if self.filter.len() < FILTER_MAX => {
                self.filter.extend(letter.to_lowercase());
            }
            _ => {}
        }
    }

    /// The next longer (1) or shorter (−1) pause; one that was given on the command line may lie between two.
    fn neighbour(&self, step: i32) -> Duration {
        let mut choices = INTERVALS_MS.map(Duration::from_millis).into_iter();
        let next = if step > 0 {
            choices.find(|choice| *choice > self.interval)
        } else {
            choices.rfind(|choice| *choice < self.interval)
        };
        next.unwrap_or(self.interval)
    }

    /// What is shown, after the second look.
    #[must_use]
    pub(super) fn rates(&self) -> Option<&Rates> {
        self.rates.as_ref()
    }

    /// The chosen service.
    #[must_use]
    pub(super) fn chosen(&self) -> Option<&ServiceRates> {
        self.rates.as_ref()?.services.get(self.service)
    }

    /// Its index.
    #[must_use]
    pub(super) fn service(&self) -> usize {
        self.service
    }

    /// The chosen worker's index, if it is not all.
    #[must_use]
    pub(super) fn worker(&self) -> Option<usize> {
        self.worker
    }

    /// How closed a service's gate was, the youngest last.
    pub(super) fn history(&self, service: &str) -> impl DoubleEndedIterator<Item = f64> {
        self.history.get(service).into_iter().flatten().copied()
    }

    /// Whether a row is to be shown.
    #[must_use]
    pub(super) fn shows(&self, name: &str) -> bool {
        self.filter.is_empty() || name.to_lowercase().contains(&self.filter)
    }

    /// The order of rows.
    #[must_use]
    pub(super) fn sort(&self) -> Sort {
        self.sort
    }

    /// Which table of classes.
    #[must_use]
    pub(super) fn classes(&self) -> Classes {
        self.classes
    }

    /// The filter, and whether it is being typed.
    #[must_use]
    pub(super) fn filter(&self) -> (&str, bool) {
        (&self.filter, self.typing)
    }

    /// Why there is nothing new.
    #[must_use]
    pub(super) fn why(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Pause between two looks.
    #[must_use]
    pub(super) fn interval(&self) -> Duration {
        self.interval
    }

    /// Whether what is shown stands still.
    #[must_use]
    pub(super) fn is_paused(&self) -> bool {
        self.paused
    }

    /// Whether the keys are explained.
    #[must_use]
    pub(super) fn is_help(&self) -> bool {
        self.help
    }

    /// Whether it is over.
    #[must_use]
    pub(super) fn is_done(&self) -> bool {
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::{Classes, HISTORY, Key, Sort, State};
    use crate::top::testing::status;
    use std::time::Duration;

    fn looked(seconds: u64) -> State {
        let mut state = State::new(Duration::from_secs(1));
        (1..=seconds).for_each(|second| state.look(status(second)));
        state
    }

    #[test]
    fn the_first_look_has_no_rates_and_the_second_has() {
        assert!(looked(1).rates().is_none());
        assert_eq!(looked(2).rates().map(|rates| rates.span_s), Some(1.0));
    }

    #[test]
    fn history_grows_with_each_look_and_is_bounded() {
        let state = looked(4);
        assert_eq!(state.history("main").collect::<Vec<_>>(), [0.5; 3]);
        assert_eq!(looked(HISTORY as u64 + 9).history("main").count(), HISTORY);
        assert_eq!(state.history("nobody").count(), 0);
    }

    #[test]
    fn while_paused_the_figures_stand_still_and_the_history_goes_on() {
        let mut state = looked(2);
        state.press(Key::Char('p'));
        state.look(status(3));
        assert_eq!(state.rates().map(|rates| rates.uptime_s), Some(2.0));
        assert_eq!(state.history("main").count(), 2);
        state.press(Key::Char(' '));
        state.look(status(4));
        assert_eq!(state.rates().map(|rates| rates.uptime_s), Some(4.0));
    }

    #[test]
    fn an_instance_that_is_gone_leaves_its_last_figures_and_the_next_is_another() {
        let mut state = looked(9);
        state.trouble("nobody answers".into());
        assert_eq!((state.why(), state.rates().is_some()), (Some("nobody answers"), true));
        state.look(status(1));
        assert_eq!(state.rates().map(|rates| rates.uptime_s), Some(9.0), "one look makes no rates");
        state.look(status(2));
        assert_eq!((state.why(), state.rates().map(|rates| rates.span_s)), (None, Some(1.0)));
    }

    #[test]
    fn arrows_choose_a_service_and_a_worker_and_stop_at_the_ends() {
        let mut state = looked(2);
        [Key::Up, Key::Down, Key::Down, Key::Char('j')].into_iter().for_each(|key| state.press(key));
        assert_eq!((state.service(), state.chosen().map(|service| &*service.name)), (1, Some("quiet")));
        state.press(Key::Char('k'));
        assert_eq!(state.service(), 0);
        let mut seen = vec![state.worker()];
        for _ in 0..3 {
            state.press(Key::Right);
            seen.push(state.worker());
        }
        assert_eq!(seen, [None, Some(0), Some(1), None]);
        state.press(Key::Left);
        assert_eq!(state.worker(), Some(1));
    }

    #[test]
    fn a_filter_is_typed_until_enter_and_escape_clears_it() {
        let mut state = looked(2);
        [Key::Char('/'), Key::Char('q'), Key::Char('A'), Key::Backspace]
            .into_iter()
            .for_each(|key| state.press(key));
        assert_eq!((state.filter(), state.is_done()), (("q", true), false), "letters are no commands now");
        state.press(Key::Enter);
        assert!(state.shows("Queue") && !state.shows("ack"));
        state.press(Key::Escape);
        assert!(state.shows("ack"));
        (0..100).for_each(|_| state.press(Key::Char('f')));
        assert!(state.filter().0.len() < 30);
    }

    #[test]
    fn keys_change_order_table_interval_and_end_it() {
        let mut state = looked(2);
        "sx+?".chars().for_each(|letter| state.press(Key::Char(letter)));
        assert_eq!((state.sort(), state.classes()), (Sort::Name, Classes::Kernel));
        assert_eq!((state.interval(), state.is_help()), (Duration::from_secs(2), true));
        state.press(Key::Escape);
        assert!(!state.is_help());
        (0..20).for_each(|_| state.press(Key::Char('-')));
        assert_eq!(state.interval(), Duration::from_millis(200));
        state.press(Key::Char('q'));
        assert!(state.is_done());
    }
}
