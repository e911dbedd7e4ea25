//! The controlling terminal, which belongs to one process group at a time.
//!
//! The command runs in a process group of its own. Unless that group gets the terminal, its first read ends in SIGTTIN.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

use crate::sys::stdio;

/// The terminal of our session.
#[derive(Debug)]
pub enum Terminal {
    Standard(BorrowedFd<'static>),
    Opened(OwnedFd),
}

impl Terminal {
    /// Finds it, if there is one. None of the standard descriptors has to be it: think of `producer | drainit pager 2>log`.
    pub fn find() -> Option<Terminal> {
        let standard = (0..=2).map(stdio::descriptor).find(|fd| tcgetpgrp(fd).is_ok());
        standard.map(Terminal::Standard).or_else(|| {
            let flags = OFlag::O_RDWR | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
            open("/dev/tty", flags, Mode::empty()).ok().map(Terminal::Opened)
        })
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Terminal::Standard(fd) => *fd,
            Terminal::Opened(fd) => fd.as_fd(),
        }
    }

    /// Whether `group` is in the foreground.
    pub fn belongs_to(&self, group: Pid) -> bool {
        tcgetpgrp(self.fd()) == Ok(group)
    }

    /// Whether it is ours to give: in the background it stays with whom it belongs to.
    pub fn is_ours(&self) -> bool {
        self.belongs_to(getpgrp())
    }

    /// Gives it to `group`. That never stops us by SIGTTOU, as all signals are blocked; a terminal that has gone is no error.
    pub fn give_to(&self, group: Pid) {
        let _ = tcsetpgrp(self.fd(), group);
    }
}
