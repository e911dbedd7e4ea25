//! What every init should do, written once and run against all that are installed.
//!
//! Where an init fails, that is declared beside the behaviour and has to come true too. So each check is known to tell right from wrong, and
//! the table in `docs/peers.md`, which is made from the declarations, is known to be true.

mod ends;
pub mod helper;
mod inherits;
mod page;
mod reaps;
mod signals;
mod surroundings;
mod terminal;

use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use crate::harness::{self, Need, Test, eventually, test};
use crate::sandbox::{Ended, Launch, Mode, PATIENCE, Running, children, helper, status};

/// How long to wait for what an init is declared not to do.
const IMPATIENCE: Duration = Duration::from_millis(500);
/// What is found where an init outlives its command.
const NEVER_ENDS: &str = "never ends";

pub fn tests() -> Vec<Test> {
    let mut tests = vec![test("peers::the_page_has_the_table_that_the_declarations_give", &[], page::is_up_to_date)];
    for behaviour in behaviours() {
        // Where all do well, a bad init shows that the check can fail.
        let bad = behaviour.fails.is_empty().then_some(Init::Sloppy);
        for init in Init::ALL.into_iter().chain(bad) {
            tests.extend(behaviour.modes.iter().map(|mode| behaviour.test(init, *mode)));
        }
    }
    tests
}

fn behaviours() -> impl Iterator<Item = &'static Behaviour> {
    [
        ends::BEHAVIOURS,
        signals::BEHAVIOURS,
        reaps::BEHAVIOURS,
        inherits::BEHAVIOURS,
        terminal::BEHAVIOURS,
        surroundings::BEHAVIOURS,
    ]
    .into_iter()
    .flatten()
}

#[expect(clippy::enum_variant_names, reason = "dumb-init has that name")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Init {
    Drainit,
    Tini,
    DumbInit,
    Catatonit,
    /// The script that people write instead.
    Shell,
    /// Does wrong what can be done wrong, `helper.rs`. Not in the table.
    Sloppy,
}

/// The `--` that comes first is dropped. Everything in the background of such a shell has `/dev/null` as its input, and ignores INT and QUIT.
const WRAPPER: &str = r#"shift; trap 'kill -TERM "$child"' TERM; "$@" & child=$!; wait "$child""#;

/// Whom signals go to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Target {
    /// Whomever the init chooses when nothing is said.
    Default,
    /// The command's process group.
    Group,
}

impl Init {
    const ALL: [Init; 5] = [Init::Drainit, Init::Tini, Init::DumbInit, Init::Catatonit, Init::Shell];

    fn name(self) -> &'static str {
        match self {
            Init::Drainit => "drainit",
            Init::Tini => "tini",
            Init::DumbInit => "dumb-init",
            Init::Catatonit => "catatonit",
            Init::Shell => "sh",
            Init::Sloppy => "sloppy",
        }
    }

    /// The program and its options.
    fn words(self, target: Target) -> Vec<OsString> {
        let is_group = target == Target::Group;
        let options: &[&str] = match self {
            Init::Drainit if is_group => &["--forward-to", "group"],
            Init::Tini | Init::Catatonit if is_group => &["-g"],
            Init::Shell => &["-c", WRAPPER, "sh"],
            Init::Sloppy => return helper(&["peers", "sloppy"]),
            // dumb-init signals the group unless it is told not to.
            _ => &[],
        };
        let program = match self {
            Init::Drainit => harness::drainit().into(),
            Init::Shell => "dash".into(),
            _ => self.name().into(),
        };
        [program].into_iter().chain(options.iter().map(OsString::from)).collect()
    }

    fn need(self) -> Option<Need> {
        match self {
            Init::Tini => Some(Need::Tini),
            Init::DumbInit => Some(Need::DumbInit),
            Init::Catatonit => Some(Need::Catatonit),
            Init::Shell => Some(Need::Dash),
            Init::Drainit | Init::Sloppy => None,
        }
    }
}

const PID_1: &[Mode] = &[Mode::Pid1];
const BELOW: &[Mode] = &[Mode::BelowPid1];
const BOTH: &[Mode] = &[Mode::Pid1, Mode::BelowPid1];

/// What a check finds: nothing, or what the init does wrong.
type Finding = Result<(), String>;

struct Behaviour {
    /// What a good init does. A row of the table has this name.
    name: &'static str,
    modes: &'static [Mode],
    check: fn(&Subject) -> Finding,
    /// Who fails in each of the modes, and the beginning of what the check finds.
    fails: &'static [(Init, &'static str)],
}

