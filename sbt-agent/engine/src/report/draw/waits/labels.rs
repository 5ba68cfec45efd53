//! Names of threads that were looked at.

use std::collections::HashMap;

use crate::{
    looks::{Found, ThreadId},
    report::Report,
};

/// Names of threads as the text report has them.
pub(super) struct Labels(HashMap<ThreadId, (Option<u32>, String)>);

impl Labels {
    pub(super) fn new(found: &Found, report: &Report) -> Self {
        let known: HashMap<ThreadId, _> = report
            .threads
            .iter()
            .filter(|thread| thread.threads == 1)
            .map(|thread| {
                let who = ThreadId {
                    process: thread.pid,
                    thread: thread.tid,
                };
                (who, (Some(thread.id), thread.label.clone()))
            })
            .collect();
        let mut processes: Vec<u32> = found.threads.iter().map(|seen| seen.who.process).collect();
        processes.dedup();
        let mut labels = HashMap::new();
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        for seen in &found.threads {
            let who = seen.who;
            let number = numbers.entry(who.process).or_default();
            let label = match known.get(&who) {
                Some(known) => known.clone(),
                None if !known.is_empty() && who.thread == who.process => {
                    (None, "the main thread".into())
                }
                None if !known.is_empty() => (None, format!("thread {}", who.thread)),
                None => {
                    let at = processes.iter().position(|process| *process == who.process);
                    let label = match at {
                        Some(at) if processes.len() > 1 => format!("{at}.{number}"),
                        _ => format!("T{number}"),
                    };
                    (None, label)
                }
            };
            *number += 1;
            labels.insert(who, label);
        }
        Self(labels)
    }

    /// The name of a thread.
    pub(super) fn of(&self, who: ThreadId) -> String {
        let found = self.0.get(&who).map(|known| known.1.clone());
        found.unwrap_or_else(|| format!("thread {}", who.thread))
    }

    /// The id of a thread in `threads` of the report.
    pub(super) fn id(&self, who: ThreadId) -> Option<u32> {
        self.0.get(&who).and_then(|known| known.0)
    }
}
