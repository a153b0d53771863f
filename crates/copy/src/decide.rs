//! What is to be done with one entry: a function of both sides' entries.

use crate::item::{Item, Kind};
use std::collections::HashMap;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Its name is free.
    New,
    /// An older or another file has the name.
    Replace,
    /// It is there as it is.
    Same,
    /// A directory that is there on both sides.
    Enter,
    /// One is a directory, the other a file: nobody's to change unasked.
    Mismatch,
    /// A link, a device.
    NotCopied,
}

/// Times are kept in steps of 100 ns at least by the sides that are known here.
const STEP_NANOS: i128 = 100;

/// What is to be done with `source`, for which `target` has the name.
///
/// A file is the same if it has the same length and the same time of its last change; a run that
/// does not keep times takes a target that is not older for the same.
#[must_use]
pub fn decide(source: &Item, target: Option<&Item>, keeps_times: bool) -> Decision {
    let Some(target) = target else {
        return if source.kind == Kind::Other { Decision::NotCopied } else { Decision::New };
    };
    match (source.kind, target.kind) {
        (Kind::Other, _) => Decision::NotCopied,
        (Kind::Directory, Kind::Directory) => Decision::Enter,
        (Kind::File, Kind::File) => {
            if is_same(source, target, keeps_times) {
                Decision::Same
            } else {
                Decision::Replace
            }
        }
        _ => Decision::Mismatch,
    }
}

/// The entries of one directory on both sides, put together by their names.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    /// Those of the source, with what has their name in the target.
    pub both: Vec<(Item, Option<Item>)>,
    /// Those of the source whose name another one has, but for its case, where the
    /// target does not tell them apart.
    pub clashing: Vec<Item>,
    /// Those that only the target has.
    pub extra: Vec<Item>,
}

/// Puts entries together; `folds` says that the target's names have no case, and that
/// a name in another case must not be taken for one that only the target has.
#[must_use]
pub fn pair(source: Vec<Item>, target: Vec<Item>, folds: bool) -> Pairs {
    let key = |name: &str| if folds { name.to_lowercase() } else { name.to_owned() };
    let mut there: HashMap<String, Vec<Item>> = HashMap::new();
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

fn is_same(source: &Item, target: &Item, keeps_times: bool) -> bool {
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
    use crate::item::Facts;

    fn file(size_bytes: u64, written: i128) -> Item {
        Item {
            name: "a".into(),
            kind: Kind::File,
            size_bytes,
            is_sparse: false,
            change: 0,
            facts: Facts { written: Some(written), ..Facts::default() },
        }
    }

    fn of(kind: Kind) -> Item {
        Item { kind, ..file(0, 0) }
    }

    #[test]
    fn a_file_is_the_same_by_length_and_time() {
        assert_eq!(decide(&file(1, 1000), None, true), Decision::New);
        assert_eq!(decide(&file(1, 1000), Some(&file(1, 1000)), true), Decision::Same);
        assert_eq!(decide(&file(1, 1099), Some(&file(1, 1000)), true), Decision::Same, "a step");
        assert_eq!(decide(&file(1, 1100), Some(&file(1, 1000)), true), Decision::Replace);
        assert_eq!(decide(&file(2, 1000), Some(&file(1, 1000)), true), Decision::Replace);
        assert_eq!(decide(&file(1, 1000), Some(&file(1, 9000)), true), Decision::Replace);
        assert_eq!(decide(&file(1, 1000), Some(&file(1, 9000)), false), Decision::Same);
        assert_eq!(decide(&file(1, 9000), Some(&file(1, 1000)), false), Decision::Replace);
    }

    fn named(names: &[&str]) -> Vec<Item> {
        names.iter().map(|name| Item { name: (*name).into(), ..file(1, 1) }).collect()
    }

    #[test]
    fn a_name_in_another_case_is_no_extra_where_names_have_no_case() {
        let exact = pair(named(&["Read me", "b"]), named(&["read me", "c"]), false);
        assert_eq!((exact.both[0].1.is_some(), exact.extra.len()), (false, 2));
        let folded = pair(named(&["Read me", "b"]), named(&["read me", "c"]), true);
        assert_eq!(folded.both[0].1.as_ref().map(|item| &item.name[..]), Some("read me"));
        assert_eq!((folded.extra, folded.clashing.len()), (named(&["c"]), 0));
    }

    #[test]
    fn names_that_the_target_cannot_tell_apart_do_not_overwrite_each_other() {
        let pairs = pair(named(&["a", "A"]), named(&["A"]), true);
        assert_eq!(pairs.clashing, named(&["A"]));
        assert_eq!(pairs.both[0].1, named(&["A"]).pop());
        assert_eq!(pairs.extra, vec![], "it is not removed either");
        assert_eq!(pair(named(&["a", "A"]), vec![], false).both.len(), 2);
    }

    #[test]
    fn what_is_of_another_kind_is_not_touched() {
        let (directory, other) = (of(Kind::Directory), of(Kind::Other));
        assert_eq!(decide(&directory, Some(&file(1, 1)), true), Decision::Mismatch);
        assert_eq!(decide(&file(1, 1), Some(&directory), true), Decision::Mismatch);
        assert_eq!(decide(&file(1, 1), Some(&other), true), Decision::Mismatch);
        assert_eq!(decide(&directory, Some(&directory), true), Decision::Enter);
        assert_eq!(decide(&directory, None, true), Decision::New);
        assert_eq!(decide(&other, None, true), Decision::NotCopied);
    }
}
