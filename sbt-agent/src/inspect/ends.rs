//! The other ends of the pipes and sockets at which threads wait: which processes hold them.

use std::{
    cell::OnceCell,
    collections::{BTreeSet, HashMap, HashSet},
    fs,
};

use super::{call::Call, peers};
use sbt_engine::hang::scene::Doing;
use sbt_program::{memory::Memory, process};

/// The most descriptors of a `poll`, `select` or `epoll` that are followed.
const MOST: usize = 256;

/// The change of a descriptor that a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// Data to read.
    Reads,
    /// Room to write.
    Writes,
}

/// The processes that hold a pipe or socket, by its name: the process, whether it may read, and
/// whether it may write.
type Holders = HashMap<String, Vec<(u32, bool, bool)>>;

/// The processes that hold each pipe and socket, as far as it can be seen.
struct Held {
    holders: Holders,
    /// The processes that have descendants which cannot be looked into, and which may have
    /// inherited any pipe or socket.
    with_hidden: HashSet<u32>,
    /// The processes with requests to the kernel whose end it may tell an event counter.
    with_requests: HashSet<u32>,
}

impl Held {
    /// The holders of a pipe or socket. `None` if there may be others.
    fn of(&self, name: &str) -> Option<&[(u32, bool, bool)]> {
        let holders = self.holders.get(name)?.as_slice();
        let mut all = holders.iter();
        let hides = all.any(|(process, ..)| self.with_hidden.contains(process));
        (!hides).then_some(holders)
    }
}

/// All pipes and sockets of the system, as far as they can be seen.
#[derive(Default)]
pub struct Ends {
    held: OnceCell<Held>,
    peers: OnceCell<HashMap<String, String>>,
}

/// The processes that a thread waits for, if only known processes can let it go on.
pub struct Awaited {
    /// The pipes and sockets: `pipe:[4242]`.
    pub what: String,
    /// The processes one of which has to do something: those that hold the other ends, and for
    /// sockets those that hold this end.
    pub processes: Vec<u32>,
    /// The processes that hold the other ends.
    pub others: Vec<u32>,
}

impl Ends {
    /// The processes that a thread waits for in a system call on pipes and sockets. `None` if it
    /// waits for something else as well, or if not all holders of the other ends can be seen.
    pub fn awaited(&self, thread: u32, call: Call) -> Option<Awaited> {
        let all = waits(thread, call)?;
        if all.is_empty() || all.len() > MOST {
            return None;
        }
        let (mut processes, mut others) = (BTreeSet::new(), BTreeSet::new());
        let mut names = Vec::new();
        for (number, side) in all {
            let name = link(thread, number)?;
            let other_end = self.other_end(&name, side)?;
            processes.extend(&other_end);
            others.extend(other_end);
            if name.starts_with("socket:[") {
                // Whoever holds this end may shut the connection down.
                let held = self.held.get_or_init(all_held).of(&name)?;
                processes.extend(held.iter().map(|holder| holder.0));
            }
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Some(Awaited {
            what: names.join(", "),
            processes: processes.into_iter().collect(),
            others: others.into_iter().collect(),
        })
    }

    fn other_end(&self, name: &str, side: Side) -> Option<Vec<u32>> {
        let held = self.held.get_or_init(all_held);
        if name.starts_with("pipe:[") {
            let all = held.of(name)?.iter();
            let other = |(_, reads, writes): &&(u32, bool, bool)| match side {
                Side::Reads => *writes,
                Side::Writes => *reads,
            };
            return Some(all.filter(other).map(|holder| holder.0).collect());
        }
        if name.starts_with(EVENTS) {
            let all = held.of(name)?;
            // The kernel writes to it, too, where requests are under way.
            let has_requests = |process: u32| held.with_requests.contains(&process);
            let is_known = !all.iter().any(|holder| has_requests(holder.0));
            return is_known.then(|| all.iter().map(|holder| holder.0).collect());
        }
        let peer = self.peers.get_or_init(peers::all).get(name)?;
        Some(held.of(peer)?.iter().map(|holder| holder.0).collect())
    }

    /// The processes that hold the other ends of what a thread waits for, in words: `process 7
    /// (sort)`. `None` if they are not known.
    pub fn holders(&self, thread: u32, call: Call) -> Option<String> {
        let awaited = self.awaited(thread, call)?;
        named(&awaited.others, ["holds", "hold"])
    }
}

/// Whether nothing outside of the processes that are looked at can end what a thread does, which waits
/// for a request to the kernel (`io_uring`), or for an event counter to which the kernel may write when
/// one ends: its process has no descriptor at which something outside may happen. Requests may end
/// after some time, or of themselves.
pub fn is_own_request(process: u32, doing: &Doing, looked_at: &[u32]) -> bool {
    let Doing::Call { name, what } = doing else {
        return false;
    };
    let is_counter = what.as_ref().is_some_and(|what| what == EVENT_COUNTER);
    if name != "io_uring_enter" && !is_counter {
        return false;
    }
    let ends = Ends::default();
    let held = ends.held.get_or_init(all_held);
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/fd")) else {
        return false;
    };
    let is_inside = |number: &str, link: &str| match name_of(process, number, link) {
        Some(name) => {
            let is_known = |others: Vec<u32>| others.iter().all(|other| looked_at.contains(other));
            name.starts_with(EVENTS)
                || name.starts_with("pipe:[") && !modes(process, number).0
                || ends.other_end(&name, Side::Reads).is_some_and(is_known)
        }
        None => is_at_rest(process, number, link),
    };
    held.with_requests.contains(&process)
        && entries.flatten().all(|entry| {
            let link = fs::read_link(entry.path());
            let link = link.as_ref().ok().and_then(|link| link.to_str());
            let number = entry.file_name();
            link.is_some_and(|link| is_inside(&number.to_string_lossy(), link))
        })
}

