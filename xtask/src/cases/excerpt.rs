//! Text for the page: lines of a source, and paragraphs.

use anyhow::{Context, Result};

use super::studies::Excerpt;

/// Lines of a source, without their common indentation.
pub fn lines_of(source: &str, excerpt: &Excerpt) -> Result<String> {
    let Excerpt { file, from } = excerpt;
    let mut lines = source.lines().skip_while(|line| !line.contains(from));
    let first = lines
        .next()
        .with_context(|| format!("{file} has no line with \"{from}\""))?;
    let indent = first.len() - first.trim_start().len();
    let mut shown = vec![first];
    for line in lines {
        shown.push(line);
        // rustfmt puts the closing brace on a line with the indentation of the first.
        if line
            .get(..indent)
            .is_some_and(|start| start.trim().is_empty())
            && line[indent..].starts_with('}')
        {
            let cut: Vec<&str> = shown
                .iter()
                .map(|line| line.get(indent..).unwrap_or_default())
                .collect();
            return Ok(cut.join("\n"));
        }
    }
    anyhow::bail!("{file}: \"{from}\" does not end")
}

/// Wraps a paragraph at 100 characters; a number stays with its unit.
pub fn wrap(text: &str) -> String {
    const HELD: &str = "\u{a0}";
    let text = [" %", " ms"].iter().fold(text.to_owned(), |text, unit| {
        text.replace(unit, &unit.replace(' ', HELD))
    });
    let mut out = String::new();
    let mut length = 0;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let word_length = word.chars().count();
        if length > 0 && length + 1 + word_length > 100 {
            out.push('\n');
            length = 0;
        } else if length > 0 {
            out.push(' ');
            length += 1;
        }
        out.push_str(word);
        length += word_length;
    }
    out.push('\n');
    out.replace(HELD, " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{STUDIES, page};
    use crate::workspace::Workspace;

    const SOURCE: &str =
        "fn f() {\n    let a = match x {\n        1 => 2,\n\n        _ => 3,\n    };\n}\n";

    #[test]
    fn an_excerpt_ends_with_its_brace() {
        let excerpt = |from| lines_of(SOURCE, &Excerpt { file: "f.rs", from });
        let arms = "let a = match x {\n    1 => 2,\n\n    _ => 3,\n};";
        assert_eq!(excerpt("let a").unwrap(), arms);
        assert_eq!(excerpt("fn f").unwrap(), SOURCE.trim_end());
        assert!(excerpt("fn g").is_err());
        assert!(excerpt("1 =>").is_err());
    }

    #[test]
    fn every_excerpt_is_in_its_file() {
        let workspace = Workspace::locate().unwrap();
        for study in &STUDIES {
            for excerpt in study.source {
                let path = workspace.root.join(page::SOURCE).join(excerpt.file);
                lines_of(&std::fs::read_to_string(path).unwrap(), excerpt).unwrap();
            }
        }
    }

    #[test]
    fn paragraphs_are_broken_between_words() {
        let wrapped = wrap(&"word ".repeat(50));
        assert!(wrapped.lines().all(|line| line.len() <= 100));
        assert_eq!(wrapped.split_whitespace().count(), 50);
        let wrapped = wrap(&format!("{} 10 % more", "x".repeat(96)));
        assert!(wrapped.ends_with("\n10 % more\n"), "{wrapped}");
    }
}
