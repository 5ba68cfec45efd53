//! Places in the program's source, and how to name them.

use serde::{Deserialize, Serialize};

mod function;
mod lock;
mod shorten;
mod spin;
mod text;

pub use function::NamedFunction;
pub use lock::LockKind;
pub use shorten::{REGION, shortened, written_by_user};
pub use spin::{NoFunction, SpinPlace};
pub use text::{is_printable, printable, short};

/// A function that is being executed, with the current line.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// The demangled name, if known.
    pub function: Option<String>,
    /// The source file as the compiler recorded it, if known.
    pub file: Option<String>,
    /// The line, from 1, if known.
    pub line: Option<u32>,
    /// Whether the function was inlined into the next frame.
    pub inlined: bool,
}

/// A place from which a barrier is called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// File name of the program or library that contains the calling code.
    pub binary: String,
    /// Address of the first call seen from this place, in the file's own numbering (as `nm` and
    /// `objdump` print it).
    pub offset: u64,
    /// Offset of that address from the start of its function, if known.
    pub into_function: Option<u64>,
    /// Whether the function is known to work before the call, however short the function is.
    #[serde(default, skip_serializing_if = "is_false")]
    pub works_before: bool,
    /// The frame of the caller first, then the functions into which it was inlined or from which it
    /// was called.
    pub frames: Vec<Frame>,
    /// The calls that led to the first call, innermost first, as far as sbt looked for them.
    pub outer: Vec<Call>,
    /// Whether the place is in the C library or in a runtime, where a team's threads end what
    /// another thread began. Such a place does not name a site that has other places.
    pub of_runtime: bool,
}

/// A call through which the program came to a place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Call {
    /// As [`Place::binary`].
    pub binary: String,
    /// As [`Place::offset`].
    pub offset: u64,
    /// As [`Place::into_function`].
    pub into_function: Option<u64>,
    /// As [`Place::works_before`].
    #[serde(default, skip_serializing_if = "is_false")]
    pub works_before: bool,
    /// Index into [`Place::frames`] of the first frame that belongs to this call.
    pub frame: usize,
}

/// One of the calls of a place.
#[derive(Clone, Copy, Debug)]
pub struct CallView<'a> {
    /// As [`Place::binary`].
    pub binary: &'a str,
    /// As [`Place::offset`].
    pub offset: u64,
    /// As [`Place::into_function`].
    pub into_function: Option<u64>,
    /// The frames of the call. Without debug information there is none, or one in which nothing is
    /// known.
    pub frames: &'a [Frame],
}

/// The features that distinguish a frame from others in a report.
#[derive(PartialEq, Eq)]
struct Shown<'a> {
    /// Compared first, because most frames differ in their line.
    line: Option<u32>,
    function: Option<&'a str>,
    file: Option<&'a str>,
    /// Set only where the line is unknown.
    address: Option<(&'a str, u64)>,
}

/// The code size in bytes within which a mere wrapper reaches its barrier. A barrier made of a
/// mutex and a condition variable takes 100 to 250 bytes if not optimised.
const WRAPPER: u64 = 256;

/// The most callers that tell a place apart from others.
const MOST_TOLD: usize = 3;

impl Place {
    /// The key that distinguishes two places. Where lines are known this is the chain of lines, no
    /// matter to how many addresses the compiler has copied it; else it is the address.
    #[must_use]
    pub fn key(&self) -> Self {
        let has_line = |frame: usize| {
            self.frames
                .get(frame)
                .is_some_and(|shown| shown.line.is_some())
        };
        let outer = self.outer.iter().map(|call| Call {
            offset: if has_line(call.frame) { 0 } else { call.offset },
            into_function: None,
            works_before: false,
            ..call.clone()
        });
        Self {
            offset: if has_line(0) { 0 } else { self.offset },
            into_function: None,
            works_before: false,
            outer: outer.collect(),
            ..self.clone()
        }
    }

    /// Adds the call that led to the outermost call so far, with its frames as far as known.
    pub fn add_caller(&mut self, call: Call, frames: Vec<Frame>) {
        // Each call has at least one frame, even if nothing is known about it.
        if self.frames.is_empty() {
            self.frames.push(Frame::default());
        }
        let frame = self.frames.len();
        self.outer.push(Call { frame, ..call });
        if frames.is_empty() {
            self.frames.push(Frame::default());
        }
        self.frames.extend(frames);
    }

