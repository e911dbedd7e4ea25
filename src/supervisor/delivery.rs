//! Sending signals to the command, and keeping those that cannot be sent yet.

use std::collections::VecDeque;

use nix::errno::Errno;

use super::Supervisor;
use crate::config::Target;
use crate::signal::Signal;
use crate::stop::Cause;
use crate::sys::reap::has_ended;
use crate::sys::receive::Received;
use crate::sys::tree::dispositions;

/// How many real-time signals are kept for a command that does not take them. From there on they stay in the kernel's own queue, so that a storm of
/// them cannot make drainit grow for ever.
const ROOM: usize = 16_384;

/// Signals that cannot be sent yet.
#[derive(Debug, Default)]
pub struct Outbox {
    /// For when the command runs.
    held: Vec<Held>,
    /// For when the command's queue has room again.
    waiting: VecDeque<(Signal, Received)>,
}

#[derive(Debug)]
enum Held {
    PassOn(Signal, Option<Received>),
    Graceful { received: Signal, cause: Cause },
}

impl Outbox {
    /// Whether nothing waits for room in the command's queue.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether no more real-time signals can be kept.
    pub fn is_full(&self) -> bool {
        self.held.len().max(self.waiting.len()) >= ROOM
    }

    fn hold(&mut self, signal: Signal, received: Option<&Received>) {
        // Of the others the kernel, too, keeps one of each.
        let is_held = |held: &Held| matches!(held, Held::PassOn(other, _) if *other == signal);
        if signal.is_real_time() || !self.held.iter().any(is_held) {
            self.held.push(Held::PassOn(signal, received.copied()));
        }
    }
}

impl Supervisor<'_> {
    /// Sends the graceful signal.
    pub(super) fn forward(&mut self, received: Signal, cause: Cause) {
        if self.starting.is_some() {
            self.outbox.held.push(Held::Graceful { received, cause });
            return;
        }
        // Its end may be known to the kernel only, as signals are read in the order of their numbers, and SIGCHLD comes after SIGTERM.
        self.had_ended = has_ended(self.family.command);
        if self.had_ended && self.config.forward_to == Target::Child {
            return;
        }
        let (mut signal, is_chosen) = self.config.graceful_signal(received);
        let note = match dispositions(self.family.command) {
            // A base image with `STOPSIGNAL SIGQUIT` leads to this when another program runs in it: the signal would core-dump it.
            Some((caught, _)) if !is_chosen && !caught.contains(signal) && caught.contains(Signal::TERM) => {
                signal = Signal::TERM;
                "; the command does not catch the signal that was received, but does catch SIGTERM"
            }
            Some((_, ignored)) if ignored.contains(signal) => "; the command ignores it",
            Some((caught, _)) if !caught.contains(signal) => "; the command does not catch it",
            _ => "",
        };
        match self.family.send(self.config.forward_to, signal) {
            Ok(unreached) => {
                self.graceful = Some(signal);
                self.log_forwarded(signal, cause, note);
                self.warn_of_unreached(signal, unreached);
            }
            Err(errno) => self.warn_not_sent(signal, errno),
        }
    }

    /// Sends a signal that passes through, or keeps it until the command can get it.
    pub(super) fn pass_on(&mut self, signal: Signal, received: Option<&Received>) {
        if self.starting.is_some() {
            self.outbox.hold(signal, received);
            return;
        }
        self.note_passed_stop(signal);
        let result = match received.filter(|_| self.config.forward_to == Target::Child) {
            // One must not overtake another.
            Some(received) if signal.is_real_time() && !self.outbox.is_empty() => {
                self.outbox.waiting.push_back((signal, *received));
                return;
            }
            Some(received) => self.family.send_to_command(signal, received).map(|()| None),
            None => self.family.send(self.config.forward_to, signal),
        };
        match (result, received) {
            (Ok(unreached), _) => self.warn_of_unreached(signal, unreached),
            (Err(Errno::EAGAIN), Some(received)) => self.outbox.waiting.push_back((signal, *received)),
            (Err(errno), _) => self.warn_not_sent(signal, errno),
        }
    }

    /// Sends what was held until the command ran.
    pub(super) fn send_held(&mut self) {
        for held in std::mem::take(&mut self.outbox.held) {
            match held {
                Held::PassOn(signal, received) => self.pass_on(signal, received.as_ref()),
                Held::Graceful { received, cause } => self.forward(received, cause),
            }
        }
    }

    /// Sends what has waited for room in the command's queue, as far as there is some.
    pub(super) fn send_waiting(&mut self) {
        while let Some((signal, received)) = self.outbox.waiting.front() {
            if self.family.send_to_command(*signal, received) == Err(Errno::EAGAIN) {
                return;
            }
            self.outbox.waiting.pop_front();
        }
    }
}
