//! Programs that stand still, each for one reason, with the expected report; and the same programs
//! without the reason.

use super::{
    samples::*,
    scene::{BarrierSeen, Doing, Holder, Member, Past, Scene, ThreadId, VariableSeen, WaitFor},
    *,
};
use crate::{
    event::Kind,
    report::{BlockedOnKind, HangCause, HangKind, HangThreadState},
};

mod asleep;
mod barriers;
mod judged;
mod locks;
mod memory;
mod moving;
mod ranks;
mod shown;
mod spinning;
mod torn;

fn names(threads: &[crate::report::HangThreadReport]) -> Vec<&str> {
    threads
        .iter()
        .map(|thread| thread.who.name.as_str())
        .collect()
}
