//! The embedded object → maps and programs in the kernel.
//!
//! aya-obj parses and relocates; what is ours is the attach type that the
//! programs are loaded for, which aya 0.14 cannot set, and the array of rings.

use std::{
    collections::{HashMap, HashSet},
    fs,
    io::{self, Read as _},
    os::{
        fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    sync::OnceLock,
};

use aya::maps::{Map, MapData, RingBuf};
use aya_obj::{
    EbpfSectionKind, Object, ProgramSection,
    generated::bpf_map_type::{BPF_MAP_TYPE_ARRAY_OF_MAPS, BPF_MAP_TYPE_RINGBUF},
};
use memmap2::Mmap;
use sbt_common::{
    Code, Config, Futex, Kmp, Lock, MAX_LOCKS, MAX_RINGS, MAX_RULES, Plain, RING_BYTES, Rule,
    State, name, read,
};
use thiserror::Error;

use super::{
    bpf::{self, MapSpec, ProgramKind},
    btf::Btf,
};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../sbt-ebpf/object/sbt.bpf.o"
));

/// Why the programs could not be brought into the kernel.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The kernel refused for want of privilege.
    #[error("missing privilege for {0}")]
    Privilege(&'static str),
    /// The kernel lacks something or refused the program.
    #[error("{what}: {source}")]
    Kernel {
        /// What was tried.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The embedded object is broken.
    #[error("the embedded BPF object cannot be read: {0}")]
    Object(String),
}

impl LoadError {
    fn kernel(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::Privilege("loading eBPF programs"),
            _ => Self::Kernel { what, source },
        }
    }
}

/// A program in the kernel, or what was tried and why the kernel refused.
type Answer = Result<OwnedFd, (String, String)>;

/// What the kernel has said, if it has: lack of privilege is no answer.
fn answer(loaded: Result<OwnedFd, LoadError>) -> Result<Answer, LoadError> {
    match loaded {
        Ok(program) => Ok(Ok(program)),
        Err(LoadError::Kernel { what, source }) => Ok(Err((what, source.to_string()))),
        Err(error) => Err(error),
    }
}

/// The programs of the object, in the kernel and not yet attached.
pub struct Loaded {
    /// By name. Each is loaded when it is first asked for, if not before: to have
    /// one checked takes the kernel milliseconds. What it has refused it is not asked again.
    programs: HashMap<String, OnceLock<Answer>>,
    object: Object,
    lost: OwnedFd,
    state: OwnedFd,
    silenced: OwnedFd,
    passed: OwnedFd,
    followed: OwnedFd,
    rules: OwnedFd,
    locks: OwnedFd,
    unlisted: OwnedFd,
    /// Since when futexes are watched, ns.
    futexes_ns: u64,
    /// Which probes count.
    generation: u16,
    /// What there are rules for to walk by.
    known_rules: HashSet<Code>,
    kmp: OwnedFd,
    events: OwnedFd,
    /// The rings, to be drained.
    pub rings: Vec<RingBuf<MapData>>,
    /// How uprobes are attached.
    pub uprobes: ProgramKind,
    /// What of the kernel's structures was found.
    pub config: Config,
    // The programs refer to these; they must live as long.
    _maps: Vec<OwnedFd>,
}

