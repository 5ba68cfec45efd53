//! What a hit of a probe costs the thread that hits it, measured on this machine.
//!
//! A thread of sbt calls functions of sbt itself under probes that run the real programs. The
//! programs are loaded a second time for this, with rings and slots of their own, so that nothing
//! of the measurement gets into the report. The cost of the same calls without a probe is
//! subtracted. Costs are CPU time, the median of several batches. For root they are kept for some
//! minutes ([`known_costs`](super::known_costs)).

use std::{
    arch::global_asm,
    ffi::CString,
    os::fd::OwnedFd,
    sync::atomic::{AtomicBool, Ordering},
    time::SystemTime,
};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use sbt_common::{
    CODE_AROUND, Code, Config, Cookie, MarkCookie, Rule, bytes, cfa, kind, layout, team,
};
use sha2::{Digest as _, Sha256};

use super::{
    attach::{detach, put},
    known_costs::Folder,
    loader::{self, Loaded},
};
use crate::kernel::bpf::{ProbePoint, ProgramKind};
use crate::source::measurement::{Measurement, Shared};
use sbt_engine::model::cost::{CLASSES, Class, Tariff};
use sbt_program::{
    clock,
    process::{self, Mapping},
};

/// Calls in a batch, and number of batches. All their records fit into one ring, and all of it
/// takes only milliseconds: the target may have no CPU meanwhile.
const CALLS: u32 = 50;
const BATCHES: usize = 11;

/// The programs that are measured if they are in use.
const MEASURED: [&str; 6] = [ARRIVE, TEAM_PROGRAM, "call", "depart", "condvar", "mark"];

/// Programs that are not in use are assumed to cost as much as this one.
const ARRIVE: &str = "arrive";

const TEAM_PROGRAM: &str = "team";

// Each function but one begins with an instruction that the kernel emulates.
global_asm!(
    ".pushsection .text.sbt_calibration,\"ax\",@progbits",
    ".macro sbt_function name",
    ".p2align 5",
    // Visible in all of sbt's object files, but not outside of them.
    ".globl \\name",
    ".hidden \\name",
    "\\name:",
    "push rbp",
    "pop rbp",
    "ret",
    ".endm",
    "sbt_function sbt_calibrate_bare",
    "sbt_function sbt_calibrate_wait",
    "sbt_function sbt_calibrate_return",
    "sbt_function sbt_calibrate_team",
    "sbt_function sbt_calibrate_call",
    "sbt_function sbt_calibrate_condvar",
    "sbt_function sbt_calibrate_mark",
    "sbt_function sbt_calibrate_walked",
    ".p2align 5",
    ".globl sbt_calibrate_stepped, sbt_calibrate_outer, sbt_calibrate_returns",
    ".hidden sbt_calibrate_stepped, sbt_calibrate_outer, sbt_calibrate_returns",
    "sbt_calibrate_stepped:",
    "lea rax, [rdi + 8]",
    "ret",
    // A rule of unwinding is found by 16 bytes of code on either side of the return address.
    ".p2align 5",
    "sbt_calibrate_outer:",
    "push rbp",
    "call sbt_calibrate_walked",
    "sbt_calibrate_returns:",
    "pop rbp",
    "ret",
    ".p2align 5",
    ".popsection",
);

unsafe extern "C" {
    fn sbt_calibrate_bare(object: *const u32);
    fn sbt_calibrate_wait(object: *const u32);
    fn sbt_calibrate_return(object: *const u32);
    fn sbt_calibrate_team(object: *const u32);
    fn sbt_calibrate_call(object: *const u32);
    fn sbt_calibrate_condvar(object: *const u32);
    fn sbt_calibrate_mark(object: *const u32);
    fn sbt_calibrate_walked(object: *const u32);
    fn sbt_calibrate_stepped(object: *const u32);
    fn sbt_calibrate_outer(object: *const u32);
    static sbt_calibrate_returns: u8;
}

