//! How the command ended, and the exit code that this makes.

use std::fmt;

use crate::signal::Signal;

/// drainit's own error.
pub const OWN_ERROR: u8 = 125;
/// The command was found but cannot be executed.
pub const CANNOT_EXECUTE: u8 = 126;
/// The command was not found.
pub const NOT_FOUND: u8 = 127;

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExitReason {
    /// It exited with this code.
    Code(u8),
    /// This signal ended it.
    Signal(Signal),
}

impl ExitReason {
    /// Reads the status word of wait(2). (The C libraries' macros know no signal above 31 or 63.)
    pub fn from_wait_status(status: i32) -> ExitReason {
        match Signal::new(status & 0x7f) {
            Some(signal) => ExitReason::Signal(signal),
            None => ExitReason::Code((status >> 8 & 0xff) as u8),
        }
    }

    /// The exit code that stands for it, as shells have it.
    pub fn code(self) -> u8 {
        match self {
            ExitReason::Code(code) => code,
            ExitReason::Signal(signal) => 128u8.saturating_add(signal.number().unsigned_abs() as u8),
        }
    }

    /// In words for the log, where the command ended with `reason` and drainit ends with this.
    pub fn told_of(self, reason: Option<ExitReason>) -> String {
        match reason {
            Some(reason) if reason != self => format!("{reason}, which ok-exit turns into {self}"),
            _ => self.to_string(),
        }
    }

    /// What remains of it when the codes in `ok` count as success.
    pub fn forgiven(self, ok: &[u8]) -> ExitReason {
        if ok.contains(&self.code()) { ExitReason::Code(0) } else { self }
    }
}

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExitReason::Code(code) => write!(f, "exit code {code}"),
            ExitReason::Signal(signal) => write!(f, "ended by {signal}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_statuses_are_read_as_the_kernel_writes_them() {
        assert_eq!(ExitReason::from_wait_status(7 << 8), ExitReason::Code(7));
        assert_eq!(ExitReason::from_wait_status(255 << 8).code(), 255);
        assert_eq!(ExitReason::from_wait_status(9).code(), 137);
        assert_eq!(ExitReason::from_wait_status(11 | 0x80).code(), 139, "with a core dump");
        assert_eq!(ExitReason::from_wait_status(64).code(), 192);
    }

    #[test]
    fn forgiven_codes_become_0() {
        let term = ExitReason::Signal(Signal::TERM);
        assert_eq!(term.forgiven(&[143]), ExitReason::Code(0));
        assert_eq!(term.forgiven(&[130]), term);
        assert_eq!(ExitReason::Code(3).forgiven(&[3, 143]), ExitReason::Code(0));
        assert_eq!(ExitReason::Code(0).told_of(Some(term)), "ended by SIGTERM, which ok-exit turns into exit code 0");
        assert_eq!([term.told_of(Some(term)), term.told_of(None)], ["ended by SIGTERM"; 2]);
    }
}
