//! Loads the embedded BPF object: creates its maps and loads its programs into the kernel.
//!
//! aya-obj parses and relocates. Done by hand: the attach type that programs are loaded for, which
//! aya 0.14 cannot set, and the array of rings.

use std::{
    collections::{HashMap, HashSet},
    io,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
    sync::OnceLock,
};

use aya::maps::{Map, MapData, RingBuf};
use aya_obj::{
    EbpfSectionKind, Object, ProgramSection,
    btf::BtfFeatures,
    generated::bpf_map_type::{BPF_MAP_TYPE_ARRAY_OF_MAPS, BPF_MAP_TYPE_RINGBUF},
};
use sbt_common::{Config, RING_BYTES, bytes, name};

use super::{cast, maps::Maps};
use crate::kernel::{
    LoadError,
    bpf::{self, Functions, MapSpec, ProgramKind},
};

pub(super) static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../sbt-ebpf/object/sbt.bpf.o"
));

/// A program in the kernel; or what was tried, and why the kernel refused.
type Answer = Result<OwnedFd, (String, String)>;

/// Turns a refusal by the kernel into an answer that is kept. Lack of privilege stays an error.
fn answer(loaded: Result<OwnedFd, LoadError>) -> Result<Answer, LoadError> {
    match loaded {
        Ok(program) => Ok(Ok(program)),
        Err(LoadError::Kernel { what, source }) => Ok(Err((what, source.to_string()))),
        Err(error) => Err(error),
    }
}

/// The programs of the object, in the kernel but not attached.
pub struct Loaded {
    /// Programs by name. A program that [`load`] was not asked for is loaded when first used: the
    /// verifier takes milliseconds for each. Refusals are kept too, and not tried again.
    programs: HashMap<String, OnceLock<Answer>>,
    object: Object,
    /// The types of the programs' functions, if the kernel accepts them. Without them the verifier
    /// has more to check.
    types: Option<OwnedFd>,
    /// Maps through which the agent and the programs talk.
    pub maps: Maps,
    /// The rings that the agent reads.
    pub rings: Vec<RingBuf<MapData>>,
    /// How uprobes are attached.
    pub uprobes: ProgramKind,
    /// Settings of the programs, with the offsets found in the kernel's structures.
    pub config: Config,
    // The programs refer to these maps, so the maps must live as long.
    _maps: Vec<OwnedFd>,
}