type Function = unsafe extern "C" fn(*const u32);

/// Begins to measure on another thread, unless the costs were measured a short while ago. `config`:
/// that of the programs that watch; `used`: whether the program of this name is loaded by now.
pub fn begin(config: Config, uprobes: ProgramKind, used: impl Fn(&str) -> bool) -> Measurement {
    // LLVM's teams are found in another way, but reported in the same.
    let is_used = |name: &&str| used(name) || *name == TEAM_PROGRAM && used("kmp");
    let programs: Vec<_> = MEASURED.into_iter().filter(is_used).collect();
    let config = Config {
        target: 0,
        children: 0,
        // The cost of reading perf events is not measured.
        events: 0,
        sleeps: 0,
        ..config
    };
    let folder = Folder::of_machine();
    let key = key(&config, uprobes, &programs);
    let known = folder.as_ref();
    if let Some(tariff) = known.and_then(|folder| folder.find(&key, SystemTime::now())) {
        return Measurement::known(tariff);
    }
    Measurement::begin(move |shared| {
        let config = Config {
            target: std::process::id(),
            ..config
        };
        let keep = |tariff: &Tariff| {
            if let Some(folder) = &folder {
                folder.keep(&key, tariff, SystemTime::now());
            }
        };
        measure(config, uprobes, &programs, shared, keep);
    })
}

/// Names what is measured: the programs, their settings and how they are attached.
fn key(config: &Config, uprobes: ProgramKind, programs: &[&str]) -> String {
    let mut hasher = Sha256::new();
    hasher.update(loader::OBJECT);
    hasher.update(bytes(config));
    hasher.update(format!(
        "{} {uprobes:?} {programs:?}",
        env!("CARGO_PKG_VERSION")
    ));
    STANDARD_NO_PAD.encode(hasher.finalize())
}

fn measure(
    config: Config,
    uprobes: ProgramKind,
    programs: &[&str],
    shared: &Shared,
    keep: impl FnOnce(&Tariff),
) {
    let outcome = &shared.outcome;
    let mut bench = match Bench::new(config, uprobes, programs, &shared.unwanted) {
        Ok(bench) => bench,
        Err(error) => {
            let _first = outcome.set(Err(format!("{error:#}")));
            return;
        }
    };
    let tariff = bench.tariff(&shared.unwanted);
    let tariff = tariff.map_err(|error| format!("{error:#}"));
    if let Ok(tariff) = &tariff {
        keep(tariff);
    }
    let _first = outcome.set(tariff);
    // Detaching takes longer than all the rest, so the result is set before.
    detach(std::mem::take(&mut bench.links));
}

/// Fails if nobody waits for the result any more.
fn wanted(unwanted: &AtomicBool) -> anyhow::Result<()> {
    anyhow::ensure!(
        !unwanted.load(Ordering::Relaxed),
        "the program ended before sbt had measured the cost"
    );
    Ok(())
}

struct Bench<'a> {
    loaded: Loaded,
    programs: &'a [&'a str],
    links: Vec<OwnedFd>,
    /// A barrier of glibc for 2 threads, and a barrier of GNU OpenMP.
    object: [u32; 4],
}

