//! The ways to run a container that change who drainit is: the same test runs in each of them.

use super::cli::docker;
use super::container::Container;
use super::images::Images;

/// A way to run a container.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// drainit is PID 1, and root.
    Plain,
    /// docker-init is PID 1, and drainit its child.
    BelowDockerInit,
    /// PID 1, but an ordinary user with no capability, on a file system that cannot be written.
    Unprivileged,
    /// In the PID namespace of another container, whose processes are none of drainit's business.
    SharedPidNamespace,
}

impl Way {
    pub const ALL: [Way; 4] = [Way::Plain, Way::BelowDockerInit, Way::Unprivileged, Way::SharedPidNamespace];

    /// Its name in the names of tests.
    pub fn name(self) -> &'static str {
        match self {
            Way::Plain => "plain",
            Way::BelowDockerInit => "init",
            Way::Unprivileged => "unprivileged",
            Way::SharedPidNamespace => "shared_pid",
        }
    }

    /// Whether drainit is PID 1 there.
    pub fn is_pid1(self) -> bool {
        matches!(self, Way::Plain | Way::Unprivileged)
    }
}

/// What has to be there for a container to run in some way.
pub struct Surroundings {
    options: Vec<String>,
    neighbour: Option<Neighbour>,
}

impl Surroundings {
    pub fn new(way: Way, images: &Images) -> Surroundings {
        let neighbour = (way == Way::SharedPidNamespace).then(|| Neighbour::start(images));
        let options = match (way, &neighbour) {
            (Way::Plain, _) => Vec::new(),
            (Way::BelowDockerInit, _) => vec!["--init".to_owned()],
            (Way::Unprivileged, _) => ["--user", "1000", "--cap-drop", "ALL", "--read-only"].map(String::from).into(),
            (Way::SharedPidNamespace, neighbour) => {
                let neighbour = neighbour.as_ref().expect("started above");
                vec![format!("--pid=container:{}", neighbour.container.name())]
            }
        };
        Surroundings { options, neighbour }
    }

    /// The options of `docker run` for this way, and `more` of them.
    pub fn options(&self, more: impl IntoIterator<Item = String>) -> Vec<String> {
        self.options.iter().cloned().chain(more).collect()
    }

    /// Checks that nobody else has suffered, and that nothing was left to anybody else, now that the container has ended.
    pub fn assert_unharmed(&self) {
        if let Some(neighbour) = &self.neighbour {
            neighbour.assert_unharmed();
        }
    }
}

/// A container with processes of its own.
struct Neighbour {
    container: Container,
    processes: Vec<String>,
}

impl Neighbour {
    fn start(images: &Images) -> Neighbour {
        let script = "sleep 86400 & echo ready; wait";
        let container = Container::start(images.app_base(), &[""; 0], &["sh", "-c", script]);
        container.wait_for_line("ready");
        let processes = processes_in(&container);
        assert_eq!(processes.len(), 2, "{processes:?}");
        Neighbour { container, processes }
    }

    fn assert_unharmed(&self) {
        assert!(self.container.is_running(), "the neighbour was ended");
        assert_eq!(processes_in(&self.container), self.processes, "the neighbour's processes are not what they were");
    }
}

/// The processes in the container's PID namespace, each as its PID and command line, without the ones that look.
fn processes_in(container: &Container) -> Vec<String> {
    let listing = docker(["exec", container.name(), "ps", "-o", "pid,args"]);
    let lines = listing.lines().skip(1).map(str::trim);
    lines.filter(|line| !line.contains("ps -o pid,args")).map(String::from).collect()
}
