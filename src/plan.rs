//! The stop plan as a drawing: one look must show whether it fits.

use std::fmt::Write;
use std::time::Duration;

use crate::config::{Config, Target};
use crate::duration::Seconds;

/// The width of a terminal.
const COLUMNS: usize = 80;
/// The columns of the bar, which leave room for the marks and for labels at its end.
const WIDTH: usize = 60;
/// The bar of an end that is open.
const OPEN_END: usize = 24;

/// A stretch of the time line.
struct Stretch {
    fill: char,
    length: Option<Duration>,
    what: String,
}

/// Draws what happens on a stop.
pub fn draw(config: &Config) -> String {
    let budget = &config.budget;
    let mut text = String::from("drainit: what happens on a stop\n\n");
    for (at, what) in moments(config) {
        let _ = writeln!(text, "  {:>8}  {what}", Seconds(at).to_string());
    }

    let mut stretches = Vec::new();
    if !budget.forward_in.is_zero() {
        stretches.push(Stretch { fill: '=', length: Some(budget.forward_in), what: "delay: it serves on".to_owned() });
    }
    if budget.grace != Some(Duration::ZERO) {
        stretches.push(Stretch { fill: '-', length: budget.grace, what: "grace: it shuts down".to_owned() });
    }
    if let (Some(kill_by), Some(kill_in)) = (budget.kill_by(), budget.kill_in)
        && kill_in < kill_by
    {
        let length = kill_by.saturating_sub(kill_in);
        stretches.push(Stretch { fill: '_', length: Some(length), what: "not used".to_owned() });
    }
    stretches.extend(budget.margin.filter(|margin| !margin.is_zero()).map(|margin| Stretch {
        fill: '.',
        length: Some(margin),
        what: "margin".to_owned(),
    }));
    if !stretches.is_empty() {
        text.push('\n');
        text += &bar(&stretches);
    }
    for stretch in &stretches {
        let length = stretch.length.map_or("until it has ended".to_owned(), |length| Seconds(length).to_string());
        let _ = writeln!(text, "  {}  {}, {length}", stretch.fill, stretch.what);
    }
    let _ = write!(text, "\n{}", wrapped(&verdict(config)));
    text
}

/// What happens when.
fn moments(config: &Config) -> Vec<(Duration, String)> {
    let budget = &config.budget;
    let whom = match config.forward_to {
        Target::Child => "the command",
        Target::Group => "the command's process group",
        Target::All => "the command and all its descendants",
    };
    let mut graceful = config.stop_signals.iter().map(|signal| config.graceful_signal(signal).0);
    let first = graceful.next();
    let graceful = match first {
        Some(signal) if graceful.all(|other| other == signal) => signal.to_string(),
        _ => "the same signal".to_owned(),
    };
    let served = if budget.forward_in.is_zero() { "" } else { "; the command serves on" };
    let mut moments = vec![
        (Duration::ZERO, format!("{} arrives{served}", config.stop_signals)),
        (budget.forward_in, format!("{graceful} to {whom}")),
    ];
    moments.extend(budget.kill_in.map(|at| (at, "SIGKILL to whatever is left".to_owned())));
    moments.extend(budget.stop_timeout.map(|at| (at, "the platform's own SIGKILL: the budget ends".to_owned())));
    moments
}

/// The time line, with the moments written above it.
fn bar(stretches: &[Stretch]) -> String {
    let total: Duration = stretches.iter().filter_map(|stretch| stretch.length).sum();
    let has_open_end = stretches.iter().any(|stretch| stretch.length.is_none());
    let width = if has_open_end { WIDTH - OPEN_END } else { WIDTH };
    let (mut labels, mut line) = (String::from("0s"), String::from("|"));
    let mut at = Duration::ZERO;
    for stretch in stretches {
        let Some(length) = stretch.length else {
            line.extend(std::iter::repeat_n(stretch.fill, OPEN_END));
            line.push('>');
            continue;
        };
        let share = if total.is_zero() { 0.0 } else { length.as_secs_f64() / total.as_secs_f64() };
        // Even the shortest stretch can be seen.
        let columns = ((share * width as f64).round() as usize).max(1);
        line.extend(std::iter::repeat_n(stretch.fill, columns));
        at = at.saturating_add(length);
        // A label stands above its mark, or as near to it as the one before leaves room.
        let gap = line.chars().count().saturating_sub(labels.chars().count()).max(1);
        labels.extend(std::iter::repeat_n(' ', gap));
        let _ = write!(labels, "{}", Seconds(at));
        line.push('|');
    }
    format!("  {labels}\n  {line}\n\n")
}

/// The text in lines that fit a terminal.
fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut column = usize::MAX;
    for word in text.split(' ') {
        let width = word.chars().count();
        if column.saturating_add(width) >= COLUMNS {
            lines += if lines.is_empty() { " " } else { "\n   " };
            column = 2;
        }
        lines.push(' ');
        lines += word;
        column = column.saturating_add(width + 1);
    }
    lines.push('\n');
    lines
}

fn verdict(config: &Config) -> String {
    let budget = &config.budget;
    match (config.misfit, budget.stop_timeout, budget.margin, budget.grace) {
        (Some(misfit), ..) => format!("DOES NOT FIT: {misfit}"),
        (None, Some(stop_timeout), Some(margin), Some(grace)) => format!(
            "FITS: delay {} + grace {} + margin {} = {} of the stop timeout of {}",
            Seconds(budget.forward_in),
            Seconds(grace),
            Seconds(margin),
            Seconds(budget.forward_in.saturating_add(grace).saturating_add(margin)),
            Seconds(stop_timeout)
        ),
        _ => "NOT CHECKED: set --stop-timeout to the platform's own to see whether it fits".to_owned(),
    }
}
