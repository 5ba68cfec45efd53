//! Sections of the results, each with a heading, so that one section can be measured again without
//! the others.

/// The section under a heading (`## …`), up to the next heading or the end.
pub fn find<'a>(text: &'a str, heading: &str) -> Option<&'a str> {
    let start = start(text, heading)?;
    let body = start + heading.len();
    let end = text[body..]
        .find("\n## ")
        .map_or(text.len(), |end| body + end + 1);
    Some(&text[start..end])
}

/// Replaces the section that begins with `heading`, or adds it at the end.
pub fn put(text: &str, heading: &str, section: &str) -> String {
    let section = section.trim();
    let Some(former) = find(text, heading) else {
        return format!("{}\n\n{section}\n", text.trim_end());
    };
    // The section was found in the text, so it splits the text.
    let (before, after) = text.split_once(former).unwrap_or((text, ""));
    let blank = if after.is_empty() { "" } else { "\n" };
    format!("{before}{section}\n{blank}{after}")
}

/// The text with each section of `sections` in place of its former one.
pub fn put_each(text: &str, sections: &str) -> String {
    let mut starts: Vec<usize> = sections
        .match_indices("\n## ")
        .map(|(at, _)| at + 1)
        .collect();
    if sections.starts_with("## ") {
        starts.insert(0, 0);
    }
    let ends = starts.iter().skip(1).copied().chain([sections.len()]);
    let parts: Vec<&str> = starts
        .iter()
        .zip(ends)
        .map(|(start, end)| &sections[*start..end])
        .collect();
    parts.into_iter().fold(text.to_owned(), |text, section| {
        let heading = section.lines().next().unwrap_or_default();
        put(&text, heading, section)
    })
}

fn start(text: &str, heading: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_end() == heading {
            return Some(at);
        }
        at += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_section_takes_the_place_of_its_former_one() {
        let text = "# all\n\n## a\n\n1\n\n## b\n\n2\n";
        let put = put_each(text, "\n## b\n\n3\n\n## c\n\n4\n");
        assert_eq!(put, "# all\n\n## a\n\n1\n\n## b\n\n3\n\n## c\n\n4\n");
    }

    const TEXT: &str = "# All\n\n## One\n\n1\n\n## Two\n\nsee ## One\n\n## Three\n\n3\n";

    #[test]
    fn a_section_ends_where_the_next_begins() {
        assert_eq!(find(TEXT, "## One"), Some("## One\n\n1\n\n"));
        assert_eq!(find(TEXT, "## Three"), Some("## Three\n\n3\n"));
        assert_eq!(find(TEXT, "## Thr"), None);
    }

    #[test]
    fn only_the_one_section_is_replaced() {
        let text = put(TEXT, "## Two", "\n## Two\n\n2\n");
        assert_eq!(
            text,
            "# All\n\n## One\n\n1\n\n## Two\n\n2\n\n## Three\n\n3\n"
        );
        assert_eq!(put(&text, "## Two", "## Two\n\n2"), text);
        let last = put(&text, "## Three", "## Three\n\n4");
        assert!(last.ends_with("## Two\n\n2\n\n## Three\n\n4\n"), "{last}");
    }

    #[test]
    fn a_new_one_comes_last() {
        let text = put(TEXT, "## Four", "## Four\n\n4");
        assert_eq!(text, format!("{TEXT}\n## Four\n\n4\n"));
    }
}
