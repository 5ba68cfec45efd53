//! Barriers that are the last act of a function: an optimising compiler makes a jump of the call, and
//! the barrier returns to the caller of the function. The call there says which function that was.

use std::collections::HashSet;

use super::{Files, Walks, barriers, names_of};
use crate::{
    calls::{Call, Calls},
    point::Function,
    runtimes::regions::BARRIERS,
};

/// The most jumps in a row that lead from a called function to a barrier.
const MAX_JUMPS: usize = 4;

/// The most ways from a function to barriers that are looked at.
const MAX_WAYS: usize = 16;

/// The ways by jumps from a function to a barrier, each with its last jump first.
fn ways(calls: &Calls, function: u64, to_barriers: &[Call]) -> Vec<Vec<Call>> {
    let mut ways: Vec<Vec<Call>> = to_barriers.iter().map(|jump| vec![*jump]).collect();
    let mut whole = Vec::new();
    for _ in 0..MAX_JUMPS {
        let mut longer = Vec::new();
        for way in ways {
            let Some(from) = way.last().and_then(|jump| calls.function(jump.from)) else {
                continue;
            };
            if from == function {
                whole.push(way);
                continue;
            }
            let before = calls.direct(from).into_iter().filter(|call| {
                !call.returns && calls.function(call.from).is_some_and(|other| other != from)
            });
            longer.extend(before.map(|jump| [way.as_slice(), &[jump]].concat()));
        }
        longer.truncate(MAX_WAYS);
        ways = longer;
    }
    whole
}

impl Walks {
    /// The ways by jumps from a function of a file to a barrier, each with its last jump first; no
    /// functions that are only a part of a barrier, as those of condition variables.
    pub(crate) fn tails(
        &mut self,
        files: &Files<'_>,
        number: usize,
        function: u64,
    ) -> Vec<Vec<Call>> {
        let Some((file, _)) = files.get(number) else {
            return Vec::new();
        };
        let is_whole = |function| matches!(function, Function::BarrierWait | Function::Call { .. });
        let all = files.iter().flat_map(|(file, _)| barriers(file));
        let names = all
            .filter(|point| is_whole(point.function))
            .flat_map(names_of);
        let names: HashSet<String> = names.chain(BARRIERS.map(str::to_owned)).collect();
        let own = barriers(file).filter(|point| is_whole(point.function));
        let own: Vec<u64> = own.map(|point| point.entry_offset).collect();
        if own.is_empty() && !file.imports_any(&names) {
            return Vec::new();
        }
        let Some((calls, unwind)) = self.calls(number, file).cloned().zip(file.unwind()) else {
            return Vec::new();
        };
        let by_name = names.iter().flat_map(|name| calls.imported(name));
        let starts = own
            .iter()
            .filter_map(|offset| unwind.function(unwind.address(*offset)?));
        let starts: Vec<u64> = starts.map(|barrier| barrier.start).collect();
        // A barrier that the user has declared may jump to another: the thread arrived at the first.
        if starts.contains(&function) {
            return Vec::new();
        }
        let direct = starts.iter().flat_map(|start| calls.direct(*start));
        let to_barriers: Vec<Call> = by_name.chain(direct).filter(|call| !call.returns).collect();
        ways(&calls, function, &to_barriers)
    }
}
