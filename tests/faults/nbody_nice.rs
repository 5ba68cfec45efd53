// Bodies that attract each other, in three threads. The third was made nice, because it once was a
// background job; two busy threads at nice 0 leave it little of two CPUs.
// fault: worker 2 has nice value 19.
// must: nice value 19
// must: body-2
// never: static imbalance
use std::sync::{Arc, Barrier, RwLock};

extern "C" {
    fn setpriority(which: i32, who: u32, nice: i32) -> i32;
    fn gettid() -> i32;
}

fn main() {
    const BODIES: usize = 420;
    const WORKERS: usize = 3;
    let place: Vec<f64> = (0..BODIES).map(|i| (i as f64 * 0.37).sin() * 100.0).collect();
    let place = Arc::new(RwLock::new(place));
    let barrier = Arc::new(Barrier::new(WORKERS));
    let workers: Vec<_> = (0..WORKERS)
        .map(|me| {
            let (place, barrier) = (place.clone(), barrier.clone());
            std::thread::Builder::new()
                .name(format!("body-{me}"))
                .spawn(move || {
                    if me == 2 {
                        unsafe { setpriority(0, gettid() as u32, 19) };
                    }
                    let share = BODIES / WORKERS;
                    let mut force = vec![0.0; share];
                    for _ in 0..60 {
                        {
                            let all = place.read().unwrap();
                            for _ in 0..40 {
                                for (i, f) in force.iter_mut().enumerate() {
                                    let here = all[me * share + i];
                                    *f = all.iter().map(|x| 1.0 / ((x - here).powi(2) + 1.0)).sum();
                                }
                            }
                        }
                        barrier.wait();
                        {
                            let mut all = place.write().unwrap();
                            for (i, f) in force.iter().enumerate() {
                                all[me * share + i] += f * 1e-3;
                            }
                        }
                        barrier.wait();
                    }
                })
                .unwrap()
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    println!("{}", place.read().unwrap()[7]);
}
