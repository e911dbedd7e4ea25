//! The inits to compare.

use std::path::{Path, PathBuf};
use std::process::Command;

/// An init, or the lack of one.
#[derive(Clone, Debug)]
pub struct Init {
    pub name: &'static str,
    /// Its program; `None` where the command itself is PID 1.
    pub program: Option<PathBuf>,
}

impl Init {
    /// The words that run `command` below it.
    pub fn words(&self, command: &[&str]) -> Vec<String> {
        let program = self.program.iter().map(|program| program.display().to_string());
        let end_of_options = self.program.iter().map(|_| "--".to_owned());
        program.chain(end_of_options).chain(command.iter().map(ToString::to_string)).collect()
    }
}

/// What all are compared with.
pub const BASELINE: &str = "tini-static";
/// What is to be better.
pub const OURS: &str = "drainit";

/// drainit, those of its peers that are installed, and no init. The programs are copied into `folder`, so that no other process on the machine
/// shares their memory.
pub fn installed(folder: &Path) -> Vec<Init> {
    let peers = ["tini-static", "tini", "dumb-init", "catatonit"].into_iter().filter_map(|name| {
        let program = ["/usr/bin", "/usr/local/bin", "/sbin"].map(|folder| Path::new(folder).join(name));
        let program = program.into_iter().find(|path| path.is_file());
        if program.is_none() {
            eprintln!("{name} is not installed, so it is left out");
        }
        program.map(|program| Init { name, program: Some(program) })
    });
    let all: Vec<Init> = [Init { name: OURS, program: Some(drainit()) }]
        .into_iter()
        .chain(peers)
        .chain([Init { name: "no init", program: None }])
        .collect();
    assert!(
        all.iter().any(|init| init.name == BASELINE),
        "there is nothing to compare with: install {BASELINE} (tini)"
    );
    let copied =
        |init: Init| Init { program: init.program.map(|program| copy(&program, &folder.join(init.name))), ..init };
    all.into_iter().map(copied).collect()
}

fn copy(program: &Path, to: &Path) -> PathBuf {
    std::fs::copy(program, to).unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    to.to_path_buf()
}

/// The binary that is shipped: `DRAINIT_TEST_BIN`, or the static one, which is built if need be.
fn drainit() -> PathBuf {
    if let Some(path) = std::env::var_os("DRAINIT_TEST_BIN") {
        return PathBuf::from(path).canonicalize().expect("DRAINIT_TEST_BIN");
    }
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let status = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(["build", "--release", "--locked", "--package", "drainit", "--target", &target])
        .current_dir(folder)
        .status()
        .expect("cargo");
    assert!(
        status.success(),
        "the static binary could not be built; is the target there (rustup target add {target})?"
    );
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or(folder.join("target"), PathBuf::from);
    folder.join(target).join("release/drainit")
}
