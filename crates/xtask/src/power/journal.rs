//! Journal of the clients' operations, which `conformance/python/power_workload.py` writes.

use serde::{Deserialize, Serialize};

/// A run of the workload. Times are nanoseconds of CLOCK_MONOTONIC.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct WorkloadJournal {
    /// Time at which the initial content was stable.
    pub started: u64,
    /// Time of the last reply.
    pub ended: u64,
    /// The program that finds the tree after a cut, in `conformance/python`; none reads the files.
    #[serde(default)]
    pub program: Option<String>,
    /// Text for that program's standard input.
    #[serde(default)]
    pub facts: serde_json::Value,
    /// Operations in the order of their replies; those of one client in its order.
    pub operations: Vec<JournalOperation>,
}

/// An operation that succeeded.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct JournalOperation {
    /// The client of the operation.
    pub client: String,
    /// Protocol and kind of operation, by which results are counted.
    pub row: String,
    /// Description of the operation's target.
    pub text: String,
    /// Its reply promises that its effects are stable.
    pub promises: bool,
    /// Its reply promises that these earlier effects are stable.
    #[serde(default)]
    pub settles: Option<FlushScope>,
    /// Time of the request.
    pub request: u64,
    /// Time of the reply.
    pub answer: u64,
    /// The changes that it made.
    pub effects: Vec<Effect>,
}

/// The effects that a FLUSH or COMMIT makes stable.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FlushScope {
    /// Data and size of this object.
    Data(u32),
    /// All of this object, and its names.
    Object(u32),
    /// The names in this directory.
    Directory(u32),
}

/// Kind of an object.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum ObjectKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
}

/// A change of one or several registers of the model.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// An entry refers to an object from now on, or to none.
    Name {
        /// The directory's number.
        directory: u32,
        /// The entry.
        name: String,
        /// The object's number.
        object: Option<u32>,
    },
    /// A new object.
    Created {
        /// Its number.
        object: u32,
        /// Its kind.
        kind: ObjectKind,
        /// Its inode; others may have had the same number before.
        inode: u64,
        /// Permission bits.
        mode: u32,
        /// User and group.
        owner: (u32, u32),
        /// Target of a symbolic link.
        target: Option<String>,
    },
    /// Other permission bits.
    Mode {
        /// The object.
        object: u32,
        /// The bits.
        mode: u32,
    },
    /// Another user and group.
    Owner {
        /// The object.
        object: u32,
        /// User and group.
        owner: (u32, u32),
    },
    /// Another size.
    Size {
        /// The object.
        object: u32,
        /// Size in bytes.
        bytes: u64,
    },
    /// Data of cells of [`CELL_BYTES`].
    Data {
        /// The object.
        object: u32,
        /// The first cell.
        cell: usize,
        /// A tag for each cell; 0 is zeros.
        tags: Vec<u64>,
    },
    /// Another modification time; none if it is not known.
    Modified {
        /// The object.
        object: u32,
        /// Nanoseconds since 1970.
        nanoseconds: Option<i128>,
    },
    /// Another value of an extended attribute; none if it is gone.
    Attribute {
        /// The object.
        object: u32,
        /// Name with its namespace.
        name: String,
        /// Value in hexadecimal.
        value: Option<String>,
    },
}

/// Bytes of a cell: each contains the number of the write it is from, again and again.
pub const CELL_BYTES: usize = 512;

/// The tag of a cell's bytes; none if they mix several writes. The last cell may be shorter.
pub fn cell_tag(bytes: &[u8]) -> Option<u64> {
    let mut words = bytes.chunks(8);
    let first = words.next()?;
    let mut tag = [0; 8];
    tag[..first.len()].copy_from_slice(first);
    words.all(|word| word == &tag[..word.len()]).then_some(u64::from_le_bytes(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cell_of_two_writes_has_no_tag() {
        let mut cell = 7_u64.to_le_bytes().repeat(64);
        assert_eq!(cell_tag(&cell), Some(7));
        cell[100] = 1;
        assert_eq!(cell_tag(&cell), None);
        assert_eq!(cell_tag(&[0; 512]), Some(0));
    }

    #[test]
    fn effect_is_read_as_the_workload_writes_it() {
        let text = r#"{"client": "a", "row": "r", "text": "t", "promises": true, "settles": {"data": 3},
            "request": 1, "answer": 2, "effects": [
            {"name": {"directory": 1, "name": "x", "object": null}},
            {"created": {"object": 2, "kind": "file", "inode": 9, "mode": 420, "owner": [1, 2], "target": null}}]}"#;
        let operation: JournalOperation = serde_json::from_str(text).unwrap();
        assert!(matches!(operation.settles, Some(FlushScope::Data(3))));
        assert!(matches!(operation.effects[0], Effect::Name { object: None, .. }));
        assert!(matches!(operation.effects[1], Effect::Created { inode: 9, .. }));
    }
}
