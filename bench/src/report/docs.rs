//! The generated parts of `docs/benchmarks.md`, each between two marker lines.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

/// Replaces what stands between the markers of `part`.
pub fn update(part: &str, content: &str) -> Result<()> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/benchmarks.md");
    let old = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let new = replace(&old, part, content)?;
    fs::write(&file, new).with_context(|| format!("writing {}", file.display()))
}

fn replace(page: &str, part: &str, content: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- begin {part} -->\n"), format!("<!-- end {part} -->"));
    let (before, rest) = page.split_once(&begin).with_context(|| format!("no marker {begin:?}"))?;
    let (_, after) = rest.split_once(&end).with_context(|| format!("no marker {end:?}"))?;
    Ok(format!("{before}{begin}\n{}\n\n{end}{after}", content.trim()))
}

#[cfg(test)]
mod tests {
    use super::replace;

    #[test]
    fn only_the_part_between_its_markers_changes() {
        let page = "a\n<!-- begin x -->\nold\n<!-- end x -->\nb\n";
        assert_eq!(replace(page, "x", "new").unwrap(), "a\n<!-- begin x -->\n\nnew\n\n<!-- end x -->\nb\n");
    }

    #[test]
    fn a_missing_marker_is_an_error() {
        assert!(replace("no markers", "x", "new").is_err());
    }
}
