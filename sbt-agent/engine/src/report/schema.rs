//! Checks that docs/report.schema.json and docs/hang.schema.json match the types of this module.

use std::{fs, path::Path};

use schemars::{JsonSchema, schema_for};

use super::{LookReport, Report};

#[test]
fn the_schemas_in_the_documents_are_those_of_the_code() {
    is_that_of::<Report>("report.schema.json");
    is_that_of::<LookReport>("hang.schema.json");
}

/// Fails unless the file contains the schema of the type.
pub fn is_that_of<T: JsonSchema>(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name);
    let schema = serde_json::to_string_pretty(&schema_for!(T)).unwrap() + "\n";
    #[allow(clippy::disallowed_methods, reason = "of the test alone")]
    if std::env::var_os("SBT_WRITE_SCHEMA").is_some() {
        fs::write(&path, &schema).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == schema,
        "docs/{name} is old: run this test with SBT_WRITE_SCHEMA=1"
    );
}
