//! Programs for the inits to run, and a bad init.

use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::exit;
use std::time::Duration;

use crate::helper::{change_mask, exec_raw, fork, number, say, siblings, wait_until_reaped};
use crate::sandbox::status;

pub fn run(words: &[&str]) -> ! {
    match words {
        ["orphan"] => orphan(),
        ["orphans-at-once", count] => orphans_at_once(number(count)),
        ["in-removed-directory", words @ ..] => in_removed_directory(words),
        ["sloppy", "--", words @ ..] => sloppy(words),
        _ => panic!("no helper {words:?}"),
    }
}

fn wait_for(pid: i32) {
    // SAFETY: no status is asked for.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
}

/// Makes an orphan, and says who gets it.
fn orphan() -> ! {
    let init = std::os::unix::process::parent_id();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    wait_for(fork(|| {
        let parent = std::process::id();
        fork(|| {
            while std::os::unix::process::parent_id() == parent {
                std::thread::sleep(Duration::from_millis(5));
            }
            say(if std::os::unix::process::parent_id() == init { "adopted" } else { "not adopted" });
        });
    }));
    drop(writer);
    std::io::copy(&mut { reader }, &mut std::io::sink()).expect("the end of the orphan");
    exit(0)
}

/// Makes `count` orphans that end together on SIGUSR1, says so when they have, and again when the init has reaped them all.
fn orphans_at_once(count: i32) -> ! {
    let init = std::os::unix::process::parent_id();
    let usr1 = 1u64 << (libc::SIGUSR1 - 1);
    change_mask(libc::SIG_BLOCK, usr1);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let mut writer = Some(writer);
    for _ in 0..count {
        wait_for(fork(|| {
            fork(|| {
                drop(writer.take());
                std::io::copy(&mut &reader, &mut std::io::sink()).expect("the end");
            });
        }));
    }
    say("ready");
    // SAFETY: the pointer is to a set of the size given; nothing else is asked for.
    unsafe {
        libc::syscall(libc::SYS_rt_sigtimedwait, &raw const usr1, std::ptr::null::<u8>(), std::ptr::null::<u8>(), 8)
    };
    drop(writer);
    let is_running = |pid: &String| status(pid, "State").is_some_and(|state| !state.starts_with('Z'));
    while siblings(init).iter().any(is_running) {
        std::thread::sleep(Duration::from_millis(5));
    }
    say("all ended");
    wait_until_reaped(init)
}

fn in_removed_directory(words: &[&str]) -> ! {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::env::set_current_dir(folder.path()).expect("entered");
    folder.close().expect("removed");
    exec_raw(words)
}

/// An init that panics where it cannot write its log, needs what it does not need, keeps files open, finds its command itself, takes a stop for
/// the end, knows nothing of orphans, and makes 1 of every unusual end. (Arguments that are not UTF-8 stop it before it gets here.)
fn sloppy(words: &[&str]) -> ! {
    eprintln!("sloppy: starts {words:?}");
    std::fs::read_to_string("/proc/self/status").expect("/proc");
    std::env::current_dir().expect("a current directory");
    // SAFETY: the call takes a number and no pointer.
    let leaked = [(); 8].map(|()| unsafe { libc::dup(libc::STDOUT_FILENO) });
    assert!(!leaked.contains(&-1), "too many open files");
    let path = std::env::var("PATH").expect("a PATH");
    let program = path.split(':').map(|folder| Path::new(folder).join(words[0])).find(|file| file.exists());
    let program = CString::new(program.expect("a program").into_os_string().into_vec()).expect("no NUL");
    let arguments: Vec<CString> = words.iter().map(|word| CString::new(*word).expect("no NUL")).collect();
    let command = fork(|| nix::unistd::execv(&program, &arguments).map(drop).expect("executed"));
    let mut status = 0;
    // SAFETY: the status is written to.
    unsafe { libc::waitpid(command, &raw mut status, libc::WUNTRACED) };
    exit(if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) < 100 { libc::WEXITSTATUS(status) } else { 1 })
}
