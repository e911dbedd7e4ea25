//! A rolling deploy of both tasks, as ECS does it: the new task first, then the old one's end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Result;
use crate::client::{INTERVAL, Load, Outcome, REQUESTS};
use crate::endpoints::Endpoints;
use crate::progress::Progress;
use crate::task::{DRAINIT_OPTIONS, Init, Task};

const TASKS: usize = 2;
/// The load before the first task is replaced, which shows that nothing fails without a deploy.
const WARM_UP: Duration = Duration::from_secs(1);
/// For the rest of the load, and for the last request's time-out.
const LOAD_WITHIN: Duration = Duration::from_secs(20);

/// What a deploy has come to.
pub(crate) struct Deploy {
    /// Its name in the output.
    pub(crate) name: &'static str,
    /// What became of the requests, all of them.
    pub(crate) outcomes: Vec<Outcome>,
    /// What each old task wrote to stderr.
    pub(crate) logs: Vec<Vec<String>>,
}

/// Starts the tasks, puts them under load and replaces each in turn.
pub(crate) fn roll(progress: &mut Progress, init: &Init) -> Result<Deploy> {
    let name = init.name();
    let endpoints = Arc::new(Endpoints::default());
    progress.say("")?;
    progress.say(&match init {
        Init::None => format!("{name}: SIGTERM goes straight to the service"),
        Init::Drainit(_) => format!("{name}: SIGTERM goes to drainit {} -- service", DRAINIT_OPTIONS.join(" ")),
    })?;
    let mut old_tasks = Vec::new();
    for _ in 0..TASKS {
        old_tasks.push(start(progress, init, &endpoints)?);
    }

    let load = Arc::new(Load::start(Arc::clone(&endpoints)));
    progress.watch(name, &load);
    progress.step(
        "warming up",
        &format!("{TASKS} tasks serve {REQUESTS} requests, one every {} ms", INTERVAL.as_millis()),
    )?;
    progress.pause(WARM_UP)?;

    let mut new_tasks = Vec::new();
    let mut logs = Vec::new();
    for (number, old) in (1..).zip(old_tasks) {
        let new = start(progress, init, &endpoints)?;
        progress.step(
            &format!("replacing task {number} of {TASKS}"),
            &format!("task {number} of {TASKS}: {} is ready, SIGTERM to {}", new.address(), old.address()),
        )?;
        new_tasks.push(new);
        logs.push(replace(progress, number, old, &endpoints)?);
    }
    if !load.is_sending() {
        return Err(format!("{name}: the deploy took longer than the load lasts; is the machine busy?").into());
    }
    progress.step("both tasks replaced", "both tasks are replaced")?;
    progress.wait_for("the last request", LOAD_WITHIN, || Ok((load.outcomes().len() == REQUESTS).then_some(())))?;
    progress.unwatch()?;
    // Else the failures would not be the deploy's.
    new_tasks.iter_mut().try_for_each(Task::check)?;
    Ok(Deploy { name, outcomes: load.outcomes(), logs })
}

/// A new task, on the list as soon as it is ready.
fn start(progress: &mut Progress, init: &Init, endpoints: &Endpoints) -> Result<Task> {
    let task = Task::start(init, progress)?;
    endpoints.add(task.address());
    Ok(task)
}

/// Stops an old task and waits for its end. Its deregistration begins with the signal, no earlier: ECS does both at
/// once.
fn replace(progress: &mut Progress, number: usize, old: Task, endpoints: &Endpoints) -> Result<Vec<String>> {
    let stopped = Instant::now();
    endpoints.stop(old.address(), stopped);
    old.stop()?;
    let log = old.wait(progress)?;
    let after = stopped.elapsed().as_secs_f32();
    progress.say(&format!("task {number} of {TASKS}: exited {after:.1} s after SIGTERM"))?;
    Ok(log)
}