impl Behaviour {
    fn failure(&self, init: Init) -> Option<&'static str> {
        self.fails.iter().find(|(failing, _)| *failing == init).map(|(_, why)| *why)
    }

    fn test(&'static self, init: Init, mode: Mode) -> Test {
        let words = self.name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_");
        let needs: Vec<Need> =
            init.need().into_iter().chain((mode != Mode::Child).then_some(Need::PidNamespace)).collect();
        let place = if mode == Mode::Pid1 { "pid 1" } else { "child" };
        test(format!("peers::{words} [{}, {place}]", init.name()), &needs, move || self.run(init, mode))
    }

    fn run(&self, init: Init, mode: Mode) {
        let (name, declared) = (init.name(), self.failure(init));
        let wait = |is_in_vain| if is_in_vain || init == Init::Sloppy { IMPATIENCE } else { PATIENCE };
        let subject =
            Subject { init, mode, limit: wait(declared.is_some()), limit_of_end: wait(declared == Some(NEVER_ENDS)) };
        match ((self.check)(&subject), declared) {
            (Ok(()), None) if init == Init::Sloppy => panic!("the check cannot fail: a bad init passes it"),
            (Ok(()), Some(why)) => panic!("the list of failures is out of date: {name} does well, it says {why:?}"),
            (Err(found), None) if init != Init::Sloppy => panic!("{name}: {found}"),
            (Err(found), Some(why)) => assert!(found.starts_with(why), "{name}, which should fail ({why:?}): {found}"),
            (Ok(()) | Err(_), None) => {}
        }
    }
}

/// An init in a mode, for a check.
#[derive(Clone, Copy, Debug)]
struct Subject {
    init: Init,
    mode: Mode,
    /// How long to wait for what it should do.
    limit: Duration,
    limit_of_end: Duration,
}

impl Subject {
    fn launch(&self) -> Launch {
        self.launch_for(Target::Default)
    }

    fn words(&self) -> Vec<OsString> {
        self.init.words(Target::Default)
    }

    fn launch_for(&self, target: Target) -> Launch {
        Launch::new(self.mode).env("DRAINIT_LOG_FORMAT", "").init(self.init.words(target))
    }

    /// Starts a command that says `ready`, and waits until the init has nothing to do any more.
    fn start(&self, launch: Launch) -> Running {
        let running = launch.start();
        running.expect_line("ready");
        let init = running.pid().to_string();
        let sleeps = || status(&init, "State").is_some_and(|state| state.starts_with('S'));
        eventually("the init to sleep", PATIENCE, sleeps);
        running
    }

    /// Runs a command that ends with 7 on SIGUSR1; returns its process id too.
    fn start_until_usr1(&self, launch: Launch) -> (Running, i32) {
        let running = self.start(launch.script("trap 'exit 7' USR1; echo ready; while :; do sleep 0.05; done"));
        let command = children(running.pid())[0];
        (running, command)
    }

    /// Waits for the end.
    fn end(&self, running: Running) -> Result<Ended, String> {
        running.wait_within(self.limit_of_end).map_err(|_| NEVER_ENDS.to_owned())
    }

    fn run(&self, launch: Launch) -> Result<Ended, String> {
        self.end(launch.start())
    }

    /// Runs it to its end, which has to be with `code`.
    fn run_to(&self, code: i32, launch: Launch) -> Result<Ended, String> {
        let ended = self.run(launch)?;
        expect_code(code, &ended)?;
        Ok(ended)
    }

    /// Waits for the command to report `signal`.
    fn expect_signal(&self, running: &Running, signal: i32) -> Finding {
        let is_there = running.has_line_within(&format!("got {signal}"), self.limit);
        found(is_there, || format!("{} does not arrive", signal_name(signal)))
    }
}

/// What a check finds where `is_right` does not hold.
fn found(is_right: bool, what: impl FnOnce() -> String) -> Finding {
    if is_right { Ok(()) } else { Err(what()) }
}

fn expect_code(code: i32, ended: &Ended) -> Finding {
    found(ended.code() == code, || format!("ends with {} instead of {code}: {ended:?}", ended.code()))
}

/// Finds a difference to what the command's output should be.
fn expect_output(lines: &[impl AsRef<str> + fmt::Debug], ended: &Ended, wrong: &str) -> Finding {
    let is_right = ended.stdout.iter().map(String::as_str).eq(lines.iter().map(AsRef::as_ref));
    found(is_right, || format!("{wrong}: {lines:?} expected, {ended:?}"))
}

fn signal_name(signal: i32) -> String {
    let name = nix::sys::signal::Signal::try_from(signal).map(|signal| signal.as_str().to_owned());
    name.unwrap_or_else(|_| format!("signal {signal}"))
}
