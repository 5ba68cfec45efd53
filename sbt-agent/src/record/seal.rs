//! A checksum for each batch of a recording.
//!
//! The checksum is in the custom metadata of the batch's message, which other readers of Arrow
//! skip. A CRC-32 covers the message with its length in front, all messages before the first batch,
//! and other messages since the previous batch. So each batch can be checked alone, and keeps its
//! checksum when it is copied into another file with the same schema.

use std::{
    io::{self, Cursor, Read},
    mem,
};

use arrow_ipc::{
    BodyCompression, BodyCompressionArgs, KeyValue, KeyValueArgs, Message, MessageArgs,
    MessageHeader, RecordBatch, RecordBatchArgs, root_as_message,
};
use crc32fast::Hasher;
use flatbuffers::FlatBufferBuilder;

/// The key of the checksum in the metadata of a message.
const KEY: &str = "sbt.crc32";

/// Key and value in the metadata of the schema which say that each batch has a checksum.
pub const SCHEMA_ENTRY: (&str, &str) = ("sbt.checksum", "crc32");

/// Stands in place of the checksum while it is computed.
const BLANK: &[u8; 8] = b"00000000";

/// Length of the part before the description of a message, bytes.
const PREFIX: usize = 8;

/// Messages begin at multiples of this, as in the writer of Arrow, bytes.
const ALIGNMENT: usize = 64;

/// The running checksums of a stream.
#[derive(Clone, Default)]
pub struct Sums {
    /// Over all messages before the first batch.
    head: Option<Hasher>,
    /// Over these, and all messages since the previous batch.
    before: Hasher,
    /// Whether the schema says that each batch has a checksum.
    are_required: bool,
}

/// The first message of these bytes, and its whole length. `None` at the end of a stream, and if
/// there is no message.
fn first(bytes: &[u8]) -> Option<(Message<'_>, usize)> {
    let size = u32::from_le_bytes(bytes.get(4..PREFIX)?.try_into().ok()?);
    let body = PREFIX.checked_add(usize::try_from(size).ok()?)?;
    let description = bytes.get(PREFIX..body).filter(|text| !text.is_empty())?;
    let message = root_as_message(description).ok()?;
    let end = body.checked_add(usize::try_from(message.bodyLength()).ok()?)?;
    (end <= bytes.len()).then_some((message, end))
}

/// Where the first batch of a stream begins, behind its schema and what belongs to that: batches from
/// there on keep their checksums behind those of another stream with the same schema.
pub fn first_batch(stream: &[u8]) -> usize {
    let mut at = 0;
    while let Some((message, length)) = first(&stream[at..]) {
        if message.header_type() == MessageHeader::RecordBatch {
            break;
        }
        at += length;
    }
    at
}

/// Offset of the checksum in `bytes`, of which `message` is a part.
fn place(message: &Message<'_>, bytes: &[u8]) -> Option<usize> {
    let mut entries = message.custom_metadata()?.iter();
    let value = entries.find(|entry| entry.key() == Some(KEY))?.value()?;
    let at = value.as_ptr().addr().checked_sub(bytes.as_ptr().addr())?;
    (value.len() == BLANK.len() && at + BLANK.len() <= bytes.len()).then_some(at)
}

/// Whether a schema says that each batch has a checksum.
fn requires(message: &Message<'_>) -> bool {
    let entries = message
        .header_as_schema()
        .and_then(|message| message.custom_metadata());
    let (key, value) = SCHEMA_ENTRY;
    entries.is_some_and(|entries| {
        let mut entries = entries.iter();
        entries.any(|entry| entry.key() == Some(key) && entry.value() == Some(value))
    })
}

impl Sums {
    /// Takes note of a message that is not a batch.
    fn add(&mut self, message: &Message<'_>, whole: &[u8]) {
        self.are_required |= requires(message);
        self.before.update(whole);
    }

    /// The checksum of a batch that has its checksum at offset `at`.
    fn of_batch(&mut self, whole: &[u8], at: usize) -> String {
        let head = self.head.get_or_insert_with(|| self.before.clone()).clone();
        let mut sum = mem::replace(&mut self.before, head);
        sum.update(&whole[..at]);
        sum.update(BLANK);
        sum.update(&whole[at + BLANK.len()..]);
        format!("{:08x}", sum.finalize())
    }

    /// Whether the next message of a stream matches its checksum. A message without one matches,
    /// unless the schema says that batches have checksums.
    fn fits(&mut self, whole: &[u8]) -> bool {
        let Some((message, _)) = first(whole) else {
            return false;
        };
        if message.header_type() != MessageHeader::RecordBatch {
            self.add(&message, whole);
            return true;
        }
        match place(&message, whole) {
            Some(at) => self.of_batch(whole, at).as_bytes() == &whole[at..at + BLANK.len()],
            None => !self.are_required,
        }
    }

    /// Writes the checksum into a batch that has room for it.
    fn renew(&mut self, whole: &mut [u8]) {
        let Some((message, _)) = first(whole) else {
            return;
        };
        if message.header_type() != MessageHeader::RecordBatch {
            self.add(&message, whole);
        } else if let Some(at) = place(&message, whole) {
            let sum = self.of_batch(whole, at);
            whole[at..at + BLANK.len()].copy_from_slice(sum.as_bytes());
        }
    }

