//! The control of a running sbt by scripts: `sbt ctl PID …` asks, the sbt that watches answers.
//!
//! They talk over a socket of the abstract namespace, which leaves no file behind, whatever ends
//! sbt. A request is one line. The answer is a line, `ok` or `no` and the number of bytes that follow, and then a
//! text.

use std::{io, os::linux::net::SocketAddrExt as _, os::unix::net::SocketAddr};

use sbt_engine::place::printable;

mod ask;
mod listen;

pub use ask::ask;
pub use listen::{Asked, Control};

/// The longest name of a moment, bytes.
const MAX_NAME: usize = 200;

/// The most bytes of a request.
const MAX_REQUEST: usize = MAX_NAME + 32;

const OK: &str = "ok";
const NO: &str = "no";

/// What a script wants of a running sbt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Begin to count, or put the probes on again.
    Start,
    /// Take the probes off.
    Stop,
    /// Count everything anew.
    Reset,
    /// Note the moment under a name.
    Mark(String),
    /// The report so far.
    Snapshot {
        /// As JSON, not as text.
        json: bool,
    },
}

impl Order {
    /// Reads a request, without the end of its line.
    fn read(line: &str) -> Result<Self, String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        Ok(match (word, rest) {
            ("start", "") => Self::Start,
            ("stop", "") => Self::Stop,
            ("reset", "") => Self::Reset,
            ("mark", name) => Self::Mark(self::name(name)?),
            ("snapshot", "text") => Self::Snapshot { json: false },
            ("snapshot", "json") => Self::Snapshot { json: true },
            _ => return Err(format!("`{}` is no request", printable(line))),
        })
    }

    /// The request, without the end of its line.
    fn written(&self) -> String {
        match self {
            Self::Start => "start".into(),
            Self::Stop => "stop".into(),
            Self::Reset => "reset".into(),
            Self::Mark(name) => format!("mark {name}"),
            Self::Snapshot { json: false } => "snapshot text".into(),
            Self::Snapshot { json: true } => "snapshot json".into(),
        }
    }
}

/// Checks the name of a moment.
///
/// # Errors
/// Why it is none.
pub fn name(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("the name is empty".into());
    }
    if text.len() > MAX_NAME {
        return Err(format!("the name is longer than {MAX_NAME} bytes"));
    }
    if printable(text) != text {
        return Err("the name has control characters: use letters, digits and the like".into());
    }
    Ok(text.to_owned())
}

/// The address at which the sbt with this number, or the sbt that watches this process, listens.
fn address(pid: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("sbt-ctl/{pid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for order in [
            Order::Start,
            Order::Stop,
            Order::Reset,
            Order::Mark("phase 2: solve".into()),
            Order::Snapshot { json: false },
            Order::Snapshot { json: true },
        ] {
            assert_eq!(Order::read(&order.written()), Ok(order));
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let long = format!("mark {}", "x".repeat(MAX_NAME + 1));
        for line in [
            "",
            "begin",
            "start now",
            "mark",
            "mark  ",
            "mark a\x1b[31m",
            "snapshot",
            "snapshot xml",
            &long,
        ] {
            assert!(Order::read(line).is_err(), "{line}");
        }
    }
}
