//! A user by handle, like an NFS client: case-sensitive names, looked up one by one.

use super::CacheOperation;
use super::side::{FileLayer, LayerReply, StepResult, either, now, without_stored};
use files::{
    Access, Caller, IfMissing, ListWish, NewObject, Object, ObjectChanges, ObjectOpen, OpenAt,
    OpenPlan, RequestedKind, ShareMode, VolumeId,
};
use std::sync::Arc;
use vfs::{DosInfo, FsError, Name, RelPath, TimeChange, Timestamp};

const VOLUME: VolumeId = VolumeId(1);
const DATA_MAX: usize = 100;

impl FileLayer {
    pub(super) fn by_handle(&mut self, user: usize, op: &CacheOperation) -> LayerReply {
        let caller = self.callers[user].clone();
        either(match op {
            CacheOperation::Hold { .. }
            | CacheOperation::StatHeld { .. }
            | CacheOperation::WriteHeld { .. }
            | CacheOperation::ReadHeld { .. }
            | CacheOperation::Release { .. } => self.held_by_handle(&caller, op),
            CacheOperation::Stat { at } => {
                self.found(&caller, at).and_then(|object| self.shown(&caller, &object))
            }
            CacheOperation::Read { at } => {
                self.found(&caller, at).and_then(|object| self.content(&caller, &object))
            }
            CacheOperation::List { at, first } => self.list_by_handle(&caller, at, *first),
            _ => self.change_by_handle(&caller, op),
        })
    }

    /// Looks up a path name by name.
    fn found(&self, caller: &Arc<Caller>, at: &RelPath) -> Result<Object, LayerReply> {
        let mut object = now(self.files.root_object(&self.volume))?;
        let mut left = at.clone();
        let mut names = Vec::new();
        while let Some((parent, name)) = left.split() {
            names.push(name);
            left = parent;
        }
        for name in names.iter().rev() {
            object = now(self.files.lookup(caller, &object, name))?;
        }
        Ok(object)
    }

    /// The directory of a name, and the name.
    fn place(&self, caller: &Arc<Caller>, at: &RelPath) -> Result<(Object, Name), LayerReply> {
        let (parent, name) = at.split().ok_or(FsError::InvalidParameter)?;
        Ok((self.found(caller, &parent)?, name))
    }

    fn shown(&self, caller: &Caller, object: &Object) -> StepResult {
        let alone = without_stored(self.files.object_attributes_alone(object)?);
        let attributes = self.files.object_attributes(object)?;
        let access = self.files.object_access(caller, object)?;
        Ok(LayerReply::Seen(Box::new((alone, attributes, access, None))))
    }

    fn opened<T>(
        &self,
        caller: &Arc<Caller>,
        at: &OpenAt,
        plan: OpenPlan,
        run: impl FnOnce(&Arc<files::OpenFile>) -> Result<T, LayerReply>,
    ) -> Result<T, LayerReply> {
        let open = now(self.files.open_object(caller, at, plan, ObjectOpen::default()))?.open;
        let result = run(&open);
        now(self.files.close(open))?;
        result
    }

    fn content(&self, caller: &Arc<Caller>, object: &Object) -> StepResult {
        let plan = OpenPlan::posix(Access::READ_DATA, ShareMode::ALL);
        let mut data = Vec::new();
        self.opened(caller, &OpenAt::Object(object.clone()), plan, |open| {
            now(self.files.read(open, 0, DATA_MAX, &mut data))
        })?;
        Ok(LayerReply::Data(data))
    }

    fn list_by_handle(&self, caller: &Arc<Caller>, at: &RelPath, first: usize) -> StepResult {
        let directory = self.found(caller, at)?;
        let mut wish = ListWish {
            cookie: 0,
            count_max: first,
            name_bytes_max: 10_000,
            bytes_max: 100_000,
            entry_bytes: 100,
            handles: Some(VOLUME),
            stored: first.is_multiple_of(2),
        };
        let mut entries = Vec::new();
        for _ in 0..2 {
            let part = now(self.files.readdir_object(caller, &directory, wish))?;
            wish.cookie = part.entries.last().map_or(wish.cookie, |entry| entry.cookie);
            wish.count_max = 1000;
            entries.extend(part.entries.into_iter().map(|entry| {
                let shown = match wish.stored {
                    true => entry.attributes,
                    false => without_stored(entry.attributes),
                };
                (entry.name.as_bytes().to_vec(), shown)
            }));
            if part.is_end {
                break;
            }
        }
        Ok(LayerReply::Listed(entries))
    }

