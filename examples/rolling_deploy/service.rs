//! The service that is deployed: plain HTTP, and as well behaved on SIGTERM as a service can be.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process;
use std::thread;
use std::time::Duration;

use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;
use tiny_http::{Request, Response, Server};

use crate::Result;

/// The argument that makes the example's binary the service.
pub(crate) const SUB_COMMAND: &str = "service";
/// The word before the address, on the line that says that the service takes requests.
pub(crate) const READY: &str = "ready";
/// The path of the requests that take long.
pub(crate) const SLOW_PATH: &str = "/slow";
/// What every request is answered with.
pub(crate) const BODY: &str = "served\n";

const WORK: Duration = Duration::from_millis(30);
const SLOW_WORK: Duration = Duration::from_millis(500);
/// How long a connection that was accepted before the listener closed may take to send its request.
const LATE_REQUEST: Duration = Duration::from_millis(100);

/// Serves until SIGTERM, then closes the listener at once, finishes what is in flight and returns.
pub(crate) fn serve() -> Result<()> {
    // Before the service says that it is ready: whoever has read that may send SIGTERM.
    let mut signals = Signals::new([SIGTERM])?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let door = Door::of(&listener)?;
    let server = Server::from_listener(listener, None)?;

    thread::spawn(end_with_the_example);
    thread::spawn(move || {
        if signals.forever().next().is_some() && door.close().is_err() {
            process::exit(1);
        }
    });
    writeln!(io::stdout(), "{READY} {address}")?;

    // The scope ends only when every request that was begun has been answered.
    thread::scope(|scope| {
        // Fails once the door is closed.
        while let Ok(request) = server.recv() {
            scope.spawn(|| answer(request));
        }
        while let Ok(Some(request)) = server.recv_timeout(LATE_REQUEST) {
            scope.spawn(|| answer(request));
        }
    });
    Ok(())
}

fn answer(request: Request) {
    thread::sleep(if request.url() == SLOW_PATH { SLOW_WORK } else { WORK });
    // A client that has gone meanwhile is no concern of the service.
    let _ = request.respond(Response::from_string(BODY));
}

/// A second handle on the listening socket. tiny_http keeps the first in a thread that waits in `accept` and that it
/// offers no way to stop; shutting the socket down ends that wait, and from then on the kernel refuses new
/// connections.
struct Door(TcpStream);

impl Door {
    fn of(listener: &TcpListener) -> io::Result<Self> {
        // Only `TcpStream` has `shutdown`, which is the same system call for every socket.
        Ok(Self(TcpStream::from(OwnedFd::from(listener.try_clone()?))))
    }

    fn close(self) -> io::Result<()> {
        self.0.shutdown(Shutdown::Both)
    }
}

/// The example holds the other end of stdin. However it ends, even by SIGKILL, that end closes, and the service with
/// it.
fn end_with_the_example() {
    let mut byte = [0];
    loop {
        match io::stdin().read(&mut byte) {
            Ok(1..) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => process::exit(1),
        }
    }
}
