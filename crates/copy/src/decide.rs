//! Decides the action for one entry from both sides' entries.

use crate::item::{CopyItem, ItemKind};
use std::collections::HashMap;

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
    /// The source entry is a link or a device, which are not copied.
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
    let Some(target) = target else {
        return if source.kind == ItemKind::Other { Decision::NotCopied } else { Decision::New };
    };
    match (source.kind, target.kind) {
        (ItemKind::Other, _) => Decision::NotCopied,
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

/// The entries of one directory on both sides, matched by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    /// Source entries, each with the target's entry of that name.
    pub both: Vec<(CopyItem, Option<CopyItem>)>,
    /// Source entries whose name differs from an earlier one in case only, where the target is
    /// case-insensitive.
    pub clashing: Vec<CopyItem>,
    /// Entries that only the target has.
    pub extra: Vec<CopyItem>,
}

/// Matches entries by name. `folds` means that the target is case-insensitive: a name in another
/// case is then no extra entry of the target.
#[must_use]
pub fn pair(source: Vec<CopyItem>, target: Vec<CopyItem>, folds: bool) -> Pairs {
    let key = |name: &str| if folds { name.to_lowercase() } else { name.to_owned() };
    let mut there: HashMap<String, Vec<CopyItem>> = HashMap::new();
    for item in target {
        there.entry(key(&item.name)).or_default().push(item);
    }
    let mut taken: HashMap<String, usize> = HashMap::new();
    let mut pairs = Pairs::default();
    for item in source {
        let key = key(&item.name);
        let count = taken.entry(key.clone()).or_default();
        *count += 1;
        if folds && *count > 1 {
            pairs.clashing.push(item);
            continue;
        }
        let found = there.get_mut(&key).and_then(|items| {
            let exact = items.iter().position(|one| one.name == item.name);
            exact.or((!items.is_empty()).then_some(0)).map(|at| items.swap_remove(at))
        });
        pairs.both.push((item, found));
    }
    there.retain(|key, _| !taken.contains_key(key));
    pairs.extra = there.into_values().flatten().collect();
    pairs.extra.sort_by(|a, b| a.name.cmp(&b.name));
    pairs
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

    fn named(names: &[&str]) -> Vec<CopyItem> {
        names.iter().map(|name| CopyItem { name: (*name).into(), ..file(1, 1) }).collect()
    }

    #[test]
    fn name_in_another_case_is_no_extra_if_case_insensitive() {
        let exact = pair(named(&["Read me", "b"]), named(&["read me", "c"]), false);
        assert_eq!((exact.both[0].1.is_some(), exact.extra.len()), (false, 2));
        let folded = pair(named(&["Read me", "b"]), named(&["read me", "c"]), true);
        assert_eq!(folded.both[0].1.as_ref().map(|item| &item.name[..]), Some("read me"));
        assert_eq!((folded.extra, folded.clashing.len()), (named(&["c"]), 0));
    }

    #[test]
    fn names_that_differ_in_case_do_not_overwrite_each_other() {
        let pairs = pair(named(&["a", "A"]), named(&["A"]), true);
        assert_eq!(pairs.clashing, named(&["A"]));
        assert_eq!(pairs.both[0].1, named(&["A"]).pop());
        assert_eq!(pairs.extra, vec![], "it is not removed either");
        assert_eq!(pair(named(&["a", "A"]), vec![], false).both.len(), 2);
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
    }
}
