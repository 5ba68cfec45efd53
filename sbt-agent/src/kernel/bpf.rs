//! The bpf system call, as far as aya does not offer what sbt needs: loading programs for, and
//! attaching them to, many places of a file at once (`uprobe_multi`, kernel 6.6). Compared with
//! perf events, this needs two capabilities instead of root, detaches fifty times faster, and
//! outlives the target's first thread.

use std::{
    ffi::CString,
    io,
    mem::zeroed,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
};

use aya_obj::generated::{
    bpf_attach_type::{BPF_PERF_EVENT, BPF_TRACE_UPROBE_MULTI},
    bpf_attr, bpf_cmd, bpf_func_info, bpf_insn, bpf_prog_info,
    bpf_prog_type::{BPF_PROG_TYPE_KPROBE, BPF_PROG_TYPE_RAW_TRACEPOINT},
};
use perf_event::Counter;

/// `BPF_F_UPROBE_MULTI_RETURN` of linux/bpf.h.
const UPROBE_MULTI_RETURN: u32 = 1;

fn bpf(command: bpf_cmd, attr: &mut bpf_attr) -> io::Result<i32> {
    // SAFETY: every pointer that the callers of this function put into `attr`
    // is valid for the duration of the call, and unused fields are zero.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command as u32,
            std::ptr::from_mut(attr),
            size_of::<bpf_attr>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    i32::try_from(result).map_err(io::Error::other)
}

fn empty() -> bpf_attr {
    // SAFETY: a union of plain integers; all zero is valid for each variant.
    unsafe { zeroed() }
}

