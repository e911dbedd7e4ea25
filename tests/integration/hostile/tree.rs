//! The last SIGKILL when the tree does what it can to get away: daemons, sessions and groups, stopped processes, and forks all the time.

use std::time::Duration;

use super::checks::stop;
use crate::harness::{Need, Test, test};
use crate::helper::{change_mask, exec_raw, fork, say};
use crate::sandbox::{Launch, Mode, send};

pub fn tests() -> Vec<Test> {
    let needs = [Need::PidNamespace];
    vec![
        test("hostile::the_kill_takes_a_tree_that_forks_all_the_time [pid 1]", &needs, || kills_wild_tree(true)),
        test("hostile::the_kill_takes_a_tree_that_forks_all_the_time [child]", &needs, || kills_wild_tree(false)),
    ]
}

/// How many of each kind there are.
const OF_A_KIND: usize = 4;
/// How many children a process that replaces its children has.
const CHILDREN: usize = 4;

/// Processes that each fork in their own way, none of which takes notice of any signal.
pub fn wild_tree() -> ! {
    change_mask(libc::SIG_SETMASK, u64::MAX);
    for _ in 0..OF_A_KIND {
        fork(hop_between_sessions);
        fork(|| {
            // A daemon: the parent between it and the command ends.
            nix::unistd::setsid().expect("a new session");
            fork(replace_children);
        });
        let stopped = fork(|| {
            nix::unistd::setpgid(nix::unistd::Pid::from_raw(0), nix::unistd::Pid::from_raw(0)).expect("a new group");
            sleep_on()
        });
        send(stopped, libc::SIGSTOP);
    }
    say("ready");
    sleep_on()
}

fn sleep_on() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

/// Never the same process for long, nor in the same session.
fn hop_between_sessions() {
    // SAFETY: the helpers have one thread; _exit runs nothing of the parent's.
    while unsafe { libc::fork() } == 0 {
        let _ = nix::unistd::setsid();
    }
    // SAFETY: as above.
    unsafe { libc::_exit(0) }
}

/// Forks while its children are being killed.
fn replace_children() {
    for count in 0.. {
        if count >= CHILDREN {
            // SAFETY: no status is asked for.
            unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) };
        }
        fork(|| sleep_on());
    }
}

/// The PID 1 above drainit: runs `words`, and then says whether a process is left. It can tell without a look at them, at which one who forks
/// and ends all the time might not be seen: each has inherited the writing end of a pipe.
pub fn watch_for_survivors(words: &[&str]) -> ! {
    let mut ends = [0; 2];
    // SAFETY: there is room for two descriptors.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    let [reader, writer] = ends;
    let drainit = fork(|| exec_raw(words));
    // SAFETY: the descriptor is ours, and used nowhere else.
    unsafe { libc::close(writer) };
    let mut status = 0;
    // SAFETY: the pointer is to an int.
    while unsafe { libc::waitpid(-1, &raw mut status, 0) } != drainit {}
    let code = if libc::WIFSIGNALED(status) { 128 + libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) };
    let mut poll = libc::pollfd { fd: reader, events: 0, revents: 0 };
    // Who was killed may need a moment to be gone.
    // SAFETY: the pointer is to one structure.
    let all_gone = unsafe { libc::poll(&raw mut poll, 1, 500) } == 1;
    say(if all_gone { "none is left" } else { "some are left" });
    std::process::exit(code)
}

fn kills_wild_tree(is_pid1: bool) {
    let launch = Launch::new(Mode::Pid1).env("DRAINIT_DELAY", "100ms").env("DRAINIT_STOP_TIMEOUT", "2");
    let launch = if is_pid1 { launch } else { launch.through(&["watch-for-survivors"]) };
    let running = launch.helper(&["wild-tree"]).start();
    running.expect_line("ready");
    let (ended, took) = stop(running);
    assert_eq!(ended.code(), 137, "{ended:?}");
    let survivors: &[&str] = if is_pid1 { &[] } else { &["none is left"] };
    assert_eq!(ended.stdout[1..], *survivors, "{ended:?}");
    // By the end of the stop timeout the platform would have killed drainit.
    let killed = ended.event("killed")["after_ms"].as_i64().expect("a time");
    assert!((1_800..2_000).contains(&killed) && took < Duration::from_millis(2_500), "{took:?}: {ended:?}");
    let stopped = ended.event("stopped");
    assert!(stopped["budget_left_ms"].as_i64() > Some(0), "{stopped}");
    // At least the command, those that were stopped, the daemons and their children.
    let at_least = 1 + OF_A_KIND * (2 + CHILDREN);
    assert!(stopped["killed"].as_u64() >= Some(at_least as u64), "{stopped}");
}
