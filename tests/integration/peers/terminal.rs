//! A command that talks to a user, as under `docker run -it`.

use std::fs::File;
use std::io::Write;

use nix::fcntl::OFlag;

use super::signals::expect_once;
use super::{BELOW, BOTH, Behaviour, Finding, Init, Subject, expect_output, found};
use crate::pty::{self, CTRL_Z, Session, Terminal};
use crate::sandbox::{Ended, Launch};
use crate::stop::shell_quoted;

pub const BEHAVIOURS: &[Behaviour] = &[
    Behaviour {
        name: "lets the command read from its terminal",
        modes: BOTH,
        check: reads,
        fails: &[(Init::Shell, "the command reads nothing")],
    },
    Behaviour {
        name: "lets an interactive shell control its jobs",
        modes: BOTH,
        check: job_control,
        fails: &[(Init::Shell, "ends with 0 instead of 9")],
    },
    Behaviour {
        name: "below a shell that has the terminal, lets an interactive shell control its jobs",
        modes: BELOW,
        check: below_a_shell,
        fails: &[(Init::DumbInit, "job control is off"), (Init::Shell, "ends with 0 instead of 9")],
    },
    Behaviour {
        name: "below an interactive shell, stops together with the command on Ctrl-Z, and fg brings both back",
        modes: BELOW,
        check: stops_with_command,
        fails: &[
            (Init::Tini, "the shell waits for ever"),
            (Init::Catatonit, "the shell waits for ever"),
            (Init::Shell, "the shell waits for ever"),
        ],
    },
    Behaviour {
        name: "lets Ctrl-C reach the command once",
        modes: BOTH,
        check: interrupt,
        fails: &[(Init::Shell, "the command does not get it exactly once")],
    },
];

/// The init with a terminal as its standard input that controls its session, and the user's end of it.
fn with_terminal(subject: &Subject) -> (Launch, File) {
    let Terminal { user, program, .. } = pty::open(OFlag::empty());
    (subject.launch().stdin(program).through_program(&["setsid", "--ctty"]), user)
}

fn reads(subject: &Subject) -> Finding {
    let (launch, mut user) = with_terminal(subject);
    user.write_all(b"hello\n").expect("it fits");
    let ended = subject.run(launch.script("read -r line; echo \"read <$line>\""))?;
    expect_output(&["read <hello>"], &ended, "the command reads nothing")
}

fn job_control(subject: &Subject) -> Finding {
    let (launch, mut user) = with_terminal(subject);
    user.write_all(b"exit 9\n").expect("it fits");
    let ended = subject.run_to(9, launch.args(["--", "sh", "-i"]))?;
    expect_job_control(&ended)
}

fn expect_job_control(ended: &Ended) -> Finding {
    let has_complained = ended.stderr.iter().any(|line| line.contains("job control turned off"));
    found(!has_complained, || format!("job control is off: {ended:?}"))
}

fn interrupt(subject: &Subject) -> Finding {
    let (launch, mut user) = with_terminal(subject);
    let running = subject.start(launch.helper(&["report", "2"]));
    let init = running.pid();
    user.write_all(b"\x03").expect("it fits");
    expect_once(subject, running, init, libc::SIGINT)
}

fn stops_with_command(subject: &Subject) -> Finding {
    let mut session = Session::shell("sh");
    let init: Vec<String> = subject.words().iter().map(|word| shell_quoted(&word.to_string_lossy())).collect();
    session.enter(&format!("{} -- sh -c 'echo re\"\"ady; read -r line; echo \"<$line>\"'", init.join(" ")));
    session.expect("ready");
    session.press(CTRL_Z);
    found(session.shows_within("Stopped", subject.limit), || "the shell waits for ever".to_owned())?;
    session.enter("fg");
    session.enter("hello");
    found(session.shows_within("<hello>", subject.limit), || "the command reads nothing".to_owned())
}

/// With the terminal in the hands of a shell, which is the init's parent.
fn below_a_shell(subject: &Subject) -> Finding {
    let Terminal { user, program, .. } = pty::open(OFlag::empty());
    let shell = ["setsid", "--ctty", "sh", "-c", "\"$@\"; exit $?", "sh"];
    let launch = subject.launch().stdin(program).through_program(&shell);
    { &user }.write_all(b"exit 9\n").expect("it fits");
    let ended = subject.run_to(9, launch.args(["--", "sh", "-i"]))?;
    expect_job_control(&ended)
}