fn owned(fd: i32) -> OwnedFd {
    // SAFETY: the kernel has just returned this descriptor, which nothing else owns.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn raw(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

/// How to create a map.
pub struct MapSpec {
    /// One of `BPF_MAP_TYPE_*`.
    pub map_type: u32,
    /// Size of a key, bytes.
    pub key_size: u32,
    /// Size of a value, bytes.
    pub value_size: u32,
    /// Number of entries; for a ring its size, bytes.
    pub max_entries: u32,
    /// `BPF_F_*`.
    pub flags: u32,
}

/// Creates a map; `inner` is the model of the maps that an array of maps holds.
pub fn map_create(spec: &MapSpec, inner: Option<BorrowedFd<'_>>) -> io::Result<OwnedFd> {
    let mut attr = empty();
    // SAFETY: the variant that BPF_MAP_CREATE reads.
    let map = unsafe { &mut attr.__bindgen_anon_1 };
    map.map_type = spec.map_type;
    map.key_size = spec.key_size;
    map.value_size = spec.value_size;
    map.max_entries = spec.max_entries;
    map.map_flags = spec.flags;
    map.inner_map_fd = inner.map_or(0, raw);
    bpf(bpf_cmd::BPF_MAP_CREATE, &mut attr).map(owned)
}

/// A command about an element of a map. `key` and `value` (for some commands the next key): their
/// addresses.
fn element(command: bpf_cmd, map: u32, key: u64, value: u64) -> io::Result<()> {
    let mut attr = empty();
    // SAFETY: the variant that commands about elements read.
    let element = unsafe { &mut attr.__bindgen_anon_2 };
    element.map_fd = map;
    element.key = key;
    element.__bindgen_anon_1.value = value;
    bpf(command, &mut attr).map(drop)
}

/// Stores `value` under `key`, which must have the map's sizes.
pub fn map_update(map: BorrowedFd<'_>, key: u32, value: &[u8]) -> io::Result<()> {
    map_insert(map, &key.to_ne_bytes(), value)
}

/// Stores `value` under a `key` of any size. Both must have the map's sizes.
pub fn map_insert(map: BorrowedFd<'_>, key: &[u8], value: &[u8]) -> io::Result<()> {
    let (key, value) = (key.as_ptr() as u64, value.as_ptr() as u64);
    element(bpf_cmd::BPF_MAP_UPDATE_ELEM, raw(map), key, value)
}

/// Removes what is stored under `key`, which must have the map's size.
pub fn map_remove(map: BorrowedFd<'_>, key: &[u8]) -> io::Result<()> {
    element(
        bpf_cmd::BPF_MAP_DELETE_ELEM,
        raw(map),
        key.as_ptr() as u64,
        0,
    )
}

/// Stores values of four bytes under the keys 0, 1, 2 …
pub fn map_update_all(map: BorrowedFd<'_>, values: &[u32]) -> io::Result<()> {
    let count = u32::try_from(values.len()).map_err(io::Error::other)?;
    let keys: Vec<u32> = (0..count).collect();
    let mut attr = empty();
    // SAFETY: the variant that BPF_MAP_UPDATE_BATCH reads.
    let batch = unsafe { &mut attr.batch };
    batch.map_fd = raw(map);
    batch.keys = keys.as_ptr() as u64;
    batch.values = values.as_ptr() as u64;
    batch.count = count;
    bpf(bpf_cmd::BPF_MAP_UPDATE_BATCH, &mut attr).map(drop)
}

/// Reads what is stored under `key` into `value`, which must be long enough:
/// for a map per CPU, eight bytes for each possible CPU.
pub fn map_lookup(map: BorrowedFd<'_>, key: u32, value: &mut [u64]) -> io::Result<()> {
    let (key, value) = ((&raw const key) as u64, value.as_mut_ptr() as u64);
    element(bpf_cmd::BPF_MAP_LOOKUP_ELEM, raw(map), key, value)
}

/// The key that follows `key` in a map; without `key` the first one. `None` at the end.
pub fn map_next_key<const N: usize>(
    map: BorrowedFd<'_>,
    key: Option<[u8; N]>,
) -> io::Result<Option<[u8; N]>> {
    let mut next = [0; N];
    let key = key.as_ref().map_or(0, |key| std::ptr::from_ref(key) as u64);
    let command = bpf_cmd::BPF_MAP_GET_NEXT_KEY;
    let is_there = found(element(command, raw(map), key, (&raw mut next) as u64))?;
    Ok(is_there.then_some(next))
}

/// Reads the value of `key` into `value`. Both must have the map's sizes. False if there is no
/// value.
pub fn map_read(map: BorrowedFd<'_>, key: &[u8], value: &mut [u8]) -> io::Result<bool> {
    let (key, value) = (key.as_ptr() as u64, value.as_mut_ptr() as u64);
    found(element(bpf_cmd::BPF_MAP_LOOKUP_ELEM, raw(map), key, value))
}

/// Whether a map has what was asked for.
fn found(result: io::Result<()>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes a map read-only for user space, so that the verifier may rely on its values.
pub fn map_freeze(map: BorrowedFd<'_>) -> io::Result<()> {
    let mut attr = empty();
    attr.__bindgen_anon_2.map_fd = raw(map);
    bpf(bpf_cmd::BPF_MAP_FREEZE, &mut attr).map(drop)
}

/// Whether the kernel, or a filter of system calls, refuses this process the bpf system call.
pub fn is_refused() -> bool {
    let (key, mut value) = (0_u32, [0_u64]);
    let (key, value) = ((&raw const key) as u64, value.as_mut_ptr() as u64);
    // No map is open under this number: the kernel says so if this process may ask.
    let answer = element(bpf_cmd::BPF_MAP_LOOKUP_ELEM, u32::MAX, key, value);
    answer.is_err_and(|error| error.raw_os_error() != Some(libc::EBADF))
}

/// The kind of place to which a program will be attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramKind {
    /// Many places of a file, by one link.
    UprobeMulti,
    /// One place, by one perf event.
    Uprobe,
    /// A raw tracepoint.
    RawTracepoint,
}

impl ProgramKind {
    /// How this kernel attaches uprobes: all at once if it can.
    pub fn of_uprobes() -> Self {
        if has_uprobe_multi() {
            Self::UprobeMulti
        } else {
            Self::Uprobe
        }
    }
}

/// Loads type information (BTF), to which programs refer for the types of their functions.
pub fn btf_load(types: &[u8]) -> io::Result<OwnedFd> {
    let mut attr = empty();
    // SAFETY: the variant that BPF_BTF_LOAD reads.
    let btf = unsafe { &mut attr.__bindgen_anon_7 };
    btf.btf = types.as_ptr() as u64;
    btf.btf_size = u32::try_from(types.len()).map_err(io::Error::other)?;
    bpf(bpf_cmd::BPF_BTF_LOAD, &mut attr).map(owned)
}

/// The functions of a program: where each begins, and its type.
#[derive(Clone, Copy)]
pub struct Functions<'a> {
    /// The loaded BTF that has the types.
    pub types: BorrowedFd<'a>,
    /// One entry for each function, in order.
    pub all: &'a [bpf_func_info],
}

