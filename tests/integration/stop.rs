//! The stop sequence, on the real binary and the real clock.

use std::time::Duration;

use serde_json::json;

use crate::harness::{Need, Test, eventually, test};
use crate::sandbox::{Launch, Mode, PATIENCE, in_both_modes, send, status};

pub fn tests() -> Vec<Test> {
    let mut tests: Vec<Test> = [
        in_both_modes("stop::the_command_serves_on_for_the_delay", serves_on),
        in_both_modes("stop::sigquit_begins_a_stop_too", sigquit),
        in_both_modes("stop::other_signals_pass_through_during_the_delay", others_pass),
        in_both_modes("stop::a_second_stop_signal_ends_the_delay", second_signal),
        in_both_modes("stop::a_stop_signal_after_the_graceful_one_passes_through_unchanged", third_signal),
        in_both_modes("stop::a_command_that_exits_during_the_delay_ends_it_at_once", exits_during_delay),
        in_both_modes("stop::a_command_that_ignores_every_signal_is_killed_inside_the_budget", killed),
        in_both_modes("stop::with_neither_budget_nor_grace_nothing_is_killed", never_killed),
        in_both_modes("stop::a_delay_that_does_not_fit_is_cut", delay_is_cut),
        in_both_modes("stop::the_graceful_signal_is_the_one_that_was_set", graceful_signal),
        in_both_modes("stop::sigterm_stands_in_for_a_signal_that_the_command_does_not_catch", stand_in),
        in_both_modes("stop::a_rewritten_signal_is_the_graceful_one", rewritten),
        in_both_modes("stop::forgiven_exit_codes_are_clean", forgiven),
        in_both_modes("stop::with_group_a_grandchild_gets_the_time_to_clean_up", group_waits),
        in_both_modes("stop::with_all_a_daemon_gets_the_time_to_clean_up", all_waits),
        in_both_modes("stop::a_command_that_ended_before_the_signal_is_not_clean", ended_before),
        in_both_modes("stop::a_start_that_fails_during_a_stop_is_reported_as_failed", failed_start),
        in_both_modes("stop::where_the_sandbox_refuses_a_call_it_does_the_same", refused_calls),
        in_both_modes("stop::a_group_of_which_only_a_zombie_is_left_is_not_waited_for", zombie_in_group),
        in_both_modes("stop::a_paused_container_does_the_same_in_the_same_order", paused),
    ]
    .into_iter()
    .flatten()
    .collect();
    tests.push(test("stop::the_kill_takes_stopped_processes_and_daemons [pid 1]", &[Need::PidNamespace], || {
        kills_the_tree(Mode::Pid1);
    }));
    tests.push(test("stop::the_kill_takes_stopped_processes_and_daemons [child]", &[], || kills_the_tree(Mode::Child)));
    tests.push(test("stop::the_kill_takes_one_who_forks_and_ends_all_the_time", &[Need::PidNamespace], kills_a_hopper));
    tests.push(test("stop::without_proc_a_daemon_gets_the_signal_too", &[Need::PidNamespace], all_without_proc));
    tests.push(test("stop::the_kill_takes_no_stranger", &[], kills_no_stranger));
    tests
}

fn ms(value: &serde_json::Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("milliseconds: {value}"))
}

