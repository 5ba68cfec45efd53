//! docs/report.schema.json is made of the types of this module.

use std::{fs, path::Path};

use super::Report;

#[test]
fn the_schema_in_the_documents_is_that_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/report.schema.json");
    let schema = serde_json::to_string_pretty(&schemars::schema_for!(Report)).unwrap() + "\n";
    if std::env::var_os("SBT_WRITE_SCHEMA").is_some() {
        fs::write(&path, &schema).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap();
    assert!(
        written == schema,
        "docs/report.schema.json is old: run this test with SBT_WRITE_SCHEMA=1"
    );
}
