//! Times, commands and messages in words.

/// "File too large" (errno.h).
const EFBIG: i32 = 27;

/// A message without the numbers of system errors, since their words stand before them. Adds what
/// the words do not say.
pub fn without_codes(text: &str) -> String {
    const CODE: &str = " (os error ";
    let mut parts = text.split(CODE);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                if number.parse() == Ok(EFBIG) {
                    out.push_str(" (`ulimit -f` limits it)");
                }
                out.push_str(rest);
            }
            _ => {
                out.push_str(CODE);
                out.push_str(part);
            }
        }
    }
    out
}

/// How long something has been going on, for people: `3.2 s`, `2 min 03 s`.
pub fn since(ns: u64) -> String {
    let tenths = ns / 100_000_000;
    let seconds = tenths / 10;
    match seconds {
        0..60 => format!("{seconds}.{} s", tenths % 10),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// A time with its unit and three significant digits.
#[allow(clippy::cast_precision_loss, reason = "only three digits are printed")]
pub fn time(ns: u64) -> String {
    let ns = ns as f64;
    let (value, unit) = match ns {
        ..1e3 => return format!("{ns:.0} ns"),
        ..1e6 => (ns / 1e3, "µs"),
        ..1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    let decimals = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// A command line as a user types it into a shell.
pub fn command_line(arguments: &[String]) -> String {
    let quoted: Vec<String> = arguments.iter().map(|argument| quoted(argument)).collect();
    quoted.join(" ")
}

fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./=:,+@%^".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}

/// Ascending numbers in short: `0-3, 7`.
pub fn ranges(numbers: &[u32]) -> String {
    let mut all: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match all.last_mut() {
            Some((_, last)) if number.checked_sub(1) == Some(*last) => *last = *number,
            _ => all.push((*number, *number)),
        }
    }
    let shown = all.into_iter().map(|(first, last)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    });
    shown.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_left_out_and_nothing_else() {
        for (text, expected) in [
            ("a: No such file (os error 2)", "a: No such file"),
            ("x (os error 2); y (os error 13).", "x; y."),
            (
                "x: File too large (os error 27)",
                "x: File too large (`ulimit -f` limits it)",
            ),
            ("x (os error of mine)", "x (os error of mine)"),
            ("x (os error 2", "x (os error 2"),
            ("", ""),
        ] {
            assert_eq!(without_codes(text), expected);
        }
    }

    #[test]
    fn times_are_written_for_people() {
        assert_eq!(since(3_240_000_000), "3.2 s");
        assert_eq!(since(123_000_000_000), "2 min 03 s");
        assert_eq!(since(7_320_000_000_000), "2 h 02 min");
    }

    #[test]
    fn arguments_are_quoted_where_a_shell_would_need_it() {
        let line = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments
                .iter()
                .map(|&argument| argument.to_owned())
                .collect();
            command_line(&arguments)
        };
        assert_eq!(line(&["./lu", "-n", "2048", "--a=b"]), "./lu -n 2048 --a=b");
        assert_eq!(line(&["sh", "-c", "a | b", ""]), "sh -c 'a | b' ''");
        assert_eq!(
            line(&["it's", "$HOME", "*", "~"]),
            r"'it'\''s' '$HOME' '*' '~'"
        );
    }

    #[test]
    fn times_have_three_figures() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_234, "1.23 µs"),
            (45_678, "45.7 µs"),
            (123_456_789, "123 ms"),
            (9_996_000_000, "10.0 s"),
        ] {
            assert_eq!(time(ns), text);
        }
    }
}
