//! Standard error, written without ever blocking.
//!
//! It may be a pipe that nobody reads, and its open file is shared with the command, so it cannot simply be made non-blocking: the command
//! would lose its own output. Each kind of file has its own way to write without waiting.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, open, splice};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{Mode, SFlag};
use nix::unistd::{Pid, getsid, pipe2, read, write};

use crate::sys::stdio;

/// Where log lines go.
#[derive(Debug)]
pub enum Stderr {
    /// A pipe, a terminal or another character device, opened again: a non-blocking open file of our own.
    Opened(OwnedFd),
    /// A pipe that cannot be opened again, as without `/proc`, or when it was made by another user: a line goes through a pipe of our own, from
    /// which splice(2) moves it in one piece or not at all. Each line takes one of the pipe's buffers, usually 16, until somebody reads it.
    Pipe {
        reader: OwnedFd,
        writer: OwnedFd,
    },
    Socket,
    /// A file, where a write waits for no reader.
    File,
    /// A pipe that cannot be spliced into: written when poll(2) says that a line of PIPE_BUF bytes fits. Should the command fill it at that very
    /// moment, the write waits for the reader: a sandbox without splice leaves nothing better.
    Polled,
    /// Nothing that could be written without the risk to block.
    Nowhere,
}

fn stderr() -> BorrowedFd<'static> {
    stdio::descriptor(libc::STDERR_FILENO)
}

impl Stderr {
    /// Finds out what standard error is.
    pub fn new() -> Stderr {
        let kind = stdio::kind(libc::STDERR_FILENO);
        if !is_writable() {
            Stderr::Nowhere
        } else if kind == SFlag::S_IFIFO {
            open_again().map_or_else(Stderr::spliced, Stderr::Opened)
        } else if kind == SFlag::S_IFCHR {
            open_again().or_else(open_terminal).map_or(Stderr::Nowhere, Stderr::Opened)
        } else if kind == SFlag::S_IFSOCK {
            Stderr::Socket
        } else if kind == SFlag::S_IFREG {
            Stderr::File
        } else {
            Stderr::Nowhere
        }
    }

    fn spliced() -> Stderr {
        let ours = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK);
        ours.map_or(Stderr::Polled, |(reader, writer)| Stderr::Pipe { reader, writer })
    }

    /// Writes a line of at most PIPE_BUF bytes, now or never.
    ///
    /// # Errors
    ///
    /// Where it would block, or nobody will read it. `WriteZero` means that a part of it was written: a terminal, a socket and a full disk
    /// take what they have room for.
    pub fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        let written = match self {
            Stderr::Pipe { reader, writer } => match splice_line(reader, writer, line) {
                // Full, or nobody reads it.
                Err(errno @ (Errno::EAGAIN | Errno::EPIPE)) => return Err(errno.into()),
                // Some sandboxes refuse splice, each with an error of its own.
                Err(_) => {
                    *self = Stderr::Polled;
                    write_if_ready(line)?
                }
                Ok(written) => written,
            },
            // A pipe takes such a line whole or not at all, pipe(7).
            Stderr::Opened(file) => write(file, line)?,
            Stderr::Socket => send(line)?,
            Stderr::File => write(stderr(), line)?,
            Stderr::Polled => write_if_ready(line)?,
            Stderr::Nowhere => return Err(io::ErrorKind::NotConnected.into()),
        };
        if written == line.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }
}

/// Whether it was opened to be written. What was not, such as the wrong end of a pipe, must not become so by being opened again.
fn is_writable() -> bool {
    let flags = fcntl(stderr(), FcntlArg::F_GETFL).map(OFlag::from_bits_truncate);
    flags.is_ok_and(|flags| flags & OFlag::O_ACCMODE != OFlag::O_RDONLY)
}

/// Standard error as an open file of our own.
fn open_again() -> Option<OwnedFd> {
    open_to_write("/proc/self/fd/2")
}

/// The same for a terminal that belongs to another user, as after gosu or su-exec: it cannot be opened by its name, but as our controlling
/// terminal it can.
fn open_terminal() -> Option<OwnedFd> {
    // SAFETY: the call takes a descriptor and no pointer.
    let session = unsafe { libc::tcgetsid(libc::STDERR_FILENO) };
    (getsid(None) == Ok(Pid::from_raw(session))).then(|| open_to_write("/dev/tty")).flatten()
}

fn open_to_write(path: &str) -> Option<OwnedFd> {
    open(path, OFlag::O_WRONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC, Mode::empty()).ok()
}

fn splice_line(reader: &OwnedFd, writer: &OwnedFd, line: &[u8]) -> nix::Result<usize> {
    // Our pipe is empty, so a line of at most PIPE_BUF bytes becomes one buffer, which moves in one piece.
    let length = write(writer, line)?;
    let moved = splice(reader, None, stderr(), None, length, SpliceFFlags::SPLICE_F_NONBLOCK);
    if moved != Ok(length) {
        // In small pieces: room on the stack is memory that drainit keeps.
        while read(reader, &mut [0; 256]).is_ok_and(|length| length > 0) {}
    }
    moved
}

fn send(line: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the buffer is as long as the length given.
    let sent = unsafe { libc::send(stderr().as_raw_fd(), line.as_ptr().cast(), line.len(), flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

fn write_if_ready(line: &[u8]) -> io::Result<usize> {
    let mut fds = [PollFd::new(stderr(), PollFlags::POLLOUT)];
    poll(&mut fds, PollTimeout::ZERO)?;
    match fds.iter().find_map(PollFd::revents) {
        Some(ready) if ready.contains(PollFlags::POLLOUT) => Ok(write(stderr(), line)?),
        _ => Err(io::ErrorKind::WouldBlock.into()),
    }
}
