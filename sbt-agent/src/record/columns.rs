//! Converts rows of cells to columns of a record batch, and back.

use std::{collections::HashMap, sync::Arc};

use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int8Array, RecordBatch, StringArray, UInt32Array,
    UInt64Array,
    builder::{StringBuilder, UInt32Builder, UInt64Builder},
    cast::AsArray as _,
    types::{Int8Type, UInt32Type, UInt64Type},
};
use arrow_schema::{ArrowError, DataType, Field, Schema};

use super::{
    FORMAT, FORMAT_KEY, VERSION_KEY,
    rows::{Cells, KINDS},
    seal,
};
use sbt_engine::event::Kind;

/// A column of names from a short list: each name is stored once in the file.
#[derive(Debug)]
struct Names {
    /// The list, shared by all batches.
    all: Arc<StringArray>,
    keys: Vec<Option<i8>>,
}

impl Names {
    fn of(all: impl Iterator<Item = &'static str>) -> Self {
        Self {
            all: Arc::new(StringArray::from_iter_values(all)),
            keys: Vec::new(),
        }
    }

    fn push(&mut self, name: Option<&str>) {
        let known = self.all.iter().flatten();
        let index = name.and_then(|name| known.clone().position(|known| known == name));
        self.keys
            .push(index.and_then(|index| i8::try_from(index).ok()));
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let keys = Int8Array::from(std::mem::take(&mut self.keys));
        let array = DictionaryArray::<Int8Type>::try_new(keys, Arc::clone(&self.all) as ArrayRef)?;
        Ok(Arc::new(array))
    }
}

/// Rows collected for a batch.
#[derive(Debug)]
pub struct Columns {
    row: Names,
    time_ns: UInt64Builder,
    thread: UInt32Builder,
    object: UInt64Builder,
    kind: Names,
    callers: UInt32Builder,
    run_ns: UInt64Builder,
    delay_ns: UInt64Builder,
    numbers: [UInt64Builder; 3],
    text: StringBuilder,
    rows: usize,
}

/// The columns of the table.
pub fn schema() -> Schema {
    let names = || DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let fields = vec![
        Field::new("row", names(), false),
        Field::new("time_ns", DataType::UInt64, true),
        Field::new("thread", DataType::UInt32, true),
        Field::new("object", DataType::UInt64, true),
        Field::new("kind", names(), true),
        Field::new("callers", DataType::UInt32, true),
        Field::new("run_ns", DataType::UInt64, true),
        Field::new("delay_ns", DataType::UInt64, true),
        Field::new("number", DataType::UInt64, true),
        Field::new("number_2", DataType::UInt64, true),
        Field::new("number_3", DataType::UInt64, true),
        Field::new("text", DataType::Utf8, true),
    ];
    let (key, value) = seal::SCHEMA_ENTRY;
    let metadata = [
        (key.to_owned(), value.to_owned()),
        (FORMAT_KEY.to_owned(), FORMAT.to_string()),
        (VERSION_KEY.to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
    ];
    Schema::new_with_metadata(fields, HashMap::from(metadata))
}

impl Columns {
    /// With no rows.
    pub fn new() -> Self {
        Self {
            row: Names::of(KINDS.into_iter()),
            time_ns: UInt64Builder::new(),
            thread: UInt32Builder::new(),
            object: UInt64Builder::new(),
            kind: Names::of(Kind::ALL.into_iter().map(Kind::name)),
            callers: UInt32Builder::new(),
            run_ns: UInt64Builder::new(),
            delay_ns: UInt64Builder::new(),
            numbers: std::array::from_fn(|_| UInt64Builder::new()),
            text: StringBuilder::new(),
            rows: 0,
        }
    }

    /// Adds a row.
    pub fn push(&mut self, cells: &Cells) {
        self.row.push(Some(cells.row));
        self.time_ns.append_option(cells.time_ns);
        self.thread.append_option(cells.thread);
        self.object.append_option(cells.object);
        self.kind.push(cells.kind);
        self.callers.append_option(cells.callers);
        self.run_ns.append_option(cells.run_ns);
        self.delay_ns.append_option(cells.delay_ns);
        for (column, number) in self.numbers.iter_mut().zip(cells.numbers) {
            column.append_option(number);
        }
        self.text.append_option(cells.text.as_deref());
        self.rows += 1;
    }

    /// The number of rows.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Makes a batch of the collected rows, and begins the next.
    pub fn finish(&mut self, schema: &Arc<Schema>) -> Result<RecordBatch, ArrowError> {
        self.rows = 0;
        let [number, number_2, number_3] = &mut self.numbers;
        let columns: Vec<ArrayRef> = vec![
            self.row.finish()?,
            Arc::new(self.time_ns.finish()),
            Arc::new(self.thread.finish()),
            Arc::new(self.object.finish()),
            self.kind.finish()?,
            Arc::new(self.callers.finish()),
            Arc::new(self.run_ns.finish()),
            Arc::new(self.delay_ns.finish()),
            Arc::new(number.finish()),
            Arc::new(number_2.finish()),
            Arc::new(number_3.finish()),
            Arc::new(self.text.finish()),
        ];
        RecordBatch::try_new(Arc::clone(schema), columns)
    }
}

/// The rows of a batch. `None` if it has other columns.
pub fn cells(batch: &RecordBatch) -> Option<Vec<Cells>> {
    let column = |name| batch.column_by_name(name);
    let row = names(column("row")?, &KINDS)?;
    let kinds = Kind::ALL.map(Kind::name);
    let kind = names(column("kind")?, &kinds)?;
    let long = |name| column(name)?.as_primitive_opt::<UInt64Type>();
    let short = |name| column(name)?.as_primitive_opt::<UInt32Type>();
    let (time_ns, object) = (long("time_ns")?, long("object")?);
    let (run_ns, delay_ns) = (long("run_ns")?, long("delay_ns")?);
    let (thread, callers) = (short("thread")?, short("callers")?);
    let numbers = [long("number")?, long("number_2")?, long("number_3")?];
    let text = column("text")?.as_string_opt::<i32>()?;
    let wide = |array: &UInt64Array, at| array.is_valid(at).then(|| array.value(at));
    let narrow = |array: &UInt32Array, at| array.is_valid(at).then(|| array.value(at));
    (0..batch.num_rows())
        .map(|at| {
            Some(Cells {
                row: row[at]?,
                time_ns: wide(time_ns, at),
                thread: narrow(thread, at),
                object: wide(object, at),
                kind: kind[at],
                callers: narrow(callers, at),
                run_ns: wide(run_ns, at),
                delay_ns: wide(delay_ns, at),
                numbers: numbers.map(|column| wide(column, at)),
                text: text.is_valid(at).then(|| text.value(at).to_owned()),
            })
        })
        .collect()
}

/// A column of names, as the names in `known`. `None` if it is another kind of column.
fn names(column: &ArrayRef, known: &[&'static str]) -> Option<Vec<Option<&'static str>>> {
    let column = column.as_dictionary_opt::<Int8Type>()?;
    let values = column.values().as_string_opt::<i32>()?;
    let meant: Vec<Option<&'static str>> = values
        .iter()
        .map(|value| known.iter().copied().find(|known| Some(*known) == value))
        .collect();
    let keys = column.keys();
    let name = |at| {
        let key = usize::try_from(keys.is_valid(at).then(|| keys.value(at))?).ok()?;
        *meant.get(key)?
    };
    Some((0..column.len()).map(name).collect())
}
