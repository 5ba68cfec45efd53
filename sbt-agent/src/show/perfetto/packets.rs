//! Writes packets of a trace one by one. Repeated text is written once and then referred to by a
//! number (interning).

use std::{
    borrow::Cow,
    collections::HashMap,
    io::{self, Write},
    rc::Rc,
};

use prost::Message as _;

use super::proto::{
    self, DebugAnnotation, Interned, InternedBytes, InternedData, NEEDS_STATE, STATE_CLEARED,
    Trace, TracePacket, TrackDescriptor, TrackEvent, Type,
};
use sbt_engine::place::printable;

/// The sequence id of all packets.
const SEQUENCE: u32 = 1;

/// Maximum number of interned texts; beyond this, numbering starts again.
const MOST_TEXTS: usize = 1 << 16;

/// The value of a slice's argument.
#[derive(Clone, Debug)]
pub enum Value {
    /// A count, or a time in ns.
    Count(u64),
    /// A name.
    Text(Rc<str>),
}

/// An argument of a slice: its name and value.
pub type Arg = (Cow<'static, str>, Value);

/// An argument with a count, or a time in ns.
pub const fn count(name: &'static str, value: u64) -> Arg {
    (Cow::Borrowed(name), Value::Count(value))
}

/// An argument with a name.
pub fn text(name: &'static str, value: &Rc<str>) -> Arg {
    (Cow::Borrowed(name), Value::Text(Rc::clone(value)))
}

/// Texts with their numbers, and texts not yet written.
#[derive(Default)]
struct Texts {
    numbers: HashMap<String, u64>,
    new: Vec<Interned>,
}

impl Texts {
    fn number(&mut self, text: &str) -> u64 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        // The number 0 stands for no text.
        let number = self.numbers.len() as u64 + 1;
        self.numbers.insert(text.to_owned(), number);
        self.new.push(Interned {
            iid: Some(number),
            name: Some(printable(text)),
        });
        number
    }
}

/// Writer of packets.
pub struct Packets<W> {
    out: W,
    names: Texts,
    keys: Texts,
    values: Texts,
    uuid: u64,
}

impl<W: Write> Packets<W> {
    /// Starts a trace.
    pub fn new(out: W) -> io::Result<Self> {
        let mut this = Self {
            out,
            names: Texts::default(),
            keys: Texts::default(),
            values: Texts::default(),
            uuid: 0,
        };
        this.begin()?;
        Ok(this)
    }

    fn begin(&mut self) -> io::Result<()> {
        self.write(TracePacket {
            sequence_flags: Some(STATE_CLEARED),
            ..TracePacket::default()
        })
    }

    /// Returns the id of a new track.
    pub const fn uuid(&mut self) -> u64 {
        self.uuid += 1;
        self.uuid
    }

    fn write(&mut self, packet: TracePacket) -> io::Result<()> {
        // Write a file of one packet; concatenated files are one valid file.
        let trace = Trace {
            packet: vec![TracePacket {
                trusted_packet_sequence_id: Some(SEQUENCE),
                ..packet
            }],
        };
        self.out.write_all(&trace.encode_to_vec())
    }

    /// Describes a track. Text in the description has to be printable.
    pub fn describe(&mut self, track: TrackDescriptor) -> io::Result<()> {
        self.write(TracePacket {
            track_descriptor: Some(track),
            ..TracePacket::default()
        })
    }

    fn event(&mut self, time_ns: u64, event: TrackEvent) -> io::Result<()> {
        let new = |texts: &mut Texts| std::mem::take(&mut texts.new);
        let interned = InternedData {
            event_names: new(&mut self.names),
            debug_annotation_names: new(&mut self.keys),
            debug_annotation_string_values: new(&mut self.values)
                .into_iter()
                .map(|text| InternedBytes {
                    iid: text.iid,
                    str: text.name.map(String::into_bytes),
                })
                .collect(),
        };
        let is_new = interned != InternedData::default();
        self.write(TracePacket {
            timestamp: Some(time_ns),
            sequence_flags: Some(NEEDS_STATE),
            interned_data: is_new.then_some(interned),
            track_event: Some(event),
            ..TracePacket::default()
        })
    }

    fn make_room(&mut self) -> io::Result<()> {
        if self.names.numbers.len().max(self.values.numbers.len()) < MOST_TEXTS {
            return Ok(());
        }
        self.names = Texts::default();
        self.keys = Texts::default();
        self.values = Texts::default();
        self.begin()
    }

    /// Writes a slice: an action with its duration, ns.
    pub fn slice(
        &mut self,
        track: u64,
        (from_ns, to_ns): (u64, u64),
        name: &str,
        args: &[Arg],
    ) -> io::Result<()> {
        self.make_room()?;
        let begin = TrackEvent {
            r#type: Some(Type::SliceBegin.into()),
            track_uuid: Some(track),
            name_iid: Some(self.names.number(name)),
            debug_annotations: args.iter().map(|arg| self.annotation(arg)).collect(),
            ..TrackEvent::default()
        };
        self.event(from_ns, begin)?;
        let end = TrackEvent {
            r#type: Some(Type::SliceEnd.into()),
            track_uuid: Some(track),
            ..TrackEvent::default()
        };
        self.event(to_ns, end)
    }

    fn annotation(&mut self, (name, value): &Arg) -> DebugAnnotation {
        let value = match value {
            Value::Count(value) => proto::Value::Uint(*value),
            Value::Text(text) => proto::Value::StringIid(self.values.number(text)),
        };
        DebugAnnotation {
            name_iid: Some(self.keys.number(name)),
            value: Some(value),
        }
    }

    /// Writes an instant, with the numbers of arrows that begin and end there.
    pub fn instant(
        &mut self,
        track: u64,
        time_ns: u64,
        name: &str,
        begins: &[u64],
        ends: &[u64],
    ) -> io::Result<()> {
        self.make_room()?;
        let event = TrackEvent {
            r#type: Some(Type::Instant.into()),
            track_uuid: Some(track),
            name_iid: Some(self.names.number(name)),
            flow_ids: begins.to_vec(),
            terminating_flow_ids: ends.to_vec(),
            ..TrackEvent::default()
        };
        self.event(time_ns, event)
    }

    /// Writes the value that a counter has from `time_ns` on.
    pub fn count(&mut self, track: u64, time_ns: u64, value: f64) -> io::Result<()> {
        let event = TrackEvent {
            r#type: Some(Type::Counter.into()),
            track_uuid: Some(track),
            double_counter_value: Some(value),
            ..TrackEvent::default()
        };
        self.event(time_ns, event)
    }

    /// Flushes the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}
