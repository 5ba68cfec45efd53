//! Interns chains of functions that called each other: each chain gets a number. Pure.

use std::collections::HashMap;

use crate::{model::ids::ChainId, place::NamedFunction};

/// Largest number of functions and of chains; further ones become [`OTHER`].
const MAX_FUNCTIONS: usize = 1 << 14;
const MAX_CHAINS: usize = 1 << 13;

/// Largest length of a chain; the innermost functions are kept.
const MAX_LENGTH: usize = 128;

/// The number of a function.
pub type FunctionId = u32;

/// Stands for functions and chains beyond the limits.
pub const OTHER: FunctionId = 0;
/// Stands for callers that could not be followed.
pub const TRUNCATED: FunctionId = 1;
/// Stands for code about which nothing is known.
pub const UNKNOWN: FunctionId = 2;

/// Functions and chains of functions, by number.
#[derive(Clone, Debug)]
pub struct Chains {
    functions: Vec<NamedFunction>,
    ids: HashMap<NamedFunction, FunctionId>,
    /// The functions of each chain, the outermost first.
    all: Vec<Box<[FunctionId]>>,
    by_chain: HashMap<Box<[FunctionId]>, ChainId>,
}

impl Default for Chains {
    fn default() -> Self {
        let named = |function: &str| NamedFunction {
            function: function.into(),
            file: None,
            binary: "?".into(),
        };
        Self {
            functions: ["[other]", "[truncated]", "[unknown]"].map(named).into(),
            ids: HashMap::new(),
            // Chain number 0.
            all: vec![Box::new([OTHER])],
            by_chain: HashMap::new(),
        }
    }
}

impl Chains {
    /// The number of a chain whose innermost function comes first. `is_whole`: whether the chain is
    /// known down to the beginning of the thread.
    pub fn number(&mut self, functions: &[NamedFunction], is_whole: bool) -> ChainId {
        let kept = &functions[..functions.len().min(MAX_LENGTH)];
        let mut chain = Vec::with_capacity(kept.len() + 2);
        if !is_whole || kept.len() < functions.len() {
            chain.push(TRUNCATED);
        }
        chain.extend(kept.iter().rev().map(|function| self.function(function)));
        if kept.is_empty() {
            chain.push(UNKNOWN);
        }
        let chain = chain.into_boxed_slice();
        if let Some(known) = self.by_chain.get(&chain) {
            return *known;
        }
        if self.all.len() >= MAX_CHAINS {
            return ChainId(0);
        }
        let id = ChainId(u32::try_from(self.all.len()).unwrap_or(0));
        self.all.push(chain.clone());
        self.by_chain.insert(chain, id);
        id
    }

    fn function(&mut self, named: &NamedFunction) -> FunctionId {
        if let Some(known) = self.ids.get(named) {
            return *known;
        }
        if self.functions.len() >= MAX_FUNCTIONS {
            return OTHER;
        }
        let id = FunctionId::try_from(self.functions.len()).unwrap_or(OTHER);
        self.functions.push(named.clone());
        self.ids.insert(named.clone(), id);
        id
    }

    /// The functions of a chain, the outermost first.
    pub fn chain(&self, id: ChainId) -> &[FunctionId] {
        self.all.get(id.0 as usize).map_or(&[OTHER], |chain| chain)
    }

    /// The function with this number.
    pub fn named(&self, id: FunctionId) -> &NamedFunction {
        &self.functions[id as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(function: &str) -> NamedFunction {
        NamedFunction {
            function: function.into(),
            file: None,
            binary: "p".into(),
        }
    }

    #[test]
    fn equal_chains_have_one_number() {
        let mut chains = Chains::default();
        let [f, g] = ["f", "g"].map(named);
        let first = chains.number(&[f.clone(), g.clone()], true);
        assert_eq!(chains.number(&[f.clone(), g.clone()], true), first);
        let other = chains.number(&[g.clone(), f.clone()], true);
        let cut = chains.number(&[f, g], false);
        assert!(first != other && cut != first);
        let names = |id| -> Vec<&str> {
            let chain = chains.chain(id).iter();
            chain
                .map(|id| chains.named(*id).function.as_str())
                .collect()
        };
        assert_eq!(names(first), ["g", "f"]);
        assert_eq!(names(cut), ["[truncated]", "g", "f"]);
        assert_eq!(names(ChainId(0)), ["[other]"]);
    }

    #[test]
    fn what_is_too_much_is_one() {
        let mut chains = Chains::default();
        for number in 0..2 * MAX_CHAINS {
            chains.number(&[named(&number.to_string())], true);
        }
        assert_eq!(chains.number(&[named("another")], true), ChainId(0));
        let deep = vec![named("1"); 10 * MAX_LENGTH];
        assert!(chains.chain(chains.clone().number(&deep, true)).len() <= MAX_LENGTH + 1);
        assert_eq!(chains.chain(chains.clone().number(&[], false)), [OTHER]);
    }
}
