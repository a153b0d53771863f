//! Long named streams: the attribute refers to a file in a store of the share, whose cells take the
//! place of the reference. The lane reads references in its own way, not in the server's;
//! `conformance/python/power_disk.py` writes the same text.

use super::journal::{CELL_BYTES, cell_tag};
use super::observed::ObservedTree;
use anyhow::Result;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A store's name, in the root of a share.
pub const STORE: &str = ".anabranch-streams";
/// First and last bytes of a reference, in hexadecimal; the id is between them.
const REFERENCE: (&str, &str) = ("00616e616272616e63682d73747265616d3a3100", "f0");
/// Attribute of a store file that identifies the stream's file.
const RECORD: &str = "user.anabranch.stream-of";
const RECORD_BYTES_MAX: usize = 4096;
/// First word of the text that takes the place of a reference.
const LONG: &str = "long";

/// Cells of the files of all stores that were found, as text, by id.
#[derive(Debug, Default)]
pub struct ObservedStores {
    cells: BTreeMap<String, String>,
}

impl ObservedStores {
    /// Reads one store. A file without a record of its host file is not a stream.
    pub fn add(&mut self, store: &Path) -> Result<()> {
        for entry in fs::read_dir(store)? {
            let path = entry?.path();
            if rustix::fs::lgetxattr(&path, RECORD, &mut [0; RECORD_BYTES_MAX][..]).is_err() {
                continue;
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.cells.insert(name, text_of(&fs::read(&path)?));
        }
        Ok(())
    }

    /// Replaces each reference. A reference whose file is in no store stays as it is, which no
    /// model permits.
    pub fn resolve(&self, tree: &mut ObservedTree) {
        for inode in tree.inodes.values_mut() {
            for value in inode.attributes.values_mut() {
                let id =
                    value.strip_prefix(REFERENCE.0).and_then(|id| id.strip_suffix(REFERENCE.1));
                if let Some(cells) = id.and_then(|id| self.cells.get(id)) {
                    value.clone_from(cells);
                }
            }
        }
    }
}

/// Runs of cells: count and tag, which is `-` of a cell of several writes.
fn text_of(bytes: &[u8]) -> String {
    let tags: Vec<Option<u64>> = bytes.chunks(CELL_BYTES).map(cell_tag).collect();
    let runs = tags.chunk_by(|left, right| left == right).map(|run| match run[0] {
        Some(tag) => format!(" {}*{tag}", run.len()),
        None => format!(" {}*-", run.len()),
    });
    std::iter::once(LONG.to_owned()).chain(runs).collect()
}

/// An attribute of a stream without bytes. Samba ends each with a byte.
const EMPTY: &str = "00";
/// The tag of zeros.
const ZEROS: &str = "0";

/// Tags of the cells of a long stream, or of an empty one; none if the text is of no such stream.
fn tags_of(text: &str) -> Option<Vec<&str>> {
    if text == EMPTY {
        return Some(Vec::new());
    }
    let runs = text.strip_prefix(LONG)?.split_whitespace().map(|run| run.split_once('*'));
    let mut tags = Vec::new();
    for run in runs {
        let (count, tag) = run?;
        tags.extend(std::iter::repeat_n(tag, count.parse().ok()?));
    }
    Some(tags)
}

/// Whether each cell of a stream equals that cell in one of these values. A write in flight changes
/// whole cells. In a growing stream, zeros precede data.
pub fn is_between(found: &str, values: &[&str]) -> bool {
    let Some(found) = tags_of(found) else { return false };
    let values: Vec<Vec<&str>> = values.iter().filter_map(|value| tags_of(value)).collect();
    let lengths = || values.iter().map(Vec::len);
    lengths().min().is_some_and(|least| found.len() >= least)
        && lengths().max().is_some_and(|most| found.len() <= most)
        && found.iter().enumerate().all(|(at, tag)| {
            values.iter().any(|value| value.get(at).map_or(*tag == ZEROS, |one| one == tag))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_written_as_runs_and_read_again() {
        let mut bytes = 7_u64.to_le_bytes().repeat(3 * CELL_BYTES / 8);
        bytes.extend([0; CELL_BYTES]);
        bytes[CELL_BYTES] = 1;
        let text = text_of(&bytes);
        assert_eq!(text, "long 1*7 1*- 1*7 1*0");
        assert_eq!(tags_of(&text), Some(vec!["7", "-", "7", "0"]));
        assert_eq!(tags_of("00aa"), None);
    }

    #[test]
    fn stream_between_two_writes_has_cells_of_either_and_no_other() {
        let values = ["long 4*1", "long 2*1 2*2", "long 3*1"];
        for (found, expected) in [
            ("long 4*1", true),
            ("long 2*1 1*2 1*1", true),
            ("long 1*2 3*1", false),
            ("long 2*1 1*- 1*1", false),
            ("long 3*1", true),
            ("long 3*1 1*0", true),
            ("long 2*1 2*0", false),
            ("long 2*1", false),
            ("long 5*1", false),
            ("00616e61f0", false),
        ] {
            assert_eq!(is_between(found, &values), expected, "{found}");
        }
        assert!(!is_between("long 4*1", &[]));
        assert!(is_between("long 1*1 1*0", &["00", "long 4*1"]));
    }
}
