//! Programs for drainit to run, and such as execute drainit with something to inherit. The tests run themselves for it, so that nothing else
//! has to be built or installed.

use std::io::Write;
use std::process::exit;
use std::time::{Duration, Instant};

use crate::sandbox::{send, status};

/// Runs the helper that `words` name.
pub fn run(words: &[String]) -> ! {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["report", count] => report(number(count)),
        ["report-later", count] => report_later(number(count)),
        ["ping", ..] => ping(&words[1..]),
        ["ping-with-value", signal, value] => ping_with_value(number(signal), number(value)),
        ["with-queue", limit, ..] => with_queue(number(limit), &words[2..]),
        ["traceme"] => traceme(),
        ["die", signal] => die(number(signal)),
        ["orphans", count] => orphans(number(count)),
        ["deaf"] => deaf(),
        ["deaf-tree"] => deaf_tree(),
        ["hop"] => hop(),
        ["peers", ..] => crate::peers::helper::run(&words[1..]),
        ["with-blocked", signal, ..] => with_blocked(number(signal), &words[2..]),
        ["with-ignored", signal, ..] => with_ignored(number(signal), &words[2..]),
        ["without-call", call, ..] => without_call(number(call), libc::EPERM, &words[2..]),
        ["without-proc", ..] => without_proc(&words[1..]),
        ["with-pending", signal, ..] => with_pending(number(signal), &words[2..]),
        ["with-closed", descriptor, ..] => with_closed(number(descriptor), &words[2..]),
        _ => crate::hostile::programs::run(&words),
    }
}

pub fn number(text: &str) -> i32 {
    text.parse().expect("a number")
}

pub fn say(line: impl std::fmt::Display) {
    println!("{line}");
    std::io::stdout().flush().expect("standard output");
}

/// Takes no notice of any signal, and is never the same process for long: it forks and ends all the time.
fn hop() -> ! {
    change_mask(libc::SIG_SETMASK, u64::MAX);
    if fork(hop_on) > 0 {
        say("ready");
    }
    deaf()
}

fn hop_on() {
    // SAFETY: the helpers have one thread; _exit runs nothing of the parent's.
    while unsafe { libc::fork() } == 0 {}
    // SAFETY: as above.
    unsafe { libc::_exit(0) }
}

/// Blocks or unblocks with the kernel's own call: the C library hides signals from its callers.
pub fn change_mask(how: i32, mask: u64) {
    // SAFETY: the pointer is to a set of the size given.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, &raw const mask, std::ptr::null::<u64>(), 8) };
}

/// Sets what happens on a signal, with the kernel's own call too: SIG_DFL or SIG_IGN.
pub fn set_action(signal: i32, action: usize) {
    let action = [action, 0, 0, 0];
    // SAFETY: the structure is as large as the kernel's, and there is no handler to call.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, action.as_ptr(), std::ptr::null::<u8>(), 8) };
}

/// Waits for any signal, and returns it.
pub fn next_signal() -> i32 {
    take(u64::MAX).si_signo
}

/// Waits for one of the signals in `mask`.
fn take(mask: u64) -> libc::siginfo_t {
    // SAFETY: any bytes are a siginfo_t.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: the pointers are to a set of the size given and to a siginfo_t; without a time the call waits.
        let signal = unsafe {
            libc::syscall(libc::SYS_rt_sigtimedwait, &raw const mask, &raw mut info, std::ptr::null::<u8>(), 8)
        };
        // Who was stopped and continued is interrupted.
        if signal > 0 {
            return info;
        }
    }
}

/// Reports each signal that it gets, and ends with 0 after `count`.
pub fn report(count: i32) -> ! {
    change_mask(libc::SIG_SETMASK, u64::MAX);
    say("ready");
    report_next(count)
}

fn report_next(count: i32) -> ! {
    for _ in 0..count {
        say(format!("got {}", next_signal()));
    }
    exit(0)
}

/// The same, but takes none before it got SIGUSR1.
fn report_later(count: i32) -> ! {
    change_mask(libc::SIG_SETMASK, u64::MAX);
    say("ready");
    take(1 << (libc::SIGUSR1 - 1));
    report_next(count)
}

