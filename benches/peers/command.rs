//! The commands that run below the inits. The bench runs itself for it.

use std::io::{Read, Write};
use std::process::exit;

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{ForkResult, fork};

use crate::namespace::now;

/// The words that run the command called `name`.
pub fn words(name: &str) -> [String; 3] {
    let own = std::env::current_exe().expect("the path of the bench");
    [own.to_str().expect("a path in UTF-8").to_owned(), "command".to_owned(), name.to_owned()]
}

/// Runs the command that `words` name.
pub fn run(words: &[String]) -> ! {
    match words[0].as_str() {
        "idle" => idle(),
        "report" => report(),
        "orphans" => orphans(),
        other => panic!("no command {other}"),
    }
}

fn say(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).expect("standard output");
}

fn idle() -> ! {
    say(b".");
    loop {
        nix::unistd::pause();
    }
}

/// Tells the time at which each SIGUSR1 arrives.
fn report() -> ! {
    let signals = SigSet::from(Signal::SIGUSR1);
    signals.thread_block().expect("blocked");
    say(b".");
    loop {
        signals.wait().expect("a signal");
        say(&now().to_ne_bytes());
    }
}

/// Makes as many orphans as it is told, each of which ends at once, and tells when its init has reaped them all.
fn orphans() -> ! {
    say(b".");
    let mut count = [0; 4];
    while std::io::stdin().read_exact(&mut count).is_ok() {
        for _ in 0..u32::from_ne_bytes(count) {
            orphan();
        }
        while processes() > 2 {
            std::thread::yield_now();
        }
        say(b".");
    }
    exit(0)
}

fn orphan() {
    // SAFETY: there is one thread, and the children do nothing but fork and end.
    match unsafe { fork() }.expect("a process") {
        ForkResult::Child => {
            // SAFETY: as above.
            unsafe {
                libc::fork();
            }
            // SAFETY: nothing of the parent's is run.
            unsafe { libc::_exit(0) }
        }
        ForkResult::Parent { child } => drop(nix::sys::wait::waitpid(child, None).expect("our child")),
    }
}

/// How many processes there are in this PID namespace.
fn processes() -> usize {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok())).count()
}
