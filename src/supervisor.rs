//! The loop: wait for a signal or a deadline, ask the stop sequence what to do, and do it.

mod delivery;
mod events;
mod job;

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::time::{Duration, Instant};

use delivery::Outbox;
use events::log_start_error;
use job::Job;
use nix::errno::Errno;
use nix::unistd::getpid;

use crate::command::StartError;
use crate::config::{Config, Target};
use crate::exit::ExitReason;
use crate::log::Log;
use crate::signal::{Signal, SignalSet};
use crate::stop::{Action, Event, StopSequence};
use crate::sys::environment;
use crate::sys::reap::{Reaped, become_subreaper, reap};
use crate::sys::receive::{Received, receive};
use crate::sys::signals::set_default;
use crate::sys::spawn::{Starting, spawn};
use crate::sys::tree::{Family, kill_children, proc_is_ours};
use crate::turns::Turns;

/// How often to look whether the command's process group is empty, once the command is gone. Its members' parents learn of their end, not we.
const LOOK_FOR_GROUP: Duration = Duration::from_millis(100);
/// How soon after the kill to go for those whom the dead have left. It takes speed to catch one who forks and ends all the time, and it does not
/// take long.
const LOOK_FOR_SURVIVORS: Duration = Duration::from_millis(1);
/// How often to look for signals where a sandbox does not let us wait for them.
const LOOK_WITHOUT_WAIT: Duration = Duration::from_millis(20);
/// How often to try again to send what the command's queue had no room for.
const TRY_AGAIN: Duration = Duration::from_millis(10);
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
    let job = Job::find();
    let terminal = job.as_ref().and_then(Job::terminal_to_lend);
    // Where SIGCHLD is ignored, the kernel reaps in our place, and we would never learn how the command ended.
    let started = set_default(Signal::CHLD)
        .map_err(|errno| StartError::Own("sigaction", errno))
        .and_then(|()| can_receive().map_err(|errno| StartError::Own("sigtimedwait", errno)))
        .and_then(|()| reap_earlier_children().map_err(|errno| StartError::Own("wait", errno)))
        .and_then(|reaped| Ok((reaped, spawn(command, environment::variable("PATH"), mask, terminal)?)));
    let (reaped, starting) = started.map_err(|error| log_start_error(log, command, &error))?;
    let mut supervisor = Supervisor {
        config,
        log,
        command,
        is_pid1,
        clock: Instant::now(),
        turns: Turns::default(),
        sequence: StopSequence::new(config),
        family: Family { command: starting.pid, command_is_gone: false },
        starting: Some(starting),
        outbox: Outbox::default(),
        job,
        graceful: None,
        had_ended: false,
        reason: None,
        command_ended: None,
        reaped,
        may_reap: false,
        has_children: true,
        killed: BTreeSet::new(),
        ended: false,
    };
    let ended = supervisor.run();
    supervisor.take_terminal_back();
    ended
}

/// Reaps the children of whoever executed drainit, as far as they have ended before. Returns how many.
fn reap_earlier_children() -> nix::Result<usize> {
    let mut reaped: usize = 0;
    while let Reaped::Child { .. } = reap()? {
        reaped = reaped.saturating_add(1);
    }
    Ok(reaped)
}

/// Whether signals can be received here. Once the command runs it is too late to learn that they cannot.
fn can_receive() -> nix::Result<()> {
    match receive(SignalSet::EMPTY, Some(Duration::ZERO)) {
        Ok(_) | Err(Errno::EAGAIN) => Ok(()),
        Err(errno) => Err(errno),
    }
}

struct Supervisor<'a> {
    config: &'a Config,
    log: &'a mut Log,
    command: &'a [&'static CStr],
    is_pid1: bool,
    clock: Instant,
    turns: Turns,
    sequence: StopSequence<'a>,
    family: Family,
    /// The child, until it is known whether it could execute the command.
    starting: Option<Starting>,
    outbox: Outbox,
    /// What is to be done about the terminal, if there is one.
    job: Option<Job>,
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