impl Loaded {
    /// A program by the name of its function.
    pub fn program(&self, name: &str) -> Result<BorrowedFd<'_>, LoadError> {
        let cell = self
            .programs
            .get(name)
            .ok_or_else(|| LoadError::Object(format!("no program {name}")))?;
        if cell.get().is_none() {
            let answer = answer(load_program(&self.object, self.uprobes, name))?;
            // Should another have come before, one of the two goes.
            let _other = cell.set(answer);
        }
        match cell.get() {
            Some(Ok(program)) => Ok(program.as_fd()),
            Some(Err((what, why))) => Err(LoadError::Kernel {
                what: what.clone(),
                source: io::Error::other(why.clone()),
            }),
            None => Err(LoadError::Object(format!("no program {name}"))),
        }
    }

    /// The names of all programs, in order.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.programs.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// How many instructions the verifier was given of a program that is loaded.
    pub fn instructions(&self, name: &str) -> Option<usize> {
        let program = self.object.programs.get(name)?;
        let function = self.object.functions.get(&program.function_key())?;
        Some(function.instructions.len())
    }

    /// Makes the probes of another generation count, at once.
    pub fn set_generation(&mut self, generation: u16) -> io::Result<()> {
        self.generation = generation;
        self.renew_state()
    }

    /// Makes the programs forget what they know of barrier objects and of
    /// return addresses, and take over what has been set.
    fn renew_state(&self) -> io::Result<()> {
        // A value never used before: everything is read afresh.
        let now = crate::clock::now_ns();
        let state = State {
            trust: now,
            generation: u64::from(self.generation),
            epoch: now,
            walks: if self.known_rules.is_empty() { 0 } else { now },
            futexes: self.futexes_ns,
        };
        bpf::map_update(self.state.as_fd(), 0, &bytes(&state))
    }

    /// Waits on futexes count that begin from now on.
    pub fn begin_futexes(&mut self) -> io::Result<()> {
        self.futexes_ns = crate::clock::now_ns();
        self.renew_state()
    }

    /// See [`name::LOCKS`], and [`name::UNLISTED`] over all CPUs.
    pub fn locks(&self) -> io::Result<(Vec<(Futex, Lock)>, u64)> {
        let map = self.locks.as_fd();
        let mut found = Vec::new();
        for key in self.futexes()? {
            let mut value = [0; size_of::<Lock>()];
            if bpf::map_read(map, &key, &mut value)? {
                found.extend(read::<Futex>(&key).zip(read::<Lock>(&value)));
            }
        }
        Ok((found, sum_per_cpu(self.unlisted.as_fd())?))
    }

    /// Forgets them, or those of a process.
    pub fn clear_locks(&self, process: Option<u32>) -> io::Result<()> {
        for key in self.futexes()? {
            let futex = read::<Futex>(&key);
            let is_other = |futex: Futex| process.is_some_and(|process| futex.process != process);
            if !futex.is_some_and(is_other) {
                // Absent is what it is to be.
                let _absent = bpf::map_remove(self.locks.as_fd(), &key);
            }
        }
        Ok(())
    }

    /// Keys come in no order, and again from the first where one has gone.
    fn futexes(&self) -> io::Result<Vec<[u8; size_of::<Futex>()]>> {
        let mut found = Vec::new();
        let mut last = None;
        while let Some(next) = bpf::map_next_key(self.locks.as_fd(), last)?
            && found.len() < MAX_LOCKS as usize
        {
            found.push(next);
            last = Some(next);
        }
        Ok(found)
    }

    /// Adds rules and takes others away, by the code around the return address.
    /// Those in force before hold until all is done.
    pub fn change_rules(&mut self, changes: &[(Code, Option<Rule>)]) -> io::Result<()> {
        let map = self.rules.as_fd();
        for (code, rule) in changes {
            let key = bytes(code);
            match rule {
                // Without its rule a chain ends earlier.
                Some(_)
                    if self.known_rules.len() >= MAX_RULES as usize
                        && !self.known_rules.contains(code) => {}
                Some(rule) => {
                    bpf::map_insert(map, &key, &bytes(rule))?;
                    self.known_rules.insert(*code);
                }
                None => {
                    // Absent is what it is to be.
                    let _absent = bpf::map_remove(map, &key);
                    self.known_rules.remove(code);
                }
            }
        }
        self.renew_state()
    }

    /// Tells how probes in LLVM's OpenMP find the team.
    pub fn set_kmp(&self, index: u16, way: Kmp) -> io::Result<()> {
        // SAFETY: Kmp is repr(C) of integers without padding, as its size shows.
        let bytes: [u8; size_of::<Kmp>()] = unsafe { std::mem::transmute(way) };
        bpf::map_update(self.kmp.as_fd(), index.into(), &bytes)
    }

    /// Lets the programs read perf events: for each the CPUs that have it, and the
    /// descriptors, which must be kept.
    pub fn set_events(&self, events: &[Vec<(u32, OwnedFd)>]) -> io::Result<()> {
        for (event, all) in (0..).zip(events) {
            for (cpu, fd) in all {
                let index = event * self.config.cpus + cpu;
                let fd = fd.as_raw_fd().cast_unsigned();
                bpf::map_update(self.events.as_fd(), index, &fd.to_ne_bytes())?;
            }
        }
        Ok(())
    }

    /// Records that found no room so far, over all CPUs.
    pub fn lost(&self) -> io::Result<u64> {
        sum_per_cpu(self.lost.as_fd())
    }

    /// See [`name::SILENCED`].
    pub fn silence(&self, key: u64, until_ns: u64) -> io::Result<()> {
        bpf::map_insert(
            self.silenced.as_fd(),
            &key.to_ne_bytes(),
            &until_ns.to_ne_bytes(),
        )
    }

    /// See [`name::FOLLOWED`]: one that runs already.
    pub fn follow(&self, process: u32) -> io::Result<()> {
        let one = 1_u32.to_ne_bytes();
        bpf::map_insert(self.followed.as_fd(), &process.to_ne_bytes(), &one)
    }

    /// See [`name::PASSED`], over all CPUs.
    pub fn passed(&self) -> io::Result<u64> {
        sum_per_cpu(self.passed.as_fd())
    }
}