/// Sends each signal to its init, three times, and reports what comes back.
fn ping(signals: &[&str]) -> ! {
    change_mask(libc::SIG_SETMASK, u64::MAX);
    let init = nix::unistd::getppid().as_raw();
    for signal in signals {
        for _ in 0..3 {
            send(init, number(signal));
            say(format!("got {}", next_signal()));
        }
    }
    exit(0)
}

/// Sends one signal to its init with a value, and reports what comes back with it.
fn ping_with_value(signal: i32, value: i32) -> ! {
    change_mask(libc::SIG_SETMASK, u64::MAX);
    let value = libc::sigval { sival_ptr: std::ptr::without_provenance_mut(usize::try_from(value).expect("a value")) };
    // SAFETY: the value is a number, which nobody takes for a pointer.
    let sent = unsafe { libc::sigqueue(nix::unistd::getppid().as_raw(), signal, value) };
    assert_eq!(sent, 0, "{}", std::io::Error::last_os_error());
    let info = take(u64::MAX);
    // SAFETY: a queued signal has a value.
    let value = unsafe { info.si_value() }.sival_ptr.addr();
    // SAFETY: and a sender.
    let sender = unsafe { info.si_pid() };
    let sender = if sender == nix::unistd::getpid().as_raw() { "me".to_owned() } else { sender.to_string() };
    say(format!("got {} with {value} from {sender}", info.si_signo));
    exit(0)
}

/// Makes its parent its tracer, who gets each signal before it does.
fn traceme() -> ! {
    change_mask(libc::SIG_SETMASK, u64::MAX);
    // SAFETY: the request takes nothing.
    assert_eq!(unsafe { libc::ptrace(libc::PTRACE_TRACEME) }, 0);
    change_mask(libc::SIG_SETMASK, !(1 << (libc::SIGWINCH - 1)));
    // One that is delivered stops the tracee, and one that is blocked does not.
    send(nix::unistd::getpid().as_raw(), libc::SIGWINCH);
    send(nix::unistd::getpid().as_raw(), libc::SIGUSR1);
    say(format!("got {}", next_signal()));
    exit(3)
}

/// Executes with room for `limit` pending signals.
fn with_queue(limit: i32, words: &[&str]) -> ! {
    let limit = libc::rlimit { rlim_cur: limit.unsigned_abs().into(), rlim_max: limit.unsigned_abs().into() };
    // SAFETY: the pointer is to a limit.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_SIGPENDING, &raw const limit) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    exec_raw(words)
}

/// Dies of `signal`, without a core dump.
fn die(signal: i32) -> ! {
    // SAFETY: this option takes a number and no pointer.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
    set_action(signal, libc::SIG_DFL);
    change_mask(libc::SIG_SETMASK, 0);
    send(nix::unistd::getpid().as_raw(), signal);
    std::thread::sleep(Duration::from_secs(1));
    panic!("signal {signal} has not ended the process")
}

/// Runs `child` in a child process.
pub fn fork(child: impl FnOnce()) -> i32 {
    // SAFETY: the helpers have one thread.
    match unsafe { libc::fork() } {
        0 => {
            child();
            exit(0)
        }
        pid => pid,
    }
}

/// Makes `count` orphans that end at once, and says so when the init has reaped them all.
fn orphans(count: i32) -> ! {
    let init = std::os::unix::process::parent_id();
    for _ in 0..count {
        let parent = fork(|| {
            fork(|| ());
        });
        // SAFETY: no status is asked for.
        unsafe { libc::waitpid(parent, std::ptr::null_mut(), 0) };
    }
    wait_until_reaped(init)
}

/// Says so when `init` has no other child than this process, and ends.
pub fn wait_until_reaped(init: u32) -> ! {
    let start = Instant::now();
    while !siblings(init).is_empty() {
        assert!(start.elapsed() < Duration::from_secs(10), "not all orphans are reaped");
        std::thread::sleep(Duration::from_millis(5));
    }
    say("all reaped");
    exit(0)
}

/// The other children of `init`, dead ones included.
pub fn siblings(init: u32) -> Vec<String> {
    // (The kernel's list of children leaves some out while others end, so it is no proof that there are none.)
    let own = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    processes
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.parse::<i32>().is_ok())
        .filter(|pid| *pid != own && status(pid, "PPid") == Some(init.to_string()))
        .collect()
}

