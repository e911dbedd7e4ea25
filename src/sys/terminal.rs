//! The controlling terminal, which belongs to one process group at a time.
//!
//! The command runs in a process group of its own. Unless that group gets the terminal, its first read ends in SIGTTIN.

use std::os::fd::BorrowedFd;

use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// A terminal whose foreground is drainit's group.
#[derive(Clone, Copy, Debug)]
pub struct Terminal(BorrowedFd<'static>);

impl Terminal {
    /// The terminal on standard input, if it is ours to give: in the background it stays with whom it belongs to.
    pub fn in_foreground() -> Option<Terminal> {
        // SAFETY: the standard descriptors are never closed; where one was not open at start, a placeholder has its place.
        let stdin = unsafe { BorrowedFd::borrow_raw(libc::STDIN_FILENO) };
        (tcgetpgrp(stdin) == Ok(getpgrp())).then_some(Terminal(stdin))
    }

    /// Gives it to `group`. That never stops us by SIGTTOU, as all signals are blocked; a terminal that has gone is no error.
    pub fn give_to(self, group: Pid) {
        let _ = tcsetpgrp(self.0, group);
    }

    /// Takes it back, for a parent that goes on in our group.
    pub fn take_back(self) {
        self.give_to(getpgrp());
    }
}
