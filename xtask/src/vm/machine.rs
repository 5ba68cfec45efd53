//! The virtual machine: started, watched, and ended at the latest after a while.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process;

/// Of the machine.
pub const CPUS: u32 = 2;

/// How a machine has run.
pub struct Ran {
    /// What its second serial port said.
    pub said: String,
    /// Where its console is.
    pub console: PathBuf,
    /// How long it took.
    pub took: Duration,
}

/// Boots a kernel with an initramfs, and waits until the machine ends by itself; after
/// `limit` it is ended, which is an error.
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
        // The first is the console.
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
        // As terminals have it.
        said: String::from_utf8_lossy(&bytes).replace("\r\n", "\n"),
        console,
        took: begun.elapsed(),
    })
}

/// In names of files qemu takes a comma for the end.
fn file_of(path: &Path) -> String {
    format!("file:{}", path.display().to_string().replace(',', ",,"))
}
