//! Below a shell, whatever happens to the job: the shell keeps its terminal, and learns what it would learn without drainit.

use crate::harness::{self, Need, Test, eventually, test};
use crate::pty::{CTRL_C, CTRL_Z, Session};
use crate::sandbox::{PATIENCE, Running, descendants, send, status};
use crate::terminal::container;

pub fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for (shell, needs) in [("sh", &[][..]), ("bash", &[Need::Bash])] {
        let mut add = |name: &str, run: fn(&str)| {
            tests.push(test(format!("jobs::{name} [{shell}]"), needs, move || run(shell)));
        };
        add("the_shell_keeps_the_terminal_when_the_command_dies_while_suspended", dies_while_suspended);
        add("the_shell_keeps_the_terminal_when_drainit_was_stopped_from_outside", stopped_from_outside);
        add("a_command_that_suspends_itself_stops_the_job", suspends_itself);
        add("ctrl_z_during_a_stop_does_not_hold_it_up", during_a_stop);
        add("a_stop_and_a_continue_of_the_command_alone_are_its_own_affair", command_alone);
        add("others_in_a_pipeline_may_read_from_the_terminal", pipeline);
        add("ctrl_c_ends_a_script_as_a_whole", script);
    }
    tests.extend([
        test("jobs::a_new_pid_namespace_in_the_background_leaves_the_terminal_alone", &[Need::PidNamespace], || {
            in_background(&["unshare", "--pid", "--fork", "--kill-child"])
        }),
        test("jobs::nested_in_a_container_ctrl_z_freezes_nothing", &[Need::PidNamespace], nested),
        test("jobs::a_command_that_asks_to_be_traced_is_let_go", &[], traced),
    ]);
    tests
}

fn drainit() -> String {
    harness::drainit().display().to_string()
}

/// The descendant of the session that is called `name`.
fn process(session: &Session, name: &str) -> i32 {
    session.expect_program(name);
    let is_it = |pid: &i32| status(&pid.to_string(), "Name").as_deref() == Some(name);
    descendants(session.pid()).into_iter().find(is_it).expect("it runs")
}

fn expect_state(pid: i32, wanted: char) {
    eventually(format!("the state {wanted} of {pid}"), PATIENCE, || {
        status(&pid.to_string(), "State").is_none_or(|state| state.starts_with(wanted))
    });
}

fn expect_shell(session: &mut Session) {
    session.enter("echo the shell has the termi''nal");
    session.expect("the shell has the terminal");
}

fn dies_while_suspended(shell: &str) {
    let mut session = Session::shell(shell);
    session.enter(&format!("{} sleep 100", drainit()));
    let command = process(&session, "sleep");
    session.press(CTRL_Z);
    session.expect("Stopped");
    send(command, libc::SIGKILL);
    session.enter("bg; wait");
    expect_shell(&mut session);
}

fn stopped_from_outside(shell: &str) {
    let mut session = Session::shell(shell);
    session.enter(&format!("{} sleep 0.4", drainit()));
    session.expect_program("sleep");
    let drainit = process(&session, "drainit");
    send(drainit, libc::SIGSTOP);
    session.expect("Stopped");
    session.enter("bg; wait");
    expect_shell(&mut session);
}

fn suspends_itself(shell: &str) {
    let mut session = Session::shell(shell);
    session.enter(&format!("{} -- sh -c 'kill -STOP $$; echo go''es on; exit 5'", drainit()));
    session.expect("Stopped");
    expect_shell(&mut session);
    session.enter("fg");
    session.expect("goes on");
    session.enter("echo code=$?");
    session.expect("code=5");
}

fn during_a_stop(shell: &str) {
    let mut session = Session::shell(shell);
    let script = "trap 'echo clea''ned; exit 4' TERM; echo re''ady; while :; do sleep 0.05; done";
    session.enter(&format!("{} --delay 400ms -- sh -c \"{script}\"", drainit()));
    session.expect("ready");
    send(process(&session, "drainit"), libc::SIGTERM);
    session.expect("stop_requested");
    session.press(CTRL_Z);
    session.expect("cleaned");
    session.enter("echo code=$?");
    session.expect("code=4");
}

fn command_alone(shell: &str) {
    let mut session = Session::shell(shell);
    session.enter(&format!("{} sleep 100 &", drainit()));
    let (command, drainit) = (process(&session, "sleep"), process(&session, "drainit"));
    send(command, libc::SIGTSTP);
    expect_state(command, 'T');
    send(command, libc::SIGCONT);
    expect_state(command, 'S');
    expect_state(drainit, 'S');
    send(drainit, libc::SIGTERM);
    session.expect("stopped");
    expect_shell(&mut session);
}

fn pipeline(shell: &str) {
    let mut session = Session::shell(shell);
    let pager = "sh -c 'echo re''ady; read -r line </dev/tty; echo \"<$line>\"; cat >/dev/null'";
    session.enter(&format!("{} -- sh -c 'echo; exec sleep 0.5' | {pager}", drainit()));
    session.expect("ready");
    session.enter("hello");
    session.expect("<hello>");
    expect_shell(&mut session);
}

fn script(shell: &str) {
    let mut session = Session::shell(shell);
    session.enter(&format!("{shell} -c 'for i in 1 2; do {} sleep 100; echo ne''xt; done'", drainit()));
    session.expect_program("sleep");
    session.press(CTRL_C);
    expect_shell(&mut session);
    assert!(!session.screen().contains("next"), "{}", session.screen());
}

fn in_background(outer: &[&str]) {
    let mut session = Session::shell("sh");
    session.enter(&format!("{} {} sleep 0.3 & wait", outer.join(" "), drainit()));
    expect_shell(&mut session);
}

fn nested() {
    let drainit = drainit();
    let script = "echo re''ady; while read -r line; do echo \"<$line>\"; done";
    for inits in [vec![&*drainit; 3], vec![&*drainit, "sh", "-c", "\"$@\"; :", "sh", &*drainit]] {
        let mut session = container(&[&inits[..], &["sh", "-c", script]].concat());
        session.expect("ready");
        session.press(CTRL_Z);
        session.enter("hello");
        session.expect("<hello>");
    }
}

fn traced() {
    let running: Running = crate::sandbox::Launch::new(crate::sandbox::Mode::Child).helper(&["traceme"]).start();
    let ended = running.wait();
    assert_eq!((ended.code(), ended.stdout), (3, vec!["got 10".to_owned()]), "{:?}", ended.stderr);
}
