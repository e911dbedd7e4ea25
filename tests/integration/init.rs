//! What every init does: run the command, pass on signals, reap, and end with the right code.

use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;

use serde_json::json;

use crate::harness::{Need, Test, eventually, test};
use crate::sandbox::{Launch, Mode, PATIENCE, children, in_both_modes, status};

pub fn tests() -> Vec<Test> {
    let mut tests: Vec<Test> = [
        in_both_modes("init::ends_with_the_commands_code", ends_with_the_commands_code),
        in_both_modes("init::ends_with_128_and_the_signal_that_ended_the_command", ends_with_the_signal),
        in_both_modes("init::ends_with_126_or_127_when_the_command_cannot_run", cannot_run),
        in_both_modes("init::a_script_without_an_interpreter_runs_in_the_shell", script_without_interpreter),
        in_both_modes("init::keeps_signals_that_came_before_it_ran", keeps_early_signals),
        in_both_modes("init::reaps_10_000_orphans", reaps_orphans),
        in_both_modes("init::hands_down_the_mask_and_the_ignored_signals", hands_down_masks),
        in_both_modes("init::sigchld_inherited_as_ignored_changes_nothing", ignored_sigchld),
        in_both_modes("init::arguments_may_be_any_bytes", any_bytes),
        in_both_modes("init::is_quiet_with_no_settings", is_quiet),
        in_both_modes("init::sleeps_in_one_thread_until_something_happens", sleeps),
    ]
    .into_iter()
    .flatten()
    .collect();
    tests.push(test("init::adopts_orphans_below_another_init", &[], adopts_orphans));
    tests.push(test("init::as_pid_1_the_exit_takes_everything_along", &[Need::PidNamespace], takes_everything_along));
    tests
}

fn ends_with_the_commands_code(mode: Mode) {
    for code in [0, 1, 7, 125, 126, 127, 255] {
        let ended = Launch::new(mode).script(&format!("exit {code}")).run();
        assert_eq!(ended.status.code(), Some(code));
        assert_eq!(ended.event("exited")["exit_code"], code);
        assert_eq!(ended.event("started")["pid1"], mode == Mode::Pid1);
    }
}

fn ends_with_the_signal(mode: Mode) {
    // Those whose default is to end the process, signal(7).
    let harmless = [libc::SIGCHLD, libc::SIGCONT, libc::SIGURG, libc::SIGWINCH];
    let stopping = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    for signal in (1..=64).filter(|signal| !harmless.contains(signal) && !stopping.contains(signal)) {
        let ended = Launch::new(mode).helper(&["die", &signal.to_string()]).run();
        assert_eq!(ended.code(), 128 + signal, "signal {signal}: {ended:?}");
        if mode == Mode::Child {
            assert_eq!(ended.status.signal(), Some(signal), "below another process it ends of the same signal");
        }
        assert_eq!(ended.event("exited")["exit_code"], 128 + signal);
    }
}

