//! Java: each object of a program has a monitor, which one thread at a time may enter (`synchronized`).

/// The library of Java's virtual machine.
pub const JAVA: &str = "libjvm.so";

/// Whether a thread waits for a monitor of Java: by the functions that it is in, of the JVM's
/// `objectMonitor.cpp`. A thread in `Object.wait` waits for news, and takes the monitor again afterwards.
pub fn waits_for_monitor<'a>(functions: impl Iterator<Item = &'a str>) -> bool {
    let mut enters = false;
    for name in functions {
        if name.starts_with("ObjectMonitor::wait") {
            return false;
        }
        enters |= ["ObjectMonitor::enter", "ObjectMonitor::EnterI"]
            .iter()
            .any(|begin| name.starts_with(begin));
    }
    enters
}
