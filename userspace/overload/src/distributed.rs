//! Distributed control: how many requests an edge sends to a core, decided at the edge.
//!
//! A gate protects the server that it stands in front of; each refusal still costs it something. Here those who send hold
//! back by themselves. An edge keeps one control for each core that it sends to:
//!
//! ```text
//!           ask: may it be sent?                    requests
//!   calls ─────────────────────► edge ═══════════════════════════════► core
//!           no: refused here      ▲                                     │
//!                                 └── hear: code, delay, oc parameters ◄┘
//! ```
//!
//! | control | learns from | limits |
//! |---|---|---|
//! | [`Uncontrolled`] | nothing | nothing |
//! | [`Deoc`] | the share of 503 in a period | a rate, additive increase and multiplicative decrease |
//! | [`Peoc`] | the delay of probes | the same rate |
//! | [`LossControl`] | `oc` as a percentage (RFC 7339, `loss`) | the share that is sent |
//! | [`RateControl`] | `oc` as a rate (RFC 7415, `rate`) | the rate that is sent |
//!
//! Of another kind are [`RateShare`], the core's side of RFC 7415, and [`Notifier`], which limits what a presence server
//! *tells* its watchers. The core's side of RFC 7339 is [`crate::Feedback`].
//!
//! Categories say what is given up first: the first category is what control reduces, later ones (emergency calls,
//! requests within dialogs) are touched only when that does not suffice, or never.
//!
//! What is not here: refusing (`gate`), networks, clocks, dice. A draw comes as a parameter, so
//! that a simulation has one seeded stream for each purpose, and a live edge may use a hash of the transaction.

mod adaptive;
mod announced;
mod any;
mod deoc;
mod leaky_bucket;
mod loss;
mod notifier;
mod peoc;
mod rate;
mod rate_share;

pub use adaptive::AdaptiveConfig;
pub use announced::{Algorithm, Announcement};
pub use any::{AnyControl, ControlConfig, Uncontrolled};
pub use deoc::{Deoc, DeocConfig};
pub use loss::{LossConfig, LossControl};
pub use notifier::Notifier;
pub use peoc::{Peoc, PeocConfig};
pub use rate::{RateControl, RateControlConfig};
pub use rate_share::{RateShare, RateShareConfig};

use crate::Nanos;

/// Most categories that a control tells apart.
pub const CATEGORIES_MAX: usize = 8;

/// In which order requests are given up; RFC 7339 section 7.2 numbers the categories from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Category(u8);

impl Category {
    /// The category that is reduced first (category 1 of RFC 7339).
    pub const FIRST: Self = Self(0);
    /// The category that is reduced when the first is used up (category 2).
    pub const SECOND: Self = Self(1);

    /// The category with this place in the order of reduction, counted from 0; the last one for all beyond it.
    #[must_use]
    pub const fn new(place: u8) -> Self {
        if (place as usize) < CATEGORIES_MAX { Self(place) } else { Self(CATEGORIES_MAX as u8 - 1) }
    }

    /// The place in the order of reduction among `categories`.
    const fn place_of(self, categories: usize) -> usize {
        let place = self.0 as usize;
        if place < categories { place } else { categories - 1 }
    }
}

/// The final answer to one request, or that none came.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Response {
    /// SIP status; 0 when the transaction timed out.
    pub code: u16,
    /// From the first copy of the request to the answer, or to the time-out.
    pub delay_ns: Nanos,
    /// It answers a probe.
    pub is_probe: bool,
    /// The overload control parameters of its top Via.
    pub announcement: Option<Announcement>,
}

impl Response {
    /// A plain answer without overload control parameters.
    #[must_use]
    pub const fn new(code: u16, delay_ns: Nanos) -> Self {
        Self { code, delay_ns, is_probe: false, announcement: None }
    }

    /// Service Unavailable, the one code that says overload (RFC 3261 section 21.5.4).
    const fn is_refusal(&self) -> bool {
        self.code == 503
    }
}

/// An edge's control towards one core. Times never go back; one that does is taken as no progress.
pub trait ClientControl {
    /// Whether a request of this category may be sent now. `draw` is uniform over all numbers. The caller sends exactly
    /// what is allowed.
    fn ask(&mut self, now: Nanos, category: Category, draw: u32) -> bool;

    /// Notes what became of a request or probe that was sent.
    fn hear(&mut self, now: Nanos, response: &Response);

    /// Whether a probe shall be sent now, beside all requests. When to ask next is for [`ClientControl::next_probe`].
    fn probe(&mut self, _now: Nanos) -> bool {
        false
    }

    /// When the next probe is due, if there are any.
    fn next_probe(&self) -> Option<Nanos> {
        None
    }
}
