//! Words that the report of a hang chooses from.

use super::kinds;

kinds! {
    /// Whether threads that wait will ever go on.
    pub enum HangKind {
        /// No thread can go on any more; `because` says why.
        Never = "never",
        /// None of the missing threads did anything while it was looked at, but something else may
        /// wake them.
        Stuck = "stuck",
        /// The missing thread uses a CPU, always at one place, which is either slow or an endless
        /// loop; or threads went on while they were looked at.
        Unclear = "unclear",
        /// The program waits for something outside of it, such as input, a peer or a timer; this is
        /// no hang.
        Outside = "outside",
        /// The missing thread moves, or will move by itself; this is no hang.
        Slow = "slow",
    }
}

kinds! {
    /// The cause of a hang.
    pub enum HangCause {
        /// Threads wait for each other in a circle.
        Cycle = "cycle",
        /// A thread waits for a lock that it holds itself.
        OwnLock = "own-lock",
        /// The holder of a lock has ended.
        HolderGone = "holder-gone",
        /// Fewer threads are left than the barrier waits for.
        FewerAlive = "fewer-alive",
        /// The barrier waits for more threads than there have ever been.
        CountTooLarge = "count-too-large",
        /// A thread that used to come has ended.
        MemberGone = "member-gone",
        /// A thread is in the barrier twice.
        WaitsTwice = "waits-twice",
        /// More threads have come than the barrier waits for.
        TooMany = "too-many",
        /// All threads that could wake the sleeping threads sleep themselves.
        NobodyWakes = "nobody-wakes",
        /// The threads of a team exist only in the process from which this one was forked.
        ForkedTeam = "forked-team",
        /// The threads of one team wait at different barriers.
        Apart = "apart",
    }
}

kinds! {
    /// The result of a look.
    pub enum LookOutcome {
        /// Nobody is left that could wake the waiting threads.
        Hung = "hung",
        /// The program waits for the outside, such as input, a peer or a timer.
        Outside = "outside",
        /// It is not known whether the program goes on.
        Unknown = "unknown",
        /// The program goes on.
        Moves = "moves",
    }
}

kinds! {
    /// The end of a hang.
    pub enum HangOutcome {
        /// The hang lasted when the report was made, or when the target ended.
        Lasts = "lasts",
        /// Threads came, or ran again.
        Over = "over",
        /// Watching ended before, because the probes went off or the recording breaks off.
        Unknown = "unknown",
    }
}

kinds! {
    /// The activity of a thread during a hang.
    pub enum HangThreadState {
        /// On a CPU or ready for one.
        Running = "running",
        /// Asleep: see `blocked_on`.
        Waiting = "waiting",
        /// Stopped by a signal.
        Stopped = "stopped",
        /// Held by a debugger.
        Traced = "traced",
        /// The thread has ended.
        Ended = "ended",
        /// Nothing is known of the thread.
        Unknown = "unknown",
    }
}

kinds! {
    /// The kind of object that a thread sleeps for.
    pub enum BlockedOnKind {
        /// A barrier that waits for other threads.
        Barrier = "barrier",
        /// A lock that one thread holds at a time.
        Mutex = "mutex",
        /// A lock that readers share.
        RwLock = "rwlock",
        /// A semaphore that counts.
        Semaphore = "semaphore",
        /// A condition variable.
        Condvar = "condvar",
        /// The end of another thread.
        Join = "join",
        /// The end of another process.
        Child = "child",
        /// A futex about which nothing more is known.
        Futex = "futex",
        /// A section of OpenMP that one thread executes at a time.
        Section = "section",
        /// A change of memory, for which the thread looks in a loop.
        Memory = "memory",
        /// Another system call.
        Call = "call",
    }
}
