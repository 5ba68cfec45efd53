//! Offsets of a few fields in the running kernel's structures, from its BTF.
//!
//! A parser by hand, because general ones first build a table of every type of the kernel (120 ms;
//! this scan takes a few) while the target waits. Format: Documentation/bpf/btf.rst in the kernel's
//! sources.

use std::collections::HashMap;

use thiserror::Error;

/// Why the kernel's BTF could not be used.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum BtfError {
    /// The data is not BTF, or is cut short.
    #[error("the kernel's type information is not readable: {0}")]
    Malformed(&'static str),
}

const MALFORMED: BtfError = BtfError::Malformed("it ends in the middle of a type");

const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const KIND_FUNC: u32 = 12;

/// One member of a structure.
#[derive(Clone, Copy, Debug)]
struct Member {
    name: u32,
    type_id: u32,
    /// Bits from the start of the structure.
    bit_offset: u32,
}

/// The members of the structures and unions that were asked for, and of unnamed ones; and the numbers
/// of functions that were asked for.
pub struct Btf<'a> {
    strings: &'a [u8],
    /// Members by type id.
    structs: HashMap<u32, Vec<Member>>,
    by_name: HashMap<&'a [u8], u32>,
    functions: HashMap<&'a [u8], u32>,
}

fn word(data: &[u8], at: usize) -> Result<u32, BtfError> {
    let bytes = data
        .get(at..at + 4)
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or(MALFORMED)?;
    Ok(u32::from_le_bytes(bytes))
}

