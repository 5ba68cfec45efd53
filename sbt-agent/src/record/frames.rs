//! Finds how much of a file consists of whole messages of the IPC streaming format.
//!
//! A file whose writer was killed ends within a message; a hostile file may claim to hold more than
//! fits into memory. Both are found here, before anything is unpacked. The format:
//! <https://arrow.apache.org/docs/format/Columnar.html#ipc-streaming-format>.

use std::io::{self, Read, Seek, SeekFrom};

use arrow_ipc::{Buffer, MessageHeader, RecordBatch, root_as_message};

use super::write::MOST_ROWS;

/// The bytes that begin each message.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// The longest description of a message that is accepted, bytes.
const MOST_DESCRIPTION: u64 = 1 << 20;

/// The largest size of an unpacked batch that is accepted, bytes: sbt's own have 65 536 rows.
const MOST_UNPACKED: u64 = 1 << 29;

/// The structure of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    /// Size of the part, from the beginning, that is whole messages, bytes.
    pub bytes: u64,
    /// Size of the part before the first batch, to which all batches refer, bytes.
    pub head: u64,
    /// Offset of the last batch; `head` if there is none.
    pub last: u64,
    /// Number of batches.
    pub batches: usize,
    /// Whether the file breaks off, or is unreadable, before the end of the stream.
    pub torn: bool,
    /// Bytes after the last whole message, if the file is torn.
    pub rest: u64,
    /// Bytes after the end of the stream.
    pub behind: u64,
}

/// Reads the structure of a file from its beginning.
///
/// # Errors
/// Errors of the file.
pub fn whole(file: &mut (impl Read + Seek)) -> io::Result<Whole> {
    let length = file.seek(SeekFrom::End(0))?;
    let mut whole = Whole {
        bytes: 0,
        head: 0,
        last: 0,
        batches: 0,
        torn: false,
        rest: 0,
        behind: 0,
    };
    loop {
        let at = whole.bytes;
        match message(file, at, length)? {
            Some(Next::Head(next)) => {
                // A later one belongs to a batch.
                if whole.last == whole.head {
                    (whole.head, whole.last) = (next, next);
                }
                whole.bytes = next;
            }
            Some(Next::Batch(next)) => {
                (whole.last, whole.bytes) = (at, next);
                whole.batches += 1;
            }
            Some(Next::End) => {
                whole.behind = length.saturating_sub(at + 8);
                return Ok(whole);
            }
            None => {
                whole.torn = true;
                whole.rest = length.saturating_sub(at);
                return Ok(whole);
            }
        }
    }
}

enum Next {
    /// The schema or a dictionary; the next message begins at this offset.
    Head(u64),
    /// A batch; the next message begins at this offset.
    Batch(u64),
    /// The end of the stream.
    End,
}

/// Reads over the message at an offset; `None` if it is not whole or makes no sense.
fn message(file: &mut (impl Read + Seek), at: u64, length: u64) -> io::Result<Option<Next>> {
    if length.saturating_sub(at) < 8 {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(at))?;
    let mut head = [0; 8];
    file.read_exact(&mut head)?;
    let [a, b, c, d, size @ ..] = head;
    if [a, b, c, d] != CONTINUATION {
        return Ok(None);
    }
    let size = u64::from(u32::from_le_bytes(size));
    if size == 0 {
        return Ok(Some(Next::End));
    }
    let body = at + 8 + size;
    if size > MOST_DESCRIPTION || body > length {
        return Ok(None);
    }
    let mut description = vec![0; usize::try_from(size).unwrap_or(0)];
    file.read_exact(&mut description)?;
    let Ok(message) = root_as_message(&description) else {
        return Ok(None);
    };
    let end = u64::try_from(message.bodyLength())
        .ok()
        .and_then(|bytes| body.checked_add(bytes));
    let Some(end) = end.filter(|end| *end <= length) else {
        return Ok(None);
    };
    let batch = match message.header_type() {
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        // sbt writes no dictionaries that add to earlier ones; a hostile file could add without
        // end.
        MessageHeader::DictionaryBatch => message
            .header_as_dictionary_batch()
            .filter(|batch| !batch.isDelta())
            .and_then(|batch| batch.data()),
        MessageHeader::Schema => return Ok(Some(Next::Head(end))),
        _ => return Ok(None),
    };
    let rows = |batch: &RecordBatch<'_>| usize::try_from(batch.length()).ok();
    let Some(batch) = batch.filter(|batch| rows(batch).is_some_and(|rows| rows <= MOST_ROWS))
    else {
        return Ok(None);
    };
    let mut unpacked: u64 = 0;
    for buffer in batch.buffers().into_iter().flatten() {
        let Some(from) = within(buffer, body, end) else {
            return Ok(None);
        };
        // An empty buffer has no length in front.
        if batch.compression().is_some() && buffer.length() >= 8 {
            file.seek(SeekFrom::Start(from))?;
            let mut length = [0; 8];
            file.read_exact(&mut length)?;
            // Negative if the buffer is not compressed.
            let length = u64::try_from(i64::from_le_bytes(length)).unwrap_or(0);
            unpacked = unpacked.saturating_add(length);
        }
    }
    if unpacked > MOST_UNPACKED {
        return Ok(None);
    }
    Ok(Some(match message.header_type() {
        MessageHeader::RecordBatch => Next::Batch(end),
        _ => Next::Head(end),
    }))
}

/// Offset in the file of a buffer, if it lies within the body of its message.
fn within(buffer: &Buffer, body: u64, end: u64) -> Option<u64> {
    let from = body.checked_add(u64::try_from(buffer.offset()).ok()?)?;
    let to = from.checked_add(u64::try_from(buffer.length()).ok()?)?;
    (to <= end).then_some(from)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn what_is_no_message_is_not_whole() {
        let of = |bytes: &[u8]| whole(&mut Cursor::new(bytes.to_vec())).unwrap();
        let torn = |rest| Whole {
            bytes: 0,
            head: 0,
            last: 0,
            batches: 0,
            torn: true,
            rest,
            behind: 0,
        };
        assert_eq!(of(b""), torn(0));
        assert_eq!(of(b"PAR1 and so on, something else"), torn(30));
        assert_eq!(of(&[0xff; 64]), torn(64));
        // The end of a stream without content.
        let mut end = vec![0xff; 4];
        end.extend([0; 4]);
        let whole = Whole {
            torn: false,
            ..torn(0)
        };
        assert_eq!(of(&end), whole);
        let more = [&end[..], b"more"].concat();
        assert_eq!(of(&more), Whole { behind: 4, ..whole });
        // A description that cannot be parsed.
        end[4] = 16;
        end.extend([7; 16]);
        assert_eq!(of(&end), torn(24));
    }
}