impl<'a> Bench<'a> {
    fn new(
        config: Config,
        uprobes: ProgramKind,
        programs: &'a [&'a str],
        unwanted: &AtomicBool,
    ) -> anyhow::Result<Self> {
        let loaded = loader::load(config, uprobes, programs)?;
        wanted(unwanted)?;
        let mut bench = Self {
            loaded,
            programs,
            links: Vec::new(),
            object: [2, 0, 2, 0],
        };
        let points: [(Function, &str, bool, u64); 9] = [
            (sbt_calibrate_wait, ARRIVE, false, WAIT.pack()),
            (sbt_calibrate_walked, ARRIVE, false, WAIT.pack()),
            (sbt_calibrate_return, ARRIVE, false, WAIT.pack()),
            (sbt_calibrate_return, "depart", true, WAIT.pack()),
            (sbt_calibrate_team, TEAM_PROGRAM, false, TEAM.pack()),
            (sbt_calibrate_call, "call", false, CALL.pack()),
            (sbt_calibrate_condvar, "condvar", false, CONDVAR.pack()),
            (sbt_calibrate_mark, "mark", false, MARK.pack()),
            (sbt_calibrate_stepped, ARRIVE, false, WAIT.pack()),
        ];
        let points = points.into_iter();
        let points: Vec<_> = points.filter(|(_, name, ..)| bench.uses(name)).collect();
        let code = OwnCode::find()?;
        // Each attaching waits for the kernel, so all are done in parallel.
        let attach = |(function, program, returns, cookie): (Function, &str, bool, u64)| {
            let point = ProbePoint {
                offset: code.offset(function as usize as u64)?,
                cookie,
            };
            let program = bench.loaded.program(program)?;
            let process = Some(bench.process());
            put(uprobes, program, &code.path, &[point], returns, process)
        };
        let links = std::thread::scope(|scope| {
            let attach = &attach;
            let attaching = points.into_iter();
            let attaching = attaching.map(|point| scope.spawn(move || attach(point)));
            let attaching: Vec<_> = attaching.collect();
            let links = attaching.into_iter().map(|link| {
                link.join()
                    .map_err(|_panic| anyhow::anyhow!("a thread that attaches a probe failed"))?
            });
            links.collect::<anyhow::Result<Vec<_>>>()
        })?;
        bench.links = links.into_iter().flatten().collect();
        Ok(bench)
    }

    fn uses(&self, program: &str) -> bool {
        self.programs.contains(&program)
    }

    const fn process(&self) -> u32 {
        self.loaded.config.target
    }

    fn tariff(&mut self, unwanted: &AtomicBool) -> anyhow::Result<Tariff> {
        let bare = self.cost(sbt_calibrate_bare);
        let of = |bench: &Self, function| {
            // If nobody waits any more, the remaining measurements take no time.
            let cost = wanted(unwanted).map_or(bare, |()| bench.cost(function));
            (cost - bare).max(0.0)
        };
        let wait = of(self, sbt_calibrate_wait);
        // Programs that are not in use now, but may be later, do much the same as `arrive`.
        let of_program = |bench: &Self, name, function| {
            if bench.uses(name) {
                of(bench, function)
            } else {
                wait
            }
        };
        let mark = of_program(self, "mark", sbt_calibrate_mark);
        let mut each = [0.0; CLASSES];
        each[Class::Wait as usize] = wait;
        each[Class::Return as usize] = (of(self, sbt_calibrate_return) - wait).max(0.0);
        each[Class::Team as usize] = of_program(self, TEAM_PROGRAM, sbt_calibrate_team);
        each[Class::Condvar as usize] = of_program(self, "condvar", sbt_calibrate_condvar);
        each[Class::Mark as usize] = mark;
        each[Class::Region as usize] = mark;
        // This program does the same as `mark`, and a little more.
        each[Class::CallEnd as usize] = mark;
        let step = (of(self, sbt_calibrate_stepped) - wait).max(0.0);
        wanted(unwanted)?;
        self.learn().context("teaching it to walk")?;
        let outer = self.cost(sbt_calibrate_outer);
        let walk = (outer - bare - wait).max(0.0);
        // Measured last: arrivals inside of such a call are ignored.
        each[Class::Call as usize] = of_program(self, "call", sbt_calibrate_call);
        let sent = self
            .loaded
            .maps
            .lost()
            .context("reading the loss counter")?
            == 0;
        anyhow::ensure!(sent, "there was no room for the records of the measurement");
        anyhow::ensure!(wait > 0.0, "the probe was not hit");
        Ok(Tariff { each, step, walk })
    }

    /// Median CPU time of one call, ns.
    fn cost(&self, function: Function) -> f64 {
        let mut batches = [0.0; BATCHES];
        // The first batch finds cold caches.
        self.batch(function, CALLS / 10);
        for batch in &mut batches {
            *batch = self.batch(function, CALLS);
        }
        batches.sort_by(f64::total_cmp);
        batches[BATCHES / 2]
    }

    fn batch(&self, function: Function, calls: u32) -> f64 {
        let before = clock::thread_cpu_ns();
        for _ in 0..calls {
            // SAFETY: each function changes one register that the calling convention lets it
            // change, and uses the stack as any function does.
            unsafe { function(self.object.as_ptr()) };
        }
        clock::thread_cpu_ns().saturating_sub(before) as f64 / f64::from(calls)
    }

    /// Adds the rule that finds the caller of `sbt_calibrate_outer`.
    fn learn(&mut self) -> anyhow::Result<()> {
        let returns = &raw const sbt_calibrate_returns;
        // SAFETY: code of sbt itself, aligned so that there are as many bytes on either side.
        let bytes = unsafe {
            returns
                .wrapping_sub(CODE_AROUND)
                .cast::<[u8; 2 * CODE_AROUND]>()
                .read()
        };
        let code = Code {
            in_page: returns as u64 & 0xfff,
            bytes,
        };
        let rule = Rule {
            cfa: cfa::RSP,
            rbp: sbt_common::rbp::SAME,
            // rbp is on the stack, and the return address above it.
            cfa_offset: 16,
            rbp_offset: 0,
        };
        self.loaded.maps.change_rules(&[(code, Some(rule))])?;
        Ok(())
    }
}

