//! Pairs the entries of a directory on both sides by name.
//!
//! Each entry retains its own side's spelling, by which that side opens it. A name is translated
//! only to compare it, and to create the other side's entry.

use crate::item::CopyItem;
use crate::smb_names;
use std::collections::{HashMap, HashSet};

/// The names that a side can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameForm {
    /// Bytes, written as [`smb_names::text_of`]: a local directory or an NFS export.
    Bytes,
    /// UTF-16 without the characters that SMB forbids.
    Smb,
}

/// The rules by which names of the two sides correspond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameRules {
    /// The source's spelling.
    pub source: NameForm,
    /// The target's spelling.
    pub target: NameForm,
    /// Whether names that differ only in case are one name on the target.
    pub folds: bool,
}

/// A source entry, its name on the target, and the target's entry of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairedEntry {
    /// The source's entry.
    pub item: CopyItem,
    /// The name on the target.
    pub to: String,
    /// The target's entry, if it has one.
    pub there: Option<CopyItem>,
}

/// The entries of one directory on both sides.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    /// Source entries that the target can hold beside each other.
    pub both: Vec<PairedEntry>,
    /// Source entries whose name is, on the target, that of another source entry.
    pub clashing: Vec<CopyItem>,
    /// Entries that only the target has.
    pub extra: Vec<CopyItem>,
}

impl NameForm {
    /// The bytes of a name of this spelling.
    #[must_use]
    pub fn bytes(self, name: &str) -> Vec<u8> {
        match self {
            Self::Bytes => smb_names::bytes_of(name),
            Self::Smb => smb_names::decode(name),
        }
    }

    /// A name of this spelling for filters and people.
    #[must_use]
    pub fn shown(self, name: &str) -> String {
        match self {
            Self::Bytes => name.to_owned(),
            Self::Smb => smb_names::text_of(&smb_names::decode(name)),
        }
    }

    /// A name of another side in this spelling.
    #[must_use]
    pub fn of(self, from: Self, name: &str) -> String {
        match (from, self) {
            (Self::Bytes, Self::Bytes) => name.to_owned(),
            (Self::Smb, Self::Bytes) => smb_names::text_of(&smb_names::decode(name)),
            (Self::Smb, Self::Smb) if smb_names::is_valid(name) => name.to_owned(),
            (from, Self::Smb) => smb_names::encode(&from.bytes(name)),
        }
    }

    /// The name that a server or another client may take it for.
    fn reading(self, name: &str) -> Vec<u8> {
        match self {
            Self::Bytes => smb_names::reading(&smb_names::bytes_of(name)),
            Self::Smb => smb_names::reading(name.as_bytes()),
        }
    }
}

/// A name without case. Characters that change their length with case stay; so do no others: servers
/// fold by different tables, and names that one of them may take for one must be equal here.
fn folded(name: &str) -> String {
    fn single(mut chars: impl Iterator<Item = char>, c: char) -> char {
        match (chars.next(), chars.next()) {
            (Some(one), None) => one,
            _ => c,
        }
    }
    let fold = |c: char| {
        let upper = single(c.to_uppercase(), c);
        single(upper.to_lowercase(), upper)
    };
    name.chars().map(fold).collect()
}

impl NameRules {
    /// The source's name on the target.
    #[must_use]
    pub fn target_name(&self, name: &str) -> String {
        self.target.of(self.source, name)
    }

    fn key(&self, to: &str) -> String {
        if self.folds { folded(to) } else { to.to_owned() }
    }

    /// Whether a name may be stored, listed or read in more than one form.
    fn has_forms(&self) -> bool {
        self.source == NameForm::Smb || self.target == NameForm::Smb
    }

    /// The name that the target's name may be taken for.
    fn reading(&self, to: &str) -> Vec<u8> {
        match self.has_forms() {
            true => self.target.reading(&self.key(to)),
            false => self.key(to).into_bytes(),
        }
    }

