//! A file tree put together from this machine's own files: no test pulls an image.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::cli;

/// The root directory of an image to be.
pub struct Tree {
    context: TempDir,
}

impl Tree {
    /// An empty tree.
    pub fn new() -> Tree {
        let tree = Tree { context: tempfile::tempdir().expect("a directory for an image's files") };
        fs::create_dir(tree.root()).expect("the directory is new");
        tree
    }

    /// The directory that becomes `/`.
    pub fn root(&self) -> PathBuf {
        self.context.path().join("root")
    }

    /// Puts a file with these contents at the absolute path `path`.
    pub fn write(&self, path: &str, contents: impl AsRef<[u8]>, mode: u32) {
        let target = self.place(Path::new(path));
        fs::write(&target, contents).unwrap_or_else(|e| panic!("{}: {e}", target.display()));
        fs::set_permissions(&target, fs::Permissions::from_mode(mode)).expect("the file is ours");
    }

    /// Copies the file `source` of this machine to the absolute path `path`.
    pub fn copy_to(&self, source: &Path, path: &Path) {
        let target = self.place(path);
        fs::copy(source, &target).unwrap_or_else(|e| panic!("{} to {}: {e}", source.display(), target.display()));
    }

    /// Copies the file `path` of this machine to where it is here. A symbolic link is followed, but for a directory that is one at
    /// the top (`/lib` to `usr/lib`): both names of such a directory are in use.
    pub fn copy(&self, path: &Path) {
        let directory =
            path.parent().expect("a file").canonicalize().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        if let Some(Component::Normal(top)) = path.components().nth(1)
            && let Ok(target) = fs::read_link(Path::new("/").join(top))
        {
            link(&target, &self.root().join(top));
        }
        self.copy_to(path, &directory.join(path.file_name().expect("a file")));
    }

    /// Copies the program `name`, with the shared libraries that it loads, to where it is here.
    pub fn program(&self, name: &str) {
        let path = which(name);
        self.copy(&path);
        self.libraries_of(&path);
    }

    /// Copies the shared libraries that `program` loads.
    pub fn libraries_of(&self, program: &Path) {
        let output = cli::output(Command::new("ldd").arg(program));
        // `NAME => PATH (ADDRESS)`, and `PATH (ADDRESS)` for the dynamic linker itself.
        for library in output.split_whitespace().filter(|word| word.starts_with('/')) {
            self.copy(Path::new(library));
        }
    }

    /// Puts Debian's static busybox at `/bin/busybox`, with all its commands beside it.
    pub fn busybox(&self) {
        let busybox = which("busybox");
        assert!(super::elf::read(&busybox).is_static, "{} is not static: install busybox-static", busybox.display());
        self.copy_to(&busybox, Path::new("/bin/busybox"));
        for command in cli::output(Command::new(&busybox).arg("--list")).lines() {
            link(Path::new("busybox"), &self.root().join("bin").join(command));
        }
    }

    /// Builds the image `tag` of this tree and the Dockerfile's instructions `settings`.
    pub fn build(&self, tag: &str, settings: &str) {
        let dockerfile = format!("FROM scratch\nCOPY root/ /\n{settings}");
        fs::write(self.context.path().join("Dockerfile"), dockerfile).expect("the directory is ours");
        let context = self.context.path().as_os_str();
        // Whatever umask the tests run with, an image's files can be read by the user that it runs as.
        cli::tar_into_docker(
            ["--mode=a+rX".as_ref(), "-C".as_ref(), context, "-c".as_ref(), ".".as_ref()],
            ["build", "--quiet", "--tag", tag, "-"],
        );
    }

    /// Where `path` is to be written, its directory made.
    fn place(&self, path: &Path) -> PathBuf {
        let target = self.root().join(path.strip_prefix("/").expect("an absolute path"));
        fs::create_dir_all(target.parent().expect("a file")).expect("the directory is ours");
        target
    }
}

/// The path of the program `name`.
pub fn which(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian's daemons are in directories that are not in everybody's PATH.
    let directories = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let found = directories.map(|directory| directory.join(name)).find(|program| program.is_file());
    found.unwrap_or_else(|| panic!("{name} is not installed"))
}

fn link(target: &Path, link: &Path) {
    match symlink(target, link) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => panic!("{}: {e}", link.display()),
        _ => {}
    }
}
