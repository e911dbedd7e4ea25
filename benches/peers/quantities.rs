//! What is measured, and how.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::Effort;
use crate::command::words;
use crate::inits::Init;
use crate::namespace::{Pid1, now};
use crate::report::{Goal, Report};
use crate::stats::Samples;

/// How many signals an init gets before it is started anew: where its pages lie makes it a little faster or slower for as long as it lives.
const GENERATION: usize = 200;
/// How long everybody has to go to sleep before the next signal.
const PAUSE: Duration = Duration::from_micros(200);
/// How long an init has to settle before it is looked at.
const SETTLING: Duration = Duration::from_millis(300);

/// Does something with each init in turn, `rounds` times, each time in another order.
fn in_turn<'i>(inits: &'i [Init], rounds: usize, mut measure: impl FnMut(usize, &'i Init)) {
    let mut order: Vec<usize> = (0..inits.len()).collect();
    for _ in 0..rounds {
        fastrand::shuffle(&mut order);
        for index in &order {
            measure(*index, &inits[*index]);
        }
    }
}

fn rows(inits: &[Init], samples: Vec<Samples>) -> Vec<(&Init, Samples)> {
    inits.iter().zip(samples).collect()
}

/// From the exec of the init to the moment when its end is seen, with `true` as the command.
pub fn start(inits: &[Init], effort: Effort, report: &mut Report) {
    let mut samples = vec![Samples::default(); inits.len()];
    in_turn(inits, effort.starts, |index, init| {
        let pid1 = Pid1::start(&init.words(&["/bin/true"]), false);
        let started = pid1.started;
        samples[index].0.push(micros(pid1.wait() - started));
    });
    report.table("start to the end of `true`, median", "us", 0.5, Some(Goal::Ratio(1.0)), &rows(inits, samples));
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1_000.0
}

/// Starts `init` with the command called `name`, and waits until that runs.
fn start_command(init: &Init, name: &str) -> Pid1 {
    let command = words(name);
    let mut pid1 = Pid1::start(&init.words(&command.each_ref().map(String::as_str)), true);
    hear(&mut pid1, &mut [0; 1]);
    pid1
}

fn hear(pid1: &mut Pid1, bytes: &mut [u8]) {
    pid1.stdout.as_mut().expect("a pipe").read_exact(bytes).expect("the command's word");
}

/// The memory of an init whose command idles.
pub fn memory(inits: &[Init], effort: Effort, report: &mut Report) {
    const KINDS: [(&str, &str); 3] =
        [("Rss", "resident memory"), ("Pss", "proportional memory"), ("Private_Dirty", "private dirty memory")];
    // Pages of a file that was written a moment ago count as dirty for whoever maps them.
    nix::unistd::sync();
    let inits: Vec<Init> = inits.iter().filter(|init| init.program.is_some()).cloned().collect();
    let mut samples = vec![vec![Samples::default(); inits.len()]; KINDS.len()];
    in_turn(&inits, effort.memory_samples, |index, init| {
        let pid1 = start_command(init, "idle");
        std::thread::sleep(SETTLING);
        let text = pid1.proc_file("smaps_rollup");
        for ((name, _), samples) in KINDS.iter().zip(&mut samples) {
            samples[index].0.push(number(&text, name));
        }
    });
    for ((_, title), samples) in KINDS.iter().zip(samples) {
        report.table(&format!("{title} when idle, median"), "KiB", 0.5, Some(Goal::Ratio(0.9)), &rows(&inits, samples));
    }
}

/// The number in the line called `name` of a file in `/proc`.
fn number(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or_else(|| panic!("no line {name} in {text}"))
}

/// How often an init wakes up while nothing happens, all of them at the same time.
pub fn wake_ups(inits: &[Init], effort: Effort, report: &mut Report) {
    let inits: Vec<Init> = inits.iter().filter(|init| init.program.is_some()).cloned().collect();
    let running: Vec<Pid1> = inits.iter().map(|init| start_command(init, "idle")).collect();
    std::thread::sleep(SETTLING);
    let count = |pid1: &Pid1| {
        let status = pid1.proc_file("status");
        number(&status, "voluntary_ctxt_switches") + number(&status, "nonvoluntary_ctxt_switches")
    };
    let before: Vec<f64> = running.iter().map(count).collect();
    std::thread::sleep(Duration::from_secs(effort.idle_seconds));
    let samples = running.iter().zip(before).map(|(pid1, before)| Samples(vec![count(pid1) - before])).collect();
    let title = format!("wake-ups in {} s when idle", effort.idle_seconds);
    report.table(&title, "count", 0.5, Some(Goal::Value(0.0)), &rows(&inits, samples));
}