/// Takes no notice of any signal.
fn deaf() -> ! {
    change_mask(libc::SIG_SETMASK, u64::MAX);
    say("ready");
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

/// The same with a daemon in a session of its own and a stopped child, each of them deaf too.
fn deaf_tree() -> ! {
    change_mask(libc::SIG_SETMASK, u64::MAX);
    let sleep = || -> () {
        loop {
            std::thread::sleep(Duration::from_secs(60));
        }
    };
    let parent = fork(|| {
        nix::unistd::setsid().expect("a new session");
        fork(sleep);
    });
    // SAFETY: no status is asked for.
    unsafe { libc::waitpid(parent, std::ptr::null_mut(), 0) };
    let stopped = fork(sleep);
    send(stopped, libc::SIGSTOP);
    deaf()
}

/// Makes the dispositions the default ones and the mask empty. Rust ignores SIGPIPE, and who started the tests may have ignored more.
pub fn reset() {
    (1..=64).for_each(|signal| set_action(signal, libc::SIG_DFL));
    change_mask(libc::SIG_SETMASK, 0);
}

fn with_blocked(signal: i32, words: &[&str]) -> ! {
    reset();
    change_mask(libc::SIG_SETMASK, 1 << (signal - 1));
    exec_raw(words)
}

fn with_ignored(signal: i32, words: &[&str]) -> ! {
    reset();
    set_action(signal, libc::SIG_IGN);
    exec_raw(words)
}

/// Executes a program with a signal pending that another process has sent.
fn with_pending(signal: i32, words: &[&str]) -> ! {
    reset();
    change_mask(libc::SIG_BLOCK, 1 << (signal - 1));
    let own = nix::unistd::getpid().as_raw();
    let sender = fork(|| send(own, signal));
    // SAFETY: no status is asked for.
    unsafe { libc::waitpid(sender, std::ptr::null_mut(), 0) };
    assert!(
        status("self", "ShdPnd").is_some_and(|pending| pending.contains(|digit| digit != '0')),
        "nothing is pending"
    );
    exec_raw(words)
}

/// Executes where a system call is refused with `errno`, as sandboxes do.
pub fn without_call(call: i32, errno: i32, words: &[&str]) -> ! {
    let instruction = |code: u32, jf, k| libc::sock_filter { code: u16::try_from(code).expect("a code"), jt: 0, jf, k };
    let mut filter = [
        // The number of the call is the first field of seccomp_data.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, call.unsigned_abs()),
        instruction(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | errno.unsigned_abs()),
        instruction(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    // SAFETY: the option takes numbers and no pointer.
    let no_new_privileges = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: the program lives until the kernel has copied it.
    let filtered = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!((no_new_privileges, filtered), (0, 0), "{}", std::io::Error::last_os_error());
    exec_raw(words)
}

/// Executes in a mount namespace of its own, which unshare has made, with an empty `/proc`.
fn without_proc(words: &[&str]) -> ! {
    // (To unmount it is not enough: below it may be another one, which only root may unmount.)
    let (none, proc, kind) = (c"none".as_ptr(), c"/proc".as_ptr(), c"tmpfs".as_ptr());
    // SAFETY: the three are C strings, and this kind of file system needs no data.
    let mounted = unsafe { libc::mount(none, proc, kind, 0, std::ptr::null()) };
    assert_eq!(mounted, 0, "{}", std::io::Error::last_os_error());
    exec_raw(words)
}

fn with_closed(descriptor: i32, words: &[&str]) -> ! {
    reset();
    // SAFETY: nothing in this program uses the descriptor any more.
    unsafe { libc::close(descriptor) };
    exec_raw(words)
}

/// Executes without what Rust's `Command` does to the mask and to SIGPIPE.
pub fn exec_raw(words: &[&str]) -> ! {
    let words: Vec<std::ffi::CString> =
        words.iter().map(|word| std::ffi::CString::new(*word).expect("no NUL")).collect();
    let mut argv: Vec<*const libc::c_char> = words.iter().map(|word| word.as_ptr()).collect();
    argv.push(std::ptr::null());
    // SAFETY: the array ends in a null pointer, and its strings live on.
    unsafe { libc::execvp(argv[0], argv.as_ptr()) };
    panic!("{words:?}: {}", std::io::Error::last_os_error())
}
