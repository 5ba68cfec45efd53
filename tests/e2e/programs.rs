//! Builds the programs that are watched from their sources, each only once.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

/// A source and how to build it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Build {
    source: &'static str,
    compiler: &'static str,
    flags: &'static [&'static str],
    strip: bool,
}

impl Build {
    /// A build with gcc (g++ for C++, rustc for Rust, go for Go), optimised and with line numbers.
    pub const fn of(source: &'static str) -> Self {
        Self {
            source,
            compiler: "gcc",
            flags: &[],
            strip: false,
        }
    }

    pub const fn compiler(mut self, compiler: &'static str) -> Self {
        self.compiler = compiler;
        self
    }

    pub const fn flags(mut self, flags: &'static [&'static str]) -> Self {
        self.flags = flags;
        self
    }

    pub const fn stripped(mut self) -> Self {
        self.strip = true;
        self
    }

    /// The path of the executable, built on first use.
    pub fn path(self) -> PathBuf {
        type Cell = Arc<OnceLock<PathBuf>>;
        static BUILT: OnceLock<Mutex<HashMap<Build, Cell>>> = OnceLock::new();
        let cell = BUILT
            .get_or_init(Mutex::default)
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(self)
            .or_default()
            .clone();
        cell.get_or_init(|| self.build()).clone()
    }

    fn name(self) -> String {
        let stem = self.source.split('.').next().unwrap_or(self.source);
        let mut name = stem.replace('/', "-");
        if self.compiler != "gcc" {
            name.push('-');
            name.push_str(&self.compiler.replace('/', "_"));
        }
        for flag in self.flags {
            name.push_str(&flag.replace(['/', '='], "_"));
        }
        if self.strip {
            name.push_str("-stripped");
        }
        name
    }

    fn build(self) -> PathBuf {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(self.name());
        // Build under a name of this process: another run of the tests may be using or building the
        // executable. The process id comes first, since rustc derives the names of intermediate
        // files from the name up to its last dot.
        let fresh = folder.join(format!("{}-{}", std::process::id(), self.name()));
        let is_rust = self.compiler == "rustc";
        let mut command = if is_rust {
            // The rustc beside the cargo that built these tests.
            Command::new(Path::new(env!("CARGO")).with_file_name(self.compiler))
        } else {
            Command::new(self.compiler)
        };
        let usual: &[&str] = match self.compiler {
            "rustc" => &["-O", "-g", "-Csymbol-mangling-version=v0"],
            "go" => &["build"],
            _ => &["-O2", "-g", "-pthread"],
        };
        command.args(usual).arg("-o").arg(&fresh);
        if self.compiler == "go" {
            // The user who runs the tests may have no home for Go's cache.
            command.env("GOCACHE", folder.join("go-cache"));
            command.env("GO111MODULE", "off");
            // go takes files last.
            command.args(self.flags).arg(source(self.source));
        } else {
            command.arg(source(self.source)).args(self.flags);
        }
        execute(command);
        if self.strip {
            let mut command = Command::new("strip");
            command.arg(&fresh);
            execute(command);
        }
        fs::rename(&fresh, &path).unwrap();
        path
    }
}

pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("programs")
        .join(name)
}

pub fn execute(mut command: Command) {
    let program = command.get_program().to_string_lossy().into_owned();
    let package = match program.as_str() {
        "musl-gcc" => "musl-tools",
        "strip" => "binutils",
        "go" => "golang-go",
        "javac" => "default-jdk-headless",
        other => other,
    };
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}; apt-get install {package}"));
    assert!(
        output.status.success(),
        "{command:?} failed (are libc6-dev and {package} installed?):\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A program built with the default settings.
pub fn program(source: &'static str) -> PathBuf {
    Build::of(source).path()
}

/// The number of the line that ends with a mark such as `// SITE meet`.
pub fn line(name: &str, mark: &str) -> u32 {
    let text = fs::read_to_string(source(name)).unwrap();
    let found = (1..)
        .zip(text.lines())
        .find(|(_, line)| line.ends_with(&format!("// {mark}")));
    found
        .unwrap_or_else(|| panic!("no mark {mark} in {name}"))
        .0
}