fn cannot_run(mode: Mode) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str, content: &[u8], mode: u32| {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("a mode");
        path.into_os_string().into_string().expect("a path")
    };
    let not_executable = file("not-executable", b"#!/bin/sh\n", 0o644);
    let no_interpreter = file("no-interpreter", b"#!/no/such/shell\n", 0o755);
    let other_machine = file("other-machine", b"\x7fELF\x02\x01\x01\0 and so on", 0o755);
    for (command, code, explanation) in [
        ("no-such-command", 127, "was not found in PATH"),
        ("/no/such/command", 127, "does not exist"),
        ("", 127, "was not found"),
        ("--delay", 127, "options go before"),
        ("/etc/passwd/nothing", 127, "does not exist"),
        (&"x".repeat(300), 127, "was not found in PATH"),
        (&not_executable, 126, "Permission denied"),
        ("/", 126, "Permission denied"),
        (&no_interpreter, 126, "the interpreter that it needs does not"),
        (&other_machine, 126, "another architecture"),
    ] {
        let ended = Launch::new(mode).args(["--", command]).run();
        assert_eq!(ended.code(), code, "{command:?}: {ended:?}");
        assert_eq!(ended.event_names(), ["error"], "one line says why: {ended:?}");
        let message = ended.event("error")["msg"].to_string();
        assert!(message.contains(explanation), "{command:?}: {message}");
    }
    // The child ends at once, so its end may be seen before its report: every time the code is the same.
    for _ in 0..200 {
        assert_eq!(Launch::new(mode).args(["--", "no-such-command"]).run().code(), 127);
    }
    let folder_first = format!("{}:{}", folder.path().display(), std::env::var("PATH").expect("a PATH"));
    let closed = folder.path().join("closed");
    std::fs::DirBuilder::new().mode(0o000).create(&closed).expect("a folder");
    let path = format!("{}:{}", closed.display(), std::env::var("PATH").expect("a PATH"));
    for (command, code) in [("no-such-command", 127), ("true", 0)] {
        let ended = Launch::new(mode).without_capabilities().env("PATH", &path).args(["--", command]).run();
        assert_eq!(ended.code(), code, "a folder that cannot be looked into has nothing: {ended:?}");
    }
    let hidden = file("true", b"", 0o644);
    let ended = Launch::new(mode).env("PATH", folder_first).args(["--", "true"]).run();
    assert_eq!(ended.code(), 0, "{hidden} is passed over for the one that can be executed: {ended:?}");
}

fn script_without_interpreter(mode: Mode) {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = folder.path().join("script");
    std::fs::write(&script, "echo \"$0 has $# words: $1\"\nexit 3\n").expect("a file");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    let ended = Launch::new(mode).args(["--".as_ref(), script.as_os_str(), "a b".as_ref()]).run();
    assert_eq!(ended.code(), 3, "{ended:?}");
    assert_eq!(ended.stdout, [format!("{} has 1 words: a b", script.display())]);
}

fn keeps_early_signals(mode: Mode) {
    let usr1 = libc::SIGUSR1.to_string();
    let running = Launch::new(mode).through(&["with-pending", &usr1]).helper(&["report", "1"]).start();
    let ended = running.wait();
    assert_eq!((ended.code(), ended.stdout), (0, vec!["ready".to_owned(), format!("got {usr1}")]));

    let term = libc::SIGTERM.to_string();
    let running = Launch::new(mode)
        .env("DRAINIT_DELAY", "300ms")
        .through(&["with-pending", &term])
        .helper(&["report", "1"])
        .start();
    let ended = running.wait();
    // The start is reported when the exec has succeeded, which may be before or after the signal is read.
    let mut events = ended.event_names();
    events[..2].sort();
    assert_eq!(events, ["started", "stop_requested", "signal_forwarded", "stopped"]);
    assert!(ended.event("signal_forwarded")["after_ms"].as_i64() >= Some(300), "{ended:?}");
    assert_eq!((ended.code(), ended.stdout.last().cloned()), (0, Some(format!("got {term}"))));
}

fn reaps_orphans(mode: Mode) {
    let ended = Launch::new(mode).helper(&["orphans", "10000"]).run();
    assert_eq!(ended.stdout, ["all reaped"], "{ended:?}");
    assert_eq!((ended.code(), &ended.event("exited")["reaped"]), (0, &json!(10_000)));
}

/// The lines of `/proc/PID/status` on signals, as the command saw them.
fn signal_lines(lines: &[String]) -> Vec<(String, u64)> {
    let read = |line: &String| {
        let (name, mask) = line.split_once(":\t").filter(|(name, _)| ["SigBlk", "SigIgn", "SigCgt"].contains(name))?;
        Some((name.to_owned(), u64::from_str_radix(mask, 16).expect("a mask")))
    };
    lines.iter().filter_map(read).collect()
}

