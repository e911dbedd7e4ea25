//! Signals and orphans by the ten thousand.

use std::collections::BTreeSet;
use std::process::exit;

use super::checks::{drainit_of, in_namespaces};
use super::programs::reap;
use crate::harness::Test;
use crate::helper::{change_mask, fork, next_signal, say};
use crate::sandbox::{Ended, Launch, Mode, send};

pub fn tests() -> Vec<Test> {
    [
        in_namespaces("hostile::a_storm_of_100_000_signals_and_10_000_orphans_delays_no_stop", &[], graceful),
        in_namespaces("hostile::a_storm_that_never_ends_delays_no_kill", &[], endless),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// How many instances of [`COUNTED`] are sent at first. The kernel has room for so many (`RLIMIT_SIGPENDING`), so each has to arrive.
const INSTANCES: usize = 1_000;
const COUNTED: i32 = 40;
const SIGNALS: usize = 100_000;
/// What the storm consists of.
const STORM: [i32; 8] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGUSR1, libc::SIGUSR2, libc::SIGWINCH, libc::SIGALRM, 50, 64];
const ORPHANS: usize = 10_000;

/// The command: it raises the storm, and ends on SIGTERM once the storm is over, which an endless one never is.
pub fn storm(how: &str) -> ! {
    change_mask(libc::SIG_SETMASK, u64::MAX);
    let is_endless = how == "endless";
    let init = nix::unistd::getppid().as_raw();
    fork(|| (0..INSTANCES).for_each(|_| queue(init, COUNTED)));
    let mut count = 0;
    while count < INSTANCES {
        count += usize::from(next_signal() == COUNTED);
    }
    reap();
    say(format!("each of {count}"));

    let signals = if is_endless { usize::MAX } else { SIGNALS };
    let orphans = if is_endless { usize::MAX } else { ORPHANS };
    let send_all = || STORM.iter().cycle().take(signals).for_each(|signal| send(init, *signal));
    let sent = fork(send_all);
    let orphaned = fork(|| make_orphans(orphans));
    if is_endless {
        // More than one drainit can keep up with.
        for _ in 0..3 {
            fork(send_all);
            fork(|| make_orphans(orphans));
        }
    }
    say("storm");
    let (mut seen, mut ended, mut is_told) = (BTreeSet::new(), reap(), false);
    while !is_told || !ended.is_superset(&[sent, orphaned].into()) {
        match next_signal() {
            libc::SIGCHLD => ended.extend(reap()),
            libc::SIGTERM => is_told = true,
            signal => _ = seen.insert(signal),
        }
    }
    say(format!("each kind of signal: {}", seen == STORM.into()));
    exit(7)
}

/// Sends a signal that the kernel must not drop. All processes of a user share one limit, and another test's storm may have used it up.
fn queue(pid: i32, signal: i32) {
    let value = libc::sigval { sival_ptr: std::ptr::null_mut() };
    // SAFETY: nobody looks at the value.
    while unsafe { libc::sigqueue(pid, signal, value) } != 0 {
        std::thread::yield_now();
    }
}

fn make_orphans(number: usize) {
    for _ in 0..number {
        let parent = fork(|| {
            fork(|| ());
        });
        // SAFETY: no status is asked for.
        unsafe { libc::waitpid(parent, std::ptr::null_mut(), 0) };
    }
}

fn stop(mode: Mode, how: &str, settings: [(&str, &str); 2]) -> Ended {
    let launch = settings.into_iter().fold(Launch::new(mode), |launch, (name, value)| launch.env(name, value));
    // The limit of pending signals is the user's, so a storm that has all of it would take signals from other tests.
    let running = launch.through(&["with-queue", "20000"]).helper(&["storm", how]).start();
    running.expect_line("storm");
    send(drainit_of(&running), libc::SIGTERM);
    running.wait()
}

fn graceful(mode: Mode) {
    let ended = stop(mode, "finite", [("DRAINIT_DELAY", "300ms"), ("DRAINIT_STOP_TIMEOUT", "30")]);
    assert_eq!(ended.stdout, ["each of 1000", "storm", "each kind of signal: true"], "{:?}", ended.stderr);
    assert_eq!(ended.code(), 7, "{ended:?}");
    let forwarded = ended.event("signal_forwarded")["after_ms"].as_i64().expect("a time");
    assert!((300..800).contains(&forwarded), "{ended:?}");
    let stopped = ended.event("stopped");
    // The last of them may not have ended before the command does.
    let reaped = usize::try_from(stopped["reaped"].as_u64().expect("a number")).expect("a number");
    assert!((ORPHANS - 10..=ORPHANS).contains(&reaped) && stopped["killed"] == 0, "{ended:?}");
}

fn endless(mode: Mode) {
    let ended = stop(mode, "endless", [("DRAINIT_GRACE", "300ms"), ("DRAINIT_STOP_TIMEOUT", "3")]);
    assert_eq!(ended.code(), 137, "{ended:?}");
    let killed = ended.event("killed")["after_ms"].as_i64().expect("a time");
    assert!((300..800).contains(&killed), "{ended:?}");
    // Half a second at most for those that do not go.
    let total = ended.event("stopped")["total_ms"].as_i64().expect("a time");
    assert!(total < 1_300, "{ended:?}");
}
