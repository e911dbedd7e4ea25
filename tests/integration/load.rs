//! A steady load of new connections on a server of this machine, and a slow response to hold in flight.
//!
//! The load is open-loop: a request is sent when its time has come, whether or not the earlier ones are done, as the clients of a real
//! service do. A closed loop would stop asking just when the server stops answering.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// No server here takes longer over a byte, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// One request on a connection of its own.
#[derive(Debug)]
pub struct Request {
    pub sent: Instant,
    pub ended: Instant,
    /// The body of a 200 that arrived whole, or what went wrong.
    pub outcome: io::Result<Vec<u8>>,
}

/// Sends `GET path` on a new connection and reads the whole response.
pub fn get(port: u16, path: &str) -> Request {
    let sent = Instant::now();
    let outcome = connect(port, path).and_then(|stream| read_response(stream, || {}));
    Request { sent, ended: Instant::now(), outcome }
}

/// A load that goes on until it is told to finish.
pub struct Load {
    going: Arc<AtomicBool>,
    served: Arc<AtomicUsize>,
    pacer: Option<JoinHandle<Vec<Request>>>,
}

impl Load {
    /// Starts to send `GET path` to `port` of 127.0.0.1 once every `interval`, each on a new connection.
    pub fn start(port: u16, path: &'static str, interval: Duration) -> Load {
        let going = Arc::new(AtomicBool::new(true));
        let served = Arc::new(AtomicUsize::new(0));
        let pacer = thread::spawn({
            let (going, served) = (Arc::clone(&going), Arc::clone(&served));
            move || pace(port, path, interval, &going, &served)
        });
        Load { going, served, pacer: Some(pacer) }
    }

    /// How many requests have been answered well so far.
    pub fn served(&self) -> usize {
        self.served.load(Ordering::Relaxed)
    }

    /// Ends the load, waits for the last responses and tells how every request fared.
    pub fn finish(mut self) -> Report {
        self.going.store(false, Ordering::Relaxed);
        let pacer = self.pacer.take().expect("finished once");
        Report { requests: pacer.join().expect("the load did not panic") }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.going.store(false, Ordering::Relaxed);
    }
}

fn pace(
    port: u16,
    path: &'static str,
    interval: Duration,
    going: &AtomicBool,
    served: &Arc<AtomicUsize>,
) -> Vec<Request> {
    let mut requests = Vec::new();
    let mut next = Instant::now();
    while going.load(Ordering::Relaxed) {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        next += interval;
        let served = Arc::clone(served);
        requests.push(thread::spawn(move || {
            let request = get(port, path);
            if request.outcome.is_ok() {
                served.fetch_add(1, Ordering::Relaxed);
            }
            request
        }));
    }
    requests.into_iter().map(|request| request.join().expect("a request did not panic")).collect()
}

/// How every request of a load fared.
pub struct Report {
    pub requests: Vec<Request>,
}

impl Report {
    /// The requests that had failed by `moment`.
    pub fn failed_by(&self, moment: Instant) -> Vec<&Request> {
        self.requests.iter().filter(|request| request.outcome.is_err() && request.ended < moment).collect()
    }

    /// How many of the requests sent from `from` until `to` were served.
    pub fn served_between(&self, from: Instant, to: Instant) -> usize {
        self.requests.iter().filter(|request| request.outcome.is_ok() && (from..to).contains(&request.sent)).count()
    }

    /// How many requests found nobody listening.
    pub fn refused(&self) -> usize {
        let refused = |request: &&Request| {
            request.outcome.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        };
        self.requests.iter().filter(refused).count()
    }
}

/// A slow response that is being read.
pub struct Download {
    reader: JoinHandle<Request>,
}

impl Download {
    /// Asks for `path`; returns once the response has begun to arrive.
    pub fn start(port: u16, path: &str) -> Download {
        let (begun, begins) = std::sync::mpsc::channel();
        let path = path.to_owned();
        let reader = thread::spawn(move || {
            let sent = Instant::now();
            let begun = || begun.send(()).expect("the download is waited for");
            let outcome = connect(port, &path).and_then(|stream| read_response(stream, begun));
            Request { sent, ended: Instant::now(), outcome }
        });
        if begins.recv().is_err() {
            panic!("no response to begin with: {:?}", reader.join());
        }
        Download { reader }
    }

    /// Waits for the end of the response.
    pub fn finish(self) -> Request {
        self.reader.join().expect("the download did not panic")
    }
}

fn connect(port: u16, path: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
    Ok(stream)
}

/// Reads a response to its end and calls `begun` at its first byte; anything but a whole 200 is an error.
fn read_response(mut stream: TcpStream, begun: impl FnOnce()) -> io::Result<Vec<u8>> {
    let mut response = vec![0; 1];
    stream.read_exact(&mut response)?;
    begun();
    stream.read_to_end(&mut response)?;

    let end = response.windows(4).position(|window| window == b"\r\n\r\n").ok_or_else(|| bad("no end of the head"))?;
    let body = response.split_off(end + 4);
    let head = String::from_utf8_lossy(&response);
    if !head.starts_with("HTTP/1.1 200 ") {
        return Err(bad(head.lines().next().unwrap_or_default()));
    }
    let length = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse::<usize>().ok())
        .ok_or_else(|| bad("no length"))?;
    if body.len() != length {
        return Err(bad(&format!("cut: {} of {length} bytes", body.len())));
    }
    Ok(body)
}

fn bad(what: &str) -> io::Error {
    io::Error::other(format!("bad response: {what}"))
}
