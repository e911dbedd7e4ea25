//! Programs that execute drainit in hostile surroundings, and commands that make trouble; `helper.rs` has those that more than one test needs.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::process::exit;

use super::size::{megabyte, sum};
#[cfg(target_arch = "x86_64")]
use super::tracer;
use super::{storm, tree};
use crate::helper::{change_mask, exec_raw, number, report, reset, say, set_action, without_call};

/// Runs the program that `words` name.
pub fn run(words: &[&str]) -> ! {
    match words {
        ["with-closed-all", descriptors, words @ ..] => with_closed_all(descriptors, words),
        ["with-limit", resource, value, words @ ..] => with_limit(resource, value, words),
        ["with-terminal", path, "controlling", words @ ..] => with_terminal(path, true, words),
        ["with-terminal", path, "", words @ ..] => with_terminal(path, false, words),
        ["with-everything-read-only", words @ ..] => with_everything_read_only(words),
        ["in-removed-directory", words @ ..] => in_removed_directory(words),
        ["with-two-megabytes", words @ ..] => with_two_megabytes(words),
        ["with-all-blocked", words @ ..] => with_all_blocked(words),
        ["with-all-ignored", words @ ..] => with_all_ignored(words),
        ["as-user", uid, words @ ..] => as_user(uid, words, || ()),
        ["as-bare-user", uid, words @ ..] => as_bare_user(uid, words),
        ["as-user-of-few-processes", uid, count, words @ ..] => {
            let count = count.parse().expect("a number");
            as_user(uid, words, || limit(0, libc::RLIMIT_NPROC, count));
        }
        ["with-refused", call, errno, words @ ..] => without_call(number(call), number(errno), words),
        ["with-hidden-processes", words @ ..] => with_hidden_processes(words),
        ["hidden"] => hidden(),
        #[cfg(target_arch = "x86_64")]
        ["traced", words @ ..] => tracer::traced(words),
        ["sum", words @ ..] => print_sums(words),
        ["storm", how] => storm::storm(how),
        ["wild-tree"] => tree::wild_tree(),
        ["watch-for-survivors", words @ ..] => tree::watch_for_survivors(words),
        _ => panic!("no program {words:?}"),
    }
}

fn succeed(what: &str, result: i64) -> i32 {
    assert!(result >= 0, "{what}: {}", std::io::Error::last_os_error());
    i32::try_from(result).expect("a small number")
}

fn with_closed_all(descriptors: &str, words: &[&str]) -> ! {
    reset();
    for descriptor in descriptors.split(',').map(number) {
        // SAFETY: nothing in this program uses the descriptor any more.
        unsafe { libc::close(descriptor) };
    }
    exec_raw(words)
}

/// Sets a limit of a process; 0 is this one.
pub fn limit(pid: i32, resource: libc::__rlimit_resource_t, value: u64) {
    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: the pointer is to a limit, and none is asked for.
    let result = unsafe { libc::prlimit(pid, resource, &raw const limit, std::ptr::null_mut()) };
    succeed("prlimit", result.into());
}

fn with_limit(resource: &str, value: &str, words: &[&str]) -> ! {
    limit(0, resource.parse().expect("a number"), value.parse().expect("a number"));
    exec_raw(words)
}

/// Executes with a terminal as standard error, and on demand as the controlling terminal too.
fn with_terminal(path: &str, is_controlling: bool, words: &[&str]) -> ! {
    let terminal =
        std::fs::File::options().read(true).write(true).custom_flags(libc::O_NOCTTY).open(path).expect("a terminal");
    if is_controlling {
        nix::unistd::setsid().expect("a new session");
        // SAFETY: the call takes numbers only.
        succeed("TIOCSCTTY", unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSCTTY, 0) }.into());
    }
    // SAFETY: both numbers are descriptors.
    succeed("dup2", unsafe { libc::dup2(terminal.as_raw_fd(), libc::STDERR_FILENO) }.into());
    drop(terminal);
    exec_raw(words)
}

/// Executes in a mount namespace of its own, which unshare has made, where every mount is read-only.
fn with_everything_read_only(words: &[&str]) -> ! {
    // struct mount_attr: set, clear, propagation, user namespace.
    let attributes = [libc::MOUNT_ATTR_RDONLY, 0, 0, 0];
    let (call, root) = (libc::SYS_mount_setattr, c"/".as_ptr());
    // SAFETY: the pointers are to a C string and to a structure of the size given.
    let result = unsafe {
        libc::syscall(call, libc::AT_FDCWD, root, libc::AT_RECURSIVE, attributes.as_ptr(), size_of_val(&attributes))
    };
    succeed("mount_setattr", result);
    let error = std::fs::File::create("/tmp/written").expect_err("nothing can be written");
    assert_eq!(error.raw_os_error(), Some(libc::EROFS));
    exec_raw(words)
}

