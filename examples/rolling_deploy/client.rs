//! The client: a steady load on a fixed schedule, and what became of each request.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::endpoints::{Endpoint, Endpoints};
use crate::service::{BODY, SLOW_PATH};

/// The requests of one deploy. Their number and their times are fixed, however the service fares, so that the two
/// deploys can be compared.
pub(crate) const REQUESTS: usize = 300;
/// The time between two requests.
pub(crate) const INTERVAL: Duration = Duration::from_millis(20);
/// Every so many requests one is slow. The number shares no factor with the two to four endpoints that take turns, so
/// that each of them gets its part of the slow ones.
const SLOW_EVERY: usize = 11;
const TIMEOUT_SECONDS: u64 = 5;

/// Why a request failed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Failure {
    /// Nobody listened.
    Refused,
    /// The connection was made, but ended before the whole answer had come.
    Cut,
    /// No answer in time.
    TimedOut,
    /// An answer other than 200.
    Status(u16),
    /// The list was empty.
    NoEndpoint,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("refused"),
            Self::Cut => f.write_str("cut"),
            Self::TimedOut => f.write_str("timed out"),
            Self::Status(code) => write!(f, "status {code}"),
            Self::NoEndpoint => f.write_str("no endpoint"),
        }
    }
}

/// What became of a request.
#[derive(Clone, Copy)]
pub(crate) struct Outcome {
    /// How long after its task's stop signal it was sent, if there had been one.
    pub(crate) after_stop: Option<Duration>,
    /// Why it failed, if it did.
    pub(crate) failure: Option<Failure>,
}

/// The load while it runs.
pub(crate) struct Load {
    started: Instant,
    outcomes: Arc<Mutex<Vec<Outcome>>>,
}

impl Load {
    /// Begins with the requests.
    pub(crate) fn start(endpoints: Arc<Endpoints>) -> Self {
        let started = Instant::now();
        let outcomes = Arc::new(Mutex::new(Vec::with_capacity(REQUESTS)));
        let load = Self { started, outcomes: Arc::clone(&outcomes) };
        thread::spawn(move || {
            let mut due = started;
            for number in 0..REQUESTS {
                thread::sleep(due.saturating_duration_since(Instant::now()));
                due += INTERVAL;
                let now = Instant::now();
                let endpoint = endpoints.next(now);
                let outcomes = Arc::clone(&outcomes);
                // A thread for each, because a request that hangs must not hold up the next.
                thread::spawn(move || {
                    let failure = request(endpoint, number % SLOW_EVERY == 0).err();
                    let stopped = endpoint.and_then(|endpoint| endpoint.stopped);
                    let after_stop = stopped.map(|stopped| now.duration_since(stopped));
                    lock(&outcomes).push(Outcome { after_stop, failure });
                });
            }
        });
        load
    }

    /// How long it has been running.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether requests are still being sent.
    pub(crate) fn is_sending(&self) -> bool {
        self.elapsed() < INTERVAL * u32::try_from(REQUESTS).unwrap_or(u32::MAX)
    }

    /// What is known so far, in the order in which the requests ended.
    pub(crate) fn outcomes(&self) -> Vec<Outcome> {
        lock(&self.outcomes).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> impl std::ops::DerefMut<Target = T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One request on a connection of its own, without a second try.
fn request(endpoint: Option<Endpoint>, slow: bool) -> Result<(), Failure> {
    let address = endpoint.ok_or(Failure::NoEndpoint)?.address;
    let path = if slow { SLOW_PATH } else { "/" };
    let response = minreq::get(format!("http://{address}{path}"))
        .with_header("Connection", "close")
        .with_timeout(TIMEOUT_SECONDS)
        .send()
        .map_err(|error| match error {
            minreq::Error::IoError(error) if error.kind() == io::ErrorKind::ConnectionRefused => Failure::Refused,
            minreq::Error::IoError(error) if error.kind() == io::ErrorKind::TimedOut => Failure::TimedOut,
            _ => Failure::Cut,
        })?;
    match response.status_code {
        200 if response.as_bytes() == BODY.as_bytes() => Ok(()),
        200 => Err(Failure::Cut),
        // minreq makes this of a connection that was closed before the first line; the service has no such
        // header-less answer.
        503 if response.headers.is_empty() => Err(Failure::Cut),
        code => Err(Failure::Status(code)),
    }
}