fn serves_on(mode: Mode) {
    let running = Launch::new(mode)
        .env("DRAINIT_DELAY", "300ms")
        .env("DRAINIT_STOP_TIMEOUT", "10")
        .helper(&["report", "1"])
        .start();
    running.expect_line("ready");
    running.signal(libc::SIGTERM);
    let requested = running.expect_event("stop_requested");
    assert_eq!(running.stdout_so_far(), ["ready"], "the command gets nothing yet");
    let ended = running.wait();
    assert_eq!((ended.code(), &ended.stdout[..]), (0, ["ready".to_owned(), "got 15".to_owned()].as_slice()));
    assert_eq!(ended.event_names(), ["started", "stop_requested", "signal_forwarded", "stopped"]);

    let started = ended.event("started");
    assert_eq!(
        [&started["delay_ms"], &started["grace_ms"], &started["stop_timeout_ms"], &started["margin_ms"]].map(ms),
        [300, 8_700, 10_000, 1_000]
    );
    assert_eq!((&requested["signal"], ms(&requested["forward_in_ms"])), (&json!("SIGTERM"), 300));
    assert_eq!(ms(&requested["kill_in_ms"]), 9_000);
    let sender = if mode == Mode::Pid1 { 0 } else { std::process::id() };
    assert_eq!(requested["sender_pid"], sender, "0 is a sender from outside the namespace");
    let uid = if mode == Mode::Pid1 { 0 } else { nix::unistd::getuid().as_raw() };
    assert_eq!(requested["sender_uid"], uid, "root, or who is mapped to root");
    let forwarded = ended.event("signal_forwarded");
    assert_eq!([&forwarded["signal"], &forwarded["to"], &forwarded["cause"]], ["SIGTERM", "child", "delay"]);
    assert!((300..2_000).contains(&ms(&forwarded["after_ms"])));
    let stopped = ended.event("stopped");
    assert_eq!((&stopped["clean"], &stopped["exit_code"]), (&json!(true), &json!(0)));
    assert_eq!([&stopped["signal"], &stopped["graceful_signal"]], ["SIGTERM", "SIGTERM"]);
    assert_eq!(
        (&stopped["killed"], &stopped["reaped"], &stopped["dropped_log_lines"]),
        (&json!(0), &json!(0), &json!(0))
    );
    assert!(ms(&stopped["delay_ms"]) >= 300);
    assert!((ms(&stopped["delay_ms"]) + ms(&stopped["grace_ms"]) - ms(&stopped["total_ms"])).abs() <= 1);
    assert!((ms(&stopped["budget_left_ms"]) - 10_000 + ms(&stopped["total_ms"])).abs() <= 1);
}

fn sigquit(mode: Mode) {
    let running = Launch::new(mode).env("DRAINIT_DELAY", "200ms").helper(&["report", "1"]).start();
    running.expect_line("ready");
    running.signal(libc::SIGQUIT);
    let ended = running.wait();
    assert_eq!(ended.stdout.last().map(String::as_str), Some("got 3"));
    assert!(ms(&ended.event("stopped")["delay_ms"]) >= 200);
    assert_eq!(ended.event("stopped")["signal"], "SIGQUIT");
}

fn others_pass(mode: Mode) {
    let running = Launch::new(mode).env("DRAINIT_DELAY", "500ms").helper(&["report", "3"]).start();
    running.expect_line("ready");
    running.signal(libc::SIGTERM);
    running.expect_event("stop_requested");
    running.signal(libc::SIGHUP);
    running.signal(40);
    let ended = running.wait();
    assert_eq!(ended.stdout, ["ready", "got 1", "got 40", "got 15"]);
}

fn second_signal(mode: Mode) {
    let running = Launch::new(mode).env("DRAINIT_DELAY", "60").helper(&["report", "1"]).start();
    running.expect_line("ready");
    running.signal(libc::SIGTERM);
    running.expect_event("stop_requested");
    running.signal(libc::SIGTERM);
    let ended = running.wait();
    assert_eq!((ended.code(), ended.stdout), (0, vec!["ready".to_owned(), "got 15".to_owned()]));
    assert_eq!(find(&ended.stderr, "signal_forwarded")["cause"], "second_signal");
}

fn find(lines: &[String], name: &str) -> serde_json::Value {
    let parsed = lines.iter().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    parsed.into_iter().find(|event| event["event"] == name).unwrap_or_else(|| panic!("no {name} in {lines:?}"))
}

fn third_signal(mode: Mode) {
    let running =
        Launch::new(mode).env("DRAINIT_DELAY", "100ms").env("DRAINIT_SIGNAL", "INT").helper(&["report", "3"]).start();
    running.expect_line("ready");
    running.signal(libc::SIGTERM);
    running.expect_line("got 2");
    running.signal(libc::SIGTERM);
    running.expect_line("got 15");
    running.signal(libc::SIGQUIT);
    assert_eq!(running.wait().stdout, ["ready", "got 2", "got 15", "got 3"]);
}

