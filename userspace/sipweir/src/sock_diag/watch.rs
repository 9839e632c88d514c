//! The receive queue of one service, observed again and again at the least cost.

use std::net::IpAddr;

use super::{Error, Service, SockDiag, UdpSocket};

/// Sockets of one service that are asked one by one, if there are no more. Measured: 2.7 µs for each look-up, 34 µs
/// for a dump of 17 sockets from a port table of 16,384 places (large hosts have 65,536). With a higher bound the dump
/// would be the cheaper way, with a lower one small groups would pay for it.
pub(super) const EXACT_MAX: usize = 16;

/// Sockets of one service whose drops are followed; those of more than this many are summed in bytes only. More would
/// make the comparison with the last dump, which is quadratic, cost as much as the dump.
const TRACKED_MAX: usize = 64;

/// Source ports tried for `n` sockets that share an address: `16 n + 16` draws miss a given one with a chance of e⁻¹⁶.
/// Fewer make dumps more frequent, more make a rescan longer where some socket cannot be reached at all.
fn draws_for(sharing: usize) -> u16 {
    u16::try_from(16 * sharing + 16).unwrap_or(u16::MAX)
}

/// What a service's sockets hold at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Sockets that serve; 0 means that nobody listens.
    pub sockets: u32,
    /// Memory of the datagrams that wait in them, in bytes by truesize.
    pub bytes: u64,
    /// Memory at which they drop, summed, in the same measure.
    pub limit_bytes: u64,
    /// Datagrams they dropped since first seen. Never falls, also when sockets come and go.
    pub drops: u64,
}

impl Observation {
    fn add(&mut self, socket: &UdpSocket) {
        self.sockets += 1;
        self.bytes += u64::from(socket.queue_bytes);
        self.limit_bytes += u64::from(socket.queue_limit_bytes);
    }
}

/// One socket that is watched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    cookie: u64,
    /// Where a look-up must be addressed to find it.
    local: IpAddr,
    /// The source port that leads to it among those that share its address; `None`: not found.
    source_port: Option<u16>,
    drops_seen: u32,
}

/// The receive queue of one service, observed again and again.
#[derive(Debug)]
pub struct Watch {
    diag: SockDiag,
    service: Service,
    rescan_interval_ns: u64,
    next_rescan_ns: u64,
    /// At most [`TRACKED_MAX`], never reallocated; `found` takes the next generation during a dump.
    pub(super) members: Vec<Member>,
    found: Vec<Member>,
    /// Whether look-ups reach every socket.
    pub(super) exact: bool,
    drops: u64,
}

impl Watch {
    /// Opens a watch in the calling thread's network namespace. Sockets are searched for at the first question and
    /// then at least every `rescan_interval_ns`; shorter finds new members of a group sooner, longer saves dumps.
    pub fn open(service: Service, rescan_interval_ns: u64) -> Result<Self, Error> {
        Ok(Self {
            diag: SockDiag::open()?,
            service,
            rescan_interval_ns,
            next_rescan_ns: 0,
            members: Vec::with_capacity(TRACKED_MAX),
            found: Vec::with_capacity(TRACKED_MAX),
            exact: false,
            drops: 0,
        })
    }

    /// What waits in the service's sockets now. `now_ns` is only compared with the times of earlier calls.
    pub fn receive_queue(&mut self, now_ns: u64) -> Result<Observation, Error> {
        if now_ns < self.next_rescan_ns {
            let observation =
                if self.members.is_empty() { self.look_for_any()? } else { self.ask_members()? };
            if let Some(observation) = observation {
                return Ok(observation);
            }
        }
        self.next_rescan_ns = now_ns.saturating_add(self.rescan_interval_ns);
        self.rescan()
    }

