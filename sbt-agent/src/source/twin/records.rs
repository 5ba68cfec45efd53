//! A sequence of records, each after its length, 16 bits.

use sbt_common::{Plain, bytes};

/// Records that wait to be read.
#[derive(Debug, Default)]
pub struct Records {
    /// The records, one after the other.
    pub bytes: Vec<u8>,
}

impl Records {
    /// Appends a record.
    pub fn push<T: Plain>(&mut self, record: &T) {
        const { assert!(size_of::<T>() <= u16::MAX as usize) };
        #[allow(clippy::cast_possible_truncation, reason = "asserted above")]
        let length = size_of::<T>() as u16;
        self.bytes.extend(length.to_ne_bytes());
        self.bytes.extend_from_slice(bytes(record));
    }
}

/// Calls `take` with the bytes of each complete record. Returns how many bytes they took: the last
/// record may be incomplete.
pub fn each(bytes: &[u8], mut take: impl FnMut(&[u8])) -> usize {
    let mut taken = 0;
    while let Some((length, rest)) = bytes[taken..].split_first_chunk() {
        let Some(record) = rest.get(..usize::from(u16::from_ne_bytes(*length))) else {
            break;
        };
        take(record);
        taken += length.len() + record.len();
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use sbt_common::{Depart, Init};

    #[test]
    fn what_is_pushed_is_read_also_in_pieces() {
        let mut records = Records::default();
        records.push(&Depart::default());
        records.push(&Init::default());
        let all = records.bytes;
        let sizes = [size_of::<Depart>(), size_of::<Init>()];
        for cut in 0..=all.len() {
            let mut seen = Vec::new();
            let taken = each(&all[..cut], |record| seen.push(record.len()));
            each(&all[taken..], |record| seen.push(record.len()));
            assert_eq!(seen, sizes);
        }
    }
}
