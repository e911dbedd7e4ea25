//! Each signal arrives, as often as it was sent, whoever sent it and whenever.

use std::collections::BTreeMap;

use crate::harness::{Test, eventually};
use crate::sandbox::{Launch, Mode, PATIENCE, Running, children, in_both_modes, send, status};

pub fn tests() -> Vec<Test> {
    [
        in_both_modes("signals::each_passes_before_a_stop", before_a_stop),
        in_both_modes("signals::each_passes_during_the_delay", during_the_delay),
        in_both_modes("signals::each_passes_after_the_graceful_signal", after_the_graceful_signal),
        in_both_modes("signals::each_passes_when_the_command_sends_it_to_its_init", from_inside),
        in_both_modes("signals::a_value_arrives_with_its_signal", values),
        in_both_modes("signals::real_time_signals_wait_for_room_in_the_commands_queue", full_queue),
        in_both_modes("signals::a_storm_of_one_keeps_no_other_waiting", storm),
        in_both_modes("signals::a_command_that_is_stopped_and_continued_gets_what_came_meanwhile", stopped_command),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// All that can be caught, but for SIGCHLD, which is drainit's own.
fn catchable() -> impl Iterator<Item = i32> {
    (1..=64).filter(|signal| ![libc::SIGKILL, libc::SIGSTOP, libc::SIGCHLD].contains(signal))
}

/// How often the tests send `signal` in a row. Of the real-time signals each is queued.
fn times(signal: i32) -> i32 {
    if signal >= 32 { 3 } else { 1 }
}

/// Sends each of `signals` to drainit, and checks that the command gets them all, and its end.
fn each_arrives(running: Running, before: &[i32], signals: &[i32]) {
    for signal in signals {
        (0..times(*signal)).for_each(|_| running.signal(*signal));
        // One after the other: a pending SIGCONT and a pending SIGTSTP cancel each other, signal(7).
        running.expect_line(&format!("got {signal}"));
    }
    let ended = running.wait();
    assert_eq!(ended.code(), 0, "{ended:?}");
    let mut arrived: BTreeMap<i32, i32> = BTreeMap::new();
    for line in ended.stdout.iter().filter_map(|line| line.strip_prefix("got ")) {
        *arrived.entry(line.parse().expect("a number")).or_default() += 1;
    }
    let mut expected: BTreeMap<i32, i32> = signals.iter().map(|signal| (*signal, times(*signal))).collect();
    before.iter().for_each(|signal| *expected.entry(*signal).or_default() += 1);
    assert_eq!(arrived, expected);
}

fn report(launch: Launch, count: i32) -> Running {
    let running = launch.helper(&["report", &count.to_string()]).start();
    running.expect_line("ready");
    running.expect_event("started");
    running
}

fn before_a_stop(mode: Mode) {
    let mut signals: Vec<i32> = catchable().filter(|signal| !is_stop(*signal)).collect();
    signals.push(libc::SIGTERM);
    let total = signals.iter().map(|signal| times(*signal)).sum();
    each_arrives(report(Launch::new(mode), total), &[], &signals);
}

fn is_stop(signal: i32) -> bool {
    [libc::SIGTERM, libc::SIGQUIT].contains(&signal)
}

fn during_the_delay(mode: Mode) {
    let signals: Vec<i32> = catchable().filter(|signal| !is_stop(*signal)).collect();
    let total = signals.iter().map(|signal| times(*signal)).sum();
    let running = report(Launch::new(mode).env("DRAINIT_DELAY", "60"), total);
    running.signal(libc::SIGTERM);
    running.expect_event("stop_requested");
    each_arrives(running, &[], &signals);
}

fn after_the_graceful_signal(mode: Mode) {
    let signals: Vec<i32> = catchable().collect();
    let total: i32 = signals.iter().map(|signal| times(*signal)).sum();
    let running = report(Launch::new(mode), 1 + total);
    running.signal(libc::SIGQUIT);
    running.expect_line("got 3");
    each_arrives(running, &[libc::SIGQUIT], &signals);
}

fn from_inside(mode: Mode) {
    let signals: Vec<String> = catchable().map(|signal| signal.to_string()).collect();
    let words: Vec<&str> = ["ping"].into_iter().chain(signals.iter().map(String::as_str)).collect();
    let ended = Launch::new(mode).env("DRAINIT_LOG", "warn").helper(&words).run();
    let expected: Vec<String> = catchable().flat_map(|signal| vec![format!("got {signal}"); 3]).collect();
    assert_eq!((ended.code(), ended.stdout), (0, expected), "{:?}", ended.stderr);
}

fn values(mode: Mode) {
    for signal in [libc::SIGUSR1, 40, 64] {
        let ended = Launch::new(mode).helper(&["ping-with-value", &signal.to_string(), "4711"]).run();
        assert_eq!(ended.stdout, [format!("got {signal} with 4711 from me")], "{ended:?}");
    }
}

fn full_queue(mode: Mode) {
    const SENT: usize = 200;
    let (first, second) = (36, 50);
    let running =
        Launch::new(mode).through(&["with-queue", "50"]).helper(&["report-later", &(2 * SENT).to_string()]).start();
    running.expect_line("ready");
    let pid = running.pid().to_string();
    for signal in [first, second] {
        for _ in 0..SENT {
            running.signal(signal);
            // drainit's own queue has the same limit.
            eventually("drainit to take it", PATIENCE, || {
                status(&pid, "ShdPnd").is_some_and(|pending| pending.bytes().all(|digit| digit == b'0'))
            });
        }
    }
    running.signal(libc::SIGUSR1);
    let ended = running.wait();
    let count = |signal: i32| ended.stdout.iter().filter(|line| **line == format!("got {signal}")).count();
    assert_eq!((count(first), count(second)), (SENT, SENT), "{:?}", ended.stderr);
}

fn storm(mode: Mode) {
    // Ignored by the command, so that it is drainit's storm alone.
    let script = "trap '' HUP; trap 'echo got USR1; exit 8' USR1; echo ready; while :; do sleep 0.05; done";
    let running = Launch::new(mode).script(script).start();
    running.expect_line("ready");
    let pid = running.pid();
    let ends = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let hammer = || {
            while !ends.load(std::sync::atomic::Ordering::Relaxed) {
                send(pid, libc::SIGHUP);
            }
        };
        scope.spawn(hammer);
        scope.spawn(hammer);
        send(pid, libc::SIGUSR1);
        // SIGCHLD, too, comes after SIGHUP.
        eventually("the end", PATIENCE, || running.stdout_so_far().iter().any(|line| line == "got USR1"));
        eventually("the last word", PATIENCE, || running.log().iter().any(|line| line.contains("exited")));
        ends.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(running.wait().code(), 8);
}

fn stopped_command(mode: Mode) {
    let running = report(Launch::new(mode), 3);
    let command = children(running.pid())[0];
    let state = |wanted: char| {
        eventually(format!("the state {wanted}"), PATIENCE, || {
            status(&command.to_string(), "State").is_some_and(|state| state.starts_with(wanted))
        });
    };
    send(command, libc::SIGSTOP);
    state('T');
    running.signal(libc::SIGUSR1);
    running.signal(40);
    let both = format!("{:016x}", (1u64 << (libc::SIGUSR1 - 1)) | (1 << (40 - 1)));
    eventually("both to wait for it", PATIENCE, || status(&command.to_string(), "ShdPnd").as_ref() == Some(&both));
    send(command, libc::SIGCONT);
    let ended = running.wait();
    assert_eq!((ended.code(), ended.event_names()), (0, vec!["started".into(), "exited".into()]), "{ended:?}");
    assert_eq!(ended.stdout, ["ready", "got 10", "got 18", "got 40"], "what was sent to the command itself too");
}
