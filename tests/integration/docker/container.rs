//! A container that goes when the test ends.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::cli::docker;
use super::log::Event;
use crate::harness::eventually;

/// Longer than anything here takes on a busy machine. What takes longer hangs.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A container that was started, with a name of its own.
pub struct Container {
    name: String,
}

impl Container {
    /// One that is about to be started under its name. Whatever comes of that, it goes with the test.
    pub fn reserve() -> Container {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Container { name: format!("drainit-test-{}-{count}", std::process::id()) }
    }

    /// Starts `command`, or the image's own if it is empty, in a container of `image`.
    pub fn start<S: AsRef<str>>(image: &str, options: &[S], command: &[&str]) -> Container {
        // Made first: `docker run` may fail after it has created the container.
        let container = Container::reserve();
        let mut args = vec!["run", "--detach", "--name", &container.name];
        args.extend(options.iter().map(AsRef::as_ref));
        args.push(image);
        args.extend(command);
        docker(args);
        container
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// `docker kill` with a signal's name.
    pub fn signal(&self, signal: &str) {
        docker(["kill", "--signal", signal, &self.name]);
    }

    /// `docker stop`, which returns when the container has ended; after `seconds` it sends SIGKILL.
    pub fn stop(&self, seconds: u32) {
        docker(["stop", "--time", &seconds.to_string(), &self.name]);
    }

    pub fn pause(&self) {
        docker(["pause", &self.name]);
    }

    pub fn unpause(&self) {
        docker(["unpause", &self.name]);
    }

    pub fn is_running(&self) -> bool {
        docker(["inspect", "--format", "{{.State.Running}}", &self.name]).trim() == "true"
    }

    /// Waits until the container has ended, and returns its exit code.
    pub fn exit_code(&self) -> i32 {
        eventually(format!("{} ends", self.name), PATIENCE, || !self.is_running());
        docker(["inspect", "--format", "{{.State.ExitCode}}", &self.name]).trim().parse().expect("an exit code")
    }

    /// Waits until `condition`, of the container, holds. Once the container has ended, what does not hold never will.
    pub fn wait_until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        eventually(format!("{} {what}", self.name), PATIENCE, || {
            let is_running = self.is_running();
            let holds = condition();
            assert!(holds || is_running, "{} ended before it {what}", self.name);
            holds
        });
    }

    /// Waits until a line of the command's standard output is `line`.
    pub fn wait_for_line(&self, line: &str) {
        self.wait_until(&format!("says {line:?}"), || {
            String::from_utf8_lossy(&self.logs().stdout).lines().any(|said| said == line)
        });
    }

    /// Waits for an event called `name`, and returns it.
    pub fn wait_for_event(&self, name: &str) -> Event {
        let mut found = None;
        self.wait_until(&format!("logs {name}"), || {
            found = self.events().into_iter().find(|event| event.name() == name);
            found.is_some()
        });
        found.expect("it was found")
    }

    /// What drainit has logged so far, as JSON.
    pub fn events(&self) -> Vec<Event> {
        Event::parse_all(&self.stderr())
    }

    pub fn stderr(&self) -> String {
        String::from_utf8(self.logs().stderr).expect("the log is UTF-8")
    }

    fn logs(&self) -> Output {
        Command::new("docker").args(["logs", &self.name]).output().expect("docker can be run")
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let logs = self.logs();
            eprintln!("--- {}, standard output:\n{}", self.name, String::from_utf8_lossy(&logs.stdout));
            eprintln!("--- {}, standard error:\n{}", self.name, String::from_utf8_lossy(&logs.stderr));
        }
        // Not with `docker`, whose panic would hide the test's.
        let removed = Command::new("docker").args(["rm", "--force", "--volumes", &self.name]).output();
        if !removed.as_ref().is_ok_and(|output| output.status.success()) {
            eprintln!("{} may be left behind: {removed:?}", self.name);
        }
    }
}