/// From a signal to the init to its arrival at the command.
///
/// All on one processor: with several, it is by the scheduler's choice of processors, which stays the same for the whole run, that one init seems
/// twice as fast as another. Each signal goes to another init than the one before, so it finds the caches as cold as in real life.
pub fn latency(inits: &[Init], effort: Effort, report: &mut Report) {
    let all = sched_getaffinity(Pid::from_raw(0)).expect("our processors");
    let mut one = CpuSet::new();
    let last = (0..CpuSet::count()).rev().find(|cpu| all.is_set(*cpu) == Ok(true)).expect("a processor");
    one.set(last).and_then(|()| sched_setaffinity(Pid::from_raw(0), &one)).expect("one of our processors");
    let mut samples = vec![Samples::default(); inits.len()];
    for _ in 0..effort.signals.div_ceil(GENERATION) {
        let mut running: Vec<Pid1> = inits.iter().map(|init| start_command(init, "report")).collect();
        std::thread::sleep(SETTLING);
        in_turn(inits, GENERATION, |index, _| {
            std::thread::sleep(PAUSE);
            let mut arrived = [0; 8];
            let sent = now();
            kill(running[index].pid, Signal::SIGUSR1).expect("sent");
            hear(&mut running[index], &mut arrived);
            samples[index].0.push(micros(u64::from_ne_bytes(arrived) - sent));
        });
    }
    sched_setaffinity(Pid::from_raw(0), &all).expect("what we had");
    let rows = rows(inits, samples);
    report.table("signal in to signal out, median", "us", 0.5, Some(Goal::Ratio(1.0)), &rows);
    report.table("signal in to signal out, 99th percentile", "us", 0.99, Some(Goal::Ratio(1.0)), &rows);
}

/// The processor time of an init for orphans that it reaps.
pub fn orphans(inits: &[Init], effort: Effort, report: &mut Report) {
    let inits: Vec<Init> = inits.iter().filter(|init| init.program.is_some()).cloned().collect();
    let mut running: Vec<Pid1> = inits.iter().map(|init| start_command(init, "orphans")).collect();
    let mut samples = vec![Samples::default(); inits.len()];
    let count = u32::try_from(effort.orphans).expect("not that many");
    in_turn(&inits, effort.orphan_rounds, |index, _| {
        let pid1 = &mut running[index];
        let before = processor_time(pid1);
        pid1.stdin.as_mut().expect("a pipe").write_all(&count.to_ne_bytes()).expect("the command reads");
        hear(pid1, &mut [0; 1]);
        samples[index].0.push(micros(processor_time(pid1) - before) / 1_000.0 * 10_000.0 / f64::from(count));
    });
    let title = "processor time for 10 000 orphans, median";
    report.table(title, "ms", 0.5, Some(Goal::Ratio(1.0)), &rows(&inits, samples));
}

/// In nanoseconds. The inits have one thread, so this is all of it.
fn processor_time(pid1: &Pid1) -> u64 {
    let text = pid1.proc_file("schedstat");
    text.split_whitespace().next().and_then(|time| time.parse().ok()).expect("a kernel with schedstat")
}

/// The size of the file.
pub fn size(inits: &[Init], _: Effort, report: &mut Report) {
    let sizes: BTreeMap<&str, u64> = inits
        .iter()
        .filter_map(|init| Some((init.name, std::fs::metadata(init.program.as_ref()?).expect("a file").len())))
        .collect();
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let samples = inits.iter().map(|init| Samples(sizes.get(init.name).map(|size| *size as f64).into_iter().collect()));
    report.table("file size", "bytes", 0.5, Some(Goal::Ratio(0.9)), &rows(inits, samples.collect()));
}
