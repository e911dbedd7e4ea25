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
    /// How the command ended, as drainit passes it on; `None` if it is still there, which only a process that hangs in the kernel is.
    pub reason: Option<ExitReason>,
    /// The exit code that drainit ends with.
    pub exit_code: u8,
    pub now: Duration,
    pub stop_timeout: Option<Duration>,
    /// How many processes SIGKILL was sent to.
    pub killed: usize,
    pub reaped: usize,
}

impl Report<'_> {
    /// Whether the command ended by itself, after the graceful signal and before its time was up, and well.
    fn is_clean(&self) -> bool {
        self.graceful.is_some() && self.stop.killed.is_none() && self.exit_code == 0
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
        let reason = self.reason.map_or("the command cannot be killed".to_owned(), |reason| reason.to_string());
        let mut message = format!("{verdict}: {reason}, {} after {signal}", Seconds(self.total()));
        match (self.graceful, self.grace()) {
            (Some(graceful), Some(grace)) => {
                message += &format!(
                    "; it served on for {}, and ended {} after {graceful}",
                    Seconds(self.delay()),
                    Seconds(grace)
                );
            }
            (None, Some(_)) => message += "; the graceful signal could not be sent",
            _ => message += "; it ended before the graceful signal was due",
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
            ("exit_code", Value::Int(self.exit_code.into())),
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
