//! The side of the sbt that watches.

use std::{io, os::unix::net::UnixListener as Listener, time::Duration};

use nix::unistd::Uid;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{UnixListener, UnixStream},
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{MAX_REQUEST, NO, OK, Order, address};

/// The time in which a request must have come, and an answer must have been taken.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most requests that wait for the session.
const QUEUE: usize = 16;

/// A request that waits for its answer.
pub struct Asked {
    /// What is wanted.
    pub order: Order,
    answer: oneshot::Sender<Result<String, String>>,
}

impl Asked {
    /// Answers: with a text, or with the reason why not.
    pub fn answer(self, answer: Result<String, String>) {
        // Whoever asked may be gone.
        let _gone = self.answer.send(answer);
    }
}

/// Takes requests of scripts.
pub struct Control {
    asked: mpsc::Receiver<Asked>,
}

impl Control {
    /// Listens under each of these numbers of processes, as far as no other sbt does. Only root and
    /// the users `allowed` are heard. Call this within a runtime.
    pub fn open(pids: &[u32], allowed: &[Uid]) -> Self {
        let (sender, asked) = mpsc::channel(QUEUE);
        for pid in pids {
            // Without control sbt watches all the same.
            if let Ok(listener) = listener(*pid) {
                tokio::spawn(listen(listener, sender.clone(), allowed.to_vec()));
            }
        }
        Self { asked }
    }

    /// The next request; waits forever if nobody can ask.
    pub async fn next(&mut self) -> Asked {
        match self.asked.recv().await {
            Some(asked) => asked,
            None => std::future::pending().await,
        }
    }
}

fn listener(pid: u32) -> io::Result<UnixListener> {
    let listener = Listener::bind_addr(&address(pid)?)?;
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

async fn listen(listener: UnixListener, orders: mpsc::Sender<Asked>, allowed: Vec<Uid>) {
    while let Ok((stream, _)) = listener.accept().await {
        let is_allowed = stream.peer_cred().is_ok_and(|peer| {
            let uid = Uid::from_raw(peer.uid());
            uid.is_root() || allowed.contains(&uid)
        });
        tokio::spawn(serve(stream, orders.clone(), is_allowed));
    }
}

async fn serve(mut stream: UnixStream, orders: mpsc::Sender<Asked>, is_allowed: bool) {
    let answer = match timeout(PATIENCE, request(&mut stream)).await {
        _ if !is_allowed => Err("only root and the user who runs sbt may do this".into()),
        Ok(Ok(order)) => ask(order, &orders).await,
        Ok(Err(why)) => Err(why),
        Err(_) => Err("no request came".into()),
    };
    let text = match answer {
        Ok(text) => format!("{OK}\n{text}"),
        Err(why) => format!("{NO}\n{why}"),
    };
    // Whoever asked may be gone.
    let _gone = timeout(PATIENCE, stream.write_all(text.as_bytes())).await;
}

async fn request(stream: &mut UnixStream) -> Result<Order, String> {
    let mut line = String::new();
    let mut bounded = BufReader::new(stream.take(MAX_REQUEST as u64));
    let read = bounded.read_line(&mut line).await;
    read.map_err(|error| error.to_string())?;
    Order::read(line.strip_suffix('\n').unwrap_or(&line))
}

async fn ask(order: Order, orders: &mpsc::Sender<Asked>) -> Result<String, String> {
    let over = || "watching has ended".to_owned();
    let (answer, answered) = oneshot::channel();
    let asked = Asked { order, answer };
    orders.send(asked).await.map_err(|_| over())?;
    answered.await.unwrap_or_else(|_| Err(over()))
}
