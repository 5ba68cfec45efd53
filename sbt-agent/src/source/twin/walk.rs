//! Finds the callers of callers; `sbt-ebpf/src/walk.rs` explains how.

use std::collections::HashMap;

use rustc_hash::FxHashMap;
use sbt_common::{CHAIN, CODE_AROUND, Caller, Callers, Code, Frame, MAX_CALLERS, Rule, kind};

use super::{Hit, Machine, tell::head};

/// The number of addresses and chains that are remembered. Programs have fewer, but a program that
/// generates code must not fill sbt's memory.
const REMEMBERED: usize = 65_536;

/// Rules of unwinding, and what was found by them.
#[derive(Debug, Default)]
pub struct Walks {
    rules: HashMap<Code, Rule>,
    /// Rules by memory and return address.
    addresses: FxHashMap<(u32, u64), Rule>,
    chains: HashMap<Box<[u64]>, u64>,
    given: u64,
    epoch: u32,
}

impl Walks {
    /// Adds rules, and removes those that are `None`.
    pub fn learn(&mut self, changes: impl IntoIterator<Item = (Code, Option<Rule>)>) {
        for (code, rule) in changes {
            match rule {
                Some(rule) => self.rules.insert(code, rule),
                None => self.rules.remove(&code),
            };
        }
        self.epoch = self.epoch.wrapping_add(1);
        self.renew();
        // Chains of the new epoch must be sent again.
        self.repeat();
    }

    /// Forgets rules by address: other code may lie there from now on.
    pub fn renew(&mut self) {
        self.addresses.clear();
    }

    /// Sends each chain again when it is next found, since records of chains may have been lost.
    pub fn repeat(&mut self) {
        self.chains.clear();
    }

    /// The key of the callers of a function (see [`sbt_common::Arrive::caller`]), and the epoch.
    pub fn callers(&mut self, from: Caller, hit: &mut Hit<'_, impl Machine>) -> (u64, u32) {
        let machine = hit.machine;
        let innermost = from.address;
        if self.rules.is_empty() {
            return (innermost, self.epoch);
        }
        let mut frame = Frame {
            rsp: from.at.wrapping_add(8),
            rbp: from.rbp,
            address: innermost,
        };
        let mut addresses = vec![innermost];
        while addresses.len() < MAX_CALLERS {
            let rule = self.rule(frame.address, machine, hit.slot.space);
            match rule.step(&frame, |at| Some(machine.word(at))) {
                Some(caller) if caller.address != 0 => frame = caller,
                _ => break,
            }
            addresses.push(frame.address);
        }
        if addresses.len() == 1 {
            return (innermost, self.epoch);
        }
        if let Some(key) = self.chains.get(&addresses[..]) {
            return (*key, self.epoch);
        }
        if self.chains.len() >= REMEMBERED {
            self.chains.clear();
        }
        self.given += 1;
        let key = CHAIN | self.given;
        let mut all = [0; MAX_CALLERS];
        all[..addresses.len()].copy_from_slice(&addresses);
        hit.out.push(&Callers {
            head: head(kind::CALLERS, 0, hit.slot.tid, 0),
            time_ns: hit.now.time_ns,
            key,
            count: u32::try_from(addresses.len()).unwrap_or(0),
            epoch: self.epoch,
            addresses: all,
        });
        self.chains.insert(addresses.into(), key);
        (key, self.epoch)
    }

    fn rule(&mut self, address: u64, machine: &impl Machine, space: u32) -> Rule {
        if let Some(rule) = self.addresses.get(&(space, address)) {
            return *rule;
        }
        let mut code = Code {
            in_page: address & 0xfff,
            bytes: [0; 2 * CODE_AROUND],
        };
        let none = Rule::default();
        let from = address.wrapping_sub(CODE_AROUND as u64);
        if !machine.read(from, &mut code.bytes) {
            return none;
        }
        let rule = self.rules.get(&code).copied().unwrap_or(none);
        if self.addresses.len() >= REMEMBERED {
            self.addresses.clear();
        }
        self.addresses.insert((space, address), rule);
        rule
    }
}