fn hands_down_masks(mode: Mode) {
    let show = ["--", "cat", "/proc/self/status"];
    let expected = |blocked: u64, ignored: u64| {
        [("SigBlk", blocked), ("SigIgn", ignored), ("SigCgt", 0)].map(|(name, mask)| (name.to_owned(), mask))
    };
    for signal in [libc::SIGPIPE, libc::SIGTERM, libc::SIGTSTP, 32, 34, 35, 64] {
        let (number, bit) = (signal.to_string(), 1u64 << (signal - 1));
        let blocked = Launch::new(mode).through(&["with-blocked", &number]).args(show).run();
        assert_eq!(signal_lines(&blocked.stdout), expected(bit, 0), "blocked {signal}: {:?}", blocked.stderr);
        let ignored = Launch::new(mode).through(&["with-ignored", &number]).args(show).run();
        assert_eq!(signal_lines(&ignored.stdout), expected(0, bit), "ignored {signal}: {:?}", ignored.stderr);
    }
}

fn ignored_sigchld(mode: Mode) {
    let sigchld = libc::SIGCHLD.to_string();
    let ended = Launch::new(mode).through(&["with-ignored", &sigchld]).script("cat /proc/self/status; exit 5").run();
    assert_eq!(ended.code(), 5);
    assert_eq!(signal_lines(&ended.stdout)[1], ("SigIgn".to_owned(), 0));
}

fn any_bytes(mode: Mode) {
    let bytes = std::ffi::OsString::from_vec(b"\xff\xfe '\"\n\t\x01".to_vec());
    let ended =
        Launch::new(mode).args(["--", "sh", "-c", "printf %s \"$1\" | od -An -tx1; ", "name"]).args([bytes]).run();
    assert_eq!(ended.stdout, [" ff fe 20 27 22 0a 09 01"]);
    assert_eq!(ended.event_names(), ["started", "exited"], "every line is one event: {:?}", ended.stderr);
}

fn is_quiet(mode: Mode) {
    let ended = Launch::new(mode).env("DRAINIT_LOG_FORMAT", "").script("exit 3").run();
    assert_eq!((ended.code(), ended.stderr), (3, vec![]));
    let running = Launch::new(mode).env("DRAINIT_LOG_FORMAT", "").helper(&["report", "1"]).start();
    running.expect_line("ready");
    running.signal(libc::SIGTERM);
    let ended = running.wait();
    let events: Vec<&str> = ended.stderr.iter().filter_map(|line| line.split(": ").nth(1)).collect();
    assert_eq!(events, ["stop_requested", "signal_forwarded", "stopped"], "{ended:?}");
}

fn sleeps(mode: Mode) {
    let running = Launch::new(mode).helper(&["report", "1"]).start();
    running.expect_line("ready");
    running.expect_event("started");
    let pid = running.pid().to_string();
    eventually("drainit to sleep", PATIENCE, || status(&pid, "State").is_some_and(|state| state.starts_with('S')));
    let wakeups = || (status(&pid, "voluntary_ctxt_switches"), status(&pid, "nonvoluntary_ctxt_switches"));
    let before = wakeups();
    // There is no condition to wait for: nothing must happen. A wake-up a second, as other inits have, would show.
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    assert_eq!(wakeups(), before);
    assert_eq!(status(&pid, "Threads").as_deref(), Some("1"));
    running.signal(libc::SIGTERM);
    assert_eq!(running.wait().code(), 0);
}

fn adopts_orphans() {
    let script = "sh -c 'sleep 30 & echo $!'; read -r wait; exit 0";
    let running = Launch::new(Mode::Child).script(&format!("({script}) < /dev/zero & sleep 30")).start();
    eventually("the orphan", PATIENCE, || !running.stdout_so_far().is_empty());
    let orphan = running.stdout_so_far()[0].clone();
    let drainit = running.pid();
    eventually("drainit to adopt it", PATIENCE, || status(&orphan, "PPid") == Some(drainit.to_string()));
    assert!(children(drainit).contains(&orphan.parse().expect("a pid")));
}

fn takes_everything_along() {
    let running =
        Launch::new(Mode::Pid1).script("setsid sleep 1000 & sleep 1000 & echo ready; read -r x; exit 6").start();
    running.expect_line("ready");
    let ended = running.wait();
    assert_eq!(ended.code(), 6, "{ended:?}");
}
