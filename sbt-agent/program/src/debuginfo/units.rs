//! Units and entries of DWARF.

use gimli::{
    Attribute, AttributeValue, Dwarf, EndianSlice, EntriesRaw, Range, Unit, UnitOffset, UnitRef,
};

pub(super) type Bytes = EndianSlice<'static, gimli::LittleEndian>;
pub(super) type Info = Dwarf<Bytes>;
pub(super) type Value = AttributeValue<Bytes>;

/// The most pieces of code of one function.
const MAX_RANGES: usize = 4096;

/// Identifies an entry: the offset of its unit in the section, and its offset in the unit.
pub(super) type EntryId = (usize, usize);

/// The sound units, one after another; a damaged header ends the iteration.
pub(super) fn units(dwarf: &Info) -> impl Iterator<Item = Unit<Bytes>> {
    let mut headers = dwarf.units();
    std::iter::from_fn(move || headers.next().ok().flatten())
        .filter_map(|header| dwarf.unit(header).ok())
}

pub(super) fn id(unit: UnitRef<'_, Bytes>, entry: UnitOffset) -> EntryId {
    let start = unit.header.debug_info_offset();
    (start.map_or(usize::MAX, |start| start.0), entry.0)
}

/// An entry with its attributes.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) offset: UnitOffset,
    /// Nesting depth, relative to the first entry that was read; may be negative.
    pub(super) depth: isize,
    pub(super) tag: gimli::DwTag,
    attributes: Vec<Attribute<Bytes>>,
}

impl Entry {
    pub(super) fn new(
        offset: UnitOffset,
        depth: isize,
        tag: gimli::DwTag,
        attributes: Vec<Attribute<Bytes>>,
    ) -> Self {
        Self {
            offset,
            depth,
            tag,
            attributes,
        }
    }

    /// The entry's memory, to be used again for another entry.
    pub(super) fn into_attributes(self) -> Vec<Attribute<Bytes>> {
        self.attributes
    }

    pub(super) fn attribute(&self, name: gimli::DwAt) -> Option<Value> {
        self.attributes
            .iter()
            .find(|attribute| attribute.name() == name)
            .map(Attribute::value)
    }

    /// The address ranges of the entry's code; each has at least one byte.
    pub(super) fn ranges(&self, unit: UnitRef<'_, Bytes>) -> Vec<Range> {
        let list = self
            .attribute(gimli::DW_AT_ranges)
            .and_then(|value| unit.attr_ranges(value).ok()?);
        let real = |range: &Range| range.begin < range.end;
        if let Some(mut list) = list {
            return std::iter::from_fn(|| list.next().ok().flatten())
                .take(MAX_RANGES)
                .filter(real)
                .collect();
        }
        let single = || {
            let begin = self.address(unit, gimli::DW_AT_low_pc)?;
            let end = match self.attribute(gimli::DW_AT_high_pc)? {
                Value::Udata(size) => begin.checked_add(size)?,
                value => unit.attr_address(value).ok()??,
            };
            Some(Range { begin, end })
        };
        single().into_iter().filter(real).collect()
    }

    fn address(&self, unit: UnitRef<'_, Bytes>, name: gimli::DwAt) -> Option<u64> {
        unit.attr_address(self.attribute(name)?).ok()?
    }

    /// The value of a text attribute, as the compiler wrote it.
    pub(super) fn bytes(&self, unit: UnitRef<'_, Bytes>, name: gimli::DwAt) -> Option<Bytes> {
        unit.attr_string(self.attribute(name)?).ok()
    }
}

/// Reads the entries of a unit whose tags are wanted: all of them, or from a given entry on.
/// Damaged DWARF ends the reading.
pub(super) struct Entries<'a> {
    raw: EntriesRaw<'a, Bytes>,
    wanted: fn(gimli::DwTag) -> bool,
    spare: Vec<Attribute<Bytes>>,
}

impl<'a> Entries<'a> {
    pub(super) fn new(
        unit: UnitRef<'a, Bytes>,
        from: Option<UnitOffset>,
        wanted: fn(gimli::DwTag) -> bool,
    ) -> Option<Self> {
        Some(Self {
            raw: unit.unit.entries_raw(from).ok()?,
            wanted,
            spare: Vec::new(),
        })
    }