    /// The first of `expected` that a listing of the target does not have. Such a target stores or
    /// lists names in a form of its own, so its other names prove nothing.
    #[must_use]
    pub fn missing<'a>(&self, expected: &'a [String], listed: &[CopyItem]) -> Option<&'a str> {
        let listed: HashSet<Vec<u8>> = listed.iter().map(|item| self.reading(&item.name)).collect();
        let is_missing = |name: &&String| !listed.contains(&self.reading(name));
        expected.iter().find(is_missing).map(String::as_str)
    }

    /// Pairs the entries. The result does not depend on the order of the listings.
    ///
    /// Of source names that are one name on the target, one is paired: that of the target's entry, or
    /// the first. The others clash. If the target has two of them, it distinguishes them, and all are
    /// paired.
    #[must_use]
    pub fn pair(&self, mut source: Vec<CopyItem>, target: Vec<CopyItem>) -> Pairs {
        source.sort_by(|a, b| a.name.cmp(&b.name));
        let mut there: HashMap<String, Vec<CopyItem>> = HashMap::new();
        for item in target {
            there.entry(self.key(&item.name)).or_default().push(item);
        }
        let mut order = Vec::new();
        let mut groups: HashMap<String, Vec<PairedEntry>> = HashMap::new();
        for item in source {
            let to = self.target_name(&item.name);
            let key = self.key(&to);
            let group = groups.entry(key.clone()).or_default();
            if group.is_empty() {
                order.push(key);
            }
            group.push(PairedEntry { item, to, there: None });
        }
        let mut pairs = Pairs::default();
        for key in order {
            let group = groups.remove(&key).unwrap_or_default();
            take_group(&mut pairs, group, there.remove(&key).unwrap_or_default());
        }
        pairs.extra = there.into_values().flatten().collect();
        pairs.extra.sort_by(|a, b| a.name.cmp(&b.name));
        if self.has_forms() && !pairs.extra.is_empty() {
            self.take_other_forms(&mut pairs);
        }
        pairs
    }

    /// Pairs a source entry with a target's entry of another form of the same name, as another client
    /// or an older version wrote it, or as the server lists it. Other entries of such forms are no
    /// extra entries either.
    fn take_other_forms(&self, pairs: &mut Pairs) {
        let mut forms: HashMap<Vec<u8>, Vec<CopyItem>> = HashMap::new();
        for item in std::mem::take(&mut pairs.extra) {
            forms.entry(self.reading(&item.name)).or_default().push(item);
        }
        let clashing = pairs.clashing.iter().map(|item| self.target_name(&item.name));
        let names = pairs.both.iter().map(|entry| entry.to.clone()).chain(clashing);
        let readings: HashSet<Vec<u8>> = names.map(|name| self.reading(&name)).collect();
        for entry in pairs.both.iter_mut().filter(|entry| entry.there.is_none()) {
            let found = forms.get_mut(&self.reading(&entry.to));
            if let Some(item) = found.and_then(|items| (!items.is_empty()).then(|| items.remove(0)))
            {
                entry.to.clone_from(&item.name);
                entry.there = Some(item);
            }
        }
        forms.retain(|reading, _| !readings.contains(reading));
        pairs.extra = forms.into_values().flatten().collect();
        pairs.extra.sort_by(|a, b| a.name.cmp(&b.name));
    }
}

