//! Decides the action for one entry from both sides' entries.

use crate::item::{CopyItem, ItemKind};

/// The action for one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The target has no entry of this name.
    New,
    /// The target has an older or different file of this name.
    Replace,
    /// The target has the same file.
    Same,
    /// Both sides have a directory of this name.
    Enter,
    /// One side has a directory, the other a file; neither is replaced.
    Mismatch,
    /// The source entry is a symbolic link, which is copied as one.
    Link,
    /// The source entry is a device, or a link that is left out.
    NotCopied,
}

/// Coarsest resolution of times among the sides: SMB's FILETIME has steps of 100 ns.
const STEP_NANOS: i128 = 100;

/// The action for `source`, where `target` is the target's entry of that name, if any.
///
/// A file is the same if it has the same length and the same last write time. A run that does not
/// preserve times takes a target that is not older for the same.
#[must_use]
pub fn decide(source: &CopyItem, target: Option<&CopyItem>, keeps_times: bool) -> Decision {
    if matches!(source.kind, ItemKind::Link | ItemKind::Other) {
        return Decision::NotCopied;
    }
    let Some(target) = target else { return Decision::New };
    match (source.kind, target.kind) {
        (ItemKind::Directory, ItemKind::Directory) => Decision::Enter,
        (ItemKind::File, ItemKind::File) => {
            if is_same(source, target, keeps_times) {
                Decision::Same
            } else {
                Decision::Replace
            }
        }
        _ => Decision::Mismatch,
    }
}

fn is_same(source: &CopyItem, target: &CopyItem, keeps_times: bool) -> bool {
    if source.size_bytes != target.size_bytes {
        return false;
    }
    match (source.facts.written, target.facts.written) {
        (Some(from), Some(to)) => {
            let (from, to) = (from.div_euclid(STEP_NANOS), to.div_euclid(STEP_NANOS));
            from == to || (!keeps_times && to > from)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::ItemFacts;

    fn file(size_bytes: u64, written: i128) -> CopyItem {
        CopyItem {
            name: "a".into(),
            kind: ItemKind::File,
            size_bytes,
            is_sparse: false,
            change: 0,
            facts: ItemFacts { written: Some(written), ..ItemFacts::default() },
        }
    }

    fn of(kind: ItemKind) -> CopyItem {
        CopyItem { kind, ..file(0, 0) }
    }

    #[test]
    fn file_with_equal_length_and_time_is_the_same() {
        assert_eq!(decide(&file(1, 1000), None, true), Decision::New);
        assert_eq!(decide(&file(1, 1000), Some(&file(1, 1000)), true), Decision::Same);
        assert_eq!(decide(&file(1, 1099), Some(&file(1, 1000)), true), Decision::Same, "a step");
        assert_eq!(decide(&file(1, 1100), Some(&file(1, 1000)), true), Decision::Replace);
        assert_eq!(decide(&file(2, 1000), Some(&file(1, 1000)), true), Decision::Replace);
        assert_eq!(decide(&file(1, 1000), Some(&file(1, 9000)), true), Decision::Replace);
        assert_eq!(decide(&file(1, 1000), Some(&file(1, 9000)), false), Decision::Same);
        assert_eq!(decide(&file(1, 9000), Some(&file(1, 1000)), false), Decision::Replace);
    }

    #[test]
    fn target_of_another_kind_is_a_mismatch() {
        let (directory, other) = (of(ItemKind::Directory), of(ItemKind::Other));
        assert_eq!(decide(&directory, Some(&file(1, 1)), true), Decision::Mismatch);
        assert_eq!(decide(&file(1, 1), Some(&directory), true), Decision::Mismatch);
        assert_eq!(decide(&file(1, 1), Some(&other), true), Decision::Mismatch);
        assert_eq!(decide(&directory, Some(&directory), true), Decision::Enter);
        assert_eq!(decide(&directory, None, true), Decision::New);
        assert_eq!(decide(&other, None, true), Decision::NotCopied);
        assert_eq!(decide(&file(1, 1), Some(&of(ItemKind::Link)), true), Decision::Mismatch);
        assert_eq!(decide(&of(ItemKind::Link), None, true), Decision::NotCopied);
    }
}
