//! The stop sequence: what to do about each event, and when to look again.
//!
//! It knows no clock and makes no system call. Each time is a `Duration` since some fixed moment on the monotonic clock.

use std::time::Duration;

use smallvec::SmallVec;

use crate::config::{Config, Target};
use crate::signal::Signal;

/// How long at most to wait for killed processes to be gone before drainit ends without them. Only a process that hangs in the kernel, or one that
/// drainit may not kill, takes that long.
const KILL_PATIENCE: Duration = Duration::from_millis(500);
/// How long at least, also when the budget has run out: the dead need a moment to be reaped.
const SHORTEST_PATIENCE: Duration = Duration::from_millis(20);

/// Something that happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// drainit received this signal.
    Signal(Signal),
    /// The command has ended.
    Exited,
    /// Nobody is left that the end of the stop has to wait for.
    NoneLeft,
    /// Time has passed.
    Tick,
}

/// Something to do now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Send this signal on.
    PassOn(Signal),
    /// A stop begins: tell the user.
    Announce { signal: Signal, forward_in: Duration, kill_in: Option<Duration> },
    /// Send the graceful signal for a stop that `received` began.
    Forward { received: Signal, cause: Cause },
    /// Send SIGKILL to everything that is left.
    Kill,
    /// Nothing is left to do: end.
    End,
}

/// What to do about one event, in this order. As many as an event usually asks for fit in without an allocation.
pub type Actions = SmallVec<[Action; 2]>;

/// Why the graceful signal is sent now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The delay has passed.
    Delay,
    /// The budget leaves no more time, though the delay has not passed.
    Budget,
    /// A second stop signal asked for it.
    SecondSignal,
}

impl Cause {
    /// Its name in the log.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Delay => "delay",
            Cause::Budget => "budget",
            Cause::SecondSignal => "second_signal",
        }
    }
}

/// A stop that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stop {
    /// The signal that began it.
    pub signal: Signal,
    /// When it began: T0.
    pub began: Duration,
    /// When the graceful signal is due.
    forward_at: Duration,
    /// When it was really sent.
    pub forwarded: Option<Duration>,
    /// When SIGKILL is due; `None`: never.
    pub kill_at: Option<Duration>,
    /// When SIGKILL was really sent.
    pub killed: Option<Duration>,
}

/// The state machine of a stop.
#[derive(Clone, Debug)]
pub struct StopSequence<'c> {
    config: &'c Config,
    stop: Option<Stop>,
    command_has_ended: bool,
    ended: bool,
}