    /// Removes the outermost calls if only the language's own library made them: they are the code
    /// that begins a thread, and of no interest.
    pub fn drop_outer_library(&mut self) {
        while let Some(last) = self.outer.last()
            && self.frames[last.frame..].iter().all(Frame::is_of_library)
        {
            self.frames.truncate(last.frame);
            self.outer.pop();
        }
    }

    /// The calls of the place, innermost first.
    pub fn calls(&self) -> impl Iterator<Item = CallView<'_>> {
        let first = (&self.binary, self.offset, self.into_function, 0);
        let outer = self.outer.iter();
        let outer = outer.map(|call| (&call.binary, call.offset, call.into_function, call.frame));
        let starts = self.outer.iter().map(|call| call.frame);
        let ends = starts.chain([self.frames.len()]);
        std::iter::once(first).chain(outer).zip(ends).map(
            |((binary, offset, into_function, start), end)| CallView {
                binary,
                offset,
                into_function,
                frames: self.frames.get(start..end).unwrap_or_default(),
            },
        )
    }

    /// The binary of a frame, and the address of the call in the frame or in what the frame was
    /// inlined into: see [`Place::binary`] and [`Place::offset`].
    pub fn address(&self, frame: usize) -> (&str, u64) {
        let call = self.outer.iter().rfind(|call| call.frame <= frame);
        call.map_or((&self.binary, self.offset), |call| {
            (&call.binary, call.offset)
        })
    }

    /// [`Place::into_function`] of the call to which a frame belongs.
    pub fn into_function_at(&self, frame: usize) -> Option<u64> {
        let call = self.outer.iter().rfind(|call| call.frame <= frame);
        call.map_or(self.into_function, |call| call.into_function)
    }

    /// The first `depth` frames as a report shows them, without addresses if lines are known.
    fn lines(&self, depth: usize) -> Vec<Shown<'_>> {
        (0..depth.min(self.frames.len()))
            .map(|index| self.shown(index))
            .collect()
    }

    /// Whether the first `depth` frames look the same as those of another place. Each place is
    /// compared with all others, so this does not allocate.
    fn agrees(&self, depth: usize, other: &Self) -> bool {
        let length = |place: &Self| depth.min(place.frames.len());
        length(self) == length(other)
            && (0..length(self)).all(|index| self.shown(index) == other.shown(index))
    }

    fn shown(&self, index: usize) -> Shown<'_> {
        let frame = &self.frames[index];
        Shown {
            line: frame.line,
            function: frame.function.as_deref(),
            file: frame.file.as_deref(),
            address: frame.line.is_none().then(|| self.address(index)),
        }
    }

    /// The place as a user would write it: by line, else by function, else by address.
    pub fn written(&self, others: &[&Self]) -> String {
        self.written_at(self.naming_frame(others))
    }

    /// A frame as a user would write it: by line, else by function, else by address.
    pub fn written_at(&self, index: usize) -> String {
        let frame = self.frames.get(index);
        let line = frame.and_then(|frame| frame.file.as_deref().zip(frame.line));
        match (line, frame.and_then(|frame| frame.function.as_deref())) {
            (Some((file, line)), _) => format!("{}:{line}", printable(short(file))),
            (None, Some(function)) => printable(&shortened(function)),
            (None, None) => self.written_address(index),
        }
    }

    /// The address of a frame as a user would write it.
    pub fn written_address(&self, frame: usize) -> String {
        let (binary, offset) = self.address(frame);
        format!("{}+{offset:#x}", printable(binary))
    }

    /// The frame that names this place among others: the innermost frame that is not a wrapper.
    ///
    /// A wrapper hides which code waits. It is either a caller of the barrier that was inlined from
    /// another source file, or a short function through which several places go. A function that
    /// does more work before the barrier is a phase in its own right, whoever calls it. A phase
    /// that is inlined from the same file into a thread's main function still names its barrier; so
    /// does each of several barriers in a function with several callers.
    ///
    /// Functions of the language's own library name a place only if all frames are such functions:
    /// a thread's main function is inlined into some of them.
    pub fn naming_frame(&self, others: &[&Self]) -> usize {
        let depths = self.own_frames();
        let is_wrapper = |depth: usize, outer: usize| {
            let (frame, outside) = (&self.frames[depth], &self.frames[outer]);
            // Only inside of the innermost call: further out, a function that is inlined into a
            // team's or a thread's function is the program's own code.
            let is_first = self.outer.first().is_none_or(|call| outer < call.frame);
            is_first && frame.inlined && outside.file.is_some() && frame.file != outside.file
                || self.is_shared(depth, others)
                    && !self.is_ambiguous(outer, others)
                    && !self.works_before(depth)
        };
        depths
            .windows(2)
            .find(|pair| !is_wrapper(pair[0], pair[1]))
            .map_or(depths.last().copied().unwrap_or(0), |pair| pair[0])
    }

    /// The outer frames that distinguish this place from others with the same naming frame, innermost
    /// first: `a.c:60 from a.c:90`; `None` if there is no need.
    pub fn told_apart_by(&self, others: &[&Self]) -> Option<String> {
        let name = self.naming_frame(others);
        let through = others.iter().filter(|other| self.goes_through(name, other));
        let mut alike: Vec<&Self> = through.copied().collect();
        let mut told = Vec::new();
        for depth in self.own_frames().into_iter().filter(|depth| *depth > name) {
            let (same, different): (Vec<&Self>, Vec<&Self>) = alike
                .into_iter()
                .partition(|other| self.agrees(depth + 1, other));
            // A place whose callers are not known so far out may be the same.
            let differs = |other: &&Self| other.frames.len() > depth;
            if !different.is_empty() && told.is_empty() || different.iter().any(differs) {
                told.push(self.written_beside(depth, &different));
            }
            // One address tells nobody more than another.
            let is_address = self.frames[depth].function.is_none();
            if told.len() == MOST_TOLD || is_address && !told.is_empty() {
                break;
            }
            alike = same;
        }
        (!told.is_empty()).then(|| told.join(" from "))
    }

    /// A frame as a user would write it, with its address if only that tells it from the frames of
    /// others.
    fn written_beside(&self, depth: usize, others: &[&Self]) -> String {
        let written = self.written_at(depth);
        let has_function = |place: &Self| {
            let frame = place.frames.get(depth);
            frame.is_some_and(|frame| frame.line.is_none() && frame.function.is_some())
        };
        let looks_same = |other: &&Self| has_function(other) && other.written_at(depth) == written;
        if has_function(self) && others.iter().any(looks_same) {
            format!("{written} ({})", self.written_address(depth))
        } else {
            written
        }
    }

    /// The innermost frame outside of a frame about which nothing is known that has a function or a
    /// line; `None` if something is known of the frame itself.
    pub fn named_around(&self, depth: usize) -> Option<usize> {
        let is_known = |depth: &usize| {
            let frame = self.frames.get(*depth);
            frame.is_some_and(|frame| frame.function.is_some() || frame.line.is_some())
        };
        if is_known(&depth) {
            return None;
        }
        (depth + 1..self.frames.len()).find(is_known)
    }

    /// The frames outside of the language's own library; all frames if there are none.
    fn own_frames(&self) -> Vec<usize> {
        let all = 0..self.frames.len();
        let own: Vec<usize> = all
            .clone()
            .filter(|depth| !self.frames[*depth].is_of_library())
            .collect();
        if own.is_empty() { all.collect() } else { own }
    }

    /// Whether the function of a frame does more than reach the call in it.
    fn works_before(&self, depth: usize) -> bool {
        let call = self.outer.iter().rfind(|call| call.frame <= depth);
        // `works_before` is known for the whole function, not for a function inlined into it.
        let is_function = !self.frames[depth].inlined;
        is_function && call.map_or(self.works_before, |call| call.works_before)
            || self
                .into_function_at(depth)
                .is_some_and(|bytes| bytes > WRAPPER)
    }

    /// Whether another place has the same frames up to this depth, but differs further out.
    fn goes_through(&self, depth: usize, other: &Self) -> bool {
        let all = self.frames.len();
        self.agrees(depth + 1, other) && !self.agrees(all, other)
    }

    fn is_shared(&self, depth: usize, others: &[&Self]) -> bool {
        others.iter().any(|other| self.goes_through(depth, other))
    }

    /// Whether another place reaches this frame's line through other callees.
    fn is_ambiguous(&self, depth: usize, others: &[&Self]) -> bool {
        let this = self.shown(depth);
        others.iter().any(|other| {
            (0..other.frames.len())
                .any(|at| other.shown(at) == this && other.lines(at) != self.lines(depth))
        })
    }
}

