//! The virtual machine: starts it, watches it, and ends it after a time limit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process;

/// CPUs of the machine.
pub const CPUS: u32 = 2;

/// The result of a run of the machine.
pub struct Ran {
    /// Output of its second serial port.
    pub said: String,
    /// File with the output of its console.
    pub console: PathBuf,
    /// Duration of the run.
    pub took: Duration,
}

/// Boots a kernel with an initramfs and waits until the machine ends by itself. After `limit` the
/// machine is killed, which is an error.
pub fn run(kernel: &Path, initramfs: &Path, folder: &Path, limit: Duration) -> Result<Ran> {
    let console = folder.join("console.txt");
    let said = folder.join("said.txt");
    for file in [&console, &said] {
        fs::write(file, "").with_context(|| format!("cannot write {}", file.display()))?;
    }
    let name = kernel.file_name().unwrap_or_default().to_string_lossy();
    eprintln!("booting {name}: {} s at most", limit.as_secs());
    let begun = Instant::now();
    let mut machine = process::command("qemu-system-x86_64")
        .args(["-accel", "tcg,thread=multi", "-m", "1G", "-nic", "none"])
        .args(["-smp", &CPUS.to_string()])
        .args(["-display", "none", "-monitor", "none", "-no-reboot"])
        .args(["-append", "console=ttyS0 quiet panic=-1"])
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(initramfs)
        // The first serial port is the console.
        .arg("-serial")
        .arg(file_of(&console))
        .arg("-serial")
        .arg(file_of(&said))
        .stdin(Stdio::null())
        .spawn()
        .context("cannot run qemu-system-x86_64")?;
    let status = loop {
        if let Some(status) = machine.try_wait()? {
            break status;
        }
        if begun.elapsed() > limit {
            machine.kill()?;
            machine.wait()?;
            bail!(
                "{name} did not come to its end within {} s (--limit): its console is in {}, what it \
                 said until then in {}",
                limit.as_secs(),
                console.display(),
                said.display()
            );
        }
        thread::sleep(Duration::from_millis(100));
    };
    if !status.success() {
        bail!("qemu failed ({status})");
    }
    let bytes = fs::read(&said).with_context(|| format!("cannot read {}", said.display()))?;
    Ok(Ran {
        // The serial port ends lines like a terminal.
        said: String::from_utf8_lossy(&bytes).replace("\r\n", "\n"),
        console,
        took: begun.elapsed(),
    })
}

/// A qemu argument for a file: qemu takes a comma for the end of a name unless it is doubled.
fn file_of(path: &Path) -> String {
    format!("file:{}", path.display().to_string().replace(',', ",,"))
}