impl<'c> StopSequence<'c> {
    /// The sequence before any stop signal, with the command running.
    pub fn new(config: &'c Config) -> StopSequence<'c> {
        StopSequence { config, stop: None, command_has_ended: false, ended: false }
    }

    /// The stop that is under way, if one is.
    pub fn stop(&self) -> Option<&Stop> {
        self.stop.as_ref()
    }

    /// Whether the command has ended and the end waits for other processes: who asks has to say when there are none, with
    /// [`Event::NoneLeft`].
    pub fn waits_for_others(&self) -> bool {
        self.command_has_ended && !self.ended
    }

    /// What to do about `event` at the time `now`, in this order.
    pub fn on_event(&mut self, event: Event, now: Duration) -> Actions {
        let mut actions = Actions::new();
        if self.ended {
            return actions;
        }
        match event {
            Event::Signal(signal) => {
                // What was due before the signal came is done before it, however late we are.
                self.advance(now, &mut actions);
                self.on_signal(signal, now, &mut actions);
                self.advance(now, &mut actions);
            }
            // The command is gone, so a deadline that has passed meanwhile has nobody left to signal.
            Event::Exited => {
                self.command_has_ended = true;
                if !self.has_others_to_wait_for() {
                    self.end(&mut actions);
                }
            }
            Event::NoneLeft if self.waits_for_others() => self.end(&mut actions),
            Event::NoneLeft => {}
            Event::Tick => self.advance(now, &mut actions),
        }
        actions
    }

    /// When [`Event::Tick`] is next due, if nothing happens before; `None`: never.
    pub fn next_deadline(&self) -> Option<Duration> {
        let stop = self.stop.filter(|_| !self.ended)?;
        match (stop.forwarded, stop.killed) {
            (None, _) => Some(stop.forward_at),
            (Some(_), None) => stop.kill_at,
            (Some(_), Some(killed)) => Some(killed.saturating_add(self.patience(&stop, killed))),
        }
    }

    /// How long to wait after a kill. The last line has to be written before the platform kills drainit itself.
    fn patience(&self, stop: &Stop, killed: Duration) -> Duration {
        let left = |budget| stop.began.saturating_add(budget).saturating_sub(killed);
        let half = self.config.budget.stop_timeout.map_or(KILL_PATIENCE, |budget| left(budget) / 2);
        half.clamp(SHORTEST_PATIENCE, KILL_PATIENCE)
    }

    fn on_signal(&mut self, signal: Signal, now: Duration, actions: &mut Actions) {
        if self.ended {
            return;
        }
        if !self.config.stop_signals.contains(signal) {
            self.pass_on(self.config.rewrites.apply(signal), actions);
            return;
        }
        match &self.stop {
            None => {
                let budget = &self.config.budget;
                let kill_at = budget.kill_in.map(|kill_in| now.saturating_add(kill_in));
                let forward_at = now.saturating_add(budget.forward_in);
                self.stop = Some(Stop { signal, began: now, forward_at, forwarded: None, kill_at, killed: None });
                actions.push(Action::Announce { signal, forward_in: budget.forward_in, kill_in: budget.kill_in });
            }
            Some(stop) if stop.forwarded.is_none() => self.forward(Cause::SecondSignal, now, actions),
            Some(_) => self.pass_on(Some(signal), actions),
        }
    }

    /// Sends a signal on, unless a rewrite drops it, or there is nobody left to get it.
    fn pass_on(&self, signal: Option<Signal>, actions: &mut Actions) {
        if self.command_has_ended && self.config.forward_to == Target::Child {
            return;
        }
        actions.extend(signal.map(Action::PassOn));
    }

    /// Does what is due by `now`. After a pause of the whole container several deadlines may have passed at once.
    fn advance(&mut self, now: Duration, actions: &mut Actions) {
        while let Some(stop) = self.stop.filter(|_| self.next_deadline().is_some_and(|deadline| deadline <= now)) {
            match (stop.forwarded, stop.killed) {
                (None, _) => {
                    let cause = if self.config.budget.cuts_delay() { Cause::Budget } else { Cause::Delay };
                    self.forward(cause, now, actions);
                }
                (Some(_), None) => {
                    self.stop = Some(Stop { killed: Some(now), ..stop });
                    actions.push(Action::Kill);
                }
                (Some(_), Some(_)) => self.end(actions),
            }
        }
    }

    fn forward(&mut self, cause: Cause, now: Duration, actions: &mut Actions) {
        if let Some(stop) = &mut self.stop {
            if cause == Cause::SecondSignal {
                let kill_in = self.config.budget.kill_in_after(now.saturating_sub(stop.began));
                stop.kill_at = kill_in.map(|kill_in| stop.began.saturating_add(kill_in));
            }
            stop.forwarded = Some(now);
            actions.push(Action::Forward { received: stop.signal, cause });
        }
    }

    /// Whether others than the command keep drainit from ending: those that got the graceful signal with it, or SIGKILL.
    fn has_others_to_wait_for(&self) -> bool {
        self.stop.is_some_and(|stop| {
            stop.killed.is_some() || (stop.forwarded.is_some() && self.config.forward_to != Target::Child)
        })
    }

    fn end(&mut self, actions: &mut Actions) {
        self.ended = true;
        actions.push(Action::End);
    }
}

#[cfg(test)]
mod tests;