    /// The next messages of a stream as they are to be written: each batch with its checksum.
    pub fn seal(&mut self, messages: &[u8]) -> Vec<u8> {
        let mut sealed = Vec::with_capacity(messages.len() + 4 * ALIGNMENT);
        let mut rest = messages;
        while let Some((message, length)) = first(rest) {
            let (whole, more) = rest.split_at(length);
            let begin = sealed.len();
            match with_room(&message) {
                Some(description) => {
                    let length = (PREFIX + description.len()).next_multiple_of(ALIGNMENT);
                    let size = u32::try_from(length - PREFIX).unwrap_or(u32::MAX);
                    sealed.extend_from_slice(&whole[..4]);
                    sealed.extend_from_slice(&size.to_le_bytes());
                    sealed.extend_from_slice(&description);
                    sealed.resize(begin + length, 0);
                    let body = usize::try_from(message.bodyLength()).unwrap_or(0);
                    sealed.extend_from_slice(&whole[whole.len() - body..]);
                }
                None => sealed.extend_from_slice(whole),
            }
            self.renew(&mut sealed[begin..]);
            rest = more;
        }
        // The end of the stream.
        sealed.extend_from_slice(rest);
        sealed
    }
}

/// The description of a batch with room for a checksum. `None` for other messages.
fn with_room(message: &Message<'_>) -> Option<Vec<u8>> {
    let batch = message.header_as_record_batch()?;
    let mut builder = FlatBufferBuilder::new();
    let nodes = batch.nodes().map(|all| {
        let all: Vec<_> = all.iter().copied().collect();
        builder.create_vector(&all)
    });
    let buffers = batch.buffers().map(|all| {
        let all: Vec<_> = all.iter().copied().collect();
        builder.create_vector(&all)
    });
    let counts = batch.variadicBufferCounts().map(|all| {
        let all: Vec<i64> = all.iter().collect();
        builder.create_vector(&all)
    });
    let compression = batch.compression().map(|compression| {
        let arguments = BodyCompressionArgs {
            codec: compression.codec(),
            method: compression.method(),
        };
        BodyCompression::create(&mut builder, &arguments)
    });
    let header = RecordBatch::create(
        &mut builder,
        &RecordBatchArgs {
            length: batch.length(),
            nodes,
            buffers,
            compression,
            variadicBufferCounts: counts,
        },
    );
    let key = builder.create_string(KEY);
    let value = builder.create_string(str::from_utf8(BLANK).ok()?);
    let entry = KeyValueArgs {
        key: Some(key),
        value: Some(value),
    };
    let entry = KeyValue::create(&mut builder, &entry);
    let metadata = builder.create_vector(&[entry]);
    let root = Message::create(
        &mut builder,
        &MessageArgs {
            version: message.version(),
            header_type: MessageHeader::RecordBatch,
            header: Some(header.as_union_value()),
            bodyLength: message.bodyLength(),
            custom_metadata: Some(metadata),
        },
    );
    builder.finish(root, None);
    Some(builder.finished_data().to_vec())
}

/// A stream in which each batch has the right checksum: for tests that change the content of
/// batches.
#[doc(hidden)]
pub fn renewed(bytes: &[u8]) -> Vec<u8> {
    let mut sums = Sums::default();
    let mut all = bytes.to_vec();
    let mut from = 0;
    while let Some((_, length)) = first(&all[from..]) {
        sums.renew(&mut all[from..from + length]);
        from += length;
    }
    all
}

/// Passes a stream on, as far as its checksums match.
pub struct Sound<R> {
    input: R,
    sums: Sums,
    /// The message that is being passed on.
    message: Cursor<Vec<u8>>,
    is_damaged: bool,
}

impl<R: Read> Sound<R> {
    /// Reads from the beginning of a stream.
    pub fn new(input: R) -> Self {
        Self {
            input,
            sums: Sums::default(),
            message: Cursor::default(),
            is_damaged: false,
        }
    }

    /// The input.
    pub const fn input(&self) -> &R {
        &self.input
    }

    /// Whether a message was found that does not match its checksum.
    pub const fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// Reads the next message.
    fn advance(&mut self) -> io::Result<()> {
        let mut whole = mem::take(self.message.get_mut());
        whole.clear();
        self.message.set_position(0);
        let mut read = |whole: &mut Vec<u8>, bytes: u64| {
            let wanted = whole.len() as u64 + bytes;
            self.input.by_ref().take(bytes).read_to_end(whole)?;
            io::Result::Ok(whole.len() as u64 == wanted)
        };
        if !read(&mut whole, PREFIX as u64)? {
            *self.message.get_mut() = whole;
            return Ok(());
        }
        let size = whole[4..].iter().rev();
        let size = size.fold(0, |size: u64, byte| size << 8 | u64::from(*byte));
        if size > 0 {
            let has_all = read(&mut whole, size)?;
            let body = root_as_message(&whole[PREFIX..]).ok();
            let body = body.and_then(|message| u64::try_from(message.bodyLength()).ok());
            let has_all = has_all && read(&mut whole, body.unwrap_or(0))?;
            if self.is_damaged || !has_all || !self.sums.fits(&whole) {
                self.is_damaged = true;
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        *self.message.get_mut() = whole;
        Ok(())
    }
}

impl<R: Read> Read for Sound<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.message.position() >= self.message.get_ref().len() as u64 {
            self.advance()?;
        }
        self.message.read(into)
    }
}