impl Loaded {
    /// Returns the program of this name; loads it if needed.
    pub fn program(&self, name: &str) -> Result<BorrowedFd<'_>, LoadError> {
        let cell = self
            .programs
            .get(name)
            .ok_or_else(|| LoadError::Object(format!("no program {name}")))?;
        if cell.get().is_none() {
            let answer = answer(load_program(
                &self.object,
                self.types.as_ref(),
                self.uprobes,
                cast::of(&self.config),
                name,
            ))?;
            // If another thread was faster, its program is kept and this one is dropped.
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

    /// Whether the kernel has accepted this program already.
    pub fn is_loaded(&self, name: &str) -> bool {
        let answer = self.programs.get(name).and_then(OnceLock::get);
        answer.is_some_and(Result::is_ok)
    }

    /// The names of all programs, in order.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.programs.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// How many instructions a program has.
    pub fn instructions(&self, name: &str) -> Option<usize> {
        let program = self.object.programs.get(name)?;
        let function = self.object.functions.get(&program.function_key())?;
        Some(function.instructions.len())
    }
}

/// Without these programs nothing can be watched. Any other program may be missing where a kernel
/// refuses it.
pub const NEEDED: [&str; 2] = ["arrive", "exit"];

/// Creates all maps and loads the programs of `wanted`: for `uprobe_multi`, or, on kernels before
/// 6.6, for one perf event a probe.
pub fn load(config: Config, uprobes: ProgramKind, wanted: &[&str]) -> Result<Loaded, LoadError> {
    let mut object = Object::parse(OBJECT).map_err(|e| LoadError::Object(e.to_string()))?;
    let settings = bytes(&config);
    object
        .patch_map_data(HashMap::from([(name::CONFIG, (settings, true))]))
        .map_err(|e| LoadError::Object(e.to_string()))?;

    let types = load_types(&mut object);
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
    // The definitions hold megabytes of zeros; moved out rather than copied.
    let definitions = std::mem::take(&mut object.maps);
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

    // The kernel waits for a grace period after each change of an array of maps. Programs are
    // loaded meanwhile.
    let array = maps
        .get(name::RINGS)
        .ok_or_else(|| LoadError::Object("no map RINGS".into()))?;
    let (filled, loaded) = std::thread::scope(|scope| {
        let filling = scope.spawn(|| fill_array(array.as_fd(), &rings));
        let (object, types, cast) = (&object, types.as_ref(), cast::of(&config));
        let loading: Vec<_> = wanted
            .iter()
            .map(|name| {
                (
                    *name,
                    scope.spawn(move || load_program(object, types, uprobes, cast, name)),
                )
            })
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
        // A refusal of any other program is reported when it is to be attached.
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
    let taken = Maps::take(&mut maps, config.cpus);
    let taken = taken.map_err(|name| LoadError::Object(format!("no map {name}")))?;
    Ok(Loaded {
        programs,
        object,
        types,
        maps: taken,
        rings,
        uprobes,
        config,
        _maps: maps.into_values().collect(),
    })
}

/// Loads type information as Linux 5.15 knows it, the oldest kernel that can load the programs:
/// newer kinds of types are replaced by older ones.
fn load_types(object: &mut Object) -> Option<OwnedFd> {
    let features = BtfFeatures::new(true, true, true, true, true, false, false, false);
    let types = object.fixup_and_sanitize_btf(&features).ok()??;
    bpf::btf_load(&types.to_bytes()).ok()
}

fn load_program(
    object: &Object,
    types: Option<&OwnedFd>,
    uprobes: ProgramKind,
    cast: Option<u32>,
    name: &str,
) -> Result<OwnedFd, LoadError> {
    let program = object
        .programs
        .get(name)
        .ok_or_else(|| LoadError::Object(format!("no program {name}")))?;
    let kind = match program.section {
        ProgramSection::UProbe { .. } | ProgramSection::URetProbe { .. } => uprobes,
        _ => ProgramKind::RawTracepoint,
    };
    let function = &object.functions[&program.function_key()];
    let functions = types.map(|types| Functions {
        types: types.as_fd(),
        all: &function.func_info.func_info,
    });
    let load = |cast| {
        let instructions = cast::replace(&function.instructions, cast);
        bpf::program_load(name, kind, &instructions, functions)
    };
    // Where programs are interpreted, they may not call functions of the kernel.
    let without = |error| cast.map_or(Err(error), |_| load(None));
    load(cast)
        .or_else(without)
        .map_err(LoadError::kernel(format!("BPF program {name}")))
}

fn fill_array(array: BorrowedFd<'_>, rings: &[RingBuf<MapData>]) -> io::Result<()> {
    let fds: Vec<u32> = rings
        .iter()
        .map(|ring| ring.as_raw_fd().cast_unsigned())
        .collect();
    // One batch update waits for one grace period; kernels without batches wait for each entry.
    if bpf::map_update_all(array, &fds).is_ok() {
        return Ok(());
    }
    for (index, fd) in (0..).zip(&fds) {
        bpf::map_update(array, index, &fd.to_ne_bytes())?;
    }
    Ok(())
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

/// How many entries a map gets. Maps for counters, switches and sleeps are made small if these are not
/// used; all others have their declared size.
fn entries(map_name: &str, map: &aya_obj::Map, config: &Config) -> u32 {
    match map_name {
        name::EVENTS => (config.events * config.cpus).max(1),
        name::COUNTED if config.events == 0 => 1,
        name::LEFT if config.switches == 0 => 1,
        name::SLEEPERS | name::SLEEPS if config.sleeps == 0 => 1,
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
    // A new map is zero, so only other content is written.
    if map.section_kind() != EbpfSectionKind::Bss && map.data().iter().any(|byte| *byte != 0) {
        bpf::map_update(fd.as_fd(), 0, map.data()).map_err(failed())?;
    }
    if map.section_kind() == EbpfSectionKind::Rodata {
        bpf::map_freeze(fd.as_fd()).map_err(failed())?;
    }
    Ok(fd)
}
