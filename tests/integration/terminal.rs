//! What somebody at a terminal expects: job control, the keys that send signals, the size of the window.

use std::process::Command;

use crate::harness::{self, Need, Test, eventually, test};
use crate::pty::{CTRL_C, CTRL_D, CTRL_Z, Session};
use crate::sandbox::{PATIENCE, children, descendants, send, status, unshare};

pub fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for (shell, needs) in [("sh", &[][..]), ("bash", &[Need::Bash])] {
        let mut add = |name: &str, run: fn(&str)| {
            tests.push(test(format!("terminal::{name} [{shell}]"), needs, move || run(shell)));
        };
        add("ctrl_z_stops_the_job_and_fg_brings_it_back", stops_and_comes_back);
        add("a_job_in_the_background_stops_when_it_reads_until_fg", background);
        add("a_command_in_a_pipe_may_read_from_the_terminal", in_a_pipe);
        add("a_script_goes_on_with_the_terminal", script_goes_on);
    }
    tests.extend([
        test("terminal::as_pid_1_a_shell_has_job_control", &[Need::PidNamespace, Need::Bash], shell_as_pid_1),
        test("terminal::ctrl_z_does_not_freeze_a_command_that_nobody_could_continue", &[Need::PidNamespace], || {
            cannot_be_frozen(&[])
        }),
        test("terminal::ctrl_z_below_an_init_leaves_drainit_able_to_stop", &[Need::PidNamespace, Need::Tini], || {
            cannot_be_frozen(&["tini", "--"])
        }),
        test("terminal::it_is_the_commands_before_it_can_read", &[Need::PidNamespace], is_given_in_time),
        test("terminal::a_hang_up_reaches_the_command", &[], hang_up),
        test("terminal::that_of_another_session_is_no_matter", &[], of_another_session),
    ]);
    tests
}

fn drainit() -> String {
    harness::drainit().display().to_string()
}

fn stops_and_comes_back(shell: &str) {
    let mut session = Session::shell(shell);
    session.enter(&format!("{} -- sh -c 'echo re''ady; cat; exit 5'", drainit()));
    session.expect("ready");
    for round in ["one", "two"] {
        // Between its fork and its exec a shell that stops waits for ever, whoever its parent is.
        session.expect_program("cat");
        session.press(CTRL_Z);
        session.expect("Stopped");
        session.enter("echo the shell is ba''ck");
        session.expect("the shell is back");
        session.enter("fg");
        session.expect("drainit");
        session.enter(round);
        // Once as the terminal's echo, and once from cat.
        session.expect(round);
        session.expect(round);
    }
    session.press(CTRL_D);
    session.expect("$ ");
    session.enter("echo code=$?");
    session.expect("code=5");
    session.enter(&format!("{} sleep 100", drainit()));
    session.expect_program("sleep");
    session.press(CTRL_C);
    session.enter("echo code=$?");
    session.expect("code=130");
}

fn background(shell: &str) {
    let mut session = Session::shell(shell);
    session.enter(&format!("{} -- sh -c 'echo re''ady; read line; echo \"<$line>\"' &", drainit()));
    session.expect("ready");
    let stopped = || {
        let all = descendants(session.pid());
        all.len() >= 2 && all.iter().all(|pid| status(&pid.to_string(), "State").is_some_and(|s| s.starts_with('T')))
    };
    eventually("the whole job to be stopped", PATIENCE, stopped);
    session.enter("fg");
    session.expect("drainit");
    session.enter("hello");
    session.expect("<hello>");

    session.enter(&format!("{} -- sh -c 'trap \"echo cleaned; exit\" TERM; while :; do sleep 0.05; done'", drainit()));
    session.expect_program("sleep");
    session.press(CTRL_Z);
    session.expect("Stopped");
    session.enter("bg");
    session.enter("echo the shell has the termi''nal");
    session.expect("the shell has the terminal");
    session.enter("kill %1; wait");
    session.expect("cleaned");
    session.enter("echo and has it st''ill");
    session.expect("and has it still");
}

