//! The functions that could be watched in a program: `sbt list PROG` and `sbt list PID`.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fmt::Write as _,
    path::Path,
    sync::Arc,
};

use super::{
    files::ProbedFile, libraries, process, sites::open_all, vdso, walks::Owner, wanted::Wanted,
};
use crate::access;
use crate::point::{Function, Point};
use crate::runtimes::{self, ALL};
use anyhow::bail;
use sbt_engine::{event::Kind, place::printable};

/// The most functions of a program that are searched for barriers.
const MOST_LOOKED_AT: usize = 200_000;

/// The most names that are shown.
const MOST_SHOWN: usize = 20;

/// The files of an executable program, or of a process.
///
/// # Errors
/// `of` is neither a program nor a process that sbt may look at.
pub fn files(of: &str) -> anyhow::Result<Vec<Arc<ProbedFile>>> {
    let path = std::env::var_os("PATH");
    let program = libraries::find_program(of.as_ref(), path.as_deref());
    match (program, of.parse()) {
        (Some(program), _) => {
            let paths = libraries::will_map(&program).certain;
            Ok(open_all(&paths, &Wanted::default()))
        }
        (None, Ok(pid)) => of_process(pid),
        (None, Err(_)) => bail!(
            "no executable program {} was found; give its path, a name that the shell finds, or \
             the number of a process",
            printable(of)
        ),
    }
}

fn of_process(pid: u32) -> anyhow::Result<Vec<Arc<ProbedFile>>> {
    let found = process::find(pid)?;
    access::target::is_process(found.pid);
    let mappings = process::mappings(found.pid);
    if mappings.is_empty() {
        bail!(
            "no permission to look at process {pid}; run sbt as the user of the process, or with \
            sudo"
        );
    }
    let mut known = HashSet::new();
    let mut closed = None;
    let mut files = Vec::new();
    for mapping in mappings.iter().filter(|mapping| !vdso::is(&mapping.path)) {
        match mapping.file(found.pid) {
            Ok(file) => files.extend(ProbedFile::read(file, &mapping.path).ok()),
            Err(why) => closed = closed.or(Some(why)),
        }
    }
    if let (true, Some(why)) = (files.is_empty(), closed) {
        bail!(
            "cannot read the files of process {pid}: {why}; run sbt as the user of the process, \
            or with sudo"
        );
    }
    files.retain(|file| known.insert(file.id));
    Ok(files.into_iter().map(Arc::new).collect())
}

/// The symbols by which the barriers of a kind are recognised in one file.
type Group = BTreeSet<String>;

/// The kind of barrier to which a point belongs; `None` if the point is not of a barrier.
fn kind(point: &Point) -> Option<Kind> {
    match point.function {
        Function::CondWait => Some(Kind::Condvar),
        Function::Team(team) => Some(runtimes::kind_of_arrival(point.layout, team.ends)),
        Function::BarrierWait | Function::Kmp(_) | Function::Call { .. } => {
            Some(runtimes::kind(point.layout))
        }
        _ => None,
    }
}

fn groups(file: &ProbedFile) -> BTreeMap<Kind, Group> {
    let mut groups: BTreeMap<Kind, Group> = BTreeMap::new();
    for point in &file.points {
        if let Some(kind) = kind(point) {
            groups.entry(kind).or_default().insert(point.symbol.clone());
        }
    }
    groups
}

/// The list as text; `of`: the program as the user has named it.
pub fn text(of: &str, files: &[Arc<ProbedFile>]) -> String {
    let mut out = format!("Barriers that sbt finds by itself in {}:\n", printable(of));
    let mut any = false;
    for file in files {
        for (kind, names) in groups(file) {
            any = true;
            let users = users(file, kind, &names, files);
            let _infallible = write!(
                out,
                "  {:<12}  {} in {}\n                {}\n",
                kind.name(),
                listed(names.iter().map(String::as_str)),
                printable(&file.shown.to_string_lossy()),
                by_whom(kind, file, &users),
            );
        }
    }
    if !any {
        out.push_str("  none\n");
    }
    out.push_str(
        "  condvar and futex barriers are recognised while the program runs, by how they are used\n",
    );
    out.push_str(&candidates(files));
    out
}

fn by_whom(kind: Kind, file: &ProbedFile, users: &[&Path]) -> String {
    if users.is_empty() {
        return if file.is_runtime() || matches!(kind, Kind::Condvar) {
            "not imported by any file of the program".into()
        } else {
            "called inside of that file".into()
        };
    }
    let names: Vec<_> = users.iter().map(|path| path.to_string_lossy()).collect();
    format!("called from {}", listed(names.iter().map(AsRef::as_ref)))
}

/// The other files that use one of these functions, or a function that leads to them.
fn users<'a>(
    file: &ProbedFile,
    kind: Kind,
    names: &Group,
    files: &'a [Arc<ProbedFile>],
) -> Vec<&'a Path> {
    // The functions that compilers call, for runtimes whose barriers are internal.
    let of_kind = ALL.iter().filter(|runtime| runtime.kind == kind);
    let ways = of_kind.flat_map(|runtime| runtime.ways);
    let ways = ways.map(|name| (*name).to_owned());
    let names: HashSet<String> = names.iter().cloned().chain(ways).collect();
    let others = files.iter().filter(|other| other.id != file.id);
    let users = others.filter(|other| other.imports_any(&names));
    users.map(|other| other.shown.as_path()).collect()
}

/// The user's own functions whose names contain "barrier".
fn candidates(files: &[Arc<ProbedFile>]) -> String {
    let mut names = BTreeSet::new();
    for (index, file) in files.iter().enumerate() {
        if Owner::of(&file.shown, index == 0) != Owner::User {
            continue;
        }
        let known: HashSet<&str> = file
            .points
            .iter()
            .map(|point| point.symbol.as_str())
            .collect();
        let all = file
            .debug_info()
            .map(|debug| debug.some_functions(MOST_LOOKED_AT));
        names.extend(
            all.unwrap_or_default()
                .into_iter()
                .filter(|name| name.to_lowercase().contains("barrier"))
                .filter(|name| !known.contains(name.as_str()) && !is_of_library(name)),
        );
    }
    if names.is_empty() {
        return String::new();
    }
    format!(
        "\nFunctions of the program itself with \"barrier\" in their name. If all threads wait for \
         each other\nin such a function, and not through the barriers above: sbt run --barrier \
         FUNCTION\n  {}\n",
        listed(names.iter().map(String::as_str))
    )
}

/// Whether a function is of a language's own library.
fn is_of_library(name: &str) -> bool {
    [
        "std::", "core::", "alloc::", "__", "gomp_", "GOMP_", "pthread_", "<",
    ]
    .iter()
    .any(|begin| name.starts_with(begin))
}

fn listed<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(MOST_SHOWN);
    let names: Vec<String> = names.take(MOST_SHOWN).map(printable).collect();
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    names.join(", ") + &more
}
