//! Makes text from files that others may have written safe to print on a terminal.

use serde::de::DeserializeOwned;
use serde_json::Value;

use sbt_engine::place::{is_printable, printable};

/// Parses JSON, and makes each string in it safe to print, line by line. What sbt itself has
/// written stays as it is.
///
/// # Errors
/// The text is not JSON, or not of this type.
pub fn read<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    let mut value: Value = serde_json::from_str(text)?;
    clean(&mut value);
    serde_json::from_value(value)
}

fn clean(value: &mut Value) {
    match value {
        Value::String(text) if !text.chars().all(is_printable) => {
            let lines: Vec<String> = text.split('\n').map(printable).collect();
            *text = lines.join("\n");
        }
        Value::Array(values) => values.iter_mut().for_each(clean),
        // Keys are fields of sbt, or words and names of counters.
        Value::Object(fields) => fields.values_mut().for_each(clean),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_drives_a_terminal_is_taken_out() {
        let text = r#"{"a": ["\u001b]52;c;x\u0007", "two\nlines", "a\u202eb"], "b": 1.5}"#;
        let value: Value = read(text).unwrap();
        let first = value["a"][0].as_str().unwrap();
        assert!(!first.contains(char::is_control), "{first:?}");
        assert_eq!(value["a"][1], "two\nlines");
        assert_eq!(value["a"][2], "a?b");
        assert_eq!(value["b"], 1.5);
    }
}