fn in_a_pipe(shell: &str) {
    let mut session = Session::shell(shell);
    let read = "sh -c 'cat >/dev/null; echo re''ady >/dev/tty; read line </dev/tty; echo \"<$line>\" >/dev/tty'";
    session.enter(&format!("echo | {} -- {read} >/dev/null 2>&1", drainit()));
    session.expect("ready");
    session.enter("hello");
    session.expect("<hello>");
}

fn script_goes_on(shell: &str) {
    let mut session = Session::shell(shell);
    session.enter(&format!("sh -c '{} true; read line; echo \"<$line>\"'", drainit()));
    session.enter("hello");
    session.expect("<hello>");
    session.enter("echo code=$?");
    session.expect("code=0");
}

/// A session whose first process is PID 1 of a PID namespace of its own, as `docker run -it` makes it.
pub fn container(words: &[&str]) -> Session {
    let mut command = unshare();
    command.args(words);
    Session::start(command)
}

fn shell_as_pid_1() {
    let mut session = container(&[&drainit(), "--", "bash", "--norc", "--noprofile", "-i"]);
    session.expect("$ ");
    job_control(&mut session);
    session.enter("exit 3");
    assert_eq!(session.exit_code(), Some(3));
}

/// The keys and the window, in an interactive shell that shows its prompt.
pub fn job_control(session: &mut Session) {
    session.enter("sh -c 'echo run''ning; exec sleep 100'");
    session.expect("running");
    session.press(CTRL_Z);
    session.expect("Stopped");
    session.enter("jobs; echo ju''st listed");
    session.expect("sleep 100");
    session.expect("just listed");
    session.enter("fg");
    session.expect("sleep 100");
    session.press(CTRL_C);
    session.enter("echo code=$?");
    session.expect("code=130");
    session.enter("stty size");
    session.expect("24 80");
    session.enter("sh -c 'trap \"stty size; exit\" WINCH; echo re''ady; while :; do sleep 0.05; done'");
    session.expect("ready");
    session.resize(30, 100);
    session.expect("30 100");
    let screen = session.screen();
    for complaint in ["job control", "ioctl", "not permitted", "annot"] {
        assert!(!screen.contains(complaint), "{screen}");
    }
}

fn cannot_be_frozen(outer: &[&str]) {
    let drainit = drainit();
    let script = "trap 'echo clea''ned; exit 4' TERM; echo re''ady; while :; do read -r line && echo \"<$line>\"; done";
    let mut session = container(&[outer, &[&drainit, "--", "sh", "-c", script]].concat());
    session.expect("ready");
    session.press(CTRL_Z);
    session.enter("hello");
    session.expect("<hello>");
    // unshare is the session's first process, and below it PID 1.
    send(children(session.pid())[0], libc::SIGTERM);
    session.expect("cleaned");
    assert_eq!(session.exit_code(), Some(4));
}

fn is_given_in_time() {
    // Between the exec and the read there is no time for anybody to give it away.
    for _ in 0..30 {
        let mut session = container(&[&drainit(), "--", "head", "-n", "1"]);
        session.enter("hello");
        session.expect("hello");
        assert_eq!(session.exit_code(), Some(0));
    }
}

fn hang_up() {
    let mut command = Command::new(harness::drainit());
    command.args(["--", "sh", "-c", "trap 'exit 7' HUP; echo ready; while :; do sleep 0.05; done"]);
    let mut session = Session::start(command);
    session.expect("ready");
    session.hang_up();
    assert_eq!(session.exit_code(), Some(7));
}

fn of_another_session() {
    let mut command = Command::new("setsid");
    command.args(["--wait", &drainit(), "--", "sh", "-c", "read -r line; echo \"<$line>\"; exit 6"]);
    let mut session = Session::start(command);
    session.enter("hello");
    session.expect("<hello>");
    assert_eq!(session.exit_code(), Some(6));
}
