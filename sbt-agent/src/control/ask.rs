//! The side of the script.

use std::{
    io::{self, Read as _, Write as _},
    os::unix::net::UnixStream,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use nix::{
    sys::socket::{getsockopt, sockopt::PeerCredentials},
    unistd::Uid,
};

use super::{NO, OK, Order, address};
use sbt_engine::place::printable;

/// The time in which an answer must have come.
const PATIENCE: Duration = Duration::from_secs(30);

/// The most bytes of an answer: a report in JSON of many threads has some megabytes.
const MAX_ANSWER: u64 = 256 << 20;

/// Asks the sbt with the number `pid`, or the one that watches the process `pid`. Returns the text
/// of the answer, safe to print.
///
/// # Errors
/// Nobody listens there, or sbt refuses: one line that says why.
pub fn ask(pid: u32, order: &Order) -> anyhow::Result<String> {
    let mut stream = connect(pid)?;
    let answer = exchange(&mut stream, order).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => {
            anyhow::anyhow!("sbt does not answer: it may be ending, or be stopped")
        }
        _ => anyhow::Error::from(error).context("talking to sbt"),
    })?;
    ensure!(
        !answer.is_empty(),
        "sbt gave no answer: it has ended meanwhile, or it is asked by too many at once"
    );
    let (first, text) = answer.split_once('\n').unwrap_or((&answer, ""));
    let (word, length) = first.split_once(' ').unwrap_or((first, ""));
    let whole = length
        .parse()
        .is_ok_and(|length: usize| length == text.len());
    let safe: Vec<String> = text.lines().map(printable).collect();
    match word {
        OK | NO if !whole => bail!("the answer of sbt was cut off: ask again"),
        OK => Ok(safe.join("\n")),
        NO => bail!("{}", safe.join(" ")),
        _ => bail!("what answers there is not sbt"),
    }
}

fn connect(pid: u32) -> anyhow::Result<UnixStream> {
    let stream = UnixStream::connect_addr(&address(pid)?).map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => anyhow::anyhow!(
            "no sbt watches process {pid}, and no sbt has this number; in a container, ask from \
             inside of it"
        ),
        _ => anyhow::Error::from(error).context("reaching sbt"),
    })?;
    // Anybody may listen under a name of this form.
    let peer = getsockopt(&stream, PeerCredentials).context("asking who listens there")?;
    let (listener, own) = (Uid::from_raw(peer.uid()), Uid::effective());
    ensure!(
        own.is_root() || listener.is_root() || listener == own,
        "an sbt of another user watches process {pid}"
    );
    if own.is_root() && !listener.is_root() {
        eprintln!("sbt: process {} of user {listener} answers", peer.pid());
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn exchange(stream: &mut UnixStream, order: &Order) -> io::Result<String> {
    stream.write_all(format!("{}\n", order.written()).as_bytes())?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
    String::from_utf8(answer).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