impl Supervisor<'_> {
    fn run(&mut self) -> Result<ExitReason, u8> {
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
        let received = self.wait();
        self.finish_start()?;
        if let Some(received) = received {
            self.on_signal(received)?;
        }
        self.send_waiting();
        if self.may_reap {
            self.reap()?;
        }
        if self.sequence.next_deadline().is_some() {
            self.step(Event::Tick);
        }
        self.look_for_others()
    }

    fn now(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Waits for a signal, for news of the start, or for the next deadline, and returns the signal. This is the only place where drainit waits.
    fn wait(&mut self) -> Option<Received> {
        let look = match (self.sequence.waits_for_others(), self.was_killed(), self.config.forward_to) {
            _ if self.may_reap => Some(Duration::ZERO),
            (true, true, _) => Some(LOOK_FOR_SURVIVORS),
            (true, false, Target::Group) => Some(LOOK_FOR_GROUP),
            // The end of each is announced by SIGCHLD: whoever loses its parent becomes our child.
            _ => None,
        };
        let again = (!self.outbox.is_empty()).then_some(TRY_AGAIN);
        let due = self.sequence.next_deadline().map(|deadline| deadline.saturating_sub(self.now()));
        let mut timeout = [look, again, due].into_iter().flatten().min();
        if let Some(starting) = &self.starting {
            // Signals for which there is no room here stay pending, and would end each wait at once.
            if self.outbox.is_full() || starting.wait(timeout).is_err() {
                std::thread::sleep(LOOK_WITHOUT_WAIT);
            }
            timeout = Some(Duration::ZERO);
        }
        self.receive(timeout)
    }

    fn receive(&mut self, timeout: Option<Duration>) -> Option<Received> {
        // Nothing is taken from the kernel for which there is no room here.
        let wanted = if self.outbox.is_full() { SignalSet::STANDARD } else { SignalSet::ALL };
        let first = self.turns.first(wanted).and_then(|first| receive(first, Some(Duration::ZERO)).ok());
        match first.map_or_else(|| receive(wanted, timeout), Ok) {
            Ok(received) => {
                self.turns.took(received.signal);
                return Some(received);
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            // Whatever it is, it must not become a loop that takes all of the processor.
            Err(_) => std::thread::sleep(LOOK_WITHOUT_WAIT),
        }
        None
    }

    /// Learns whether the command could be executed, if that is known by now.
    fn finish_start(&mut self) -> Result<(), StartError> {
        let Some(result) = self.starting.as_ref().and_then(Starting::finish) else { return Ok(()) };
        result?;
        self.starting = None;
        self.log_started();
        self.send_held();
        Ok(())
    }

    fn on_signal(&mut self, received: Received) -> Result<(), StartError> {
        if received.signal == Signal::CHLD {
            self.reap()?;
            self.look_at_job();
        } else if received.signal == Signal::CONT && self.is_suspended() {
            self.resume();
        } else if !is_our_own(&received) {
            self.apply(Event::Signal(received.signal), Some(&received));
        }
        Ok(())
    }

    /// Reaps those who have ended. One SIGCHLD may stand for many.
    fn reap(&mut self) -> Result<(), StartError> {
        for _ in 0..REAPED_IN_A_ROW {
            match reap() {
                Ok(Reaped::Child { pid, reason }) => self.on_end(pid, reason)?,
                Ok(Reaped::NoneEnded) | Err(_) => {
                    self.may_reap = false;
                    return Ok(());
                }
                Ok(Reaped::NoChildren) => {
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

    fn apply(&mut self, event: Event, received: Option<&Received>) {
        for action in self.sequence.on_event(event, self.now()) {
            match action {
                Action::PassOn(signal) => self.pass_on(signal, received),
                Action::Announce { signal, forward_in, kill_in } => {
                    self.log_stop_requested(signal, received, forward_in, kill_in);
                }
                Action::Forward { received, cause } => self.forward(received, cause),
                Action::Kill => self.kill(),
                Action::End => self.ended = true,
            }
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
fn is_our_own(received: &Received) -> bool {
    matches!(received.signal.number(), libc::SIGPIPE | libc::SIGXFSZ) && received.sender_pid() == getpid().as_raw()
}
