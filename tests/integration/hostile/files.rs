//! No `/proc`, another namespace's `/proc`, nothing that could be written, and a current directory that is gone.

use super::checks::{
    KILLED, STOPPED, drainit_of, in_namespaces, kills, kills_as_ever, stops, stops_as_ever, with_a_delay,
};
use crate::harness::{Need, Test};
use crate::sandbox::{Ended, Launch, Mode, in_both_modes, send};

pub fn tests() -> Vec<Test> {
    [
        in_both_modes("hostile::the_current_directory_removed", removed_directory),
        in_namespaces("hostile::without_proc", &[], without_proc),
        in_namespaces("hostile::with_the_proc_of_another_pid_namespace", &[], foreign_proc),
        in_namespaces("hostile::where_nothing_can_be_written", &[], read_only),
        in_namespaces("hostile::a_command_that_proc_hides_gets_its_signals", &[Need::Root], hidden_command),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn removed_directory(mode: Mode) {
    // (No shell as the command: it would complain.)
    let launch = || with_a_delay(Launch::new(mode)).env("DRAINIT_GRACE", "200ms").through(&["in-removed-directory"]);
    let commands: [(&[&str], i32, &[&str]); 2] = [(&["report", "1"], 0, &STOPPED), (&["deaf-tree"], 137, &KILLED)];
    for (command, code, events) in commands {
        let running = launch().helper(command).start();
        running.expect_line("ready");
        send(drainit_of(&running), libc::SIGTERM);
        let ended = running.wait();
        assert_eq!(ended.code(), code, "{ended:?}");
        assert_eq!(ended.event_names(), events, "{ended:?}");
    }
}

fn read_only(mode: Mode) {
    let read_only = || Launch::new(mode).through(&["with-everything-read-only"]);
    stops_as_ever(read_only());
    kills_as_ever(read_only());
}

fn without_proc(mode: Mode) {
    does_without_proc(mode, || Launch::new(mode).through(&["without-proc"]));
}

/// As after `unshare --pid` alone: the numbers in `/proc` are other processes'.
fn foreign_proc(mode: Mode) {
    let own_namespace = ["unshare", "--pid", "--fork", "--kill-child", "--"];
    let below = ["sh", "-c", "\"$@\"; exit $?", "sh"];
    does_without_proc(mode, || {
        let launch = Launch::new(Mode::Pid1).through_program(&own_namespace);
        if mode == Mode::Pid1 { launch } else { launch.through_program(&below) }
    });
}

/// A stop and a kill with each target. As PID 1 all is as ever. Below another init a warning says what cannot be done.
fn does_without_proc(mode: Mode, launch: impl Fn() -> Launch) {
    let warning = "there is no /proc of this PID namespace";
    let assert_events = |ended: &Ended, expected: &[&str], warns: bool| {
        let warning_first = warns.then_some("warning").into_iter();
        let expected: Vec<&str> = warning_first.chain(expected.iter().copied()).collect();
        assert_eq!(ended.event_names(), expected, "{ended:?}");
        assert!(!warns || ended.event("warning")["msg"].to_string().contains(warning), "{ended:?}");
    };
    let is_below = mode != Mode::Pid1;
    for target in ["child", "group", "all"] {
        let to = || launch().env("DRAINIT_FORWARD_TO", target);
        assert_events(&stops(to()), &STOPPED, is_below);

        let ended = kills(to());
        assert_events(&ended, &KILLED, is_below);
        // As PID 1 the daemon went too. Below another init there is no way to find it, and nobody says that it was killed. The shell's sleep may
        // have been reaped by the shell, as the last thing that it did.
        let most = if is_below { 2 } else { 3 };
        let killed = ended.event("stopped")["killed"].as_i64().expect("a number");
        assert!((most - 1..=most).contains(&killed), "{ended:?}");
        assert!(ended.event("killed")["processes"].as_i64() <= Some(killed), "{ended:?}");
    }
    // With nothing to be killed nobody has to be found.
    let running = launch().helper(&["report", "2"]).start();
    running.expect_line("ready");
    send(drainit_of(&running), libc::SIGQUIT);
    running.expect_line("got 3");
    send(drainit_of(&running), libc::SIGQUIT);
    let ended = running.wait();
    assert_eq!((ended.code(), ended.stdout.last().map(String::as_str)), (0, Some("got 3")), "{ended:?}");
    assert_events(&ended, &STOPPED, false);
    // What the command catches cannot be known, so nothing is said about it, and what was received is sent.
    let forwarded = ended.event("signal_forwarded");
    assert_eq!(forwarded["signal"], "SIGQUIT");
    assert!(!forwarded["msg"].to_string().contains("catch"), "{forwarded}");
}

/// `/proc` mounted with `hidepid` shows an ordinary user no process that this user may not trace, such as one with capabilities of its own.
fn hidden_command(mode: Mode) {
    for target in ["child", "group", "all"] {
        let running = with_a_delay(Launch::new(mode))
            .env("DRAINIT_FORWARD_TO", target)
            .through(&["with-hidden-processes"])
            .through(&["as-user", "54321"])
            .helper(&["hidden"])
            .start();
        running.expect_line("ready");
        send(drainit_of(&running), libc::SIGTERM);
        let ended = running.wait();
        assert_eq!((ended.code(), ended.stdout.len()), (0, 2), "{target}: {ended:?}");
        assert_eq!(ended.event_names(), STOPPED, "{target}: {ended:?}");
    }
}
