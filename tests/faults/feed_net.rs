// One of two threads waits for a batch from the network in every step.
//
// must: T1 train-1
// must: recv (a socket) called from feed_net::next_batch feed_net.rs:
// never: imbalance at
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;
fn work(n: u64) -> f64 { let mut s = 0.0; for i in 1..n { s += 1.0 / (i as f64 + s); } s }
#[inline(never)]
fn next_batch(stream: &mut TcpStream) -> u8 { let mut b = [0u8; 64]; stream.read_exact(&mut b).unwrap(); b[0] }
fn main() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::Builder::new().name("server".into()).spawn(move || {
        let (mut s, _) = listener.accept().unwrap();
        loop { thread::sleep(Duration::from_millis(12)); if s.write_all(&[7; 64]).is_err() { break; } }
    }).unwrap();
    let meet = Arc::new(Barrier::new(2));
    let workers: Vec<_> = (0..2).map(|me| {
        let meet = meet.clone();
        thread::Builder::new().name(format!("train-{me}")).spawn(move || {
            let mut stream = (me == 1).then(|| TcpStream::connect(address).unwrap());
            let mut s = 0.0;
            for _ in 0..70 {
                if let Some(stream) = &mut stream { s += next_batch(stream) as f64; }
                s += work(600_000);
                meet.wait();
            }
            println!("{s}");
        }).unwrap()
    }).collect();
    for w in workers { w.join().unwrap(); }
}