/// Loads a program. The error includes the verifier's objection, if there is one.
pub fn program_load(
    name: &str,
    kind: ProgramKind,
    instructions: &[bpf_insn],
    functions: Option<Functions<'_>>,
) -> io::Result<OwnedFd> {
    let load = |log: &mut [u8]| {
        let mut attr = empty();
        // SAFETY: the variant that BPF_PROG_LOAD reads.
        let program = unsafe { &mut attr.__bindgen_anon_3 };
        program.prog_type = match kind {
            ProgramKind::UprobeMulti | ProgramKind::Uprobe => BPF_PROG_TYPE_KPROBE as u32,
            ProgramKind::RawTracepoint => BPF_PROG_TYPE_RAW_TRACEPOINT as u32,
        };
        if kind == ProgramKind::UprobeMulti {
            program.expected_attach_type = BPF_TRACE_UPROBE_MULTI as u32;
        }
        program.insns = instructions.as_ptr() as u64;
        program.insn_cnt = u32::try_from(instructions.len()).map_err(io::Error::other)?;
        program.license = c"Dual MIT/GPL".as_ptr() as u64;
        if let Some(functions) = functions {
            program.prog_btf_fd = raw(functions.types);
            program.func_info = functions.all.as_ptr() as u64;
            program.func_info_cnt = u32::try_from(functions.all.len()).map_err(io::Error::other)?;
            program.func_info_rec_size =
                u32::try_from(size_of::<bpf_func_info>()).map_err(io::Error::other)?;
        }
        for (to, from) in program.prog_name.iter_mut().zip(name.bytes().take(15)) {
            *to = from.cast_signed();
        }
        if !log.is_empty() {
            program.log_level = 1;
            program.log_buf = log.as_mut_ptr() as u64;
            program.log_size = u32::try_from(log.len()).map_err(io::Error::other)?;
        }
        bpf(bpf_cmd::BPF_PROG_LOAD, &mut attr).map(owned)
    };
    load(&mut []).or_else(|error| {
        // Loaded once more with a log, just for the message; lack of privilege gives no log.
        if error.raw_os_error() == Some(libc::EPERM) {
            return Err(error);
        }
        let mut log = vec![0; 1 << 20];
        load(&mut log).map_err(|error| {
            let end = log.iter().position(|byte| *byte == 0).unwrap_or(0);
            let text = String::from_utf8_lossy(&log[..end]);
            match objection(&text) {
                Some(objection) => io::Error::new(error.kind(), format!("{error}: {objection}")),
                None => error,
            }
        })
    })
}

/// The verifier's objection to a program: the last line of its log that is neither empty nor
/// statistics.
fn objection(log: &str) -> Option<&str> {
    let is_statistics = |line: &str| {
        [
            "processed ",
            "verification time",
            "stack depth",
            "max_states",
        ]
        .iter()
        .any(|start| line.starts_with(start))
    };
    log.lines()
        .map(str::trim)
        .rfind(|line| !line.is_empty() && !is_statistics(line))
}

/// How many instructions the verifier has looked at to accept a program. `None` before Linux 5.16.
pub fn program_verified(program: BorrowedFd<'_>) -> io::Result<Option<u32>> {
    // SAFETY: a structure of integers: zero is valid.
    let mut info: bpf_prog_info = unsafe { zeroed() };
    let mut attr = empty();
    attr.info.bpf_fd = raw(program);
    attr.info.info_len = u32::try_from(size_of::<bpf_prog_info>()).map_err(io::Error::other)?;
    attr.info.info = (&raw mut info) as u64;
    bpf(bpf_cmd::BPF_OBJ_GET_INFO_BY_FD, &mut attr)?;
    Ok(Some(info.verified_insns).filter(|count| *count != 0))
}