fn sum_per_cpu(map: BorrowedFd<'_>) -> io::Result<u64> {
    let mut per_cpu = vec![0; possible_cpus()];
    bpf::map_lookup(map, 0, &mut per_cpu)?;
    Ok(per_cpu.iter().sum())
}

fn possible_cpus() -> usize {
    aya::util::nr_cpus().unwrap_or(1)
}

/// `PROC_PID_INIT_INO` of the kernel (`include/linux/proc_ns.h`).
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// The settings for this kernel and this target. What cannot be found stays 0
/// and is done without.
/// `children`: whether processes that descend from the target are watched too.
pub fn configure(target: u32, children: bool) -> Config {
    let mut config = Config {
        target,
        ..Config::default()
    };
    if let Ok(namespace) = fs::metadata("/proc/self/ns/pid") {
        config.ns_dev = namespace.dev();
        config.ns_ino = namespace.ino();
    }
    let data = KernelBtf::open();
    let data = data.as_ref().map_or(&[][..], KernelBtf::bytes);
    let structures = [
        "task_struct",
        "sched_entity",
        "sched_info",
        "cfs_rq",
        "rq",
        "mm_struct",
        "signal_struct",
    ];
    if let Ok(btf) = Btf::parse(data, &structures) {
        let find = |structure, path: &[&str]| btf.offset(structure, path).unwrap_or(0);
        config.run_delay = find("task_struct", &["sched_info", "run_delay"]);
        config.start_time = find("task_struct", &["start_time"]);
        config.mm = find("task_struct", &["mm"]);
        config.pid = find("task_struct", &["pid"]);
        config.any_tgid = find("task_struct", &["tgid"]);
        if config.ns_ino == FIRST_PID_NAMESPACE {
            config.tgid = config.any_tgid;
        }
        config.signal = find("task_struct", &["signal"]);
        config.live = find("signal_struct", &["live"]);
        let known = [config.pid, config.any_tgid, config.signal, config.live];
        // Without these nobody would know them, or forget them when they end.
        config.children = u32::from(children && known.iter().all(|offset| *offset != 0));
        config.min_flt = find("task_struct", &["min_flt"]);
        config.maj_flt = find("task_struct", &["maj_flt"]);
        config.nvcsw = find("task_struct", &["nvcsw"]);
        config.nivcsw = find("task_struct", &["nivcsw"]);
        config.nr_migrations = find("task_struct", &["se", "nr_migrations"]);
        config.comm = find("task_struct", &["comm"]);
        config.last_queued = find("task_struct", &["sched_info", "last_queued"]);
        config.last_arrival = find("task_struct", &["sched_info", "last_arrival"]);
        config.flags = find("task_struct", &["flags"]);
        if let Some((byte, bit)) = btf.bit("task_struct", "in_iowait") {
            (config.iowait, config.iowait_bit) = (byte, bit);
        }
        config.start_code = find("mm_struct", &["start_code"]);
        // `cfs_rq.rq` stands at offset 0 on no kernel, since the load comes
        // first; so 0 means absent for each of these.
        let run = [
            find("task_struct", &["se", "sum_exec_runtime"]),
            find("task_struct", &["se", "exec_start"]),
            find("task_struct", &["se", "cfs_rq"]),
            find("cfs_rq", &["rq"]),
            find("rq", &["clock"]),
            find("rq", &["clock_task"]),
        ];
        if run.iter().all(|offset| *offset != 0) {
            [
                config.sum_exec_runtime,
                config.exec_start,
                config.cfs_rq,
                config.rq,
                config.clock,
                config.clock_task,
            ] = run;
        }
    }
    config.cpus = u32::try_from(possible_cpus()).unwrap_or(1);
    let rings = config.cpus.next_power_of_two().min(MAX_RINGS);
    config.ring_mask = rings - 1;
    config
}

