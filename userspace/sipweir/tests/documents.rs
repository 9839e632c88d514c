//! Documents that are made from the code: each is compared with what the code says now, or written anew by
//! `cargo xtask docs`, which sets `SIPWEIR_WRITE_DOCS`.

use std::path::Path;

/// Set to write the documents instead of comparing them.
const WRITE: &str = "SIPWEIR_WRITE_DOCS";

/// Path below `docs/`, and text.
fn documents() -> Vec<(&'static str, String)> {
    vec![("metrics.md", sipweir::metrics::page()), ("status.md", sipweir::status::page())]
}

#[test]
fn documents_say_what_the_code_says() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut outdated = Vec::new();
    for (name, expected) in documents() {
        let path = docs.join(name);
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(&path, &expected).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        let differs = || found.lines().zip(expected.lines()).find(|(found, expected)| found != expected);
        if found != expected {
            outdated.push(format!("docs/{name}: {:?}", differs()));
        }
    }
    assert!(outdated.is_empty(), "outdated, write them by `cargo xtask docs`: {}", outdated.join("\n"));
}
