//! The environment, read where it lies: it may be megabytes, and almost none of it concerns drainit.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;

// SAFETY: this is the C library's variable, environ(7), with the type that it has there.
unsafe extern "C" {
    static environ: *const *const c_char;
}

/// The environment in the form that execve(2) takes.
pub fn pointer() -> *const *const c_char {
    // SAFETY: drainit has one thread and never changes its environment.
    unsafe { environ }
}

/// Each variable with its value. An entry without `=` is none.
pub fn variables() -> impl Iterator<Item = (&'static OsStr, &'static OsStr)> {
    let mut next = pointer();
    let entries = std::iter::from_fn(move || {
        if next.is_null() {
            return None;
        }
        // SAFETY: `next` points into the array, at most at the null pointer that ends it.
        let entry = unsafe { *next };
        if entry.is_null() {
            return None;
        }
        // SAFETY: the entry was not the end, so another pointer follows.
        next = unsafe { next.add(1) };
        // SAFETY: the environment's strings end in NUL, and nobody changes them.
        Some(unsafe { CStr::from_ptr(entry) }.to_bytes())
    });
    entries.filter_map(|entry| {
        let equals = entry.iter().position(|b| *b == b'=')?;
        let (name, value) = entry.split_at_checked(equals)?;
        Some((OsStr::from_bytes(name), OsStr::from_bytes(value.get(1..)?)))
    })
}

/// The value of a variable.
pub fn variable(name: &str) -> Option<&'static OsStr> {
    variables().find(|(known, _)| *known == name).map(|(_, value)| value)
}
