//! Random operations on a few names against a short reference model, compared after every step.

use crate::harness::*;
use files::{
    Access, IfExists, IfMissing, OpenAction, OpenFile, OpenPlan, RequestFiles, ShareMode, dos,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use vfs::{FsError, Result};

const NAMES: [&str; 4] = ["a", "A", "b", "c"];

#[derive(Clone, Debug)]
enum FileStep {
    Open {
        name: usize,
        access: u32,
        share: u32,
        if_exists: u8,
        create: bool,
        delete_on_close: bool,
    },
    Close(usize),
    Write(usize, u8),
    SetSize(usize, u8),
    SetDelete(usize, bool),
    Rename(usize, usize, bool),
    SetReadonly(usize, bool),
}

fn steps() -> impl Strategy<Value = Vec<FileStep>> {
    let open = (0..NAMES.len(), 0u32..8, 0u32..8, 0u8..4, any::<bool>(), prop::bool::weighted(0.1))
        .prop_map(|(name, access, share, if_exists, create, delete_on_close)| FileStep::Open {
            name,
            access,
            // Mostly shared, so that files have several opens.
            share: if share < 4 { 7 } else { share },
            if_exists,
            create,
            delete_on_close,
        });
    let step = prop_oneof![
        6 => open,
        4 => any::<usize>().prop_map(FileStep::Close),
        2 => (any::<usize>(), any::<u8>()).prop_map(|(n, b)| FileStep::Write(n, b)),
        1 => (any::<usize>(), 0u8..9).prop_map(|(n, s)| FileStep::SetSize(n, s)),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(n, d)| FileStep::SetDelete(n, d)),
        2 => (any::<usize>(), 0..NAMES.len(), any::<bool>()).prop_map(|(n, to, r)| FileStep::Rename(n, to, r)),
        1 => (any::<usize>(), prop::bool::weighted(0.3)).prop_map(|(n, r)| FileStep::SetReadonly(n, r)),
    ];
    prop::collection::vec(step, 1..60)
}

/// An open with its state in the reference.
struct ModelOpen {
    real: Arc<OpenFile>,
    file: u32,
    access: u32,
    share: u32,
    delete_on_close: bool,
}

#[derive(Clone, Default)]
struct ModelFile {
    data: Vec<u8>,
    readonly: bool,
    pending: bool,
}

/// Files by number; names by their folded form and spelling.
#[derive(Default)]
struct FileReference {
    files: BTreeMap<u32, ModelFile>,
    names: BTreeMap<String, (String, u32)>,
    next: u32,
}

fn fold(name: &str) -> String {
    name.to_uppercase()
}

impl FileReference {
    fn named(&self, name: &str) -> Option<u32> {
        self.names.get(&fold(name)).map(|(_, file)| *file)
    }

    fn name_of(&self, file: u32) -> Option<String> {
        self.names.values().find(|(_, f)| *f == file).map(|(spelt, _)| spelt.clone())
    }

    fn conflict(opens: &[ModelOpen], file: u32, access: u32, share: u32) -> bool {
        opens.iter().any(|o| {
            o.file == file
                && o.access != 0
                && access != 0
                && (access & !o.share != 0 || o.access & !share != 0)
        })
    }

