//! The comparison of the two deploys.

use std::collections::BTreeMap;

use crate::Result;
use crate::client::{Failure, Outcome};
use crate::deploy::Deploy;
use crate::progress::Progress;

/// Shows drainit's own log and then what the clients saw.
pub(crate) fn show(progress: &mut Progress, at_once: &Deploy, drained: &Deploy) -> Result<()> {
    for (number, log) in (1..).zip(&drained.logs) {
        progress.say("")?;
        progress.say(&format!("drainit's log of old task {number}:"))?;
        for line in log {
            progress.say(&format!("    {line}"))?;
        }
    }
    progress.say("")?;
    for deploy in [at_once, drained] {
        progress.say(&summary(deploy))?;
    }
    progress.say(&format!(
        "failed requests: {} {} of {}, {} {} of {}",
        at_once.name,
        failures(at_once).count(),
        at_once.outcomes.len(),
        drained.name,
        failures(drained).count(),
        drained.outcomes.len(),
    ))
}

/// Whether the comparison shows what it is meant to show.
pub(crate) fn verdict(at_once: &Deploy, drained: &Deploy) -> Result<()> {
    if failures(at_once).count() == 0 {
        return Err("no request failed in the deploy at once, so there was nothing to prevent".into());
    }
    if failures(drained).count() > 0 {
        return Err("requests failed although drainit held the stop signal back".into());
    }
    Ok(())
}

fn failures(deploy: &Deploy) -> impl Iterator<Item = Failure> {
    deploy.outcomes.iter().filter_map(|outcome| outcome.failure)
}

/// One line on who still called the stopping tasks, and on all that failed, whoever was called.
fn summary(deploy: &Deploy) -> String {
    let late = deploy.outcomes.iter().filter(|outcome| outcome.after_stop.is_some());
    let mut kinds = BTreeMap::new();
    for failure in failures(deploy) {
        *kinds.entry(failure).or_insert(0) += 1;
    }
    let kinds: Vec<_> = kinds.iter().map(|(failure, count)| format!("{count} {failure}")).collect();
    let failed = deploy.outcomes.iter().filter(|outcome| outcome.failure.is_some());
    format!(
        "{}: {} requests went to a stopping task{}; failed: {}{}",
        deploy.name,
        late.clone().count(),
        latest(late),
        if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") },
        latest(failed),
    )
}

/// How long after the stop signal the last of these requests was sent, if any was.
fn latest<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> String {
    let last = outcomes.filter_map(|outcome| outcome.after_stop).max();
    last.map_or_else(String::new, |last| format!(", the last {:.2} s after its signal", last.as_secs_f32()))
}
