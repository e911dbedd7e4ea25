//! A tracer that stands between drainit and the kernel, ptrace(2). Unlike a seccomp filter it concerns drainit alone: the command, which
//! would inherit a filter, can use every call. And it can change what a call returns.

use std::collections::BTreeSet;
use std::io::Write;

use crate::helper::{exec_raw, fork, number};

/// What is done to drainit's calls, once its own code runs: what the C library does before is not its business.
enum Plan {
    /// The number of each call is written to a file, once.
    Record(std::fs::File, BTreeSet<u64>),
    /// One call fails with this error.
    Refuse(u64, i32),
    /// Each time that the wall clock is read it is an hour earlier.
    TurnBack { hours: i64 },
}

/// Executes a program under the tracer, and ends as it ends.
pub fn traced(words: &[&str]) -> ! {
    match words {
        ["record", path, words @ ..] => {
            let file = std::fs::File::create(path).expect("a file");
            trace(Plan::Record(file, BTreeSet::new()), words)
        }
        ["refuse", call, errno, words @ ..] => {
            trace(Plan::Refuse(call.parse().expect("a number"), number(errno)), words)
        }
        ["turn-back", words @ ..] => trace(Plan::TurnBack { hours: 0 }, words),
        _ => panic!("no such plan: {words:?}"),
    }
}

fn trace(mut plan: Plan, words: &[&str]) -> ! {
    let pid = fork(|| {
        request(libc::PTRACE_TRACEME, 0, 0, 0);
        exec_raw(words);
    });
    assert_eq!(wait(pid), Some(libc::SIGTRAP), "it has executed the program");
    request(libc::PTRACE_SETOPTIONS, pid, 0, (libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL) as u64);
    if matches!(plan, Plan::TurnBack { .. }) {
        hide_vdso(pid);
    }
    let (mut is_inside, mut has_begun, mut signal) = (false, false, 0);
    loop {
        request(libc::PTRACE_SYSCALL, pid, 0, signal as u64);
        signal = 0;
        match wait(pid) {
            Some(stop) if stop == libc::SIGTRAP | 0x80 => {
                is_inside = !is_inside;
                let mut registers = registers(pid);
                has_begun |= is_first_call(pid, &registers);
                if has_begun {
                    plan.apply(pid, is_inside, &mut registers);
                }
            }
            // (drainit blocks all signals, so this is one that it ends of.)
            Some(stop) => signal = stop,
            None => panic!("{pid} is no child"),
        }
    }
}

/// Waits until the process stops, and returns the signal that it stops for. When it ends, so do we.
fn wait(pid: i32) -> Option<i32> {
    let mut status = 0;
    // SAFETY: the pointer is to an int.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    if libc::WIFEXITED(status) {
        std::process::exit(libc::WEXITSTATUS(status));
    }
    if libc::WIFSIGNALED(status) {
        std::process::exit(128 + libc::WTERMSIG(status));
    }
    (waited == pid).then(|| libc::WSTOPSIG(status))
}

/// Whether this is drainit's first own call: it blocks all signals. Nobody else does that.
fn is_first_call(pid: i32, registers: &libc::user_regs_struct) -> bool {
    registers.orig_rax.cast_signed() == libc::SYS_rt_sigprocmask
        && registers.rdi.cast_signed() == i64::from(libc::SIG_SETMASK)
        && registers.rsi != 0
        && peek(pid, registers.rsi) == u64::MAX
}

impl Plan {
    fn apply(&mut self, pid: i32, is_inside: bool, registers: &mut libc::user_regs_struct) {
        match self {
            Plan::Record(file, seen) => {
                if seen.insert(registers.orig_rax) {
                    writeln!(file, "{}", registers.orig_rax).expect("a line");
                }
            }
            Plan::Refuse(call, errno) => {
                // A number that is no call's makes the kernel do nothing; what it returns can be set afterwards.
                if is_inside && registers.orig_rax == *call {
                    registers.orig_rax = u64::MAX;
                    set_registers(pid, registers);
                } else if !is_inside && registers.orig_rax == u64::MAX {
                    registers.rax = i64::from(-*errno).cast_unsigned();
                    set_registers(pid, registers);
                }
            }
            Plan::TurnBack { hours } => {
                let is_clock = registers.orig_rax.cast_signed() == libc::SYS_clock_gettime;
                if !is_inside && is_clock && registers.rdi.cast_signed() == i64::from(libc::CLOCK_REALTIME) {
                    let seconds = peek(pid, registers.rsi).wrapping_sub((*hours * 3600).cast_unsigned());
                    poke(pid, registers.rsi, seconds);
                    *hours += 1;
                }
            }
        }
    }
}

/// Takes away what the C library needs to read the clocks without a call: the address of the vDSO in the auxiliary vector, getauxval(3).
fn hide_vdso(pid: i32) {
    const WORD: u64 = 8;
    let mut address = registers(pid).rsp;
    // Behind the count of the arguments there are these, a null pointer, the environment, another one, and the vector.
    address += WORD * (peek(pid, address) + 2);
    while peek(pid, address) != 0 {
        address += WORD;
    }
    address += WORD;
    while peek(pid, address) != libc::AT_SYSINFO_EHDR {
        assert_ne!(peek(pid, address), libc::AT_NULL, "there is a vDSO");
        address += 2 * WORD;
    }
    poke(pid, address, libc::AT_IGNORE);
}

fn registers(pid: i32) -> libc::user_regs_struct {
    // SAFETY: the structure consists of numbers.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    request(libc::PTRACE_GETREGS, pid, 0, (&raw mut registers).addr() as u64);
    registers
}

fn set_registers(pid: i32, registers: &libc::user_regs_struct) {
    request(libc::PTRACE_SETREGS, pid, 0, std::ptr::from_ref(registers).addr() as u64);
}

fn peek(pid: i32, address: u64) -> u64 {
    // SAFETY: the address is the other process's, and the kernel checks it.
    unsafe { libc::ptrace(libc::PTRACE_PEEKDATA, pid, address, 0u64) }.cast_unsigned()
}

fn poke(pid: i32, address: u64, word: u64) {
    request(libc::PTRACE_POKEDATA, pid, address, word);
}

fn request(request: libc::c_uint, pid: i32, address: u64, data: u64) {
    // SAFETY: the callers pass a pointer to the right structure where the request takes one.
    let result = unsafe { libc::ptrace(request, pid, address, data) };
    assert_ne!(result, -1, "ptrace {request}: {}", std::io::Error::last_os_error());
}
