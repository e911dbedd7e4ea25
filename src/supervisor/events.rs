//! What the supervisor says of what it does.

use std::ffi::CStr;
use std::time::Duration;

use super::Supervisor;
use crate::command::{CommandLine, StartError};
use crate::config::Target;
use crate::duration::Seconds;
use crate::exit::ExitReason;
use crate::log::{Event, Level, Log, Value};
use crate::report::Report;
use crate::signal::Signal;
use crate::stop::Cause;
use crate::sys::environment;
use crate::sys::receive::Received;

/// Says why `command` could not be started. Returns the exit code for it.
pub(super) fn log_start_error(log: &mut Log, command: &[&'static CStr], error: &StartError) -> u8 {
    let name = command.first().copied().unwrap_or_default();
    log.error(&error.explain(name, environment::variable("PATH")));
    error.code()
}

impl Supervisor<'_> {
    pub(super) fn warn_not_sent(&mut self, signal: Signal, errno: nix::Error) {
        let target = target_in_words(self.config.forward_to);
        self.log.warn(&format!("{signal} could not be sent to the {target}: {}", errno.desc()));
    }

    pub(super) fn warn_of_unreached(&mut self, signal: Signal, unreached: Option<nix::Error>) {
        if let Some(errno) = unreached {
            self.log.warn(&format!("{signal} could not be sent to some of the descendants: {}", errno.desc()));
        }
    }

    pub(super) fn log_killed(&mut self) {
        let processes = self.killed.len();
        let after = self.since_stop();
        let message = format!(
            "SIGKILL to {}, {} after the stop signal",
            count(processes, "process", "processes"),
            Seconds(after)
        );
        let fields = [("after_ms", after.into()), ("processes", processes.into())];
        self.log.write(&Event { level: Level::Info, name: "killed", message: &message, fields: &fields });
    }

    /// `started` and `exited` interest those who have set something; others want an init that says nothing.
    fn quiet_level(&self) -> Level {
        if self.config.is_configured { Level::Info } else { Level::Debug }
    }

    pub(super) fn log_started(&mut self) {
        let budget = &self.config.budget;
        let pid = self.family.command.as_raw();
        let command = CommandLine(self.command).to_string();
        let mut message = format!("{command}, pid {pid}");
        let plan = [
            (!budget.forward_in.is_zero()).then(|| format!("it serves on for {}", Seconds(budget.forward_in))),
            budget.kill_in.map(|kill_in| format!("SIGKILL after {}", Seconds(kill_in))),
            budget.stop_timeout.map(|stop_timeout| format!("the budget is {}", Seconds(stop_timeout))),
        ];
        for (i, part) in plan.into_iter().flatten().enumerate() {
            message += if i == 0 { "; on a stop " } else { ", " };
            message += &part;
        }
        let fields = [
            ("pid", Value::Int(pid.into())),
            ("command", command.as_str().into()),
            ("pid1", Value::Bool(self.is_pid1)),
            ("delay_ms", budget.forward_in.into()),
            ("grace_ms", budget.grace.into()),
            ("stop_timeout_ms", budget.stop_timeout.into()),
            ("margin_ms", budget.margin.into()),
        ];
        self.log.write(&Event { level: self.quiet_level(), name: "started", message: &message, fields: &fields });
    }

    pub(super) fn log_stop_requested(
        &mut self,
        signal: Signal,
        received: Option<&Received>,
        forward_in: Duration,
        kill_in: Option<Duration>,
    ) {
        let (pid, uid) = received.map_or((0, 0), |received| (received.sender_pid(), received.sender_uid()));
        let sender = match pid {
            0 if self.is_pid1 => "from outside the PID namespace".to_owned(),
            0 => "from the kernel or outside the PID namespace".to_owned(),
            pid => format!("from process {pid} of user {uid}"),
        };
        let forward = if forward_in.is_zero() {
            "passing it on at once".to_owned()
        } else {
            format!("the command serves on for {}", Seconds(forward_in))
        };
        let kill = kill_in.map_or(String::new(), |kill_in| format!(", SIGKILL after {}", Seconds(kill_in)));
        let message = format!("{signal} {sender}; {forward}{kill}");
        let name = signal.to_string();
        let fields = [
            ("signal", name.as_str().into()),
            ("sender_pid", Value::Int(pid.into())),
            ("sender_uid", Value::Int(uid.into())),
            ("forward_in_ms", forward_in.into()),
            ("kill_in_ms", kill_in.into()),
        ];
        self.log.write(&Event { level: Level::Info, name: "stop_requested", message: &message, fields: &fields });
    }

    pub(super) fn log_forwarded(&mut self, signal: Signal, cause: Cause, note: &str) {
        let after = self.since_stop();
        let reason = match cause {
            Cause::Delay if self.config.budget.delay.is_zero() => "no delay is set",
            Cause::Delay => "the delay is over",
            Cause::Budget => "the budget leaves no time for the rest of the delay",
            Cause::SecondSignal => "a second stop signal ended the delay",
        };
        let to = self.config.forward_to;
        let message = format!(
            "{signal} to the {}, {} after the stop signal: {reason}{note}",
            target_in_words(to),
            Seconds(after)
        );
        let name = signal.to_string();
        let fields = [
            ("signal", name.as_str().into()),
            ("to", to.name().into()),
            ("after_ms", after.into()),
            ("cause", cause.name().into()),
        ];
        self.log.write(&Event { level: Level::Info, name: "signal_forwarded", message: &message, fields: &fields });
    }

    /// Writes the last line, before drainit ends with `ends_with`.
    pub(super) fn report(&mut self, ends_with: ExitReason) {
        let exit_code = ends_with.code();
        let Some(stop) = self.sequence.stop() else {
            let reaped = count(self.reaped, "orphan", "orphans");
            let message = format!("{}; {reaped} reaped", ends_with.told_of(self.reason));
            let fields = [("exit_code", Value::Int(exit_code.into())), ("reaped", self.reaped.into())];
            let level = self.quiet_level();
            self.log.write(&Event { level, name: "exited", message: &message, fields: &fields });
            return;
        };
        let report = Report {
            stop,
            graceful: self.graceful,
            had_ended: self.had_ended,
            reason: self.reason,
            command_ended: self.command_ended,
            ends_with,
            now: self.now(),
            stop_timeout: self.config.budget.stop_timeout,
            killed: self.killed.len(),
            reaped: self.reaped,
        };
        let (signal, graceful) = (stop.signal.to_string(), self.graceful.map(|graceful| graceful.to_string()));
        let fields = report.fields(&signal, graceful.as_deref(), self.log.dropped());
        let message = report.message();
        self.log.write(&Event { level: Level::Info, name: "stopped", message: &message, fields: &fields });
    }
}

fn target_in_words(target: Target) -> &'static str {
    match target {
        Target::Child => "command",
        Target::Group => "command's process group",
        Target::All => "command and all descendants",
    }
}

fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}
