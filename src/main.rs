//! drainit: a container init that keeps the task serving until its clients have gone, then stops it inside the platform's budget.
//!
//! Start with `run` for the order of things, `stop` for the decisions, and `supervisor` for the loop.

#![cfg_attr(not(test), no_main)]
#![deny(unsafe_code)]

mod budget;
mod cli;
mod command;
mod config;
mod duration;
mod exit;
mod log;
mod plan;
mod procfs;
mod report;
mod setting;
mod signal;
mod stop;
mod supervisor;
mod sys;
mod turns;

use cli::Invocation;
use config::Config;
use exit::ExitReason;
use log::{Format, Level, Log};
use setting::{Settings, complaint};
use sys::entry::Start;
use sys::{environment, stdio};

/// The program, from the command line to the exit code. All signals are blocked by now.
#[cfg_attr(test, allow(dead_code))]
fn run(start: &Start) -> u8 {
    let (flags, plan, command_words) = match cli::parse(&start.words()) {
        Ok(Invocation::Run { flags, plan, command_words }) => (flags, plan, command_words),
        Ok(Invocation::Print(text)) => return print(&text),
        Err(error) => return fail(&Settings::new(Vec::new(), environment::variable), &[error]),
    };
    let settings = Settings::new(flags, environment::variable);
    let (config, mut warnings) = match Config::new(&settings) {
        Ok(understood) => understood,
        Err(errors) => return fail(&settings, &errors.iter().map(ToString::to_string).collect::<Vec<_>>()),
    };
    warnings.extend(
        environment::variables()
            .filter(|(name, value)| name.as_encoded_bytes().starts_with(b"DRAINIT_") && !value.is_empty())
            .filter_map(|(name, _)| complaint(name)),
    );
    let mut log = Log::new(config.log_level, config.log_format);
    for warning in &warnings {
        log.warn(warning);
    }
    if plan {
        return print(&plan::draw(&config));
    }
    let mask = match start.mask {
        Ok(mask) => mask,
        Err(errno) => {
            log.error(&format!("signals cannot be blocked: sigprocmask: {}", errno.desc()));
            return exit::OWN_ERROR;
        }
    };
    let command = start.args.get(start.args.len().saturating_sub(command_words)..).unwrap_or_default();
    match supervisor::supervise(&config, &mut log, command, mask) {
        Ok(reason) => end(reason),
        Err(code) => code,
    }
}

/// Prints `text`, for an option that does nothing else.
fn print(text: &str) -> u8 {
    match stdio::print(text) {
        Ok(()) => 0,
        Err(error) => {
            Log::new(Level::Error, Format::Text).error(&format!("standard output: {error}"));
            exit::OWN_ERROR
        }
    }
}

/// Reports what the user has to mend before anything can be started. However little is to be logged, this is.
fn fail(settings: &Settings, errors: &[String]) -> u8 {
    let mut log = Log::new(Level::Error, Config::format_for_errors(settings));
    for error in errors {
        log.error(error);
    }
    exit::OWN_ERROR
}

/// Ends as the command did. PID 1 cannot be ended by a signal of its own, so there the code has to say it.
fn end(reason: ExitReason) -> u8 {
    if let ExitReason::Signal(signal) = reason
        && nix::unistd::getpid().as_raw() != 1
    {
        sys::die::of(signal);
    }
    reason.code()
}
