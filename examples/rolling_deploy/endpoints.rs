//! The client's list of endpoints, which learns late that a task is going away.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a task stays on the list after its stop signal: the registry has to hear of it, and the client's cached
/// answer has to expire. Two seconds are kind: a DNS record's time to live alone is often longer.
const LAG: Duration = Duration::from_millis(1_500);

/// One task, as the client knows it.
#[derive(Clone, Copy)]
pub(crate) struct Endpoint {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// When it got its stop signal. The client must not act on this before [`LAG`] is over; it is here for the report.
    pub(crate) stopped: Option<Instant>,
}

impl Endpoint {
    fn is_listed(&self, now: Instant) -> bool {
        self.stopped.is_none_or(|stopped| now.duration_since(stopped) < LAG)
    }
}

/// The list, shared by the deploy that changes it and the client that reads it.
#[derive(Default)]
pub(crate) struct Endpoints(Mutex<List>);

#[derive(Default)]
struct List {
    endpoints: Vec<Endpoint>,
    turn: usize,
}

impl Endpoints {
    /// Lists a task that is ready; the client calls it from now on.
    pub(crate) fn add(&self, address: SocketAddr) {
        self.with(|list| list.endpoints.push(Endpoint { address, stopped: None }));
    }

    /// Notes that the task at `address` gets its stop signal now.
    pub(crate) fn stop(&self, address: SocketAddr, now: Instant) {
        self.with(|list| {
            for endpoint in list.endpoints.iter_mut().filter(|endpoint| endpoint.address == address) {
                endpoint.stopped = Some(now);
            }
        });
    }

    /// The endpoint whose turn it is, if any is listed.
    pub(crate) fn next(&self, now: Instant) -> Option<Endpoint> {
        self.with(|list| {
            list.endpoints.retain(|endpoint| endpoint.is_listed(now));
            list.turn = list.turn.wrapping_add(1);
            list.endpoints.get(list.turn.checked_rem(list.endpoints.len())?).copied()
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut List) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
