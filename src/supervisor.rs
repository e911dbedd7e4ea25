//! The loop: wait for a signal or a deadline, ask the stop sequence what to do, and do it.

mod events;

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use events::log_start_error;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::unistd::getpid;

use crate::command::StartError;
use crate::config::{Config, Target};
use crate::exit::ExitReason;
use crate::log::Log;
use crate::signal::{Signal, SignalSet};
use crate::stop::{Action, Cause, Event, StopSequence};
use crate::sys::environment;
use crate::sys::reap::{Reaped, become_subreaper, has_ended, reap};
use crate::sys::signalfd::{Received, SignalFd};
use crate::sys::signals::set_default;
use crate::sys::spawn::{Starting, spawn};
use crate::sys::terminal::Terminal;
use crate::sys::tree::{Family, caught_signals, kill_children, proc_is_ours};

/// How often to look whether the command's process group is empty, once the command is gone. Its members' parents learn of their end, not we.
const LOOK_FOR_GROUP: Duration = Duration::from_millis(100);
/// How soon after the kill to go for those whom the dead have left. It takes speed to catch one who forks and ends all the time, and it does not
/// take long.
const LOOK_FOR_SURVIVORS: Duration = Duration::from_millis(1);
/// How often to look for signals where the kernel does not let us wait for them.
const LOOK_WITHOUT_POLL: Duration = Duration::from_millis(20);
/// How many children are reaped before drainit looks at signals and deadlines again. In a storm of forks there is always one more.
const REAPED_IN_A_ROW: usize = 1_000;

/// Runs `command` with the signal mask `mask`, and sees it to its end.
///
/// # Errors
///
/// The exit code for a command that could not be started. Why it could not, is logged.
pub fn supervise(config: &Config, log: &mut Log, command: &[&'static CStr], mask: SignalSet) -> Result<ExitReason, u8> {
    let is_pid1 = getpid().as_raw() == 1;
    if !is_pid1 && become_subreaper().is_err() {
        log.warn(
            "this kernel has no subreapers: orphans will go to PID 1, and drainit will neither reap nor kill them",
        );
    }
    let needs_tree = config.budget.kill_in.is_some() || config.forward_to == Target::All;
    if needs_tree && !is_pid1 && !proc_is_ours() {
        log.warn(
            "there is no /proc of this PID namespace, so of the command's descendants only those in its process group will be \
             signalled and killed",
        );
    }
    let terminal = Terminal::in_foreground();
    // Where SIGCHLD is ignored, the kernel reaps in our place, and we would never learn how the command ended.
    let started = set_default(Signal::CHLD)
        .map_err(|errno| StartError::Own("sigaction", errno))
        .and_then(|()| SignalFd::new().map_err(|errno| StartError::Own("signalfd", errno)))
        .and_then(|signals| Ok((signals, spawn(command, environment::variable("PATH"), mask, terminal)?)));
    let (signals, starting) = started.map_err(|error| log_start_error(log, command, &error))?;
    let supervisor = Supervisor {
        config,
        log,
        command,
        is_pid1,
        clock: Instant::now(),
        signals,
        sequence: StopSequence::new(config),
        family: Family { command: starting.pid, command_is_gone: false },
        starting: Some(starting),
        held: Vec::new(),
        graceful: None,
        had_ended: false,
        reason: None,
        command_ended: None,
        reaped: 0,
        // Who executed drainit may have left children that ended before.
        may_reap: true,
        has_children: true,
        killed: BTreeSet::new(),
        ended: false,
    };
    let ended = supervisor.run();
    if let Some(terminal) = terminal {
        terminal.take_back();
    }
    ended
}

struct Supervisor<'a> {
    config: &'a Config,
    log: &'a mut Log,
    command: &'a [&'static CStr],
    is_pid1: bool,
    clock: Instant,
    signals: SignalFd,
    sequence: StopSequence<'a>,
    family: Family,
    /// The child, until it is known whether it could execute the command.
    starting: Option<Starting>,
    /// What there was to send before the command ran.
    held: Vec<Held>,
    /// The graceful signal, once it was sent.
    graceful: Option<Signal>,
    /// Whether the command had ended before the graceful signal was sent.
    had_ended: bool,
    /// How the command ended, once it has, and when that was seen.
    reason: Option<ExitReason>,
    command_ended: Option<Duration>,
    /// How many orphans were reaped.
    reaped: usize,
    /// Whether there may be somebody to reap of whom no SIGCHLD will tell.
    may_reap: bool,
    /// Whether there were children when we last looked.
    has_children: bool,
    /// Whom SIGKILL was sent to.
    killed: BTreeSet<i32>,
    ended: bool,
}