impl<'a> Btf<'a> {
    /// Scans BTF data for the structures and functions named in `wanted`, and for all unnamed
    /// structures and unions, which may be nested in the structures.
    pub fn parse(data: &'a [u8], wanted: &[&'a str]) -> Result<Self, BtfError> {
        if word(data, 0)? & 0xffff != 0xeb9f {
            return Err(BtfError::Malformed("wrong magic number"));
        }
        let header = word(data, 4)? as usize;
        let (type_off, type_len) = (word(data, 8)? as usize, word(data, 12)? as usize);
        let (str_off, str_len) = (word(data, 16)? as usize, word(data, 20)? as usize);
        let section = |offset: usize, len: usize| {
            let start = header.checked_add(offset).ok_or(MALFORMED)?;
            let end = start.checked_add(len).ok_or(MALFORMED)?;
            data.get(start..end).ok_or(MALFORMED)
        };
        let types = section(type_off, type_len)?;
        let strings = section(str_off, str_len)?;

        let mut btf = Self {
            strings,
            structs: HashMap::new(),
            by_name: HashMap::new(),
            functions: HashMap::new(),
        };
        let mut at = 0;
        let mut id = 0;
        while at < types.len() {
            id += 1;
            let name = word(types, at)?;
            let info = word(types, at + 4)?;
            let (kind, vlen) = ((info >> 24) & 0x1f, (info & 0xffff) as usize);
            let has_bitfields = info >> 31 != 0;
            at += 12;
            if kind == KIND_STRUCT || kind == KIND_UNION {
                let text = btf.string(name);
                let is_wanted = wanted.iter().any(|wanted| wanted.as_bytes() == text);
                if text.is_empty() || is_wanted {
                    let members = (0..vlen)
                        .map(|index| {
                            let member = at + index * 12;
                            let offset = word(types, member + 8)?;
                            Ok(Member {
                                name: word(types, member)?,
                                type_id: word(types, member + 4)?,
                                bit_offset: if has_bitfields {
                                    offset & 0x00ff_ffff
                                } else {
                                    offset
                                },
                            })
                        })
                        .collect::<Result<_, BtfError>>()?;
                    btf.structs.insert(id, members);
                    if is_wanted && kind == KIND_STRUCT {
                        btf.by_name.entry(text).or_insert(id);
                    }
                }
            }
            if kind == KIND_FUNC
                && let Some(text) = wanted.iter().find(|wanted| btf.is_named(name, wanted))
            {
                btf.functions.entry(text.as_bytes()).or_insert(id);
            }
            at += match kind {
                // INT, VAR, DECL_TAG: one word more.
                1 | 14 | 17 => 4,
                // ARRAY: three words.
                3 => 12,
                // STRUCT, UNION, DATASEC, ENUM64: three words a member.
                4 | 5 | 15 | 19 => vlen * 12,
                // ENUM, FUNC_PROTO: two words a member.
                6 | 13 => vlen * 8,
                // PTR, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, FLOAT, TYPE_TAG.
                2 | 7..=12 | 16 | 18 => 0,
                _ => return Err(BtfError::Malformed("a kind of type that sbt does not know")),
            };
        }
        Ok(btf)
    }

    fn is_named(&self, offset: u32, name: &str) -> bool {
        let text = self.strings.get(offset as usize..);
        let rest = text.and_then(|text| text.strip_prefix(name.as_bytes()));
        rest.is_some_and(|rest| rest.first() == Some(&0))
    }

    fn string(&self, offset: u32) -> &'a [u8] {
        let tail = self.strings.get(offset as usize..).unwrap_or(&[]);
        let end = tail
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(tail.len());
        &tail[..end]
    }

    /// The number of a structure. `None` if this kernel has none of this name.
    pub fn structure(&self, name: &str) -> Option<u32> {
        self.by_name.get(name.as_bytes()).copied()
    }

    /// The number of a function. `None` if this kernel has none of this name.
    pub fn function(&self, name: &str) -> Option<u32> {
        self.functions.get(name.as_bytes()).copied()
    }

    /// Offset in bytes of a field, by a path through structures that were named to [`Btf::parse`]:
    /// `offset("task_struct", &["se", "exec_start"])`. `None` if this kernel does not have the
    /// field.
    pub fn offset(&self, structure: &str, path: &[&str]) -> Option<u32> {
        let mut id = self.structure(structure)?;
        let mut bits = 0;
        for field in path {
            let member = self.member(id, field.as_bytes(), 0)?;
            bits += member.bit_offset;
            id = member.type_id;
        }
        (bits % 8 == 0).then_some(bits / 8)
    }

    /// The place of a field of a single bit: its byte, and the mask of the bit. `None` if this
    /// kernel does not have the field.
    pub fn bit(&self, structure: &str, field: &str) -> Option<(u32, u32)> {
        let id = self.structure(structure)?;
        let bits = self.member(id, field.as_bytes(), 0)?.bit_offset;
        Some((bits / 8, 1 << (bits % 8)))
    }

    /// Finds a member, also inside of unnamed members.
    fn member(&self, id: u32, name: &[u8], depth: u32) -> Option<Member> {
        if depth > 8 {
            return None;
        }
        self.structs.get(&id)?.iter().find_map(|member| {
            let member_name = self.string(member.name);
            if member_name == name {
                Some(*member)
            } else if member_name.is_empty() {
                let inner = self.member(member.type_id, name, depth + 1)?;
                Some(Member {
                    bit_offset: member.bit_offset + inner.bit_offset,
                    ..inner
                })
            } else {
                None
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_is_refused_and_does_not_panic() {
        assert!(Btf::parse(&[], &[]).is_err());
        assert!(Btf::parse(&[0; 64], &[]).is_err());
        let mut data = vec![0x9f, 0xeb, 1, 0, 24, 0, 0, 0];
        for value in [0u32, 100, 100, 100] {
            data.extend(value.to_le_bytes());
        }
        assert!(Btf::parse(&data, &[]).is_err());
    }

    /// `struct outer { int a; struct { int b; struct inner c; }; }` and a function, by hand.
    #[test]
    fn finds_functions_and_fields_through_unnamed_and_named_members() {
        let strings = b"\0int\0inner\0outer\0a\0b\0c\0d\0called\0call\0";
        let name = |text: &str| {
            let needle = [&[0], text.as_bytes(), &[0]].concat();
            strings
                .windows(needle.len())
                .position(|window| window == needle)
                .map_or(0, |at| u32::try_from(at).unwrap_or(0) + 1)
        };
        let structure = |kind: u32, n: u32| kind << 24 | n;
        #[rustfmt::skip]
        let types: Vec<u32> = vec![
            name("int"), 1 << 24, 4, 32,                                     // 1
            name("inner"), structure(4, 1), 8, name("d"), 1, 32,             // 2
            0, structure(4, 2), 12, name("b"), 1, 0, name("c"), 2, 32,       // 3
            name("outer"), structure(4, 2), 16, name("a"), 1, 0, 0, 3, 32,   // 4
            name("called"), structure(12, 0), 0,                             // 5
            name("call"), structure(12, 0), 0,                               // 6
        ];
        let mut data = vec![0x9f, 0xeb, 1, 0];
        let len = u32::try_from(types.len() * 4).unwrap_or(0);
        let strings_len = u32::try_from(strings.len()).unwrap_or(0);
        for value in [24, 0, len, len, strings_len] {
            data.extend(value.to_le_bytes());
        }
        for value in types {
            data.extend(value.to_le_bytes());
        }
        data.extend(strings);
        let btf = Btf::parse(&data, &["outer", "inner", "call", "calls"]).expect("valid");
        assert_eq!(btf.structure("inner"), Some(2));
        assert_eq!(btf.function("call"), Some(6));
        assert_eq!(btf.function("calls"), None);
        assert_eq!(btf.offset("outer", &["a"]), Some(0));
        assert_eq!(btf.offset("outer", &["b"]), Some(4));
        assert_eq!(btf.offset("outer", &["c", "d"]), Some(12));
        assert_eq!(btf.offset("outer", &["nothing"]), None);
        assert_eq!(btf.offset("nobody", &["a"]), None);
        assert_eq!(btf.bit("outer", "b"), Some((4, 1)));
        assert_eq!(btf.bit("outer", "nothing"), None);
    }
}