/// Recordings leave out flags that are false.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde demands this signature"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Frame {
    /// Whether the code came with the compiler or the system: installed headers and sources, and
    /// Rust's standard library under any path.
    pub fn is_of_library(&self) -> bool {
        self.file.as_deref().is_some_and(is_of_library)
    }
}

/// Whether a source file came with the compiler or the system: see [`Frame::is_of_library`].
pub fn is_of_library(file: &str) -> bool {
    file.starts_with("/usr/include/")
        || file.starts_with("/usr/lib/")
        || file.starts_with("/rustc/")
        || file.contains("/include/c++/")
        || file.contains("/rustlib/src/rust/library/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(frames: &[(&str, u32)]) -> Place {
        Place {
            of_runtime: false,
            binary: "prog".into(),
            offset: 0x10,
            into_function: None,
            works_before: false,
            outer: Vec::new(),
            frames: frames
                .iter()
                .map(|(function, line)| Frame {
                    function: Some((*function).into()),
                    file: Some("a.c".into()),
                    line: Some(*line),
                    inlined: false,
                })
                .collect(),
        }
    }

    #[test]
    fn a_wrapper_used_from_two_places_names_neither() {
        let a = place(&[("sync", 5), ("factor", 40), ("main", 90)]);
        let b = place(&[("sync", 5), ("update", 60), ("main", 91)]);
        assert_eq!(a.naming_frame(&[&a, &b]), 1);
        assert_eq!(b.naming_frame(&[&a, &b]), 1);
        assert_eq!(a.naming_frame(&[&a]), 0);
    }

    #[test]
    fn one_of_several_barriers_in_a_shared_function_names_itself_and_who_called() {
        let places = [(12, 50), (12, 60), (20, 50), (20, 60)]
            .map(|(line, caller)| place(&[("step", line), ("main", caller)]));
        let all: Vec<&Place> = places.iter().collect();
        for place in &places {
            assert_eq!(place.naming_frame(&all), 0);
        }
        assert_eq!(places[1].told_apart_by(&all).as_deref(), Some("a.c:60"));
        let (a, b) = (&places[0], &places[2]);
        assert_eq!(a.told_apart_by(&[a, b]), None);
    }

    #[test]
    fn callers_tell_a_place_apart_from_all_others() {
        let through = |first, second| {
            place(&[
                ("gain", 451),
                ("local", first),
                ("cluster", second),
                ("main", 9),
            ])
        };
        let places = [through(626, 1), through(626, 2), through(640, 2)];
        let all: Vec<&Place> = places.iter().collect();
        let mut names: Vec<String> = places
            .iter()
            .map(|place| crate::report::place_names::name(place, &all))
            .collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 3, "{names:?}");
        let mut deep = places[0].clone();
        deep.works_before = true;
        let others = [&places[1], &places[2]];
        assert_eq!(
            deep.told_apart_by(&others).as_deref(),
            Some("a.c:626 from a.c:1")
        );
    }

    #[test]
    fn a_call_of_an_unknown_function_is_named_by_the_function_around() {
        let mut place = place(&[]);
        let call = Call {
            binary: "lib.so".into(),
            offset: 0x8cf,
            into_function: None,
            works_before: false,
            frame: 0,
        };
        let blur = Frame {
            function: Some("BlurImage".into()),
            ..Frame::default()
        };
        place.add_caller(call, vec![blur]);
        assert_eq!(place.named_around(0), Some(1));
        assert_eq!(place.named_around(1), None);
        assert_eq!(
            crate::report::place_names::name(&place, &[]),
            "prog+0x10 from BlurImage"
        );
    }

    #[test]
    fn without_names_calls_are_told_apart_by_their_addresses() {
        let through = |offset| {
            let mut place = place(&[]);
            let call = Call {
                binary: "prog".into(),
                offset,
                into_function: None,
                works_before: false,
                frame: 0,
            };
            place.add_caller(call, Vec::new());
            place
        };
        let (a, b) = (through(0x40), through(0x60));
        assert_ne!(a.key(), b.key());
        assert_eq!(a.written(&[&a, &b]), "prog+0x40");
        assert_eq!(a.written(&[&a]), "prog+0x10");
        let views: Vec<_> = a
            .calls()
            .map(|call| (call.offset, call.frames.len()))
            .collect();
        assert_eq!(views, [(0x10, 1), (0x40, 1)]);
        assert_eq!(place(&[]).calls().count(), 1);
    }

    #[test]
    fn what_began_the_thread_makes_no_other_place() {
        let caller = |place: &mut Place, offset, file: &str| {
            let call = Call {
                binary: "prog".into(),
                offset,
                into_function: None,
                works_before: false,
                frame: 0,
            };
            let frame = Frame {
                file: Some(file.into()),
                ..Frame::default()
            };
            place.add_caller(call, vec![frame]);
        };
        let mut short = place(&[("wait", 5)]);
        caller(&mut short, 0x40, "a.c");
        let mut long = short.clone();
        caller(&mut long, 0x60, "/usr/include/c++/12/thread");
        caller(&mut long, 0x80, "/usr/include/c++/12/thread");
        long.drop_outer_library();
        assert_eq!(long, short);
        short.drop_outer_library();
        assert_eq!(long, short, "and no more than that");
    }

    #[test]
    fn an_inlined_function_names_its_own_barrier() {
        let a = place(&[("factor", 40), ("main", 90)]);
        let b = place(&[("update", 60), ("main", 90)]);
        assert_eq!(a.naming_frame(&[&a, &b]), 0);
    }

    #[test]
    fn a_wrapper_inlined_from_another_file_does_not_name_the_only_site() {
        let mut a = place(&[("wait", 46), ("process_item", 104)]);
        a.frames[0].inlined = true;
        assert_eq!(a.naming_frame(&[&a]), 0, "a phase of the same file");
        a.frames[0].file = Some("barrier.h".into());
        assert_eq!(a.naming_frame(&[&a]), 1);
    }

    #[test]
    fn the_library_that_a_thread_begins_in_names_nothing() {
        let mut a = place(&[("operator()", 58), ("__invoke_impl", 61), ("_M_run", 210)]);
        for frame in &mut a.frames[1..] {
            frame.file = Some("/usr/include/c++/12/bits/invoke.h".into());
        }
        a.frames[0].inlined = true;
        a.frames[1].inlined = true;
        assert_eq!(a.naming_frame(&[&a]), 0);
        let mut b = a.clone();
        b.frames[0].line = Some(64);
        assert_eq!(a.naming_frame(&[&a, &b]), 0);
        // The barrier is in the library itself, and is called only from there.
        a.frames.remove(0);
        assert!(a.naming_frame(&[&a]) < 2);
        // The library's barrier is inlined into the program.
        let mut c = place(&[("arrive_and_wait", 30), ("work", 12), ("main", 40)]);
        c.frames[0].file = Some("/usr/include/c++/12/barrier".into());
        c.frames[0].inlined = true;
        assert_eq!(c.naming_frame(&[&c]), 1);
    }

    #[test]
    fn copies_of_one_line_are_one_place_and_unknown_lines_are_not() {
        let mut copy = place(&[("factor", 40)]);
        copy.offset = 0x99;
        assert_eq!(copy.key(), place(&[("factor", 40)]).key());
        let unknown = |offset| Place {
            offset,
            frames: Vec::new(),
            ..place(&[])
        };
        assert_ne!(unknown(1).key(), unknown(2).key());
    }

    #[test]
    fn names_from_the_target_cannot_drive_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\nc\u{202e}d"), "a?[2Jb?c?d");
    }
}
