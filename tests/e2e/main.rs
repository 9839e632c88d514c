//! End to end, in network namespaces. Needs root, SIPp, Kamailio and Sofia-SIP: `cargo xtask test` installs them.
//!
//! | module | topology | what it proves |
//! |---|---|---|
//! | `namespaces` | any | what a test makes is gone after it, also when it panics |
//! | `commands` | – | `classify`, `check` and `demo` as a user calls them |
//! | `guarded` | callers – sipweir – server | the main job: best at 3 × the load, priority over copies, server gone |
//! | `stacks` | callers – sipweir – server (– phones) | Kamailio as registrar and proxy, Sofia-SIP: admitted calls complete at 3 × the load |
//! | `transactions` | client – sipweir – server, byte for byte | refused: one answer, one ACK, nothing at the server; handed over: the server repairs a lost answer |
//! | `starvation` | callers, flooder – sipweir – slow server | floods of keep-alives, of what is no SIP, and of forged BYEs take nothing from calls below capacity |
//! | `side_door` | callers – sipweir – server | fragments, options and stacked devices pass the gate too |
//! | `limits` | callers – sipweir, embedded | a cap on originals, set and taken back under load: no ban, and every packet counted |
//! | `lists` | callers – sipweir – server | denied sources get nothing through, allowed ones do; a time that is over; 100,000 networks |
//! | `monitor` | callers – sipweir, watching – server | everything passes, and what would have been done is counted |
//! | `memory` | sipweir alone | the memory formula of `docs/operations.md` |
//! | `log` | callers – sipweir (– server) | changes of state as text, JSON and for the journal; a reader that hangs holds nobody up |
//! | `privileges` | callers – sipweir – server | no capability after set-up; as by its unit file: user, seccomp, address families |
//! | `recipes` | callers – sipweir – server | the files that `docs/recipes.md` prints |
//! | `doctor` | callers – server | what is wrong with host and interface is found, with exit status and command; so after a failed start |
//! | `monitoring` | callers – sipweir, embedded | a scrape is OpenMetrics and adds up |
//! | `live` | callers – sipweir, embedded | the status against its schema, busiest sources, `sipweir top` at terminals and pipes |
//! | `reload` | callers – sipweir – server | all or nothing, under load, a thousand times; SIGHUP; a flooded control socket |
//! | `capture` | callers – sipweir, embedded | the file of `sipweir capture` read by tshark; a client that never reads, a full disk |
//! | `failures` | callers – sipweir – server | refusals name their cause; kill -9, SIGTERM, lost interface |
//! | `survival` | callers – sipweir – server | bad hours: server stopped or killed, worker panics, queues change, interface made anew; a soak |
//! | `unguarded` | callers – server | SIPp and Kamailio work together; what Kamailio can do alone and how it collapses |
//!
//! ```text
//! namespace callers            namespace server
//!   eth0 10.77.0.1  ── veth ──  eth0 10.77.0.2
//!   SIPp                        sipweir on eth0, Kamailio on :5060
//! ```

mod answers;
mod capture;
mod commands;
mod doctor;
mod failures;
mod guard;
mod guarded;
mod health;
mod limits;
mod lists;
mod live;
mod log;
mod memory;
mod monitor;
mod monitoring;
mod namespaces;
mod privileges;
mod recipes;
mod reload;
mod side_door;
mod stacks;
mod starvation;
mod survival;
mod topology;
mod transactions;
mod unguarded;
