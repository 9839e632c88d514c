//! What the kernel says about the UDP sockets of a namespace: bytes waiting, datagrams dropped.
//!
//! Read from `/proc/PID/net/udp{,6}`, an independent source: sipweir itself asks by sock_diag.

use std::fs;
use std::time::Duration;

use crate::process::Process;
use crate::wait_until;

/// A server that has not bound its socket after this time will not.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// The sockets bound to one port, summed up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortState {
    /// How many sockets there are.
    pub sockets: u32,
    /// Memory that waiting datagrams occupy (truesize, not payload).
    pub queue_bytes: u64,
    /// Datagrams dropped because the receive buffer was full, since the sockets were made.
    pub drops: u64,
}

/// Waits until a server that was just started has bound its port.
///
/// # Panics
/// If it has not, or has ended, with what it said.
#[track_caller]
pub(crate) fn wait_until_bound(process: &mut Process, port: u16) {
    let pid = process.id();
    wait_until("the server has bound its socket or ended", START_TIMEOUT, || {
        process.ended().is_some() || PortState::of_process(pid, port).sockets > 0
    });
    assert!(process.ended().is_none(), "{}", process.describe());
}

impl PortState {
    /// The sockets of that port in the network namespace in which process `pid` lives; none if the process is gone.
    #[must_use]
    pub fn of_process(pid: u32, port: u16) -> Self {
        ["udp", "udp6"]
            .iter()
            .filter_map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")).ok())
            .fold(Self::default(), |sum, table| {
                let more = Self::parse(&table, port);
                Self {
                    sockets: sum.sockets + more.sockets,
                    queue_bytes: sum.queue_bytes + more.queue_bytes,
                    drops: sum.drops + more.drops,
                }
            })
    }

    /// Columns of the kernel's `udp4_seq_show`: sl, local, remote, st, tx:rx queue, …, drops last.
    fn parse(table: &str, port: u16) -> Self {
        let mut sum = Self::default();
        for line in table.lines().skip(1) {
            let columns: Vec<&str> = line.split_ascii_whitespace().collect();
            let (Some(local), Some(queues), Some(drops)) = (columns.get(1), columns.get(4), columns.last())
            else {
                continue;
            };
            let local_port = local.rsplit_once(':').and_then(|(_, port)| u16::from_str_radix(port, 16).ok());
            let queue = queues.split_once(':').and_then(|(_, rx)| u64::from_str_radix(rx, 16).ok());
            if local_port == Some(port) {
                sum.sockets += 1;
                sum.queue_bytes += queue.unwrap_or_else(|| panic!("no receive queue in {line:?}"));
                sum.drops +=
                    drops.parse::<u64>().unwrap_or_else(|error| panic!("no drops in {line:?}: {error}"));
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops            \n\
        10262: 02004D0A:13C4 00000000:0000 07 00000000:00701C00 00:00000000 00000000     0        0 24347 2 000000004024e318 337004    \n\
        10263: 02004D0A:13C5 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 24348 2 000000004024e319 5         \n\
        10262: 00000000:13C4 00000000:0000 07 00000000:00000100 00:00000000 00000000     0        0 24349 2 000000004024e320 1         \n";

    #[test]
    fn sockets_of_a_port_are_summed_and_others_left_out() {
        let port = PortState { sockets: 2, queue_bytes: 0x70_1c00 + 0x100, drops: 337_005 };
        assert_eq!(PortState::parse(TABLE, 5060), port);
        assert_eq!(PortState::parse(TABLE, 5061), PortState { sockets: 1, queue_bytes: 0, drops: 5 });
        assert_eq!(PortState::parse(TABLE, 5062), PortState::default());
    }

    #[test]
    fn a_socket_of_this_process_is_seen_with_what_waits_in_it() {
        let receiver = std::net::UdpSocket::bind("127.0.0.1:0").expect("bind");
        let address = receiver.local_addr().expect("address");
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("bind");
        sender.send_to(&[0; 100], address).expect("send");
        let state = PortState::of_process(std::process::id(), address.port());
        assert_eq!((state.sockets, state.drops), (1, 0));
        assert!(state.queue_bytes >= 100, "{state:?}");
    }
}
