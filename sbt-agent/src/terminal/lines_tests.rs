//! Bytes in, lines out.

use proptest::prelude::*;

use super::*;

fn texts(lines: &Lines) -> Vec<String> {
    lines.all().into_iter().map(|line| line.text).collect()
}

fn lines(bytes: &[u8]) -> Vec<String> {
    let mut lines = Lines::default();
    lines.push(bytes, 0);
    texts(&lines)
}

#[track_caller]
fn shows(bytes: impl AsRef<[u8]>, expected: &[&str]) {
    assert_eq!(lines(bytes.as_ref()), expected);
}

#[test]
fn lines_end_and_the_last_may_not() {
    shows("", &[]);
    shows("one\r\ntwo\n\nfour", &["one", "two", "", "four"]);
}

#[test]
fn escape_sequences_are_gone() {
    shows("\x1b[1;31mred\x1b[0m \x1b(Bx\x1b7y\x1b[?25l", &["red xy"]);
    shows(
        "\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\x1bP1$r\x1b\\c",
        &["abc"],
    );
    // A sequence that never ends does not swallow the next lines.
    shows("\x1b]0;title\nnext\x1b[1\nlast", &["", "next", "last"]);
    // Nor does an aborted sequence.
    shows("\x1b[12\x18a\x1b]x\x1ab", &["ab"]);
}

#[test]
fn control_characters_are_gone() {
    shows("a\x07b\0c\x7fd\u{85}e\u{202e}f", &["abcdef"]);
}

#[test]
fn what_is_overwritten_is_overwritten() {
    shows("50 %\r100 %", &["100 %"]);
    shows("working...\rdone", &["doneing..."]);
    shows("working...\r\x1b[Kdone", &["done"]);
    shows("working...\r\x1b[2Kdone", &["done"]);
    shows("ab\x08c", &["ac"]);
    shows("\x08\x08a", &["a"]);
    shows("日本\rab", &["ab本"]);
    shows("日本\ra", &["a 本"]);
    shows("abcd\r日", &["日cd"]);
    shows("e\u{301}f\rx", &["xf"]);
    shows("日\x08x", &["x "]);
}

#[test]
fn tabs_go_to_the_next_stop() {
    shows("a\tb\t\tc", &["a       b               c"]);
    shows("日\tx", &["日      x"]);
    shows("abcdefghij\r\tX", &["abcdefghXj"]);
}

#[test]
fn text_that_is_none_is_seen_as_that() {
    shows(b"a\xffb", &["a\u{fffd}b"]);
    shows(b"\xe6\x97", &[]);
    shows(b"\xe6\x97x", &["\u{fffd}x"]);
    shows(b"\xe6\x97\xe6\x97\xa5", &["\u{fffd}日"]);
    shows(b"\xe6\x97\n", &["\u{fffd}"]);
}

#[test]
fn only_so_much_is_kept() {
    let mut many = Lines::default();
    for number in 0..10_000 {
        many.push(format!("{number}\n").as_bytes(), 0);
    }
    many.push(b"last", 0);
    let all = texts(&many);
    assert_eq!(all.len(), MAX_LINES);
    assert_eq!(all[MAX_LINES - 2..], ["9999", "last"]);

    let mut long = Lines::default();
    for _ in 0..1_000 {
        long.push(&[b'x'; 1_500], 0);
    }
    let all = texts(&long);
    let size: usize = all.iter().map(String::len).sum();
    assert!(size <= MAX_BYTES && size > MAX_BYTES * 9 / 10, "{size}");
    assert!(all.iter().all(|line| line.len() <= MAX_LINE));

    // Marks without a width, again and again at the beginning of the line.
    let mut marks = Lines::default();
    for _ in 0..500_000 {
        marks.push("\r\u{301}".as_bytes(), 0);
    }
    let size: usize = texts(&marks).iter().map(String::len).sum();
    assert!(size <= MAX_BYTES, "{size}");
}

#[test]
fn a_line_has_the_time_at_which_its_end_was_read() {
    let mut lines = Lines::default();
    lines.push(b"one\ntw", 3);
    lines.push(b"o\nthree", 5);
    let times: Vec<u64> = lines.all().iter().map(|line| line.at_ns).collect();
    assert_eq!(times, [3, 5, u64::MAX]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// However the bytes are cut, the lines are the same, within bounds, and without anything that
    /// drives a terminal.
    #[test]
    fn the_cuts_do_not_matter(
        pieces in prop::collection::vec(prop_oneof![
            "[a-z]{1,12}".prop_map(String::into_bytes),
            "[日é\u{301}😀]{1,3}".prop_map(String::into_bytes),
            prop::sample::select(vec![
                "\r", "\n", "\t", "\x08", "\x1b[K", "\x1b[2K", "\x1b[31m", "\x1b]0;t\x07", "\x1b", "\x1b[",
            ]).prop_map(|text| text.as_bytes().to_vec()),
            prop::collection::vec(any::<u8>(), 1..6),
            Just(vec![b'x'; 5_000]),
        ], 0..60),
        cuts in prop::collection::vec(1_usize..9, 1..20),
    ) {
        let bytes = pieces.concat();
        let whole = lines(&bytes);
        let mut cut = Lines::default();
        let mut rest = &bytes[..];
        for size in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (now, later) = rest.split_at((*size).min(rest.len()));
            cut.push(now, 0);
            rest = later;
        }
        prop_assert_eq!(&whole, &texts(&cut));
        for line in &whole {
            prop_assert!(!line.chars().any(char::is_control));
            prop_assert!(line.len() <= 2 * MAX_LINE + 4);
        }
    }
}
