//! Chains of callers, and the numbers that stand for them.

use sbt_common::{CHAIN, Callers};

use super::{Called, Decoder, Known};
use sbt_engine::event::{CallersId, Event};

/// A record may come so many epochs late.
const EPOCHS: usize = 16;

impl Decoder {
    /// The callers of an arrival.
    pub(super) fn callers(
        &mut self,
        thread: Known,
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
            // Its record was stamped in the same nanosecond, if it exists.
            return match chain {
                Some(chain) => self.introduce(thread.process, key, chain, out),
                None => self.introduce(thread.process, (thread.space, 0, epoch), [].into(), out),
            };
        }
        let addresses = [caller];
        let known = if caller == 0 { &[][..] } else { &addresses };
        self.introduce(thread.process, key, known.into(), out)
    }

    /// How many functions were walked for it, beyond the first.
    pub(super) fn walked(&self, caller: u64, epoch: u32) -> u32 {
        if caller & CHAIN == 0 {
            return 0;
        }
        let chain = self.chains.get(&(caller, epoch));
        let beyond = chain.map_or(0, |chain| chain.len().saturating_sub(1));
        u32::try_from(beyond).unwrap_or(0)
    }

    pub(super) fn chain(&mut self, record: &Callers) {
        // A thread may tell of a chain that another is just telling of.
        let count = usize::try_from(record.count).unwrap_or(usize::MAX);
        let addresses = &record.addresses[..count.min(record.addresses.len())];
        self.enter(record.epoch);
        self.chains
            .insert((record.key, record.epoch), addresses.into());
    }

    /// The number of what is called so, which is a new one if it is new.
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

    /// Takes note of an epoch, and forgets the oldest for a new one: a program
    /// that loads and unloads libraries all the time has no end of them.
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