/// Whether this kernel attaches a program to many places at once. A kernel that does not may load
/// programs for it all the same.
fn has_uprobe_multi() -> bool {
    /// `r0 = 0`, and `exit`, as linux/bpf.h puts them together.
    const CODES: [u8; 2] = [0xb7, 0x95];
    let nothing = CODES.map(|code| bpf_insn {
        code,
        // SAFETY: a structure of integers: zero is valid.
        ..unsafe { zeroed() }
    });
    let is_invalid = |error: &io::Error| error.kind() == io::ErrorKind::InvalidInput;
    let program = match program_load("nothing", ProgramKind::UprobeMulti, &nothing, None) {
        Ok(program) => program,
        // Other errors are reported when the needed programs are loaded.
        Err(error) => return !is_invalid(&error),
    };
    let point = ProbePoint {
        offset: 0,
        cookie: 0,
    };
    // A folder cannot be probed: a kernel that gets far enough to see that has `uprobe_multi`.
    attach_uprobe_multi(program.as_fd(), &c"/".to_owned(), &[point], false, 0)
        .map_or_else(|error| !is_invalid(&error), |_link| true)
}

/// Runs a raw tracepoint's program now, in this thread's context.
pub fn program_run(program: BorrowedFd<'_>) -> io::Result<()> {
    let mut attr = empty();
    attr.test.prog_fd = raw(program);
    bpf(bpf_cmd::BPF_PROG_TEST_RUN, &mut attr).map(drop)
}

/// A place in a file, and the cookie of its probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbePoint {
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Passed to the program at each hit.
    pub cookie: u64,
}

/// Attaches a program to places of one file, for one process and its threads (0: for everyone).
/// Closing the descriptor detaches. `returns`: at returns instead of entries.
pub fn attach_uprobe_multi(
    program: BorrowedFd<'_>,
    path: &CString,
    points: &[ProbePoint],
    returns: bool,
    pid: u32,
) -> io::Result<OwnedFd> {
    let offsets: Vec<u64> = points.iter().map(|point| point.offset).collect();
    let cookies: Vec<u64> = points.iter().map(|point| point.cookie).collect();
    let mut attr = empty();
    attr.link_create.__bindgen_anon_1.prog_fd = raw(program);
    attr.link_create.attach_type = BPF_TRACE_UPROBE_MULTI as u32;
    // SAFETY: the variant that this attach type reads.
    let multi = unsafe { &mut attr.link_create.__bindgen_anon_3.uprobe_multi };
    multi.path = path.as_ptr() as u64;
    multi.offsets = offsets.as_ptr() as u64;
    multi.cookies = cookies.as_ptr() as u64;
    multi.cnt = u32::try_from(points.len()).map_err(io::Error::other)?;
    multi.flags = if returns { UPROBE_MULTI_RETURN } else { 0 };
    multi.pid = pid;
    bpf(bpf_cmd::BPF_LINK_CREATE, &mut attr).map(owned)
}

/// Attaches a program to a raw tracepoint of the kernel.
pub fn attach_raw_tracepoint(program: BorrowedFd<'_>, name: &CString) -> io::Result<OwnedFd> {
    let mut attr = empty();
    attr.raw_tracepoint.name = name.as_ptr() as u64;
    attr.raw_tracepoint.prog_fd = raw(program);
    bpf(bpf_cmd::BPF_RAW_TRACEPOINT_OPEN, &mut attr).map(owned)
}

/// Attaches a program to an open perf event. The caller must keep the event and the link returned.
pub fn attach_perf_event(
    program: BorrowedFd<'_>,
    event: &Counter,
    cookie: u64,
) -> io::Result<OwnedFd> {
    let mut attr = empty();
    attr.link_create.__bindgen_anon_1.prog_fd = raw(program);
    attr.link_create.__bindgen_anon_2.target_fd = event.as_raw_fd().cast_unsigned();
    attr.link_create.attach_type = BPF_PERF_EVENT as u32;
    attr.link_create.__bindgen_anon_3.perf_event.bpf_cookie = cookie;
    bpf(bpf_cmd::BPF_LINK_CREATE, &mut attr).map(owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verifiers_objection_is_the_last_line_that_is_no_statistics() {
        let log = "0: (79) r6 = *(u64 *)(r1 +112)\nR1 invalid mem access 'scalar'\n\
                   processed 12 insns (limit 1000000) max_states_per_insn 0\n\n";
        assert_eq!(objection(log), Some("R1 invalid mem access 'scalar'"));
        assert_eq!(objection("processed 0 insns\n"), None);
        assert_eq!(objection(""), None);
    }
}