/// Pairs the source entries of one key with the target's.
fn take_group(pairs: &mut Pairs, group: Vec<PairedEntry>, mut there: Vec<CopyItem>) {
    let is_exact = |entry: &PairedEntry, items: &[CopyItem]| {
        items.iter().position(|item| item.name == entry.to)
    };
    let exact = group.iter().filter(|entry| is_exact(entry, &there).is_some()).count();
    let is_alone = group.len() == 1;
    let distinguishes = exact > 1;
    let mut names = HashSet::new();
    let mut is_taken = false;
    let has_exact = exact > 0;
    for mut entry in group {
        let found = is_exact(&entry, &there);
        let wins = is_alone || distinguishes || found.is_some() || !has_exact;
        if !wins || (is_taken && !distinguishes) || !names.insert(entry.to.clone()) {
            pairs.clashing.push(entry.item);
            continue;
        }
        is_taken = true;
        let any = (!distinguishes && !there.is_empty()).then_some(0);
        entry.there = found.or(any).map(|at| there.remove(at));
        pairs.both.push(entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::{ItemFacts, ItemKind};
    use proptest::prelude::*;

    const SIDES: [NameForm; 2] = [NameForm::Bytes, NameForm::Smb];

    fn item(name: &str) -> CopyItem {
        CopyItem {
            name: name.into(),
            kind: ItemKind::File,
            size_bytes: 1,
            is_sparse: false,
            change: 0,
            facts: ItemFacts::default(),
        }
    }

    fn named(names: &[&str]) -> Vec<CopyItem> {
        names.iter().map(|name| item(name)).collect()
    }

    fn rules(source: NameForm, target: NameForm, folds: bool) -> NameRules {
        NameRules { source, target, folds }
    }

    fn bytes(folds: bool) -> NameRules {
        rules(NameForm::Bytes, NameForm::Bytes, folds)
    }

    const TO_SHARE: NameRules =
        NameRules { source: NameForm::Bytes, target: NameForm::Smb, folds: true };

    fn names(items: &[CopyItem]) -> Vec<&str> {
        items.iter().map(|item| &item.name[..]).collect()
    }

    #[test]
    fn name_in_another_case_is_no_extra_if_case_insensitive() {
        let exact = bytes(false).pair(named(&["Read me", "b"]), named(&["read me", "c"]));
        assert_eq!((exact.both[0].there.is_some(), exact.extra.len()), (false, 2));
        let folded = bytes(true).pair(named(&["Read me", "b"]), named(&["read me", "c"]));
        assert_eq!(folded.both[0].there, Some(item("read me")));
        assert_eq!((folded.extra, folded.clashing.len()), (named(&["c"]), 0));
    }

    #[test]
    fn names_that_differ_in_case_do_not_overwrite_each_other() {
        for source in [["a", "A"], ["A", "a"]] {
            let pairs = bytes(true).pair(named(&source), named(&["a"]));
            assert_eq!(names(&pairs.clashing), ["A"], "the target has the other");
            assert_eq!(pairs.both[0].there, Some(item("a")));
            assert_eq!(pairs.extra, vec![], "it is not removed either");
            let pairs = bytes(true).pair(named(&source), vec![]);
            assert_eq!(names(&pairs.clashing), ["a"], "whatever the order of the listing");
            assert_eq!(bytes(false).pair(named(&source), vec![]).both.len(), 2);
        }
        let both = bytes(true).pair(named(&["a", "A"]), named(&["A", "a"]));
        assert_eq!((both.both.len(), both.clashing.len()), (2, 0), "the target distinguishes them");
        assert!(both.both.iter().all(|entry| entry.there.as_ref() == Some(&entry.item)));
    }

    #[test]
    fn names_that_some_server_folds_are_taken_for_one() {
        for (one, other) in [("ß", "ẞ"), ("ς", "σ"), ("Ä", "ä"), ("K", "k"), ("ſ", "s")] {
            let pairs = bytes(true).pair(named(&[one, other]), vec![]);
            assert_eq!(pairs.clashing.len(), 1, "{one} {other}");
        }
        let pairs = bytes(true).pair(named(&["straße", "strasse"]), vec![]);
        assert_eq!(pairs.clashing.len(), 0);
    }

    #[test]
    fn forbidden_names_are_paired_with_their_private_form() {
        let source = named(&["a:b", "end.", "end ", "plain"]);
        let target = named(&["a\u{F022}b", "end\u{F029}", "end\u{F028}", "plain", "other\u{F029}"]);
        let pairs = TO_SHARE.pair(source, target);
        assert!(pairs.both.iter().all(|entry| entry.there.is_some()), "{pairs:?}");
        assert_eq!(names(&pairs.extra), ["other\u{F029}"]);
    }

    #[test]
    fn name_in_another_form_is_paired_and_never_extra() {
        // Written unescaped by another client, or listed so by a server that maps.
        let private = item("a\u{F022}b");
        let pairs = TO_SHARE.pair(vec![private.clone()], vec![private.clone()]);
        assert_eq!(
            (&pairs.both[0].to, &pairs.both[0].there),
            (&private.name, &Some(private.clone()))
        );
        // A server that lists what SMB cannot hold.
        let pairs = TO_SHARE.pair(named(&["end."]), named(&["end."]));
        assert_eq!(pairs.both[0].there, Some(item("end.")));
        // Both forms are there already: the exact one is paired, and the other stays.
        let pairs = TO_SHARE.pair(named(&["end."]), named(&["end.", "end\u{F029}"]));
        assert_eq!((&pairs.both[0].to[..], pairs.extra.len()), ("end\u{F029}", 0));
    }

    #[test]
    fn name_that_a_lax_server_lists_names_no_stream_elsewhere() {
        assert_eq!(NameForm::Smb.of(NameForm::Smb, "a:b"), "a\u{F022}b");
        assert_eq!(NameForm::Smb.of(NameForm::Smb, "a\u{F029}b"), "a\u{F029}b");
    }

    #[test]
    fn target_that_alters_names_is_recognised() {
        let expected = ["a".to_owned(), "b.".to_owned()];
        assert_eq!(bytes(false).missing(&expected, &named(&["b.", "a", "c"])), None);
        assert_eq!(bytes(false).missing(&expected, &named(&["A", "b."])), Some("a"));
        assert_eq!(bytes(true).missing(&expected, &named(&["A", "b."])), None);
        assert_eq!(TO_SHARE.missing(&expected, &named(&["a", "b\u{F029}"])), None);
        assert_eq!(TO_SHARE.missing(&expected, &named(&["a", "b"])), Some("b."));
    }

    fn hostile() -> impl Strategy<Value = String> {
        let part = prop::sample::select(vec![
            "a", "A", ".", " ", ":", "\\", "\u{1}", "ä", "Ä", "\u{F022}", "\u{F029}", "\u{F1EF}",
            "\u{F180}", "\u{F1A2}", "\u{F1FF}",
        ]);
        let parts = prop::collection::vec(part, 1..5).prop_map(|parts| parts.concat());
        parts.prop_filter("a name", |name| name != "." && name != "..")
    }

    /// A name as a side of this spelling lists it.
    fn native(side: NameForm, name: &str) -> String {
        match side {
            NameForm::Bytes => smb_names::text_of(name.as_bytes()),
            NameForm::Smb => smb_names::encode(name.as_bytes()),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

        /// A mirror: after one run nothing is new and nothing is extra, and no run takes an entry for
        /// extra that stands for one of the source.
        #[test]
        fn mirror_converges_and_no_counterpart_is_extra(
            source in prop::collection::hash_set(hostile(), 0..7),
            target in prop::collection::hash_set(hostile(), 0..7),
            folds in any::<bool>(),
        ) {
            for (from, to) in SIDES.into_iter().flat_map(|from| SIDES.map(|to| (from, to))) {
                let rules = rules(from, to, folds);
                let list = |side, names: &HashSet<String>| {
                    let listed: HashSet<String> = names.iter().map(|name| native(side, name)).collect();
                    let mut held: HashMap<String, CopyItem> = HashMap::new();
                    for name in listed {
                        let key = if folds { folded(&name) } else { name.clone() };
                        held.entry(key).or_insert_with(|| item(&name));
                    }
                    held.into_values().collect::<Vec<_>>()
                };
                let source: Vec<CopyItem> = source.iter().map(|name| item(&native(from, name))).collect();
                let first = rules.pair(source.clone(), list(to, &target));
                prop_assert_eq!(first.both.len() + first.clashing.len(), source.len());
                let counterparts: HashSet<String> =
                    source.iter().map(|item| rules.key(&rules.target_name(&item.name))).collect();
                for extra in &first.extra {
                    prop_assert!(!counterparts.contains(&rules.key(&extra.name)), "{extra:?}");
                }
                let there: HashSet<String> =
                    first.both.iter().map(|entry| rules.key(&entry.to)).collect();
                prop_assert_eq!(there.len(), first.both.len(), "one entry for each");
                let copied: Vec<CopyItem> = first.both.iter().map(|entry| item(&entry.to)).collect();
                let second = rules.pair(source.clone(), copied);
                prop_assert!(second.both.iter().all(|entry| entry.there.is_some()), "{second:?}");
                prop_assert_eq!((second.extra.len(), second.clashing.len()), (0, first.clashing.len()));
                let again: HashSet<&String> = second.both.iter().map(|entry| &entry.to).collect();
                prop_assert!(first.both.iter().all(|entry| again.contains(&entry.to)));
            }
        }

        #[test]
        fn name_returns_from_the_other_spelling(name in hostile()) {
            for (from, to) in SIDES.into_iter().flat_map(|from| SIDES.map(|to| (from, to))) {
                let listed = native(from, &name);
                prop_assert_eq!(from.of(to, &to.of(from, &listed)), listed);
            }
        }
    }
}