fn exits_during_delay(mode: Mode) {
    let running = Launch::new(mode)
        .env("DRAINIT_DELAY", "60")
        .script("trap 'exit 7' HUP; echo ready; while :; do sleep 0.05; done")
        .start();
    running.expect_line("ready");
    running.signal(libc::SIGTERM);
    running.expect_event("stop_requested");
    running.signal(libc::SIGHUP);
    let ended = running.wait();
    assert_eq!(ended.code(), 7);
    assert_eq!(ended.event_names(), ["started", "stop_requested", "stopped"]);
    let stopped = ended.event("stopped");
    assert_eq!(
        [&stopped["clean"], &stopped["graceful_signal"], &stopped["grace_ms"]],
        [&json!(false), &serde_json::Value::Null, &serde_json::Value::Null]
    );
}

fn killed(mode: Mode) {
    let running =
        Launch::new(mode).env("DRAINIT_DELAY", "200ms").env("DRAINIT_STOP_TIMEOUT", "2").helper(&["deaf"]).start();
    running.expect_line("ready");
    running.signal(libc::SIGTERM);
    let ended = running.wait();
    assert_eq!(ended.code(), 137, "{ended:?}");
    assert_eq!(ended.event_names(), ["started", "stop_requested", "signal_forwarded", "killed", "stopped"]);
    let killed = ended.event("killed");
    assert_eq!(killed["processes"], 1);
    assert!(ms(&killed["after_ms"]) >= 1_800, "not before kill_at");
    let stopped = ended.event("stopped");
    assert_eq!([&stopped["clean"], &stopped["exit_code"], &stopped["killed"]], [&json!(false), &json!(137), &json!(1)]);
    assert!(ms(&stopped["budget_left_ms"]) > 0, "inside the budget: {stopped}");
}

fn never_killed(mode: Mode) {
    let running = Launch::new(mode).helper(&["report", "2"]).start();
    running.expect_line("ready");
    running.signal(libc::SIGTERM);
    running.expect_line("got 15");
    assert_eq!(running.expect_event("stop_requested")["kill_in_ms"], serde_json::Value::Null);
    running.signal(libc::SIGTERM);
    assert_eq!(running.wait().code(), 0);
}

fn delay_is_cut(mode: Mode) {
    let running = Launch::new(mode)
        .env("DRAINIT_DELAY", "60")
        .env("DRAINIT_GRACE", "1500ms")
        .env("DRAINIT_STOP_TIMEOUT", "2")
        .helper(&["report", "1"])
        .start();
    running.expect_line("ready");
    let warning = running.expect_event("warning");
    let arithmetic =
        "delay 60s + grace 1.5s + margin 0.2s = 61.7s do not fit into the stop timeout of 2s: the delay is cut to 0.3s";
    assert_eq!(warning["msg"], arithmetic);
    running.signal(libc::SIGTERM);
    let ended = running.wait();
    assert_eq!(ended.event("signal_forwarded")["cause"], "budget");
    assert!((300..500).contains(&ms(&ended.event("signal_forwarded")["after_ms"])), "{ended:?}");
}

fn graceful_signal(mode: Mode) {
    for (name, number) in [("QUIT", 3), ("SIGRTMIN+3", 37), ("rtmax", 64)] {
        let running =
            Launch::new(mode).env("DRAINIT_SIGNAL", name).env("DRAINIT_DELAY", "50ms").helper(&["report", "1"]).start();
        running.expect_line("ready");
        running.signal(libc::SIGTERM);
        assert_eq!(running.wait().stdout, ["ready".to_owned(), format!("got {number}")]);
    }
}