    fn change_by_handle(&self, caller: &Arc<Caller>, op: &CacheOperation) -> StepResult {
        match op {
            CacheOperation::Make { at, is_directory: true } => {
                let (directory, name) = self.place(caller, at)?;
                let new = NewObject::Directory { mode: None };
                now(self.files.create_object(caller, &directory, &name, new))?;
            }
            CacheOperation::Make { at, .. } => self.write_named(caller, at, &[])?,
            CacheOperation::Write { at, byte, length } => {
                self.write_named(caller, at, &vec![*byte; *length])?;
            }
            CacheOperation::Remove { at } => {
                let (directory, name) = self.place(caller, at)?;
                now(self.files.remove_object(caller, &directory, &name))?;
            }
            CacheOperation::Rename { at, to, .. } => {
                let (from, name) = self.place(caller, at)?;
                let (to, new) = self.place(caller, to)?;
                now(self.files.rename_object(caller, (&from, &name), (&to, &new)))?;
            }
            CacheOperation::Link { at, to } => {
                let object = self.found(caller, at)?;
                let (directory, name) = self.place(caller, to)?;
                now(self.files.link_object(caller, &object, &directory, &name))?;
            }
            CacheOperation::Symlink { at, target } => {
                let (directory, name) = self.place(caller, at)?;
                let new = NewObject::Symlink { target: target.as_bytes().to_vec() };
                now(self.files.create_object(caller, &directory, &name, new))?;
            }
            CacheOperation::Mode { at, mode } => {
                let changes = ObjectChanges { mode: Some(*mode), ..ObjectChanges::default() };
                self.set_by_handle(caller, at, &changes)?;
            }
            CacheOperation::Dos { at, bits } => {
                let dos = Some(DosInfo { bits: Some(*bits), created: None });
                self.set_by_handle(caller, at, &ObjectChanges { dos, ..ObjectChanges::default() })?;
            }
            CacheOperation::Modified { at, seconds } => {
                let modified = TimeChange::Set(Timestamp(i128::from(*seconds) * 1_000_000_000));
                let size_bytes = seconds.is_multiple_of(3).then_some(u64::from(*seconds));
                let changes = ObjectChanges { modified, size_bytes, ..ObjectChanges::default() };
                self.set_by_handle(caller, at, &changes)?;
            }
            _ => {}
        }
        Ok(LayerReply::Done)
    }

    fn set_by_handle(
        &self,
        caller: &Arc<Caller>,
        at: &RelPath,
        changes: &ObjectChanges,
    ) -> Result<(), LayerReply> {
        let object = self.found(caller, at)?;
        now(self.files.set_object_attributes(caller, &object, None, changes))
    }

    fn write_named(
        &self,
        caller: &Arc<Caller>,
        at: &RelPath,
        data: &[u8],
    ) -> Result<(), LayerReply> {
        let (directory, name) = self.place(caller, at)?;
        let (if_missing, kind) = (IfMissing::Create, RequestedKind::File);
        let plan = OpenPlan::posix(Access::WRITE_DATA, ShareMode::ALL);
        let plan = OpenPlan { if_missing, kind, ..plan };
        self.opened(caller, &OpenAt::Name(directory, name), plan, |open| {
            Ok(self.files.write(open.caller(), open, 0, data)?)
        })
    }

    /// Queries retained handles, which stay valid across renames.
    fn held_by_handle(&mut self, caller: &Arc<Caller>, op: &CacheOperation) -> StepResult {
        match op {
            CacheOperation::Hold { at, slot, .. } => {
                self.handles[*slot] = None;
                let object = self.found(caller, at)?;
                self.handles[*slot] = Some(self.files.handle(VOLUME, &object)?);
                Ok(LayerReply::Done)
            }
            CacheOperation::Release { slot } => {
                self.handles[*slot] = None;
                Ok(LayerReply::Done)
            }
            CacheOperation::StatHeld { slot }
            | CacheOperation::WriteHeld { slot, .. }
            | CacheOperation::ReadHeld { slot } => {
                let Some(handle) = self.handles[*slot].clone() else { return Ok(LayerReply::Done) };
                let object = now(self.files.find_object(&self.volume, &handle))?;
                match op {
                    CacheOperation::StatHeld { .. } => self.shown(caller, &object),
                    CacheOperation::ReadHeld { .. } => self.content(caller, &object),
                    CacheOperation::WriteHeld { byte, .. } => {
                        let plan = OpenPlan::posix(Access::WRITE_DATA, ShareMode::ALL);
                        self.opened(caller, &OpenAt::Object(object), plan, |open| {
                            Ok(self.files.write(open.caller(), open, 0, &[*byte; 20])?)
                        })?;
                        Ok(LayerReply::Done)
                    }
                    _ => Ok(LayerReply::Done),
                }
            }
            _ => Ok(LayerReply::Done),
        }
    }
}
