//! A look that is under way while the program is watched.

use std::{
    io,
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::time::{sleep, timeout};

use sbt_engine::{hang::Scene, model::still::Still};

/// A look under way: it waits for threads to stop, and may wait for a file whose server
/// is down. It has a thread of its own, for whose end nobody has to wait.
pub struct Looking {
    still: Vec<Still>,
    look: JoinHandle<Scene>,
}

impl Looking {
    /// Begins. `still`: at what is looked.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn begin(
        still: Vec<Still>,
        look: impl FnOnce() -> Scene + Send + 'static,
    ) -> io::Result<Self> {
        let named = thread::Builder::new().name("look".into());
        Ok(Self {
            still,
            look: named.spawn(look)?,
        })
    }

    /// What it sees is of no use any more.
    pub fn forget(&mut self) {
        self.still.clear();
    }

    /// Waits until it is over, but not for longer than so.
    pub async fn over(&self, at_most: Duration) {
        /// From one question to the next.
        const PAUSE: Duration = Duration::from_millis(5);
        let over = async {
            while !self.is_over() {
                sleep(PAUSE).await;
            }
        };
        let _it_may_be_blocked = timeout(at_most, over).await;
    }

    /// Whether what it has seen can be had at once.
    pub fn is_over(&self) -> bool {
        self.look.is_finished()
    }

    /// Waits for its end: at what was looked, and what was seen, unless it failed.
    pub fn end(self) -> Option<(Vec<Still>, Scene)> {
        Some((self.still, self.look.join().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::mpsc,
        time::{Duration, Instant},
    };

    use super::*;

    #[test]
    fn nobody_waits_for_a_look_that_does_not_come_back() {
        let begun = Instant::now();
        let (say, told) = mpsc::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let look = runtime.block_on(async {
            Looking::begin(Vec::new(), move || {
                let _over = told.recv_timeout(Duration::from_secs(20));
                Scene::default()
            })
        });
        drop(runtime);
        let look = look.unwrap();
        assert!(!look.is_over());
        assert!(begun.elapsed() < Duration::from_secs(10));
        drop(say);
        assert_eq!(look.end(), Some((Vec::new(), Scene::default())));
    }
}
