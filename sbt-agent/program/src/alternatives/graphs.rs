//! The decoded functions of a file: each function is decoded once, however many pairs of its calls
//! are compared.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
};

use super::graph::Graph;

/// The most instructions that are kept for a file, at some 100 bytes each. Above that all functions
/// are dropped, and decoded again on demand.
const MAX_KEPT: usize = 1 << 17;

/// Decoded functions, by start address.
#[derive(Debug, Default)]
pub(crate) struct Graphs {
    known: RefCell<HashMap<u64, Option<Rc<Graph>>>>,
    /// Instructions in all kept functions, plus one for each function.
    kept: Cell<usize>,
    /// The number of functions that have been decoded.
    decoded: Cell<u64>,
}

impl Graphs {
    /// The graph of the function at `start`; `decode` is called if the function is not kept.
    pub(super) fn get(
        &self,
        start: u64,
        decode: impl FnOnce() -> Option<Graph>,
    ) -> Option<Rc<Graph>> {
        if let Some(known) = self.known.borrow().get(&start) {
            return known.clone();
        }
        let graph = decode().map(Rc::new);
        self.decoded.set(self.decoded.get() + 1);
        let size = graph.as_ref().map_or(1, |graph| 1 + graph.nodes.len());
        if self.kept.get().saturating_add(size) > MAX_KEPT {
            self.known.borrow_mut().clear();
            self.kept.set(0);
        }
        self.kept.set(self.kept.get() + size);
        self.known.borrow_mut().insert(start, graph.clone());
        graph
    }

    /// The number of functions that have been decoded so far.
    #[cfg(test)]
    pub(super) fn decoded(&self) -> u64 {
        self.decoded.get()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Code, Imports, Segment, relation};
    use super::*;
    use crate::debuginfo::Symbol;
    use sbt_engine::recognise::Relation;

    const AT: u64 = 0x1000;
    /// Size of each function, bytes.
    const SIZE: u64 = 2048;
    const FUNCTIONS: u64 = 4;

    /// Functions that wait and wake at many places, some by a test and some in turn; with the
    /// return addresses of the waits and of the wakes.
    fn program() -> (Vec<u8>, Vec<u64>, Vec<u64>) {
        let (mut code, mut waits, mut wakes) = (Vec::new(), Vec::new(), Vec::new());
        for function in 1..=FUNCTIONS {
            for place in 0..20 {
                // sub dword ptr [rip + 0x10000], 1, which counts the thread that arrives; je over
                // the wait and a jump over the wake
                code.extend([0x83, 0x2d, 0, 0, 1, 0, 1]);
                if place % 3 > 0 {
                    code.extend([0x74, 0x07]);
                }
                let call = |code: &mut Vec<u8>, to: u64, returns: &mut Vec<u64>| {
                    let next = AT + code.len() as u64 + 5;
                    code.push(0xe8);
                    let distance = u32::try_from(to.wrapping_sub(next) & 0xffff_ffff).unwrap();
                    code.extend(distance.to_le_bytes());
                    returns.push(next);
                };
                call(&mut code, 0x9000, &mut waits);
                if place % 3 > 0 {
                    code.extend([0xeb, 0x05]);
                }
                call(&mut code, 0xa000, &mut wakes);
            }
            code.resize(usize::try_from(function * SIZE).unwrap(), 0x90);
            *code.last_mut().unwrap() = 0xc3;
        }
        (code, waits, wakes)
    }

    #[test]
    fn each_function_is_decoded_once_and_all_pairs_are_told_as_if_it_were_each_time() {
        let (image, waits, wakes) = program();
        let length = image.len() as u64;
        let segments = [Segment {
            vaddr: AT,
            offset: 0,
            filesz: length,
            memsz: length,
            executable: true,
        }];
        let function = |address: u64| {
            let start = AT + address.checked_sub(AT)? / SIZE * SIZE;
            (address < AT + length).then(|| Symbol {
                name: String::new(),
                start,
                size: SIZE,
            })
        };
        let imports = Imports::default();
        let with = |graphs: &Graphs, wait, wake| {
            let code = Code {
                image: &image,
                segments: &segments,
                imports: &imports,
                graphs,
                function: &function,
                named: &|_| None,
            };
            relation(&code, wait, wake, false)
        };
        let once = Graphs::default();
        let mut alternatives = 0;
        for wait in &waits {
            for wake in &wakes {
                let found = with(&once, *wait, *wake);
                assert_eq!(found, with(&Graphs::default(), *wait, *wake));
                alternatives += usize::from(found == Relation::Alternatives);
            }
        }
        assert!(alternatives > 0 && alternatives < waits.len() * wakes.len() / 4);
        assert_eq!(once.decoded(), FUNCTIONS);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let graphs = Graphs::default();
        let big = || Some(Graph::new(&vec![0x90; MAX_KEPT / 4], 0, |_| HashMap::new()));
        for start in 0..20 {
            assert!(graphs.get(start, big).is_some());
            assert!(graphs.kept.get() <= MAX_KEPT);
        }
        assert!(graphs.known.borrow().len() < 5);
    }
}
