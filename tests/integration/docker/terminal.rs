//! `docker run -it`, with the real engine between the terminal and drainit.

use std::process::Command;

use super::container::Container;
use super::images::Images;
use super::surroundings::{Surroundings, Way};
use crate::pty::Session;
use crate::terminal::job_control;

pub fn shell(images: &Images, way: Way) {
    let surroundings = Surroundings::new(way, images);
    let mut command = Command::new("docker");
    let container = Container::reserve();
    command.args(["run", "--interactive", "--tty", "--name", container.name(), "--network", "none", "--env", "PS1=$ "]);
    command.args(surroundings.options([]));
    command.args([images.app(), "sh"]);
    let mut session = Session::start(command);
    session.expect("$ ");
    job_control(&mut session);
    session.enter("exit 3");
    assert_eq!(session.exit_code(), Some(3));
    surroundings.assert_unharmed();
}
