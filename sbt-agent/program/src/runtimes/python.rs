//! Python: its interpreter has one lock, made of a mutex and a condition variable.

/// Whether a function is one of those in which Python's threads wait for the interpreter's lock.
pub fn waits_for_interpreter(name: &str) -> bool {
    const WAITING: [&str; 5] = [
        "take_gil",
        "PyCOND_TIMEDWAIT",
        "PyEval_RestoreThread",
        "PyEval_Acquire",
        "_PyEval_EvalFrame",
    ];
    WAITING.iter().any(|begin| name.starts_with(begin))
}