    /// The next wanted entry.
    pub(super) fn next(&mut self) -> Option<Entry> {
        while !self.raw.is_empty() {
            let (offset, depth) = (self.raw.next_offset(), self.raw.next_depth());
            let Some(abbreviation) = self.raw.read_abbreviation().ok()? else {
                continue;
            };
            let specifications = abbreviation.attributes();
            if !(self.wanted)(abbreviation.tag()) {
                self.raw.skip_attributes(specifications).ok()?;
                continue;
            }
            let mut attributes = std::mem::take(&mut self.spare);
            self.raw
                .read_attributes(specifications, &mut attributes)
                .ok()?;
            return Some(Entry::new(offset, depth, abbreviation.tag(), attributes));
        }
        None
    }

    /// Takes an entry's memory back for the next entry.
    pub(super) fn done(&mut self, entry: Entry) {
        self.spare = entry.into_attributes();
    }
}

/// An entry with its unit.
pub(super) struct UnitEntry<'a> {
    pub(super) dwarf: &'a Info,
    pub(super) unit: Unit<Bytes>,
    pub(super) entry: Entry,
}

impl<'a> UnitEntry<'a> {
    pub(super) fn unit(&self) -> UnitRef<'_, Bytes> {
        self.unit.unit_ref(self.dwarf)
    }

    /// Identifies the entry. The supplementary file has no functions, so that entries of the two
    /// files are not confused.
    pub(super) fn id(&self) -> EntryId {
        id(self.unit(), self.entry.offset)
    }

    /// The entry to which an attribute refers.
    pub(super) fn follow(&self, name: gimli::DwAt) -> Option<UnitEntry<'a>> {
        match self.entry.attribute(name)? {
            Value::UnitRef(offset) => {
                let unit = self.dwarf.unit(self.unit.header).ok()?;
                at(self.dwarf, unit, offset)
            }
            Value::DebugInfoRef(offset) => in_section(self.dwarf, offset),
            Value::DebugInfoRefSup(offset) => in_section(self.dwarf.sup()?, offset),
            _ => None,
        }
    }

    /// The id of the entry to which an attribute refers, as [`UnitEntry::id`] gives it.
    pub(super) fn target(&self, entry: &Entry, name: gimli::DwAt) -> Option<EntryId> {
        match entry.attribute(name)? {
            Value::UnitRef(offset) => Some(id(self.unit(), offset)),
            Value::DebugInfoRef(offset) => {
                let unit = unit_of(self.dwarf, offset)?;
                let inside = offset.to_unit_offset(&unit.header)?;
                Some(id(unit.unit_ref(self.dwarf), inside))
            }
            _ => None,
        }
    }

    /// The parameters, in order, at most `MOST`.
    pub(super) fn parameters(&self) -> Vec<Entry> {
        const MOST: usize = 64;
        /// The most children that are read; types and variables may stand between parameters.
        const CHILDREN: usize = 4096;
        let mut found = Vec::new();
        let unit = self.unit();
        let Some(mut entries) = Entries::new(unit, Some(self.entry.offset), |_| true) else {
            return found;
        };
        // Skips the function itself.
        let _itself = entries.next();
        for _ in 0..CHILDREN {
            match entries.next() {
                Some(entry) if entry.depth > 0 => {
                    if entry.depth == 1 && entry.tag == gimli::DW_TAG_formal_parameter {
                        found.push(entry);
                        if found.len() == MOST {
                            break;
                        }
                    } else {
                        entries.done(entry);
                    }
                }
                _ => break,
            }
        }
        found
    }
}

/// The entry of a unit at an offset.
pub(super) fn at(dwarf: &Info, unit: Unit<Bytes>, offset: UnitOffset) -> Option<UnitEntry<'_>> {
    let entry = Entries::new(unit.unit_ref(dwarf), Some(offset), |_| true)?.next()?;
    (entry.offset == offset).then_some(UnitEntry { dwarf, unit, entry })
}

fn in_section(dwarf: &Info, offset: gimli::DebugInfoOffset) -> Option<UnitEntry<'_>> {
    let unit = unit_of(dwarf, offset)?;
    let inside = offset.to_unit_offset(&unit.header)?;
    at(dwarf, unit, inside)
}

fn unit_of(dwarf: &Info, offset: gimli::DebugInfoOffset) -> Option<Unit<Bytes>> {
    let mut headers = dwarf.units();
    loop {
        let header = headers.next().ok()??;
        if offset.to_unit_offset(&header).is_some() {
            return dwarf.unit(header).ok();
        }
    }
}
