//! Standard error, written without ever blocking.
//!
//! It may be a pipe that nobody reads, and its open file is shared with the command, so it cannot simply be made non-blocking: the command
//! would lose its own output. Each kind of file has its own way to write without waiting.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use nix::fcntl::{OFlag, SpliceFFlags, open, splice};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::unistd::{pipe2, read, write};

/// Where log lines go.
#[derive(Debug)]
pub enum Stderr {
    /// A pipe: a line goes through a pipe of our own, from which splice(2) moves it in one piece or not at all.
    /// That needs neither `/proc` nor the right to open the pipe again.
    Pipe {
        reader: OwnedFd,
        writer: OwnedFd,
    },
    /// A terminal, opened again, with a non-blocking open file of our own.
    Terminal(OwnedFd),
    Socket,
    /// A file, where a write waits for nobody.
    File,
    /// Anything else: written when poll(2) says that it would not block.
    Other,
}

fn stderr() -> BorrowedFd<'static> {
    // SAFETY: the number 2 is never closed; where it was not open at start, a placeholder has its place.
    unsafe { BorrowedFd::borrow_raw(libc::STDERR_FILENO) }
}

impl Stderr {
    /// Finds out what standard error is.
    pub fn new() -> Stderr {
        let kind =
            fstat(stderr()).map_or(SFlag::empty(), |stat| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT);
        if kind == SFlag::S_IFIFO {
            let ours = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK);
            ours.map_or(Stderr::Other, |(reader, writer)| Stderr::Pipe { reader, writer })
        } else if kind == SFlag::S_IFCHR {
            let flags = OFlag::O_WRONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
            open("/proc/self/fd/2", flags, Mode::empty()).map_or(Stderr::Other, Stderr::Terminal)
        } else if kind == SFlag::S_IFSOCK {
            Stderr::Socket
        } else if kind == SFlag::S_IFREG {
            Stderr::File
        } else {
            Stderr::Other
        }
    }

    /// Writes a line of at most PIPE_BUF bytes, now or never.
    ///
    /// # Errors
    ///
    /// Where it would block, or nobody will read it. A part of it may have been written to a terminal, a socket or a full disk.
    pub fn write_line(&self, line: &[u8]) -> io::Result<()> {
        let written = match self {
            Stderr::Pipe { reader, writer } => splice_line(reader, writer, line)?,
            Stderr::Terminal(terminal) => write(terminal, line)?,
            Stderr::Socket => send(line)?,
            Stderr::File => write(stderr(), line)?,
            Stderr::Other => write_if_ready(line)?,
        };
        if written == line.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }
}

fn splice_line(reader: &OwnedFd, writer: &OwnedFd, line: &[u8]) -> io::Result<usize> {
    // Our pipe is empty, so a line of at most PIPE_BUF bytes becomes one buffer, which moves in one piece.
    let length = write(writer, line)?;
    let moved = splice(reader, None, stderr(), None, length, SpliceFFlags::SPLICE_F_NONBLOCK);
    if moved != Ok(length) {
        let _ = read(reader, &mut [0; libc::PIPE_BUF]);
    }
    match moved {
        // Some sandboxes have no splice.
        Err(nix::Error::EINVAL | nix::Error::ENOSYS) => write_if_ready(line),
        other => Ok(other?),
    }
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
