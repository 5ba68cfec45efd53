//! The batches of a stream that may be hostile.
//!
//! The library that decodes them checks much and panics at the rest; for whoever reads a
//! recording that is one more way of being damaged.

use std::{
    cell::Cell,
    io::Read,
    panic::{self, AssertUnwindSafe},
    sync::Once,
};

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_schema::SchemaRef;

/// The batches of a stream, in order.
pub struct Batches<R: Read> {
    stream: StreamReader<R>,
    /// Nothing is asked of it after a panic.
    broken: bool,
}

impl<R: Read> Batches<R> {
    /// Reads the schema; `None` if there is none.
    pub fn open(input: R) -> Option<Self> {
        let stream = caught(|| StreamReader::try_new(input, None).ok())??;
        Some(Self {
            stream,
            broken: false,
        })
    }

    /// What the columns are.
    pub fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }

    /// Where it reads from.
    pub fn input(&self) -> &R {
        self.stream.get_ref()
    }
}

impl<R: Read> Iterator for Batches<R> {
    /// `None`: one that is not as it ought to be.
    type Item = Option<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.broken {
            return None;
        }
        let Some(next) = caught(|| self.stream.next()) else {
            self.broken = true;
            return Some(None);
        };
        next.map(Result::ok)
    }
}

thread_local! {
    /// A panic of this thread is caught, and nobody is to be told of it.
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// What it gives; `None` if it panics, of which nothing is said.
fn caught<T>(doing: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !CAUGHT.get() {
                before(info);
            }
        }));
    });
    let outer = CAUGHT.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(doing));
    CAUGHT.set(outer);
    result.ok()
}

#[cfg(test)]
mod tests {
    use super::caught;

    #[test]
    fn a_panic_is_one_more_way_of_being_damaged() {
        assert_eq!(caught(|| 3), Some(3));
        let none: Option<u32> = caught(|| panic!("told to nobody"));
        assert_eq!(none, None);
        assert_eq!(caught(|| 4), Some(4));
    }
}
