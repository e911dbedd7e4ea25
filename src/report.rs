//! The stop report: what the last line says.

use std::time::Duration;

use crate::duration::Seconds;
use crate::exit::ExitReason;
use crate::log::Value;
use crate::signal::Signal;
use crate::stop::Stop;

/// What is known when drainit ends after a stop signal.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    pub stop: &'a Stop,
    /// The graceful signal that was sent, if one was.
    pub graceful: Option<Signal>,
    /// Whether the command had ended before that.
    pub had_ended: bool,
    /// How the command ended; `None` if it is still there, because it could not be killed.
    pub reason: Option<ExitReason>,
    /// When its end was seen.
    pub command_ended: Option<Duration>,
    /// How drainit ends, with what is forgiven.
    pub ends_with: ExitReason,
    pub now: Duration,
    pub stop_timeout: Option<Duration>,
    /// How many processes SIGKILL was sent to.
    pub killed: usize,
    pub reaped: usize,
}

impl Report<'_> {
    /// Whether the command ended by itself, after the graceful signal and before its time was up, and well.
    fn is_clean(&self) -> bool {
        // Somebody else's SIGKILL, such as that of the kernel when memory is short, may be forgiven, but clean it is not.
        let was_killed = self.reason == Some(ExitReason::Signal(Signal::KILL)) && self.graceful != Some(Signal::KILL);
        self.graceful.is_some()
            && !self.had_ended
            && self.stop.killed.is_none()
            && !was_killed
            && self.ends_with.code() == 0
    }

    fn total(&self) -> Duration {
        self.now.saturating_sub(self.stop.began)
    }

    /// How long the command served on.
    fn delay(&self) -> Duration {
        self.stop.forwarded.unwrap_or(self.now).saturating_sub(self.stop.began)
    }

    /// How long it took from the graceful signal to the end.
    fn grace(&self) -> Option<Duration> {
        self.stop.forwarded.map(|forwarded| self.now.saturating_sub(forwarded))
    }

    /// What was left of the budget, in milliseconds; negative when it was exceeded.
    fn budget_left_ms(&self) -> Option<i64> {
        let ms = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        self.stop_timeout.map(|budget| ms(budget).saturating_sub(ms(self.total())))
    }

    /// The event's sentence.
    pub fn message(&self) -> String {
        let Stop { signal, .. } = self.stop;
        let verdict = if self.is_clean() { "clean" } else { "not clean" };
        let reason = self
            .reason
            .map_or("the command cannot be killed".to_owned(), |reason| self.ends_with.told_of(Some(reason)));
        let mut message = format!("{verdict}: {reason}, {} after the stop signal {signal}", Seconds(self.total()));
        match (self.graceful, self.stop.forwarded) {
            _ if self.had_ended => message += "; it had ended before the graceful signal",
            (Some(graceful), Some(forwarded)) => {
                let ended = self.command_ended.unwrap_or(self.now).saturating_sub(forwarded);
                let (delay, ended) = (Seconds(self.delay()), Seconds(ended));
                message += &format!("; it served on for {delay}, then took {ended} to end after {graceful}");
            }
            (None, Some(_)) => message += "; the graceful signal could not be sent",
            (_, None) => message += "; it ended before the graceful signal was due",
        }
        let others = self.command_ended.map_or(Duration::ZERO, |ended| self.now.saturating_sub(ended));
        if others >= Duration::from_millis(10) {
            message += &format!("; the others took {} more", Seconds(others));
        }
        if self.stop.killed.is_some() {
            message += &format!("; {} killed", self.killed);
        }
        match self.budget_left_ms() {
            Some(left @ 0..) => {
                message += &format!("; {} of the budget left", Seconds(Duration::from_millis(left.unsigned_abs())))
            }
            Some(over) => {
                message += &format!("; {} over the budget", Seconds(Duration::from_millis(over.unsigned_abs())))
            }
            None => {}
        }
        message
    }

    /// The event's fields, where `signal` and `graceful` are the names of the signals.
    pub fn fields<'v>(
        &self,
        signal: &'v str,
        graceful: Option<&'v str>,
        dropped: usize,
    ) -> [(&'static str, Value<'v>); 11] {
        [
            ("clean", Value::Bool(self.is_clean())),
            ("signal", signal.into()),
            ("graceful_signal", graceful.into()),
            ("exit_code", Value::Int(self.ends_with.code().into())),
            ("total_ms", self.total().into()),
            ("delay_ms", self.delay().into()),
            ("grace_ms", self.grace().into()),
            ("budget_left_ms", self.budget_left_ms().map(Value::Int).unwrap_or(Value::None)),
            ("killed", self.killed.into()),
            ("reaped", self.reaped.into()),
            ("dropped_log_lines", dropped.into()),
        ]
    }
}
