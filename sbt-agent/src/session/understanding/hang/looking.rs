//! A look under way while the program is watched.

use std::{
    io,
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::time::{sleep, timeout};

use sbt_engine::{hang::Scene, model::still::Still};

/// A look under way. It waits for threads to stop, and may block on a file whose server is down, so
/// it runs on a separate thread that nothing has to wait for.
pub struct Looking {
    still: Vec<Still>,
    look: JoinHandle<Scene>,
}

impl Looking {
    /// Starts a look. `still`: the waits that the look is about.
    ///
    /// # Errors
    /// The thread cannot be started.
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

    /// Marks the result as useless.
    pub fn forget(&mut self) {
        self.still.clear();
    }

    /// Waits at most `at_most` for the end of the look.
    pub async fn over(&self, at_most: Duration) {
        /// The interval between two checks.
        const PAUSE: Duration = Duration::from_millis(5);
        let over = async {
            while !self.is_over() {
                sleep(PAUSE).await;
            }
        };
        let _it_may_be_blocked = timeout(at_most, over).await;
    }

    /// Whether the result is ready.
    pub fn is_over(&self) -> bool {
        self.look.is_finished()
    }

    /// Waits for the end of the look. Returns the waits it was about and the scene, or `None` if
    /// the look failed.
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
