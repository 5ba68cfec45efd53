//! Chains of callers, and the ids that stand for them.

use sbt_common::{CHAIN, Callers};

use super::{Called, Decoder, ThreadState};
use sbt_engine::event::{CallersId, Event};

/// For how many epochs chains are kept: records may come late.
const EPOCHS: usize = 16;

impl Decoder {
    /// The id of an arrival's callers. Emits their addresses if they are new.
    pub(super) fn callers(
        &mut self,
        thread: ThreadState,
        caller: u64,
        epoch: u32,
        out: &mut Vec<Event>,
    ) -> CallersId {
        let key = (thread.space, caller, epoch);
        if let Some(known) = self.callers.get(&key) {
            return *known;
        }
        if caller & CHAIN != 0 {
            let chain = self.chains.get(&(caller, epoch)).cloned();
            // The record of the chain, if there is one, was stamped in the same nanosecond.
            return match chain {
                Some(chain) => self.introduce(thread.process, key, chain, out),
                None => self.introduce(thread.process, (thread.space, 0, epoch), [].into(), out),
            };
        }
        let addresses = [caller];
        let known = if caller == 0 { &[][..] } else { &addresses };
        self.introduce(thread.process, key, known.into(), out)
    }

    /// How many functions beyond the first the kernel side walked to find these callers.
    pub(super) fn walked(&self, caller: u64, epoch: u32) -> u32 {
        if caller & CHAIN == 0 {
            return 0;
        }
        let chain = self.chains.get(&(caller, epoch));
        let beyond = chain.map_or(0, |chain| chain.len().saturating_sub(1));
        u32::try_from(beyond).unwrap_or(0)
    }

    pub(super) fn chain(&mut self, record: &Callers) {
        // Two threads may send the same chain at the same time.
        let count = usize::try_from(record.count).unwrap_or(usize::MAX);
        let addresses = &record.addresses[..count.min(record.addresses.len())];
        self.enter(record.epoch);
        self.chains
            .insert((record.key, record.epoch), addresses.into());
    }

    /// The id of this chain. A new chain gets an id, and its addresses are emitted.
    fn introduce(
        &mut self,
        process: u32,
        key: Called,
        addresses: Box<[u64]>,
        out: &mut Vec<Event>,
    ) -> CallersId {
        if let Some(known) = self.callers.get(&key) {
            return *known;
        }
        self.enter(key.2);
        let id = self.free.pop().unwrap_or_else(|| {
            let new = CallersId(self.known);
            self.known += 1;
            new
        });
        self.callers.insert(key, id);
        out.push(Event::Callers {
            id,
            process,
            addresses,
        });
        id
    }

    /// Notes an epoch. A new one beyond the limit makes the oldest forgotten: a program that keeps
    /// loading and unloading libraries has no end of epochs.
    fn enter(&mut self, epoch: u32) {
        if self.epochs.contains(&epoch) {
            return;
        }
        self.epochs.push_back(epoch);
        if self.epochs.len() > EPOCHS
            && let Some(oldest) = self.epochs.pop_front()
        {
            let gone = self.callers.extract_if(|(.., epoch), _| *epoch == oldest);
            self.free.extend(gone.map(|(_, id)| id));
            self.chains.retain(|(_, epoch), _| *epoch != oldest);
        }
    }
}
