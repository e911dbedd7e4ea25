//! Which signals reach the command.

use super::{BOTH, Behaviour, Finding, Init, Subject, Target, expect_code, expect_output, found};
use crate::sandbox::{Running, send};

pub const BEHAVIOURS: &[Behaviour] = &[
    Behaviour {
        name: "passes on each signal that asks for something, once",
        modes: BOTH,
        check: requests,
        fails: &[(Init::Shell, "SIGHUP does not arrive")],
    },
    Behaviour {
        name: "passes on SIGTTIN, SIGTTOU and SIGTSTP",
        modes: BOTH,
        check: job_control,
        fails: &[
            (Init::Tini, "SIGTTIN does not arrive"),
            (Init::DumbInit, "SIGTTIN does not arrive"),
            (Init::Catatonit, "SIGTTIN does not arrive"),
            (Init::Shell, "SIGTTIN does not arrive"),
        ],
    },
    Behaviour {
        name: "passes on the signals of faults when somebody sends them",
        modes: BOTH,
        check: faults,
        fails: &[
            (Init::Tini, "SIGILL does not arrive"),
            (Init::Catatonit, "SIGILL does not arrive"),
            (Init::Shell, "SIGILL does not arrive"),
        ],
    },
    Behaviour {
        name: "passes on each real-time signal, and each of several",
        modes: BOTH,
        check: real_time,
        fails: &[(Init::Shell, "signal 34 does not arrive")],
    },
    Behaviour {
        name: "passes on the signals 32 and 33, which C libraries hide",
        modes: BOTH,
        check: hidden,
        fails: &[
            (Init::Tini, "signal 32 does not arrive"),
            (Init::DumbInit, "signal 32 does not arrive"),
            (Init::Catatonit, "signal 32 does not arrive"),
            (Init::Shell, "signal 32 does not arrive"),
        ],
    },
    Behaviour {
        name: "when asked, passes on one signal as another, and a third not at all",
        modes: BOTH,
        check: rewrites,
        fails: &[
            (Init::Tini, "SIGUSR2 does not arrive"),
            (Init::Catatonit, "SIGUSR2 does not arrive"),
            (Init::Shell, "SIGUSR2 does not arrive"),
        ],
    },
    Behaviour {
        name: "passes on a signal that came before it ran",
        modes: BOTH,
        check: pending,
        fails: &[(Init::DumbInit, "SIGUSR1 does not arrive"), (Init::Shell, "SIGUSR1 does not arrive")],
    },
    Behaviour {
        name: "lets a signal to its own process group reach the command once",
        modes: BOTH,
        check: to_own_group,
        fails: &[(Init::Shell, "the command does not get it exactly once")],
    },
    Behaviour {
        name: "with a group as the target, signals the command's children too",
        modes: BOTH,
        check: to_group,
        fails: &[(Init::Shell, "nothing arrives")],
    },
];

/// Sends each of `signals` so many times, one kind after the other, and finds what does not arrive as often.
fn passes_on(subject: &Subject, signals: &[i32], times: usize) -> Finding {
    let total = (signals.len() * times).to_string();
    let running = subject.start(subject.launch().helper(&["report", &total]));
    let init = running.pid();
    for signal in signals {
        (0..times).for_each(|_| send(init, *signal));
        // One after the other: a pending SIGCONT and a pending SIGTSTP cancel each other, signal(7).
        subject.expect_signal(&running, *signal)?;
    }
    let ended = subject.end(running)?;
    let arrived = signals.iter().flat_map(|signal| std::iter::repeat_n(format!("got {signal}"), times));
    let expected: Vec<String> = ["ready".to_owned()].into_iter().chain(arrived).collect();
    expect_output(&expected, &ended, "not all arrive")?;
    expect_code(0, &ended)
}

fn requests(subject: &Subject) -> Finding {
    let signals = [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGPIPE,
        libc::SIGALRM,
        libc::SIGSTKFLT,
        libc::SIGCONT,
        libc::SIGURG,
        libc::SIGXCPU,
        libc::SIGXFSZ,
        libc::SIGVTALRM,
        libc::SIGPROF,
        libc::SIGWINCH,
        libc::SIGIO,
        libc::SIGPWR,
        libc::SIGTERM,
    ];
    passes_on(subject, &signals, 1)
}

fn job_control(subject: &Subject) -> Finding {
    passes_on(subject, &[libc::SIGTTIN, libc::SIGTTOU, libc::SIGTSTP], 1)
}

fn faults(subject: &Subject) -> Finding {
    let signals = [libc::SIGILL, libc::SIGTRAP, libc::SIGABRT, libc::SIGBUS, libc::SIGFPE, libc::SIGSEGV, libc::SIGSYS];
    passes_on(subject, &signals, 1)
}

fn real_time(subject: &Subject) -> Finding {
    passes_on(subject, &(34..=64).collect::<Vec<i32>>(), 3)
}

fn hidden(subject: &Subject) -> Finding {
    passes_on(subject, &[32, 33], 3)
}

fn rewrites(subject: &Subject) -> Finding {
    // The others have no words for it.
    let options: &[&str] = match subject.init {
        Init::Drainit | Init::DumbInit => &["--rewrite", "10:12", "--rewrite", "1:0"],
        _ => &[],
    };
    let running = subject.start(subject.launch().args(options).helper(&["report", "1"]));
    running.signal(libc::SIGHUP);
    running.signal(libc::SIGUSR1);
    subject.expect_signal(&running, libc::SIGUSR2)?;
    expect_output(&["ready", "got 12"], &subject.end(running)?, "SIGHUP arrives")
}

fn pending(subject: &Subject) -> Finding {
    // Several times, because an init may lose what it passes on in the moment between fork and exec.
    [libc::SIGUSR1, libc::SIGTERM].repeat(3).into_iter().try_for_each(|signal| {
        let launch = subject.launch().through(&["with-pending", &signal.to_string()]).helper(&["report", "1"]);
        let running = launch.start();
        subject.expect_signal(&running, signal)?;
        expect_code(0, &subject.end(running)?)
    })
}

fn to_own_group(subject: &Subject) -> Finding {
    let running = subject.start(subject.launch().through_program(&["setsid"]).helper(&["report", "2"]));
    let init = running.pid();
    send(-init, libc::SIGTERM);
    expect_once(subject, running, init, libc::SIGTERM)
}

/// Finds whether the command, which reports two signals, gets `signal` once.
pub fn expect_once(subject: &Subject, running: Running, init: i32, signal: i32) -> Finding {
    let is_there = subject.expect_signal(&running, signal);
    // An init that has got it too passes on the one with the lower number first, so this one is the last to arrive.
    send(init, libc::SIGWINCH);
    let expected = ["ready".to_owned(), format!("got {signal}"), format!("got {}", libc::SIGWINCH)];
    let is_right = is_there.is_ok() && running.wait_within(subject.limit).is_ok_and(|ended| ended.stdout == expected);
    found(is_right, || "the command does not get it exactly once".to_owned())
}

fn to_group(subject: &Subject) -> Finding {
    let grandchild = "trap 'echo got it; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    // The command itself stays until its child has ended.
    let script = format!("trap : TERM; sh -c \"{grandchild}\" & wait; wait");
    let running = subject.start(subject.launch_for(Target::Group).script(&script));
    running.signal(libc::SIGTERM);
    found(running.has_line_within("got it", subject.limit), || "nothing arrives".to_owned())
}
