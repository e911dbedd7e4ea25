//! What the user sees and may interrupt while the example waits.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::Result;
use crate::client::{Load, REQUESTS};

const POLL: Duration = Duration::from_millis(10);
const REDRAW: Duration = Duration::from_millis(100);
const REPEAT: Duration = Duration::from_secs(1);

/// Writes to stdout, and does all the waiting, so that progress is shown and Ctrl-C is obeyed whatever the example
/// waits for.
pub(crate) struct Progress {
    interrupted: Arc<AtomicBool>,
    on_terminal: bool,
    watched: Option<Watched>,
}

struct Watched {
    deploy: &'static str,
    step: String,
    load: Arc<Load>,
    due: Instant,
}

impl Progress {
    /// From here on SIGINT and SIGTERM no longer end the example, but its next wait, so that it can clear up.
    pub(crate) fn new() -> Result<Self> {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The second one ends it all the same, should it be stuck. This has to be registered before the first.
            flag::register_conditional_default(signal, Arc::clone(&interrupted))?;
            flag::register(signal, Arc::clone(&interrupted))?;
        }
        Ok(Self { interrupted, on_terminal: io::stdout().is_terminal(), watched: None })
    }

    /// Writes a line that stays.
    pub(crate) fn say(&mut self, line: &str) -> Result<()> {
        let clear = if self.on_terminal { "\r\x1b[K" } else { "" };
        let at = self.watched.as_ref().map_or_else(String::new, |watched| stamp(&watched.load));
        Ok(writeln!(io::stdout(), "{clear}{at}{line}")?)
    }

    /// Shows the load of a deploy from now on, until [`Self::unwatch`].
    pub(crate) fn watch(&mut self, deploy: &'static str, load: &Arc<Load>) {
        self.watched = Some(Watched {
            deploy,
            step: String::new(),
            load: Arc::clone(load),
            due: Instant::now() + self.interval(),
        });
    }

    /// Says what the deploy does now, in the progress line too.
    pub(crate) fn step(&mut self, step: &str, line: &str) -> Result<()> {
        if let Some(watched) = &mut self.watched {
            watched.step = step.to_owned();
        }
        self.say(line)
    }

    /// Shows no load any more.
    pub(crate) fn unwatch(&mut self) -> Result<()> {
        self.draw()?;
        if self.on_terminal {
            writeln!(io::stdout())?;
        }
        self.watched = None;
        Ok(())
    }

    /// Waits until `done` gives a value. Fails after `limit`, on an error of `done`, and when the user wants to stop.
    pub(crate) fn wait_for<T>(
        &mut self,
        what: &str,
        limit: Duration,
        mut done: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let started = Instant::now();
        loop {
            if let Some(value) = done()? {
                return Ok(value);
            }
            if self.interrupted.load(Ordering::SeqCst) {
                return Err("interrupted".into());
            }
            if started.elapsed() > limit {
                return Err(format!("waited in vain for {what}, for {} s", limit.as_secs()).into());
            }
            if self.watched.as_ref().is_some_and(|watched| Instant::now() >= watched.due) {
                self.draw()?;
            }
            thread::sleep(POLL);
        }
    }

    /// Waits for a time.
    pub(crate) fn pause(&mut self, time: Duration) -> Result<()> {
        let started = Instant::now();
        self.wait_for("the time to pass", time * 2, || Ok((started.elapsed() >= time).then_some(())))
    }

    /// One line can be redrawn often; in a file or a CI log each stays.
    fn interval(&self) -> Duration {
        if self.on_terminal { REDRAW } else { REPEAT }
    }

    fn draw(&mut self) -> Result<()> {
        let interval = self.interval();
        let Some(Watched { deploy, step, load, due }) = &mut self.watched else { return Ok(()) };
        *due = Instant::now() + interval;
        let outcomes = load.outcomes();
        let failed = outcomes.iter().filter(|outcome| outcome.failure.is_some()).count();
        let line =
            format!("{}{deploy}, {step}: {} of {REQUESTS} requests, {failed} failed", stamp(load), outcomes.len());
        let mut out = io::stdout().lock();
        if self.on_terminal {
            write!(out, "\r\x1b[K{line}")?;
            out.flush()?;
        } else {
            writeln!(out, "{line}")?;
        }
        Ok(())
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        // What comes next, an error message or a shell prompt, gets a line of its own.
        if self.on_terminal && self.watched.is_some() {
            let _ = writeln!(io::stdout());
        }
    }
}

fn stamp(load: &Load) -> String {
    format!("  {:4.1} s  ", load.elapsed().as_secs_f32())
}