    /// Nobody listened when last looked for: a look-up tells whether that has changed. `None`: it has, or no look-up
    /// can tell. A service on any address is of the latter kind, since a socket bound to one address is found only by
    /// its name. Callers ask seldom while nobody listens, so the dump costs little then.
    fn look_for_any(&mut self) -> Result<Option<Observation>, Error> {
        let Service { address: Some(address), port, device } = self.service else { return Ok(None) };
        let socket = self.diag.look_up(address.to_canonical(), port, device, 1)?;
        let found = socket.is_some_and(|socket| self.service.rank_of(&socket) > 0);
        Ok((!found).then(|| Observation { drops: self.drops, ..Observation::default() }))
    }

    /// One look-up for each member. `None`: they are not what they were, or look-ups do not reach them all.
    fn ask_members(&mut self) -> Result<Option<Observation>, Error> {
        if !self.exact {
            return Ok(None);
        }
        let mut observation = Observation::default();
        for member in &mut self.members {
            let Some(source_port) = member.source_port else { return Ok(None) };
            let Service { port, device, .. } = self.service;
            match self.diag.look_up(member.local, port, device, source_port)? {
                Some(socket) if socket.cookie == member.cookie => {
                    self.drops += u64::from(socket.drops.wrapping_sub(member.drops_seen));
                    member.drops_seen = socket.drops;
                    observation.add(&socket);
                }
                _ => {
                    member.source_port = None;
                    return Ok(None);
                }
            }
        }
        observation.drops = self.drops;
        Ok(Some(observation))
    }

    /// A dump: it finds the members anew and observes them at once.
    pub(super) fn rescan(&mut self) -> Result<Observation, Error> {
        let Self { diag, service, members, found, drops, .. } = self;
        let mut best_rank = 1;
        let mut observation = Observation::default();
        found.clear();
        diag.dump(service.port, |socket| {
            let rank = service.rank_of(socket);
            if rank < best_rank {
                return;
            }
            if rank > best_rank {
                best_rank = rank;
                observation = Observation::default();
                found.clear();
            }
            observation.add(socket);
            if found.len() < TRACKED_MAX {
                let known = members.iter().find(|member| member.cookie == socket.cookie);
                found.push(Member {
                    cookie: socket.cookie,
                    local: service.address.unwrap_or(socket.local.ip()).to_canonical(),
                    source_port: known.and_then(|member| member.source_port),
                    drops_seen: socket.drops,
                });
                if let Some(known) = known {
                    *drops += u64::from(socket.drops.wrapping_sub(known.drops_seen));
                }
            }
        })?;
        // Where the set is another one, so is the way in which the kernel spreads over it.
        let unchanged = found.len() == members.len()
            && found.iter().all(|new| members.iter().any(|old| old.cookie == new.cookie));
        if !unchanged {
            found.iter_mut().for_each(|member| member.source_port = None);
        }
        std::mem::swap(members, found);
        observation.drops = *drops;
        self.exact = observation.sockets as usize <= EXACT_MAX && self.find_source_ports()?;
        Ok(observation)
    }

    /// Finds for each member a source port that leads to it; says whether all have one.
    fn find_source_ports(&mut self) -> Result<bool, Error> {
        let Self { diag, service: Service { port, device, .. }, members, .. } = self;
        for index in 0..members.len() {
            let local = members[index].local;
            if members[..index].iter().any(|earlier| earlier.local == local) {
                continue;
            }
            let sharing = members.iter().filter(|member| member.local == local).count();
            for source_port in 1..=draws_for(sharing) {
                let mut sharing = members.iter().filter(|member| member.local == local);
                if sharing.all(|member| member.source_port.is_some()) {
                    break;
                }
                let Some(socket) = diag.look_up(local, *port, *device, source_port)? else { break };
                let mut sharing = members.iter_mut().filter(|member| member.local == local);
                if let Some(member) = sharing.find(|member| member.cookie == socket.cookie) {
                    member.source_port.get_or_insert(source_port);
                }
            }
        }
        Ok(members.iter().all(|member| member.source_port.is_some()))
    }
}