fn stand_in(mode: Mode) {
    let script = "trap 'echo got TERM; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    let running = Launch::new(mode).env("DRAINIT_DELAY", "50ms").script(script).start();
    running.expect_line("ready");
    running.signal(libc::SIGQUIT);
    let ended = running.wait();
    assert_eq!((ended.code(), &ended.event("stopped")["graceful_signal"]), (0, &json!("SIGTERM")));
    let message = ended.event("signal_forwarded")["msg"].to_string();
    assert!(message.contains("does catch SIGTERM"), "it says so: {message}");

    let ignores = "trap '' TERM; trap 'exit 0' USR1; echo ready; while :; do sleep 0.05; done";
    let running = Launch::new(mode).script(ignores).start();
    running.expect_line("ready");
    running.signal(libc::SIGTERM);
    let message = running.expect_event("signal_forwarded")["msg"].to_string();
    assert!(message.contains("the command ignores it"), "{message}");
    running.signal(libc::SIGUSR1);
    assert_eq!(running.wait().code(), 0);

    let catches_both =
        "trap 'echo got QUIT; exit 0' QUIT; trap 'exit 1' TERM; echo ready; while :; do sleep 0.05; done";
    let running = Launch::new(mode).script(catches_both).start();
    running.expect_line("ready");
    running.signal(libc::SIGQUIT);
    assert_eq!(running.wait().event("stopped")["graceful_signal"], "SIGQUIT");

    let running = Launch::new(mode).env("DRAINIT_SIGNAL", "QUIT").script(script).start();
    running.expect_line("ready");
    running.signal(libc::SIGQUIT);
    let ended = running.wait();
    assert_eq!(
        (ended.code(), &ended.event("stopped")["graceful_signal"]),
        (131, &json!("SIGQUIT")),
        "what is set is sent"
    );
}

fn rewritten(mode: Mode) {
    let running = Launch::new(mode)
        .env("DRAINIT_REWRITE", "TERM:QUIT,HUP:0,USR1:RTMIN+1")
        .env("DRAINIT_DELAY", "300ms")
        .helper(&["report", "2"])
        .start();
    running.expect_line("ready");
    running.signal(libc::SIGHUP);
    running.signal(libc::SIGUSR1);
    running.expect_line("got 35");
    running.signal(libc::SIGTERM);
    assert_eq!(running.wait().stdout, ["ready", "got 35", "got 3"]);
}

fn forgiven(mode: Mode) {
    for (ok_exit, code, clean) in [("143", 0, true), ("130", 143, false), ("", 143, false)] {
        let running = Launch::new(mode)
            .env("DRAINIT_OK_EXIT", ok_exit)
            .args(["--", "sh", "-c", "echo ready; exec sleep 100"])
            .start();
        running.expect_line("ready");
        eventually("the sleep", PATIENCE, || {
            crate::sandbox::children(running.pid())
                .first()
                .is_some_and(|pid| status(&pid.to_string(), "Name").as_deref() == Some("sleep"))
        });
        running.signal(libc::SIGTERM);
        let ended = running.wait();
        assert_eq!((ended.code(), &ended.event("stopped")["clean"]), (code, &json!(clean)), "{ok_exit}: {ended:?}");
        assert_eq!(ended.event("stopped")["exit_code"], code);
    }
}

/// The command ends at once on SIGTERM; its child needs a while.
const SLOW_CHILD: &str = "trap 'sleep 0.4; echo cleaned; exit 0' TERM; echo ready; while :; do sleep 0.05; done";

fn group_waits(mode: Mode) {
    let script = format!("sh -c \"{SLOW_CHILD}\" & trap 'exit 0' TERM; wait");
    let stop = |target: &str| {
        let running = Launch::new(mode).env("DRAINIT_FORWARD_TO", target).script(&script).start();
        running.expect_line("ready");
        running.signal(libc::SIGTERM);
        running.wait()
    };
    let ended = stop("group");
    assert_eq!((ended.code(), ended.stdout.last().map(String::as_str)), (0, Some("cleaned")), "{ended:?}");
    assert!(ms(&ended.event("stopped")["grace_ms"]) >= 400);
    assert_eq!(ended.event("signal_forwarded")["to"], "group");
    // With PID 1 the rest of the namespace goes at once, which shows that the wait is what made the difference.
    if mode == Mode::Pid1 {
        assert_eq!(stop("child").stdout, ["ready"]);
    }
}