const WAIT: Cookie = Cookie {
    layout: layout::GLIBC,
    stepped: false,
    object: 0,
    count: 0,
    stack_moved: 0,
    displacement: 0,
    generation: 0,
};

const TEAM: Cookie = Cookie {
    // The first word must not be 1: the thread would count as alone.
    layout: layout::GOMP,
    object: 1,
    count: team::HAS_COUNT,
    ..WAIT
};

const CALL: Cookie = Cookie {
    layout: layout::USER,
    object: 1,
    ..WAIT
};

const CONDVAR: Cookie = Cookie {
    layout: kind::WAIT,
    ..WAIT
};

const MARK: MarkCookie = MarkCookie {
    mark: 0,
    stepped: false,
    generation: 0,
};

/// The file from which sbt's own code is mapped.
struct OwnCode {
    path: CString,
    mapped: Mapping,
}

impl OwnCode {
    fn find() -> anyhow::Result<Self> {
        let at = sbt_calibrate_bare as *const () as u64;
        let mapped = process::readable_mappings(std::process::id())
            .context("reading /proc/self/maps")?
            .into_iter()
            .find(|mapping| (mapping.start..mapping.end).contains(&at))
            .context("sbt's own code is mapped nowhere")?;
        Ok(Self {
            path: c"/proc/self/exe".to_owned(),
            mapped,
        })
    }

    fn offset(&self, address: u64) -> anyhow::Result<u64> {
        let Mapping {
            start, end, offset, ..
        } = self.mapped;
        anyhow::ensure!(
            (start..end).contains(&address),
            "sbt's own code is mapped in pieces"
        );
        Ok(address - start + offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_lie_in_our_own_file_as_they_do_in_memory() {
        let code = OwnCode::find().unwrap();
        let file = std::fs::read("/proc/self/exe").unwrap();
        for function in [sbt_calibrate_bare, sbt_calibrate_mark, sbt_calibrate_outer] {
            let function: Function = function;
            let offset = code.offset(function as usize as u64).unwrap();
            let at = usize::try_from(offset).unwrap();
            // push rbp
            assert_eq!(file[at], 0x55);
        }
        let offset = code.offset(sbt_calibrate_stepped as *const () as u64);
        let at = usize::try_from(offset.unwrap()).unwrap();
        assert_eq!(file[at..at + 4], [0x48, 0x8d, 0x47, 0x08]);
        assert!(code.offset(0).is_err());
    }
}