/// The kernel's BTF: mapped where the kernel allows it (6.16), else read.
enum KernelBtf {
    Mapped(Mmap),
    Read(Vec<u8>),
}

impl KernelBtf {
    fn open() -> io::Result<Self> {
        let mut file = fs::File::open("/sys/kernel/btf/vmlinux")?;
        // SAFETY: the kernel never changes it.
        if let Ok(map) = unsafe { Mmap::map(&file) } {
            return Ok(Self::Mapped(map));
        }
        let mut data = Vec::new();
        file.read_to_end(&mut data)?;
        Ok(Self::Read(data))
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Read(data) => data,
        }
    }
}

/// Without these there is nothing to watch with; one of the others that a kernel
/// refuses is done without.
pub const NEEDED: [&str; 2] = ["arrive", "exit"];

/// Loads everything: for `uprobe_multi`, or, where the kernel is older than
/// 6.6, for one perf event a probe. `wanted`: the programs that will be used.
pub fn load(config: Config, uprobes: ProgramKind, wanted: &[&str]) -> Result<Loaded, LoadError> {
    let mut object = Object::parse(OBJECT).map_err(|e| LoadError::Object(e.to_string()))?;
    let settings = bytes(&config);
    object
        .patch_map_data(HashMap::from([(name::CONFIG, (settings.as_slice(), true))]))
        .map_err(|e| LoadError::Object(e.to_string()))?;

    let rings = create_rings(&config)?;
    let mut maps = HashMap::new();
    for (map_name, map) in &object.maps {
        let fd = create_map(map_name, map, &rings, &config)?;
        maps.insert(map_name.clone(), fd);
    }
    let text: HashSet<usize> = object
        .functions
        .keys()
        .map(|(section, _)| *section)
        .collect();
    let definitions = object.maps.clone();
    object
        .relocate_maps(
            maps.iter()
                .map(|(name, fd)| (name.as_str(), fd.as_raw_fd(), &definitions[name])),
            &text,
        )
        .map_err(|e| LoadError::Object(e.to_string()))?;
    object
        .relocate_calls(&text)
        .map_err(|e| LoadError::Object(e.to_string()))?;

    // The kernel waits for a grace period after each change of an array of
    // maps: time enough to have the programs checked.
    let array = maps
        .get(name::RINGS)
        .ok_or_else(|| LoadError::Object("no map RINGS".into()))?;
    let (filled, loaded) = std::thread::scope(|scope| {
        let filling = scope.spawn(|| fill_array(array.as_fd(), &rings));
        let object = &object;
        let loading: Vec<_> = wanted
            .iter()
            .map(|name| (*name, scope.spawn(|| load_program(object, uprobes, name))))
            .collect();
        let loaded: Vec<_> = loading
            .into_iter()
            .map(|(name, program)| (name, program.join()))
            .collect();
        (filling.join(), loaded)
    });
    let programs: HashMap<String, OnceLock<Answer>> = object
        .programs
        .keys()
        .map(|name| (name.clone(), OnceLock::new()))
        .collect();
    for (name, result) in loaded {
        let program = result
            .map_err(|_panic| LoadError::Object(format!("the thread that loads {name} failed")))?;
        // That one of the others is refused is told when it is to be attached.
        let answer = if NEEDED.contains(&name) {
            Ok(program?)
        } else {
            answer(program)?
        };
        if let Some(cell) = programs.get(name) {
            let _empty = cell.set(answer);
        }
    }
    filled
        .unwrap_or_else(|_| Err(io::Error::other("the thread that does it failed")))
        .map_err(LoadError::kernel("array of ring buffers"))?;
    let mut take = |name: &str| {
        maps.remove(name)
            .ok_or_else(|| LoadError::Object(format!("no map {name}")))
    };
    Ok(Loaded {
        programs,
        object,
        lost: take(name::LOST)?,
        state: take(name::STATE)?,
        silenced: take(name::SILENCED)?,
        passed: take(name::PASSED)?,
        followed: take(name::FOLLOWED)?,
        rules: take(name::RULES)?,
        locks: take(name::LOCKS)?,
        unlisted: take(name::UNLISTED)?,
        futexes_ns: 0,
        generation: 0,
        known_rules: HashSet::new(),
        kmp: take(name::KMP)?,
        events: take(name::EVENTS)?,
        rings,
        uprobes,
        config,
        _maps: maps.into_values().collect(),
    })
}