fn all_waits(mode: Mode) {
    let script = format!("setsid sh -c \"{SLOW_CHILD}\" & trap 'exit 0' TERM; wait");
    let running = Launch::new(mode).env("DRAINIT_FORWARD_TO", "all").script(&script).start();
    running.expect_line("ready");
    running.signal(libc::SIGTERM);
    let ended = running.wait();
    assert_eq!((ended.code(), ended.stdout.last().map(String::as_str)), (0, Some("cleaned")), "{ended:?}");

    let deaf = "setsid sh -c \"trap '' TERM; echo ready; while :; do sleep 0.05; done\" & trap 'exit 0' TERM; wait";
    let running = Launch::new(mode).env("DRAINIT_FORWARD_TO", "all").env("DRAINIT_GRACE", "300ms").script(deaf).start();
    running.expect_line("ready");
    running.signal(libc::SIGTERM);
    let ended = running.wait();
    assert_eq!(
        (ended.code(), &ended.event("stopped")["clean"]),
        (0, &json!(false)),
        "the wait ends in a kill: {ended:?}"
    );
    assert!(ended.event("killed")["processes"].as_i64() >= Some(1));
}

fn ended_before(mode: Mode) {
    let running = Launch::new(mode).script("trap 'exit 0' HUP; echo ready; while :; do sleep 0.05; done").start();
    running.expect_line("ready");
    running.expect_event("started");
    let pid = running.pid();
    let command = crate::sandbox::children(pid)[0];
    send(pid, libc::SIGSTOP);
    send(command, libc::SIGHUP);
    eventually("the command's end", PATIENCE, || {
        status(&command.to_string(), "State").is_some_and(|state| state.starts_with('Z'))
    });
    running.signal(libc::SIGTERM);
    send(pid, libc::SIGCONT);
    let ended = running.wait();
    assert_eq!(
        (ended.code(), ended.event_names()),
        (0, ["started", "stop_requested", "stopped"].map(String::from).into())
    );
    let stopped = ended.event("stopped");
    assert_eq!([&stopped["clean"], &stopped["graceful_signal"]], [&json!(false), &json!(null)], "{stopped}");
}

fn failed_start(mode: Mode) {
    let term = libc::SIGTERM.to_string();
    let launch = Launch::new(mode).env("DRAINIT_OK_EXIT", "127").through(&["with-pending", &term]);
    let ended = launch.args(["--", "no-such-command"]).run();
    assert_eq!(ended.code(), 127, "what never ran is not forgiven");
    // Whether the signal or the failure is seen first is open; if a stop began, it is reported truly.
    if ended.event_names().contains(&"stop_requested".to_owned()) {
        assert_eq!(ended.event_names().last().map(String::as_str), Some("stopped"), "{ended:?}");
        let stopped = ended.event("stopped");
        assert_eq!([&stopped["clean"], &stopped["exit_code"]], [&json!(false), &json!(127)], "{stopped}");
    }
}

fn refused_calls(mode: Mode) {
    for call in [libc::SYS_splice, libc::SYS_pidfd_open, libc::SYS_pidfd_send_signal] {
        let running = Launch::new(mode)
            .env("DRAINIT_FORWARD_TO", "all")
            .env("DRAINIT_DELAY", "50ms")
            .through(&["without-call", &call.to_string()])
            .helper(&["report", "1"])
            .start();
        running.expect_line("ready");
        running.signal(libc::SIGTERM);
        let ended = running.wait();
        assert_eq!((ended.code(), ended.stdout.last().map(String::as_str)), (0, Some("got 15")), "{call}: {ended:?}");
        assert_eq!(ended.event_names(), ["started", "stop_requested", "signal_forwarded", "stopped"], "{call}");
    }
}