fn in_removed_directory(words: &[&str]) -> ! {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::env::set_current_dir(folder.path()).expect("our folder");
    folder.close().expect("removed");
    assert!(std::env::current_dir().is_err(), "it is gone");
    exec_raw(words)
}

/// Executes with a `/proc` that hides what one may not trace, proc(5), in a mount namespace of its own, which unshare has made.
fn with_hidden_processes(words: &[&str]) -> ! {
    let (proc, options) = (c"proc".as_ptr(), c"hidepid=invisible".as_ptr());
    // SAFETY: the pointers are to C strings.
    succeed("mount", unsafe { libc::mount(proc, c"/proc".as_ptr(), proc, 0, options.cast()) }.into());
    exec_raw(words)
}

/// Cannot be traced by anybody but root, like a program with capabilities of its own. It ends with the first signal that it gets.
fn hidden() -> ! {
    // SAFETY: this option takes a number and no pointer.
    succeed("prctl", unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) }.into());
    report(1)
}

/// Executes with a megabyte of arguments and one of environment.
fn with_two_megabytes(words: &[&str]) -> ! {
    // Arguments and environment together may take a quarter of the stack, execve(2).
    limit(0, libc::RLIMIT_STACK, 64 << 20);
    let words: Vec<CString> =
        words.iter().map(|word| CString::new(*word).expect("no NUL")).chain(megabyte("A")).collect();
    let mut environment = megabyte("E");
    environment.push(c"DRAINIT_LOG_FORMAT=json".to_owned());
    exec_with(None, &words, &environment)
}

/// Executes `words`: the program that is open as `file`, or else the one that the first word names by its path.
fn exec_with(file: Option<i32>, words: &[CString], environment: &[CString]) -> ! {
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, envp) = (pointers(words), pointers(environment));
    let path: &CStr = if file.is_some() { c"" } else { &words[0] };
    let (directory, flags) = (file.unwrap_or(libc::AT_FDCWD), if file.is_some() { libc::AT_EMPTY_PATH } else { 0 });
    // SAFETY: the arrays end in a null pointer, and their strings live on.
    unsafe { libc::syscall(libc::SYS_execveat, directory, path.as_ptr(), argv.as_ptr(), envp.as_ptr(), flags) };
    panic!("{:?}: {}", words[0], std::io::Error::last_os_error())
}

/// Says what has arrived of [`with_two_megabytes`].
fn print_sums(words: &[&str]) -> ! {
    say(sum(words));
    let variables = std::env::vars_os().filter(|(name, _)| name.as_bytes().starts_with(b"E"));
    say(sum(variables.map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat())));
    exit(0)
}

fn with_all_blocked(words: &[&str]) -> ! {
    reset();
    change_mask(libc::SIG_SETMASK, u64::MAX);
    exec_raw(words)
}

fn with_all_ignored(words: &[&str]) -> ! {
    reset();
    (1..=64).for_each(|signal| set_action(signal, libc::SIG_IGN));
    exec_raw(words)
}

/// Executes as another user, after `prepare`. The program is opened before: the user may not see the folder that it is in.
fn as_user(uid: &str, words: &[&str], prepare: impl FnOnce()) -> ! {
    let uid = uid.parse().expect("a number");
    let file = std::fs::File::open(words[0]).expect("the program").into_raw_fd();
    // SAFETY: the descriptor is ours, and closes on exec.
    succeed("fcntl", unsafe { libc::fcntl(file, libc::F_SETFD, libc::FD_CLOEXEC) }.into());
    // SAFETY: the list is empty.
    succeed("setgroups", unsafe { libc::setgroups(0, std::ptr::null()) }.into());
    // SAFETY: the calls take numbers only.
    succeed("setresgid", unsafe { libc::setresgid(uid, uid, uid) }.into());
    // SAFETY: as above.
    succeed("setresuid", unsafe { libc::setresuid(uid, uid, uid) }.into());
    prepare();
    let words: Vec<CString> = words.iter().map(|word| CString::new(*word).expect("no NUL")).collect();
    let environment: Vec<CString> = std::env::vars_os()
        .map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).expect("no NUL"))
        .collect();
    exec_with(Some(file), &words, &environment)
}

/// The same without any capability, now or ever.
fn as_bare_user(uid: &str, words: &[&str]) -> ! {
    // The kernel says where the list of capabilities ends.
    // SAFETY: the option takes a number and no pointer.
    let dropped =
        (0..64).take_while(|capability: &u64| unsafe { libc::prctl(libc::PR_CAPBSET_DROP, *capability) } == 0);
    assert!(dropped.count() > 30, "the bounding set is empty");
    // SAFETY: as above.
    succeed("prctl", unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into());
    as_user(uid, words, || ())
}

/// Reaps the children that have ended, without waiting.
pub fn reap() -> BTreeSet<i32> {
    std::iter::from_fn(|| {
        // SAFETY: no status is asked for.
        Some(unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) }).filter(|pid| *pid > 0)
    })
    .collect()
}
