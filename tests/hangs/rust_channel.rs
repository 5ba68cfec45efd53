// A receiver reads to the end of a channel of which it holds a sender itself.
// build: rustc -O -g
// outcome: hung
// must: no thread of the process is left that could wake it
// must: rust_channel.rs:{next}
// never: no circle of waits
// never: not known
use std::sync::mpsc::channel;
use std::thread;

fn main() {
    let (send, receive) = channel::<u32>();
    let copy = send.clone();
    let worker = thread::spawn(move || copy.send(1).unwrap());
    worker.join().unwrap();
    let mut sum = 0;
    for next in &receive { // SITE next
        sum += next;
    }
    drop(send);
    std::process::exit(sum as i32);
}
