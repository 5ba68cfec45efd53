//! The protocol between sbt and the process that traces for it. Orders go one way, and an answer to
//! each goes the other way, as lines of JSON. Records go through a separate pipe.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use sbt_common::{Code, Kmp, Plain, Rule};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, Error as _},
};

use crate::source::twin::ProgramPlace;
use sbt_engine::counters::Plan;
use sbt_program::{
    arch::Registers,
    memory::Stack,
    stopped::{NotStopped, Stopped},
};

/// An order from sbt to the tracer.
#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    /// Trace a process from now on.
    Seize {
        /// The process.
        pid: u32,
        /// Whether it runs its own program already, and no longer sbt's copy before `exec`.
        runs: bool,
        /// Whether its children are watched too.
        children: bool,
        /// Whether departures are reported.
        departures: bool,
        /// The counters of each thread.
        counters: Plan,
    },
    /// Watch places in files.
    Watch {
        /// The files.
        files: Vec<Watched>,
        /// Ways to teams that the places need, by index.
        ways: Vec<Bytes<Kmp>>,
    },
    /// Add rules that find callers, or without a rule remove the earlier one.
    Learn(Vec<(Bytes<Code>, Option<Bytes<Rule>>)>),
    /// Report departures, or stop.
    Departures(bool),
    /// Report condition variables, or stop.
    Condvars(bool),
    /// Report these counters from now on.
    Count(Plan),
    /// Stop a thread for a moment, and tell how it stands. One thread for each order: the answer has
    /// room on its way, so that the tracer need not wait for sbt.
    Look(u32),
    /// Take all breakpoints out for a while.
    Pause,
    /// Put the breakpoints back.
    Resume,
    /// Let the target go for good.
    Detach,
}

/// The result of an order, or why it was not carried out.
pub type Answer = Result<Done, String>;

/// The result of an order that was carried out.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Done {
    /// Sentences for the user.
    pub notes: Vec<String>,
    /// Cost of a breakpoint for the thread that hits it, ns; `None` if not measured.
    pub hit_ns: Option<f64>,
    /// How the thread of [`Order::Look`] stood, or why it was not stopped.
    pub stood: Option<Result<Stood, NotStopped>>,
}

/// How a thread stood when it was stopped.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stood {
    registers: Vec<u64>,
    /// The bytes of its stack from the stack pointer on, in base64.
    stack: String,
    /// Time from the request to stop until the thread went on, ns.
    held_ns: u64,
}

impl Stood {
    /// Packs the state of a thread for sbt.
    pub fn new(registers: Registers, stack: &[u8], held: Duration) -> Self {
        Self {
            registers: registers.words().to_vec(),
            stack: BASE64_STANDARD.encode(stack),
            held_ns: u64::try_from(held.as_nanos()).unwrap_or(u64::MAX),
        }
    }

    /// The inverse of [`Stood::new`]. `None` if the numbers do not fit.
    pub fn read(&self) -> Option<Stopped> {
        let registers = Registers::of_words(&self.registers)?;
        Some(Stopped {
            registers,
            stack: Stack {
                from: registers.stack(),
                bytes: BASE64_STANDARD.decode(&self.stack).ok()?,
                beyond: None,
            },
            held: Duration::from_nanos(self.held_ns),
        })
    }
}

/// A file, and the places that are watched in it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Watched {
    /// Device of the file, as in [`sbt_program::file_id::FileId`].
    pub device: u64,
    /// Inode of the file, as in [`sbt_program::file_id::FileId`].
    pub inode: u64,
    /// Where breakpoints belong.
    pub places: Vec<ProgramPlace>,
}

/// A record in a form that serde can write: its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<T>(pub T);

impl<T: Plain> Serialize for Bytes<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        sbt_common::bytes(&self.0).serialize(to)
    }
}

impl<'de, T: Plain> Deserialize<'de> for Bytes<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let bytes = Vec::<u8>::deserialize(from)?;
        let read = sbt_common::read(&bytes).map(Self);
        read.ok_or_else(|| D::Error::invalid_length(bytes.len(), &"the bytes of a record"))
    }
}

/// One end of the connection.
#[derive(Debug)]
pub struct Line {
    read: BufReader<UnixStream>,
    write: UnixStream,
}

impl Line {
    /// Uses a connected socket.
    pub fn new(socket: UnixStream) -> io::Result<Self> {
        Ok(Self {
            write: socket.try_clone()?,
            read: BufReader::new(socket),
        })
    }

    /// The socket, to poll for input.
    pub fn socket(&self) -> &UnixStream {
        self.read.get_ref()
    }

    /// Sends a message.
    pub fn say(&mut self, what: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        self.write.write_all(&line)
    }

    /// Waits for the next message. `None` if the other end is gone.
    pub fn hear<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut line = String::new();
        if self.read.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        Ok(Some(serde_json::from_str(&line)?))
    }
}