/// What /proc calls event counters.
const EVENT_COUNTER: &str = "anon_inode:[eventfd]";

/// Whether nothing outside happens at a file: one with a content of its own, or a device that never
/// lets anybody wait. The terminal that every program is given says nothing.
fn is_at_rest(process: u32, number: &str, link: &str) -> bool {
    const NEVER: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
    if let Some(kind) = link.strip_prefix("anon_inode:") {
        return matches!(kind, "[io_uring]" | "[eventpoll]");
    }
    if matches!(number, "0" | "1" | "2") {
        return true;
    }
    if let Some(device) = link.strip_prefix("/dev/") {
        return NEVER.contains(&device) || device.starts_with("shm/");
    }
    let kind = fs::metadata(format!("/proc/{process}/fd/{number}")).map(|file| file.file_type());
    kind.is_ok_and(|kind| kind.is_file() || kind.is_dir())
}

/// Processes with a verb for one of them, or for several: `process 7 (sort) holds`. `None` if there
/// are none, or one of them is gone.
pub fn named(processes: &[u32], verbs: [&str; 2]) -> Option<String> {
    let name = |process: &u32| {
        let comm = process::text(process::folder(*process).join("comm")).ok()?;
        Some(format!("process {process} ({})", comm.trim_end()))
    };
    let [of_one, of_several] = verbs;
    match processes {
        [] => None,
        [one] => Some(format!("{} {of_one}", name(one)?)),
        [one, other] => Some(format!("{} and {} {of_several}", name(one)?, name(other)?)),
        all => Some(format!("{} processes {of_several}", all.len())),
    }
}

fn link(thread: u32, number: u64) -> Option<String> {
    let link = fs::read_link(format!("/proc/{thread}/fd/{number}")).ok()?;
    name_of(thread, &number.to_string(), link.to_str()?)
}

/// How the names of event counters (`eventfd`) begin here. The kernel gives them numbers, and no
/// names of their own.
const EVENTS: &str = "eventfd:[";

/// The name of a pipe, a socket or an event counter; `None` for other files. `link`: what /proc says.
fn name_of(pid: u32, number: &str, link: &str) -> Option<String> {
    if link == EVENT_COUNTER {
        let text = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).ok()?;
        let mut lines = text.lines();
        let id = lines.find_map(|line| line.strip_prefix("eventfd-id:"))?;
        return Some(format!("{EVENTS}{}]", id.trim()));
    }
    (link.starts_with("pipe:[") || link.starts_with("socket:[")).then(|| link.to_owned())
}

/// The descriptors at which a thread waits, without a limit of time. `None` for other calls.
fn waits(thread: u32, call: Call) -> Option<Vec<(u64, Side)>> {
    let Call::In {
        number, arguments, ..
    } = call
    else {
        return None;
    };
    let memory = Memory { thread };
    let descriptor = arguments[0] & 0xffff_ffff;
    match number {
        libc::SYS_read | libc::SYS_readv | libc::SYS_recvfrom | libc::SYS_recvmsg => {
            Some(vec![(descriptor, Side::Reads)])
        }
        libc::SYS_write | libc::SYS_writev | libc::SYS_sendto | libc::SYS_sendmsg => {
            Some(vec![(descriptor, Side::Writes)])
        }
        libc::SYS_poll if i32::try_from(arguments[2].cast_signed()).map_or(true, |ms| ms < 0) => {
            polled(memory, arguments[0], arguments[1])
        }
        libc::SYS_ppoll if arguments[2] == 0 => polled(memory, arguments[0], arguments[1]),
        libc::SYS_select | libc::SYS_pselect6 if arguments[4] == 0 => selected(
            memory,
            arguments[0],
            arguments[1],
            arguments[2],
            arguments[3],
        ),
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait if (arguments[3] & 0xffff_ffff) >> 31 == 1 => {
            watched(thread, descriptor)
        }
        libc::SYS_epoll_pwait2 if arguments[3] == 0 => watched(thread, descriptor),
        _ => None,
    }
}

