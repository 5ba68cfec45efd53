//! The side of the sbt that watches.

use std::{io, os::unix::net::UnixListener as Listener, sync::Arc, time::Duration};

use nix::unistd::Uid;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{UnixListener, UnixStream},
    sync::{Semaphore, mpsc, oneshot},
    time::{sleep, timeout},
};

use super::{MAX_REQUEST, NO, OK, Order, address};

/// The time in which a request must have come, and an answer must have been taken.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most requests that wait for the session.
const QUEUE: usize = 16;

/// The most users that are served at a time, and the most that are told that they may not ask.
const SERVED: usize = 16;
const REFUSED: usize = 4;

/// How long to wait before the next try where no connection can be taken: there may be no more open files.
const AGAIN: Duration = Duration::from_millis(100);

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
    /// Listens under each of these numbers of processes. Only root and the users `allowed` are heard.
    /// Returns also the numbers under which another process listens already. Call this within a runtime.
    pub fn open(pids: &[u32], allowed: &[Uid]) -> (Self, Vec<u32>) {
        let (sender, asked) = mpsc::channel(QUEUE);
        let mut taken = Vec::new();
        for pid in pids {
            // Without control sbt watches all the same.
            match listener(*pid) {
                Ok(listener) => {
                    tokio::spawn(listen(listener, sender.clone(), allowed.to_vec()));
                }
                Err(_) => taken.push(*pid),
            }
        }
        (Self { asked }, taken)
    }

    /// Refuses all requests from now on, also those that wait.
    pub fn close(&mut self) {
        self.asked.close();
        while self.asked.try_recv().is_ok() {}
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
    let served = Arc::new(Semaphore::new(SERVED));
    let refused = Arc::new(Semaphore::new(REFUSED));
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            sleep(AGAIN).await;
            continue;
        };
        let is_allowed = stream.peer_cred().is_ok_and(|peer| {
            let uid = Uid::from_raw(peer.uid());
            uid.is_root() || allowed.contains(&uid)
        });
        // Others must not use up the open files, nor keep out those who may ask.
        let room = if is_allowed { &served } else { &refused };
        let Ok(room) = Arc::clone(room).try_acquire_owned() else {
            continue;
        };
        let orders = orders.clone();
        tokio::spawn(async move {
            let _room = room;
            if is_allowed {
                serve(stream, orders).await;
            } else {
                let _request = timeout(AGAIN, request(&mut stream)).await;
                let why = "only root and the user who runs sbt may do this";
                tell(&mut stream, Err(why.into())).await;
            }
        });
    }
}

async fn serve(mut stream: UnixStream, orders: mpsc::Sender<Asked>) {
    let answer = match timeout(PATIENCE, request(&mut stream)).await {
        Ok(Ok(order)) => ask(order, &orders).await,
        Ok(Err(why)) => Err(why),
        Err(_) => Err("no request came".into()),
    };
    tell(&mut stream, answer).await;
}

async fn tell(stream: &mut UnixStream, answer: Result<String, String>) {
    let (word, text) = match answer {
        Ok(text) => (OK, text),
        Err(why) => (NO, why),
    };
    let text = format!("{word} {}\n{text}", text.len());
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
