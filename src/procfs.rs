//! What drainit reads in `/proc`, proc(5).

use std::collections::BTreeSet;

use crate::signal::SignalSet;

/// A line of `/proc/PID/stat`, as far as drainit needs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stat {
    pub pid: i32,
    pub parent: i32,
    pub group: i32,
    /// `Z` and `X` are dead.
    state: u8,
    /// When it started, in clock ticks since boot. With the pid it tells a process from a later one with the same pid.
    pub started: u64,
}

impl Stat {
    /// Reads the text of `/proc/PID/stat`; `None` if it is none.
    pub fn parse(text: &[u8]) -> Option<Stat> {
        // The name stands in parentheses and may contain anything, parentheses and newlines too: the last one closes it.
        let open = text.iter().position(|b| *b == b'(')?;
        let close = text.iter().rposition(|b| *b == b')')?;
        let pid = std::str::from_utf8(text.get(..open)?).ok()?.trim().parse().ok()?;
        let mut rest = std::str::from_utf8(text.get(close + 1..)?).ok()?.split_ascii_whitespace();
        let state = *rest.next()?.as_bytes().first()?;
        let parent = rest.next()?.parse().ok()?;
        let group = rest.next()?.parse().ok()?;
        // The start time is field 22, and the group was field 5.
        let started = rest.nth(16)?.parse().ok()?;
        Some(Stat { pid, parent, group, state, started })
    }

    /// Whether it can still run: a zombie only waits to be reaped.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x')
    }
}

/// All that descend from `ancestor`, whatever their groups and sessions are.
pub fn descendants(processes: &[Stat], ancestor: i32) -> Vec<Stat> {
    let mut by_parent = processes.to_vec();
    by_parent.sort_unstable_by_key(|process| process.parent);
    // A snapshot is not taken in one moment: where a pid was used again meanwhile it may even contain a cycle.
    let mut seen = BTreeSet::from([ancestor]);
    let mut found = Vec::new();
    let mut parents = vec![ancestor];
    while let Some(parent) = parents.pop() {
        let first = by_parent.partition_point(|process| process.parent < parent);
        let children = by_parent.iter().skip(first).take_while(|process| process.parent == parent);
        for child in children.filter(|child| seen.insert(child.pid)) {
            found.push(*child);
            parents.push(child.pid);
        }
    }
    found
}

/// One of the signal sets in the text of `/proc/PID/status`, by the name of its line; `None` if there is none.
pub fn signal_set(status: &str, name: &str) -> Option<SignalSet> {
    let mask = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    u64::from_str_radix(mask.trim(), 16).ok().map(SignalSet::from_bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signal::Signal;
    use proptest::prelude::*;

    const STAT: &str = "42 (a) (b\n) S 7 40 40 0 -1 4194560 126 0 0 0 0 0 0 0 20 0 1 0 31415 8 9\n";

    fn process(pid: i32, parent: i32) -> Stat {
        Stat { pid, parent, group: 0, state: b'S', started: 0 }
    }

    #[test]
    fn a_name_with_parentheses_and_newlines_does_not_confuse_it() {
        assert_eq!(
            Stat::parse(STAT.as_bytes()),
            Some(Stat { pid: 42, parent: 7, group: 40, state: b'S', started: 31415 })
        );
    }

    #[test]
    fn the_real_one_is_read() {
        let stat = Stat::parse(&std::fs::read("/proc/self/stat").unwrap()).unwrap();
        assert_eq!(stat.pid, std::process::id() as i32);
        assert!(stat.is_alive() && stat.parent > 0 && stat.started > 0);
        assert!(signal_set(&std::fs::read_to_string("/proc/self/status").unwrap(), "SigCgt").is_some());
    }

    #[test]
    fn descendants_are_found_in_any_order_and_strangers_are_not() {
        let all = [process(9, 8), process(8, 5), process(3, 1), process(5, 2), process(4, 3), process(6, 5)];
        let mut found: Vec<i32> = descendants(&all, 2).iter().map(|p| p.pid).collect();
        found.sort_unstable();
        assert_eq!(found, [5, 6, 8, 9]);
    }

    #[test]
    fn a_cycle_ends() {
        assert_eq!(descendants(&[process(3, 4), process(4, 3), process(3, 2), process(2, 3)], 2).len(), 2);
    }

    #[test]
    fn a_signal_set_is_that_of_its_own_line() {
        let status = "Name:\tnginx\nSigIgn:\t0000000000001000\nSigCgt:\t0000000018014a07\n";
        let caught = signal_set(status, "SigCgt").unwrap();
        assert!(caught.contains(Signal::QUIT) && caught.contains(Signal::TERM) && !caught.contains(Signal::KILL));
        assert!(signal_set(status, "SigIgn").unwrap().iter().eq([Signal::new(13).unwrap()]));
        assert_eq!(signal_set("Name:\tx\n", "SigCgt"), None);
        assert_eq!(signal_set("SigCgt:\tzz\n", "SigCgt"), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(bytes in any::<Vec<u8>>(), text in any::<String>()) {
            let _ = Stat::parse(&bytes);
            let _ = signal_set(&text, "SigCgt");
        }

        #[test]
        fn every_name_that_a_program_can_take_is_passed_over(
            name in proptest::collection::vec(any::<u8>(), 0..16), numbers in any::<(i32, i32, i32, u64)>(), state in "[RSDZTXtI]",
        ) {
            let (pid, parent, group, started) = numbers;
            let mut line = format!("{pid} (").into_bytes();
            line.extend(name);
            line.extend(format!(") {state} {parent} {group}{} {started} 1 2\n", " 0".repeat(16)).bytes());
            let state = state.as_bytes()[0];
            prop_assert_eq!(Stat::parse(&line), Some(Stat { pid, parent, group, state, started }));
        }

        #[test]
        fn a_signal_set_is_read_as_the_kernel_writes_it(bits in any::<u64>(), before in "[A-Za-z]{0,8}:\t[0-9a-f]{0,16}\n") {
            let status = format!("{before}SigCgt:\t{bits:016x}\nSigIgn:\t0\n");
            prop_assert_eq!(signal_set(&status, "SigCgt"), Some(SignalSet::from_bits(bits)));
        }

        #[test]
        fn a_cut_line_is_refused_or_read_right(cut in 0..STAT.len()) {
            if let Some(stat) = Stat::parse(&STAT.as_bytes()[..cut]) {
                prop_assert_eq!((stat.pid, stat.parent), (42, 7));
            }
        }
    }
}