fn polled(memory: Memory, address: u64, count: u64) -> Option<Vec<(u64, Side)>> {
    let count = usize::try_from(count).ok().filter(|count| *count <= MOST)?;
    let bytes = memory.read(address, 8 * count);
    let entries = bytes.as_chunks::<8>().0;
    if entries.len() < count {
        return None;
    }
    let mut all = Vec::new();
    for entry in entries {
        let number = i32::from_ne_bytes(*entry.first_chunk()?);
        let events = i16::from_ne_bytes([entry[4], entry[5]]);
        let Ok(number) = u64::try_from(number) else {
            continue;
        };
        if events & libc::POLLIN != 0 || events & libc::POLLOUT == 0 {
            all.push((number, Side::Reads));
        }
        if events & libc::POLLOUT != 0 {
            all.push((number, Side::Writes));
        }
    }
    Some(all)
}

fn selected(
    memory: Memory,
    count: u64,
    reads: u64,
    writes: u64,
    excepts: u64,
) -> Option<Vec<(u64, Side)>> {
    let count = count & 0xffff_ffff;
    if count > 1024 || excepts != 0 {
        return None;
    }
    let length = usize::try_from(count.div_ceil(8)).ok()?;
    let mut all = Vec::new();
    for (set, side) in [(reads, Side::Reads), (writes, Side::Writes)] {
        if set == 0 {
            continue;
        }
        let bytes = memory.read(set, length);
        if bytes.len() < length {
            return None;
        }
        let is_set = |number: &u64| {
            let byte = usize::try_from(number / 8)
                .ok()
                .and_then(|at| bytes.get(at));
            byte.is_some_and(|byte| byte >> (number % 8) & 1 == 1)
        };
        all.extend((0..count).filter(is_set).map(|number| (number, side)));
    }
    Some(all)
}

/// The descriptors that an epoll instance watches.
fn watched(thread: u32, number: u64) -> Option<Vec<(u64, Side)>> {
    let text = fs::read_to_string(format!("/proc/{thread}/fdinfo/{number}")).ok()?;
    let lines = text.lines().filter(|line| line.starts_with("tfd:"));
    lines
        .map(|line| {
            let mut fields = line.split_whitespace();
            let number = fields.nth(1)?.parse().ok()?;
            let events = u32::from_str_radix(fields.nth(1)?, 16).ok()?;
            let writes = events & libc::EPOLLOUT.cast_unsigned() != 0;
            let reads = events & libc::EPOLLIN.cast_unsigned() != 0;
            match (reads, writes) {
                // Either may let it go on; one entry stands for one side only.
                (true, true) => None,
                (_, true) => Some((number, Side::Writes)),
                _ => Some((number, Side::Reads)),
            }
        })
        .collect()
}

/// The processes that hold each pipe or socket.
fn all_held() -> Held {
    let mut holders = Holders::new();
    let mut with_hidden = HashSet::new();
    let mut with_requests = HashSet::new();
    for pid in process::all() {
        let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            let mut at = pid;
            while let Some(parent) = process::parent(at).filter(|parent| *parent != 0) {
                if !with_hidden.insert(parent) {
                    break;
                }
                at = parent;
            }
            continue;
        };
        for entry in entries.flatten() {
            let Ok(link) = fs::read_link(entry.path()) else {
                continue;
            };
            let Some(link) = link.to_str() else { continue };
            if link == "anon_inode:[io_uring]" {
                with_requests.insert(pid);
            }
            let number = entry.file_name();
            let number = number.to_string_lossy();
            let Some(name) = name_of(pid, &number, link) else {
                continue;
            };
            let (reads, writes) = modes(pid, &number);
            holders.entry(name).or_default().push((pid, reads, writes));
        }
    }
    Held {
        holders,
        with_hidden,
        with_requests,
    }
}

/// Whether a descriptor may be read, and written.
fn modes(pid: u32, number: &str) -> (bool, bool) {
    let text = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).unwrap_or_default();
    let flags = text
        .lines()
        .find_map(|line| line.strip_prefix("flags:"))
        .and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    match flags.map(|flags| flags & libc::O_ACCMODE) {
        Some(libc::O_RDONLY) => (true, false),
        Some(libc::O_WRONLY) => (false, true),
        _ => (true, true),
    }
}