    /// Expected outcome of an open, with its file.
    fn open(
        &mut self,
        opens: &[ModelOpen],
        name: &str,
        step: &FileStep,
    ) -> Result<(OpenAction, u32)> {
        let FileStep::Open { access, share, if_exists, create, delete_on_close, .. } = *step else {
            unreachable!()
        };
        let replaces = if_exists >= 2;
        let Some(number) = self.named(name) else {
            if !create {
                return Err(FsError::NotFound);
            }
            if delete_on_close && access & 4 == 0 {
                return Err(FsError::AccessDenied);
            }
            self.next += 1;
            self.files.insert(self.next, ModelFile::default());
            self.names.insert(fold(name), (name.to_owned(), self.next));
            return Ok((OpenAction::Created, self.next));
        };
        let file = self.files.get_mut(&number).unwrap();
        if if_exists == 0 {
            return Err(FsError::AlreadyExists);
        }
        if file.readonly && (access & 2 != 0 || replaces) {
            return Err(FsError::AccessDenied);
        }
        if delete_on_close && access & 4 == 0 {
            return Err(FsError::AccessDenied);
        }
        if delete_on_close && file.readonly {
            return Err(FsError::CannotDelete);
        }
        if file.pending {
            return Err(FsError::DeletePending);
        }
        let checked = access | if replaces { 2 } else { 0 };
        if Self::conflict(opens, number, checked, share) {
            return Err(FsError::ShareViolation);
        }
        if replaces {
            file.data.clear();
        }
        let action = [
            OpenAction::Opened,
            OpenAction::Opened,
            OpenAction::Overwritten,
            OpenAction::Superseded,
        ];
        Ok((action[usize::from(if_exists)], number))
    }

    fn close(&mut self, closed: &ModelOpen, left: &[ModelOpen]) {
        let file = self.files.get_mut(&closed.file).unwrap();
        file.pending |= closed.delete_on_close;
        if file.pending && left.iter().all(|o| o.file != closed.file) {
            self.files.remove(&closed.file);
            self.names.retain(|_, (_, f)| *f != closed.file);
        }
    }

    fn rename(
        &mut self,
        opens: &[ModelOpen],
        open: &ModelOpen,
        to: &str,
        replace: bool,
    ) -> Result<()> {
        if open.access & 4 == 0 || self.files[&open.file].pending {
            return Err(FsError::AccessDenied);
        }
        let forbids = |o: &ModelOpen| o.file == open.file && o.access != 0 && o.share & 4 == 0;
        if opens.iter().any(|o| o.real.id() != open.real.id() && forbids(o)) {
            return Err(FsError::ShareViolation);
        }
        if let Some(target) = self.named(to).filter(|target| *target != open.file) {
            if !replace {
                return Err(FsError::AlreadyExists);
            }
            if self.files[&target].readonly || opens.iter().any(|o| o.file == target) {
                return Err(FsError::AccessDenied);
            }
            self.files.remove(&target);
        }
        self.names.retain(|_, (_, f)| *f != open.file);
        self.names.insert(fold(to), (to.to_owned(), open.file));
        Ok(())
    }
}

fn access_of(kinds: u32) -> Access {
    let rights = [Access::READ_DATA, Access::WRITE_DATA, Access::DELETE];
    let all = Access::READ_ATTRIBUTES | Access::WRITE_ATTRIBUTES;
    rights
        .iter()
        .enumerate()
        .filter(|(n, _)| kinds >> n & 1 != 0)
        .fold(all, |all, (_, right)| all | *right)
}

fn plan_of(step: &FileStep) -> OpenPlan {
    let FileStep::Open { name, access, share, if_exists, create, delete_on_close } = *step else {
        unreachable!()
    };
    OpenPlan {
        share: ShareMode(share),
        if_exists: [IfExists::Fail, IfExists::Open, IfExists::Overwrite, IfExists::Supersede]
            [usize::from(if_exists)],
        if_missing: if create { IfMissing::Create } else { IfMissing::Fail },
        delete_on_close,
        ..plan(NAMES[name], access_of(access))
    }
}