/// Something to send that waits for the command to run.
#[derive(Clone, Copy, Debug)]
enum Held {
    PassOn(Signal),
    Graceful { received: Signal, cause: Cause },
}

impl Supervisor<'_> {
    fn run(mut self) -> Result<ExitReason, u8> {
        while !self.ended {
            if let Err(error) = self.turn() {
                let code = log_start_error(self.log, self.command, &error);
                // After a stop signal there is a last line in any case.
                if self.sequence.stop().is_some() {
                    self.reason = Some(ExitReason::Code(code));
                    self.report(ExitReason::Code(code));
                }
                return Err(code);
            }
        }
        // A command that is still there could not be killed.
        let reason =
            self.reason.map_or(ExitReason::Signal(Signal::KILL), |reason| reason.forgiven(&self.config.ok_exit));
        self.report(reason);
        Ok(reason)
    }

    /// One turn of the loop: everything that there is to do, and then no more than that.
    fn turn(&mut self) -> Result<(), StartError> {
        self.wait();
        self.finish_start()?;
        for received in self.signals.read() {
            self.on_signal(received)?;
        }
        if self.may_reap {
            self.reap()?;
        }
        self.step(Event::Tick);
        self.look_for_others()
    }

    fn now(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Waits for a signal, for news of the start, or for the next deadline. This is the only place where drainit waits.
    fn wait(&self) {
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        fds.extend(self.starting.iter().map(|starting| PollFd::new(starting.as_fd(), PollFlags::POLLIN)));
        let look = match (self.sequence.waits_for_others(), self.was_killed(), self.config.forward_to) {
            _ if self.may_reap => Some(Duration::ZERO),
            (true, true, _) => Some(LOOK_FOR_SURVIVORS),
            (true, false, Target::Group) => Some(LOOK_FOR_GROUP),
            // The end of each is announced by SIGCHLD: whoever loses its parent becomes our child.
            _ => None,
        };
        let due = self.sequence.next_deadline().map(|deadline| deadline.saturating_sub(self.now()));
        let timeout = [look, due].into_iter().flatten().min().map(TimeSpec::from_duration);
        // No signal interrupts us, as all are blocked. Where a sandbox refuses the call, we look in turns.
        if ppoll(&mut fds, timeout, None).is_err() {
            std::thread::sleep(LOOK_WITHOUT_POLL);
        }
    }

    /// Learns whether the command could be executed, if that is known by now.
    fn finish_start(&mut self) -> Result<(), StartError> {
        let Some(result) = self.starting.as_ref().and_then(Starting::finish) else { return Ok(()) };
        result?;
        self.starting = None;
        self.log_started();
        for held in std::mem::take(&mut self.held) {
            match held {
                Held::PassOn(signal) => self.pass_on(signal),
                Held::Graceful { received, cause } => self.forward(received, cause),
            }
        }
        Ok(())
    }

    fn on_signal(&mut self, received: Received) -> Result<(), StartError> {
        if received.signal == Signal::CHLD {
            self.reap()?;
        } else if !is_our_own(received) {
            self.apply(Event::Signal(received.signal), Some(received));
        }
        Ok(())
    }

    /// Reaps those who have ended. One SIGCHLD may stand for many.
    fn reap(&mut self) -> Result<(), StartError> {
        for _ in 0..REAPED_IN_A_ROW {
            match reap() {
                Reaped::Child { pid, reason } => self.on_end(pid, reason)?,
                Reaped::NoneEnded => {
                    self.may_reap = false;
                    return Ok(());
                }
                Reaped::NoChildren => {
                    self.may_reap = false;
                    self.has_children = false;
                    return Ok(());
                }
            }
        }
        self.may_reap = true;
        Ok(())
    }

    fn on_end(&mut self, pid: i32, reason: ExitReason) -> Result<(), StartError> {
        if self.was_killed() && reason == ExitReason::Signal(Signal::KILL) {
            self.killed.insert(pid);
        }
        // (Once the command is gone, an orphan may get its number.)
        if pid != self.family.command.as_raw() || self.family.command_is_gone {
            self.reaped = self.reaped.saturating_add(1);
            return Ok(());
        }
        // It may have come to its end before we have seen its start.
        self.finish_start()?;
        self.reason = Some(reason);
        self.command_ended = Some(self.now());
        self.family.command_is_gone = true;
        self.step(Event::Exited);
        Ok(())
    }

    fn was_killed(&self) -> bool {
        self.sequence.stop().is_some_and(|stop| stop.killed.is_some())
    }

    /// Tells the stop sequence when nobody is left whom it waits for.
    fn look_for_others(&mut self) -> Result<(), StartError> {
        if !self.sequence.waits_for_others() {
            return Ok(());
        }
        self.reap()?;
        let was_killed = self.was_killed();
        let only_group = !was_killed && self.config.forward_to == Target::Group;
        // Who has no children has no descendants. That is exact, where a look at all processes could miss one.
        if !self.has_children || only_group && !self.family.has_group() {
            self.step(Event::NoneLeft);
        } else if was_killed {
            kill_children();
        }
        Ok(())
    }

    fn step(&mut self, event: Event) {
        self.apply(event, None);
    }

    fn apply(&mut self, event: Event, received: Option<Received>) {
        for action in self.sequence.on_event(event, self.now()) {
            match action {
                Action::PassOn(signal) => self.pass_on(signal),
                Action::Announce { signal, forward_in, kill_in } => {
                    self.log_stop_requested(signal, received, forward_in, kill_in);
                }
                Action::Forward { received, cause } => self.forward(received, cause),
                Action::Kill => self.kill(),
                Action::End => self.ended = true,
            }
        }
    }

    /// Sends the graceful signal.
    fn forward(&mut self, received: Signal, cause: Cause) {
        if self.starting.is_some() {
            self.held.push(Held::Graceful { received, cause });
            return;
        }
        // Its end may be known to the kernel only, as signals are read in the order of their numbers, and SIGCHLD comes after SIGTERM.
        self.had_ended = has_ended(self.family.command);
        if self.had_ended && self.config.forward_to == Target::Child {
            return;
        }
        let (mut signal, is_chosen) = self.config.graceful_signal(received);
        let caught = caught_signals(self.family.command);
        let catches = |signal| caught.is_none_or(|caught| caught.contains(signal));
        let mut note = "";
        // A base image with `STOPSIGNAL SIGQUIT` leads to this when another program runs in it: the signal would core-dump it.
        if !is_chosen && !catches(signal) && caught.is_some_and(|caught| caught.contains(Signal::TERM)) {
            signal = Signal::TERM;
            note = "; the command does not catch the signal that was received, but does catch SIGTERM";
        } else if !catches(signal) {
            note = "; the command does not catch it";
        }
        match self.family.send(self.config.forward_to, signal) {
            Ok(unreached) => {
                self.graceful = Some(signal);
                self.log_forwarded(signal, cause, note);
                self.warn_of_unreached(signal, unreached);
            }
            Err(errno) => self.warn_not_sent(signal, errno),
        }
    }

    /// Sends a signal that passes through, or keeps it until the command runs.
    fn pass_on(&mut self, signal: Signal) {
        if self.starting.is_some() {
            self.held.push(Held::PassOn(signal));
            return;
        }
        match self.family.send(self.config.forward_to, signal) {
            Ok(unreached) => self.warn_of_unreached(signal, unreached),
            Err(errno) => self.warn_not_sent(signal, errno),
        }
    }

    fn kill(&mut self) {
        self.killed.extend(self.family.kill_all());
        self.log_killed();
    }

    fn since_stop(&self) -> Duration {
        self.now().saturating_sub(self.sequence.stop().map_or(Duration::ZERO, |stop| stop.began))
    }
}

/// Whether the kernel raised the signal for something that drainit did itself: for a log line into a closed pipe, or beyond the limit of a file's
/// size.
fn is_our_own(received: Received) -> bool {
    received.sender_pid == getpid().as_raw() && matches!(received.signal.number(), libc::SIGPIPE | libc::SIGXFSZ)
}
