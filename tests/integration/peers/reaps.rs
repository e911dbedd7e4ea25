//! What happens to orphans.

use super::{BELOW, BOTH, Behaviour, Finding, Init, NEVER_ENDS, PID_1, Subject, expect_code, expect_output, found};
use crate::harness::eventually;
use crate::sandbox::{PATIENCE, children, send, status};

pub const BEHAVIOURS: &[Behaviour] = &[
    Behaviour {
        name: "as PID 1, reaps all orphans that end at the same time",
        modes: PID_1,
        check: all_at_once,
        fails: &[],
    },
    Behaviour { name: "reaps a child that it had before it ran", modes: BOTH, check: earlier_child, fails: &[] },
    Behaviour {
        name: "below another process, adopts orphans without being asked",
        modes: BELOW,
        check: adopts,
        fails: &[
            (Init::Tini, "PID 1 gets them"),
            (Init::DumbInit, "PID 1 gets them"),
            (Init::Shell, "PID 1 gets them"),
        ],
    },
    Behaviour {
        name: "sees the command end when SIGCHLD was ignored by its parent",
        modes: BOTH,
        check: ignored_sigchld,
        fails: &[(Init::Tini, NEVER_ENDS), (Init::Catatonit, NEVER_ENDS)],
    },
];

fn all_at_once(subject: &Subject) -> Finding {
    let running = subject.start(subject.launch().helper(&["peers", "orphans-at-once", "300"]));
    // While it is stopped, the kernel merges what it has to tell into one SIGCHLD.
    let init = running.pid();
    let command = children(init)[0];
    send(init, libc::SIGSTOP);
    eventually("the init to stop", PATIENCE, || {
        status(&init.to_string(), "State").is_some_and(|state| state.starts_with('T'))
    });
    send(command, libc::SIGUSR1);
    running.expect_line("all ended");
    send(init, libc::SIGCONT);
    found(running.has_line_within("all reaped", subject.limit), || "zombies are left".to_owned())?;
    expect_code(0, &subject.end(running)?)
}

fn earlier_child(subject: &Subject) -> Finding {
    let launch = subject.launch().through_program(&["sh", "-c", "sleep 0.1 & exec \"$@\"", "sh"]);
    let ended = subject.run(launch.helper(&["orphans", "0"]))?;
    expect_output(&["all reaped"], &ended, "a zombie is left")
}

fn adopts(subject: &Subject) -> Finding {
    let ended = subject.run_to(0, subject.launch().helper(&["peers", "orphan"]))?;
    found(ended.stdout == ["adopted"], || format!("PID 1 gets them: {ended:?}"))
}

fn ignored_sigchld(subject: &Subject) -> Finding {
    let launch = subject.launch().through(&["with-ignored", &libc::SIGCHLD.to_string()]);
    let (running, command) = subject.start_until_usr1(launch);
    send(command, libc::SIGUSR1);
    expect_code(7, &subject.end(running)?)
}
