//! The controlling terminal, which belongs to one process group at a time.
//!
//! The command runs in a process group of its own. Unless that group has the terminal, its first read ends in SIGTTIN.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, getpgrp, read, tcgetpgrp, tcsetpgrp};

use crate::sys::{signals, stdio};

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
        standard.map(Terminal::Standard).or_else(|| open_ours().map(Terminal::Opened))
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
        let own = getpgrp();
        // In a new PID namespace all groups from outside have the number 0.
        self.belongs_to(own) && (own.as_raw() != 0 || is_in_foreground())
    }

    /// Gives it to `group`. That never stops us by SIGTTOU, as all signals are blocked; a terminal that has gone is no error.
    pub fn give_to(&self, group: Pid) {
        let _ = tcsetpgrp(self.fd(), group);
    }

    /// Takes it back from `group`, or from one that is no more. Whoever else has it by now, such as a shell, keeps it.
    pub fn take_back_from(&self, group: Pid) {
        let is_free = |holder: Pid| holder == group || holder.as_raw() > 0 && !signals::exists(-holder.as_raw());
        if tcgetpgrp(self.fd()).is_ok_and(is_free) {
            self.give_to(getpgrp());
        }
    }
}

fn open_ours() -> Option<OwnedFd> {
    let flags = OFlag::O_RDWR | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    open("/dev/tty", flags, Mode::empty()).ok()
}

/// Whether we may read: who may not, because it is in the background and blocks SIGTTIN, gets EIO, also when it reads nothing.
fn is_in_foreground() -> bool {
    open_ours().is_some_and(|terminal| read(&terminal, &mut []) != Err(Errno::EIO))
}