fn load_program(object: &Object, uprobes: ProgramKind, name: &str) -> Result<OwnedFd, LoadError> {
    let program = object
        .programs
        .get(name)
        .ok_or_else(|| LoadError::Object(format!("no program {name}")))?;
    let kind = match program.section {
        ProgramSection::UProbe { .. } | ProgramSection::URetProbe { .. } => uprobes,
        _ => ProgramKind::RawTracepoint,
    };
    let function = &object.functions[&program.function_key()];
    bpf::program_load(name, kind, &function.instructions)
        .map_err(LoadError::kernel(format!("BPF program {name}")))
}

fn fill_array(array: BorrowedFd<'_>, rings: &[RingBuf<MapData>]) -> io::Result<()> {
    let fds: Vec<u32> = rings
        .iter()
        .map(|ring| ring.as_raw_fd().cast_unsigned())
        .collect();
    // All at once waits once; a kernel that cannot do that waits for each.
    if bpf::map_update_all(array, &fds).is_ok() {
        return Ok(());
    }
    for (index, fd) in (0..).zip(&fds) {
        bpf::map_update(array, index, &fd.to_ne_bytes())?;
    }
    Ok(())
}

/// A value as its bytes.
fn bytes<T: Plain>(value: &T) -> Vec<u8> {
    let start = std::ptr::from_ref(value).cast::<u8>();
    // SAFETY: Plain types are without padding, so every byte is initialised.
    unsafe { std::slice::from_raw_parts(start, size_of::<T>()) }.to_vec()
}

fn create_rings(config: &Config) -> Result<Vec<RingBuf<MapData>>, LoadError> {
    let spec = MapSpec {
        map_type: BPF_MAP_TYPE_RINGBUF as u32,
        key_size: 0,
        value_size: 0,
        max_entries: RING_BYTES,
        flags: 0,
    };
    (0..=config.ring_mask)
        .map(|_| {
            let fd = bpf::map_create(&spec, None).map_err(LoadError::kernel("ring buffer"))?;
            MapData::from_fd(fd)
                .and_then(|data| RingBuf::try_from(Map::RingBuf(data)))
                .map_err(|error| LoadError::Kernel {
                    what: "ring buffer".into(),
                    source: io::Error::other(error),
                })
        })
        .collect()
}

/// How many entries a map gets: as it says, but for those of counters, which nobody
/// needs without any.
fn entries(map_name: &str, map: &aya_obj::Map, config: &Config) -> u32 {
    match map_name {
        name::EVENTS => (config.events * config.cpus).max(1),
        name::COUNTED if config.events == 0 => 1,
        name::LEFT if config.switches == 0 => 1,
        _ => map.max_entries(),
    }
}

fn create_map(
    map_name: &str,
    map: &aya_obj::Map,
    rings: &[RingBuf<MapData>],
    config: &Config,
) -> Result<OwnedFd, LoadError> {
    let failed = || LoadError::kernel(format!("BPF map {map_name}"));
    let is_rings = map.map_type() == BPF_MAP_TYPE_ARRAY_OF_MAPS as u32;
    let spec = MapSpec {
        map_type: map.map_type(),
        key_size: map.key_size(),
        value_size: map.value_size(),
        max_entries: entries(map_name, map, config),
        flags: map.map_flags(),
    };
    let model = rings.first().filter(|_| is_rings).map(|ring| ring.as_fd());
    let fd = bpf::map_create(&spec, model).map_err(failed())?;
    // A new map is zero already, and one of ours is a megabyte of zeros.
    if map.data().iter().any(|byte| *byte != 0) {
        bpf::map_update(fd.as_fd(), 0, map.data()).map_err(failed())?;
    }
    if map.section_kind() == EbpfSectionKind::Rodata {
        bpf::map_freeze(fd.as_fd()).map_err(failed())?;
    }
    Ok(fd)
}
