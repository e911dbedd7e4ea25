//! Below a shell with job control the command and drainit are one job, which stops and goes on as a whole.

use nix::sys::stat::SFlag;
use nix::unistd::{Pid, getpid};

use super::Supervisor;
use crate::config::Target;
use crate::signal::Signal;
use crate::sys::reap::stopped_by;
use crate::sys::signals::stop_ourselves;
use crate::sys::stdio;
use crate::sys::terminal::Terminal;
use crate::sys::tree::{is_alone_in_group, stops_are_noticed};

/// The job's terminal, and the part that drainit has in it.
#[derive(Debug)]
pub struct Job {
    terminal: Terminal,
    /// Whether the command's group gets the terminal whenever it is ours. Where others in our group may use it as well, as in a pipeline or a
    /// script, the command has to ask for it first: its read or write stops it.
    lends: bool,
    /// Whether the command's group has the terminal from us.
    is_lent: bool,
    /// Whether we have stopped with the command, and were not continued since.
    is_suspended: bool,
    /// Whether we have passed on a signal that stops.
    has_passed_stop: bool,
}

impl Job {
    /// The job that we belong to, if there is a terminal.
    pub fn find() -> Option<Job> {
        let terminal = Terminal::find()?;
        let is_in_pipeline = [0, 1].map(stdio::kind).contains(&SFlag::S_IFIFO);
        let lends = !is_in_pipeline && is_alone_in_group();
        let is_lent = lends && terminal.is_ours();
        Some(Job { terminal, lends, is_lent, is_suspended: false, has_passed_stop: false })
    }

    /// The terminal that the command has to take before it runs.
    pub fn terminal_to_lend(&self) -> Option<&Terminal> {
        Some(&self.terminal).filter(|_| self.is_lent)
    }

    fn lend_to(&mut self, command: Pid) {
        self.is_lent = self.lends && self.terminal.is_ours();
        if self.is_lent {
            self.terminal.give_to(command);
        }
    }
}

impl Supervisor<'_> {
    pub(super) fn is_suspended(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.is_suspended)
    }

    pub(super) fn note_passed_stop(&mut self, signal: Signal) {
        if let Some(job) = self.job.as_mut().filter(|_| is_from_terminal(signal)) {
            job.has_passed_stop = true;
        }
    }

    /// Looks whether the command has stopped, and if the job should, stops too: the shell waits for that.
    pub(super) fn look_at_job(&mut self) {
        let command = self.family.command;
        let Some(job) = self.job.as_mut().filter(|_| !self.family.command_is_gone) else { return };
        let Some(signal) = stopped_by(command) else { return };
        let asks = signal == Signal::TTIN || signal == Signal::TTOU;
        if asks && job.terminal.is_ours() {
            job.lends = true;
            self.resume();
            return;
        }
        let is_in_foreground = job.terminal.belongs_to(command);
        let was_passed = std::mem::take(&mut job.has_passed_stop);
        // The key, and a read in the background, stop all of the job. Programs that suspend themselves at a key do it by SIGSTOP as well.
        let whole_job = is_in_foreground || asks && !was_passed;
        if !whole_job && !was_passed {
            // Somebody's wish for the command alone.
            return;
        }
        // While a stop is under way, its deadlines have to be kept.
        if self.sequence.stop().is_none() && !self.is_pid1 && stops_are_noticed() {
            job.is_suspended = true;
            let whom = if whole_job { Pid::from_raw(0) } else { getpid() };
            if stop_ourselves(whom, if is_from_terminal(signal) { signal } else { Signal::TSTP }) {
                return;
            }
            job.is_suspended = false;
        }
        // Whoever pressed the key has no shell there that could continue the command, or has asked it to end.
        if signal == Signal::TSTP && is_in_foreground && !was_passed {
            self.resume();
        }
    }

    /// Continues the command, with the terminal if the job is in the foreground.
    pub(super) fn resume(&mut self) {
        if let Some(job) = &mut self.job {
            job.lend_to(self.family.command);
            (job.is_suspended, job.has_passed_stop) = (false, false);
        }
        let _ = self.family.send(Target::Group, Signal::CONT);
    }

    /// Takes the terminal back, for a parent that goes on in our group.
    pub(super) fn take_terminal_back(&self) {
        if let Some(job) = self.job.as_ref().filter(|job| job.is_lent) {
            job.terminal.take_back_from(self.family.command);
        }
    }
}

fn is_from_terminal(signal: Signal) -> bool {
    [Signal::TSTP, Signal::TTIN, Signal::TTOU].contains(&signal)
}
