//! Below a shell with job control the command and drainit are one job, which stops and goes on as a whole.

use nix::unistd::{Pid, getpgrp};

use super::Supervisor;
use crate::config::Target;
use crate::signal::Signal;
use crate::sys::reap::stopped_by;
use crate::sys::signals::stop_own_group;
use crate::sys::terminal::Terminal;
use crate::sys::tree::stops_are_noticed;

/// The job's terminal, and the part that drainit has in it.
#[derive(Debug)]
pub struct Job {
    pub terminal: Terminal,
    /// Whether the command's group has the terminal from us.
    pub is_lent: bool,
    /// Whether we have stopped together with the command, and were not continued since.
    pub is_suspended: bool,
}

impl Job {
    /// Gives the terminal to the command's group, if it is ours. In the background it is not.
    fn lend_to(&mut self, command: Pid) {
        self.is_lent = self.terminal.is_ours();
        if self.is_lent {
            self.terminal.give_to(command);
        }
    }
}

impl Supervisor<'_> {
    pub(super) fn is_suspended(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.is_suspended)
    }

    /// Looks whether the terminal has stopped the command, and if so, stops too: the shell waits for that.
    pub(super) fn look_at_job(&mut self) {
        let command = self.family.command;
        let Some(job) = self.job.as_mut().filter(|_| !self.family.command_is_gone) else { return };
        // A SIGSTOP is somebody's wish for the command alone. While a stop is under way, its deadlines have to be kept.
        let Some(signal @ (Signal::TSTP | Signal::TTIN | Signal::TTOU)) =
            stopped_by(command).filter(|_| self.sequence.stop().is_none())
        else {
            return;
        };
        // The shell does not continue a job that runs already when it brings it to the foreground.
        if signal != Signal::TSTP && job.terminal.is_ours() {
            self.resume();
            return;
        }
        if !self.is_pid1 && stops_are_noticed() {
            job.is_suspended = true;
            if stop_own_group(signal) {
                return;
            }
            job.is_suspended = false;
        }
        // Whoever pressed the key at a container's terminal has no shell there that could continue the command.
        if signal == Signal::TSTP && job.terminal.belongs_to(command) {
            self.resume();
        }
    }

    /// Continues the command, with the terminal if the job is in the foreground.
    pub(super) fn resume(&mut self) {
        if let Some(job) = &mut self.job {
            job.lend_to(self.family.command);
            job.is_suspended = false;
        }
        let _ = self.family.send(Target::Group, Signal::CONT);
    }

    /// Takes the terminal back, for a parent that goes on in our group.
    pub(super) fn take_terminal_back(&self) {
        if let Some(job) = self.job.as_ref().filter(|job| job.is_lent) {
            job.terminal.give_to(getpgrp());
        }
    }
}