fn zombie_in_group(mode: Mode) {
    // A child of the command leaves for a session of its own, and does not reap what it has left in the group.
    let negligent = "sleep 0.1 & exec setsid sh -c 'trap \"\" TERM; echo ready; exec sleep 60'";
    let script = format!("sh -c {} & trap 'exit 0' TERM; wait", shell_quoted(negligent));
    let running =
        Launch::new(mode).env("DRAINIT_FORWARD_TO", "group").env("DRAINIT_GRACE", "10").script(&script).start();
    running.expect_line("ready");
    let command = crate::sandbox::children(running.pid())[0].to_string();
    let zombie = || {
        let all = crate::sandbox::descendants(command.parse().expect("a pid"));
        all.iter().any(|pid| status(&pid.to_string(), "State").is_some_and(|state| state.starts_with('Z')))
    };
    eventually("the zombie", PATIENCE, zombie);
    running.signal(libc::SIGTERM);
    running.expect_event("stopped");
    let mut events: Vec<String> = running.log();
    events.retain(|line| line.contains("\"event\":\"killed\""));
    assert!(events.is_empty(), "{events:?}");
}

/// The text as one word of a shell script.
pub fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn paused(mode: Mode) {
    let running =
        Launch::new(mode).env("DRAINIT_DELAY", "100ms").env("DRAINIT_GRACE", "100ms").helper(&["deaf"]).start();
    running.expect_line("ready");
    running.signal(libc::SIGTERM);
    running.expect_event("stop_requested");
    let pid = running.pid();
    send(pid, libc::SIGSTOP);
    std::thread::sleep(Duration::from_millis(400));
    send(pid, libc::SIGCONT);
    let ended = running.wait();
    assert_eq!(ended.event_names(), ["started", "stop_requested", "signal_forwarded", "killed", "stopped"]);
    assert_eq!((ended.code(), &ended.event("signal_forwarded")["cause"]), (137, &"delay".into()));
}

fn kills_the_tree(mode: Mode) {
    let running = Launch::new(mode).env("DRAINIT_GRACE", "200ms").helper(&["deaf-tree"]).start();
    running.expect_line("ready");
    let pid = running.pid();
    eventually("the daemon to be an orphan", PATIENCE, || crate::sandbox::descendants(pid).len() == 3);
    let tree = crate::sandbox::descendants(pid);
    running.signal(libc::SIGTERM);
    let ended = running.wait();
    assert_eq!((ended.code(), &ended.event("killed")["processes"]), (137, &json!(3)), "{ended:?}");
    assert_eq!(ended.event("stopped")["reaped"], 2);
    let is_alive = |pid: &i32| status(&pid.to_string(), "State").is_some_and(|state| !state.starts_with('Z'));
    assert!(!tree.iter().any(is_alive), "no process is left");
}

/// Below another init. As PID 1 the kernel takes all of them at once.
fn kills_a_hopper() {
    let running = Launch::new(Mode::BelowPid1).env("DRAINIT_GRACE", "200ms").helper(&["hop"]).start();
    running.expect_line("ready");
    running.signal(libc::SIGTERM);
    // Its standard output is a pipe to this test, which ends only when the last of them has ended.
    let ended = running.wait();
    assert_eq!(ended.code(), 137, "{ended:?}");
    assert!(ended.event("stopped")["killed"].as_i64() >= Some(2), "{ended:?}");
}

fn all_without_proc() {
    let script = format!("setsid sh -c \"{SLOW_CHILD}\" & trap 'exit 0' TERM; wait");
    let running =
        Launch::new(Mode::Pid1).env("DRAINIT_FORWARD_TO", "all").through(&["without-proc"]).script(&script).start();
    running.expect_line("ready");
    running.signal(libc::SIGTERM);
    let ended = running.wait();
    assert_eq!((ended.code(), ended.stdout.last().map(String::as_str)), (0, Some("cleaned")), "{ended:?}");
}

fn kills_no_stranger() {
    // A child of the tests is a sibling of drainit, in the same PID namespace, session and process group.
    let mut stranger = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
    let outcome = std::panic::catch_unwind(|| kills_the_tree(Mode::Child));
    let lives_on = stranger.try_wait().expect("our child").is_none();
    stranger.kill().expect("killed");
    stranger.wait().expect("reaped");
    assert!(outcome.is_ok() && lives_on, "the stranger lives on: {lives_on}");
}
