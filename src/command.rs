//! Where a command is looked for, and what it means when it is not found.

use std::ffi::{CStr, CString, OsStr};
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;

use crate::exit;
use crate::setting::quoted;

/// Where commands are looked for when there is no PATH; Docker gives this one to a container whose image has none.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The files that `name` may mean, in the order in which they are tried, as in execvp(3).
pub fn candidates(name: &CStr, path: Option<&OsStr>) -> Vec<CString> {
    let name = name.to_bytes();
    if name.is_empty() {
        return Vec::new();
    }
    let directories: Vec<&[u8]> = if name.contains(&b'/') {
        vec![b""]
    } else {
        path.unwrap_or(OsStr::new(DEFAULT_PATH)).as_bytes().split(|b| *b == b':').collect()
    };
    let join = |directory: &[u8]| {
        let slash: &[u8] = if directory.is_empty() { b"" } else { b"/" };
        // Parts of C strings contain no NUL.
        CString::new([directory, slash, name].concat()).ok()
    };
    directories.into_iter().filter_map(join).collect()
}

/// Why a command did not start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StartError {
    /// There is no such file.
    NotFound,
    /// The file is there, but not the interpreter that it names: for this the kernel says ENOENT too.
    NoInterpreter(CString),
    /// The file is there and was not accepted.
    CannotExecute(CString, Errno),
    /// It never came to that.
    Own(&'static str, Errno),
}

impl StartError {
    /// The exit code for it.
    pub fn code(&self) -> u8 {
        match self {
            StartError::NotFound => exit::NOT_FOUND,
            StartError::NoInterpreter(_) | StartError::CannotExecute(..) => exit::CANNOT_EXECUTE,
            StartError::Own(..) => exit::OWN_ERROR,
        }
    }

    /// What to tell who has to mend it, of the command `name`.
    pub fn explain(&self, name: &CStr, path: Option<&OsStr>) -> String {
        let has_slash = name.to_bytes().contains(&b'/');
        let name = quoted(OsStr::from_bytes(name.to_bytes()));
        match self {
            StartError::NotFound if has_slash => format!("{name} does not exist"),
            StartError::NotFound if name.starts_with("\"-") => {
                format!(
                    "{name} was not found; drainit's own options go before the first word of the command and before --"
                )
            }
            StartError::NotFound => {
                format!("{name} was not found in PATH={:?}", path.unwrap_or(OsStr::new(DEFAULT_PATH)))
            }
            StartError::NoInterpreter(file) => format!(
                "{} exists, but the interpreter that it needs does not: see its #! line, which may end in a carriage \
                 return, or the dynamic loader that it was linked for",
                quoted(file)
            ),
            StartError::CannotExecute(file, Errno::ENOEXEC) => format!(
                "{} cannot be executed: it is neither a program for this machine, as one for another architecture, nor a \
                 script for /bin/sh",
                quoted(file)
            ),
            StartError::CannotExecute(file, errno) => format!("{} cannot be executed: {}", quoted(file), errno.desc()),
            StartError::Own("fork", Errno::EAGAIN) => format!(
                "{name} could not be started: fork: no more processes are allowed here, by the pids limit of the container or RLIMIT_NPROC"
            ),
            StartError::Own(step, errno) => format!("{name} could not be started: {step}: {}", errno.desc()),
        }
    }
}

/// A command line as one would type it, for the log.
#[derive(Clone, Copy, Debug)]
pub struct CommandLine<'a>(pub &'a [&'static CStr]);

impl fmt::Display for CommandLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, word) in self.0.iter().enumerate() {
            let word = word.to_string_lossy();
            let separator = if i == 0 { "" } else { " " };
            let plain = |c: char| c.is_alphanumeric() || "%+,-./:=@_".contains(c);
            if !word.is_empty() && word.chars().all(plain) {
                write!(f, "{separator}{word}")?;
            } else {
                write!(f, "{separator}'{}'", word.replace('\'', r"'\''"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &CStr, path: Option<&str>) -> Vec<String> {
        candidates(name, path.map(OsStr::new)).into_iter().map(|c| c.into_string().unwrap()).collect()
    }

    #[test]
    fn a_name_is_looked_for_in_path_and_a_path_is_not() {
        assert_eq!(found(c"sh", Some("/bin:/usr/bin")), ["/bin/sh", "/usr/bin/sh"]);
        assert_eq!(found(c"./sh", Some("/bin")), ["./sh"]);
        assert_eq!(found(c"sh", Some(":/bin")), ["sh", "/bin/sh"], "an empty place is the current directory");
        assert_eq!(found(c"sh", None).last().map(String::as_str), Some("/bin/sh"));
        assert!(found(c"", Some("/bin")).is_empty());
    }

    #[test]
    fn a_command_line_shows_where_its_words_end() {
        let words = [c"nginx", c"-g", c"daemon off;", c"", c"it's"];
        assert_eq!(CommandLine(&words).to_string(), r"nginx -g 'daemon off;' '' 'it'\''s'");
    }
}