/// Runs one step in both.
fn step(
    served: &ServedVolume,
    reference: &mut FileReference,
    opens: &mut Vec<ModelOpen>,
    step: &FileStep,
) {
    let files = &served.files;
    let pick = |n: usize| (!opens.is_empty()).then(|| n % opens.len());
    match *step {
        FileStep::Open { name, access, share, delete_on_close, .. } => {
            let expected = reference.open(opens, NAMES[name], step);
            let real = served.try_open(plan_of(step));
            let action = real.as_ref().map(|r| r.action).map_err(|e| *e);
            assert_eq!(action, expected.map(|e| e.0), "{step:?}");
            if let (Ok(real), Ok((_, file))) = (real, expected) {
                opens.push(ModelOpen { real: real.open, file, access, share, delete_on_close });
            }
        }
        FileStep::Close(n) => {
            let Some(at) = pick(n) else { return };
            let closed = opens.remove(at);
            served.close(closed.real.clone());
            reference.close(&closed, opens);
        }
        FileStep::Write(n, byte) => {
            let Some(at) = pick(n) else { return };
            let open = &opens[at];
            let data = &mut reference.files.get_mut(&open.file).unwrap().data;
            let expected = if open.access & 2 != 0 { Ok(()) } else { Err(FsError::AccessDenied) };
            let written = files.write(open.real.caller(), &open.real, data.len() as u64, &[byte]);
            assert_eq!(written, expected);
            if expected.is_ok() {
                data.push(byte);
            }
        }
        FileStep::SetSize(n, size) => {
            let Some(at) = pick(n) else { return };
            let open = &opens[at];
            let expected = if open.access & 2 != 0 { Ok(()) } else { Err(FsError::AccessDenied) };
            let set = now(files.set_size(open.real.caller(), &open.real, u64::from(size)));
            assert_eq!(set, expected);
            if expected.is_ok() {
                reference.files.get_mut(&open.file).unwrap().data.resize(usize::from(size), 0);
            }
        }
        FileStep::SetDelete(n, delete) => {
            let Some(at) = pick(n) else { return };
            set_delete(files, reference, &opens[at], delete);
        }
        FileStep::Rename(n, to, replace) => {
            let Some(at) = pick(n) else { return };
            let open = &opens[at];
            let expected = reference.rename(opens, open, NAMES[to], replace);
            let renamed = now(files.rename(&open.real, &path(NAMES[to]), replace));
            assert_eq!(renamed, expected, "{step:?}");
        }
        FileStep::SetReadonly(n, readonly) => {
            let Some(at) = pick(n) else { return };
            let bits = if readonly { dos::READONLY } else { dos::NORMAL };
            let change = files::BasicChange { dos_bits: Some(bits), ..Default::default() };
            files.set_attributes(&opens[at].real, &change).unwrap();
            reference.files.get_mut(&opens[at].file).unwrap().readonly = readonly;
        }
    }
}

fn set_delete(files: &RequestFiles, reference: &mut FileReference, open: &ModelOpen, delete: bool) {
    let file = reference.files.get_mut(&open.file).unwrap();
    let expected = match () {
        () if open.access & 4 == 0 => Err(FsError::AccessDenied),
        () if delete && file.readonly => Err(FsError::CannotDelete),
        () => Ok(()),
    };
    assert_eq!(files.set_delete(&open.real, delete, false), expected);
    if expected.is_ok() {
        file.pending = delete;
    }
}

/// Compares every name and open with the reference.
fn compare(served: &ServedVolume, reference: &FileReference, opens: &[ModelOpen]) {
    for name in NAMES {
        let expected = reference.names.get(&fold(name)).filter(|(spelt, _)| spelt == name);
        let data = expected.map(|(_, file)| reference.files[file].data.clone());
        assert_eq!(served.get(name), data, "{name}");
    }
    for open in opens {
        assert_eq!(open.real.is_delete_pending(), reference.files[&open.file].pending);
        assert_eq!(open.real.path(), path(&reference.name_of(open.file).unwrap()));
    }
    let distinct: std::collections::BTreeSet<_> = opens.iter().map(|o| o.file).collect();
    assert_eq!(served.files.open_file_count(), distinct.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn random_operations_agree_with_reference(steps in steps()) {
        let served = serve();
        let (mut reference, mut opens) = (FileReference::default(), Vec::new());
        for one in &steps {
            step(&served, &mut reference, &mut opens, one);
            compare(&served, &reference, &opens);
        }
        opens.clear();
        served.assert_nothing_held();
    }
}
