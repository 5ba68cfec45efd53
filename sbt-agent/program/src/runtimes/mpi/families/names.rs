//! What communicators are called alike in all processes of a job, also where another sbt watches some of
//! them.

use sbt_engine::{job::WORLD, origin::MACHINE};

use super::{CommunicatorId, Families, Key};
use crate::runtimes::mpi::{groups::Group, parts::Part};

/// The longest name of a communicator, bytes. Communicators with a longer one have no name.
const LONGEST_NAME: usize = 512;

impl Families {
    /// The name that a communicator has alike in all processes of its job, also where other processes are
    /// watched apart; `None` for one that a process has for itself, and where that is not known.
    pub fn name_in_job(&self, id: CommunicatorId) -> Option<&str> {
        self.known.get(&id)?.name.as_deref()
    }

    /// The name in the job of a new communicator.
    pub(super) fn name_of(&self, key: &Key) -> Option<String> {
        let group = |group: &Group| {
            let of = self.name_in_job(group.of)?;
            Some(match &group.ranks {
                Some(ranks) => format!("{ranks:?} of {of}"),
                None => of.to_owned(),
            })
        };
        let Key::Part(turn, part) = key else {
            return matches!(key, Key::World(_)).then(|| WORLD.into());
        };
        let part = match part {
            Part::All => "all".into(),
            Part::Colour(colour) => format!("colour {colour}"),
            Part::Machine => MACHINE.into(),
            Part::Group(ranks) => group(ranks)?,
            Part::First(count) => format!("first {count}"),
            Part::Row(others, _) => format!("row {others:?}"),
            Part::Unknown => return None,
        };
        let by = match &turn.by {
            Some((ranks, tag)) => format!("({} tag {tag})", group(ranks)?),
            None => String::new(),
        };
        let name = format!("{}/{}{by}.{part}", self.name_in_job(turn.of)?, turn.number);
        (name.len() <= LONGEST_NAME).then_some(name)
    }
}
