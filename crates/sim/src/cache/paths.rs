//! A user by path, like an SMB client: case-insensitive names, and opens that are closed.

use super::CacheOperation;
use super::side::{FileLayer, LayerReply, StepResult, either, now};
use files::{
    Access, BasicChange, Descriptor, IfExists, IfMissing, OpenFile, OpenPlan, OpenResult,
    RequestedKind, SecurityParts, Semantics, ShareMode, Sid, TimeSetting,
};
use std::sync::Arc;
use vfs::{Attributes, EntryChoice, ListSink, ListedEntry, ListingRequest, RelPath, Timestamp};

const LOOK: Access = Access(Access::READ_ATTRIBUTES.0 | Access::READ_CONTROL.0);
const ALL_PARTS: SecurityParts =
    SecurityParts { owner: true, group: true, dacl: true, sacl: false };
const DATA_MAX: usize = 100;

fn plan(at: &RelPath, desired: Access) -> OpenPlan {
    let path = at.clone();
    let semantics = Semantics::Windows;
    OpenPlan { path, semantics, ..OpenPlan::posix(desired, ShareMode::ALL) }
}

impl FileLayer {
    pub(super) fn by_path(&mut self, user: usize, op: &CacheOperation) -> LayerReply {
        either(match op {
            CacheOperation::Hold { .. }
            | CacheOperation::StatHeld { .. }
            | CacheOperation::WriteHeld { .. }
            | CacheOperation::ReadHeld { .. }
            | CacheOperation::Release { .. } => self.held_by_path(user, op),
            CacheOperation::Stat { .. }
            | CacheOperation::Read { .. }
            | CacheOperation::List { .. } => self.ask_by_path(user, op),
            _ => self.change_by_path(user, op),
        })
    }

    fn open(&self, user: usize, plan: OpenPlan) -> Result<OpenResult, LayerReply> {
        now(self.files.open(&self.volume, &self.callers[user], plan))
    }

    /// Opens a file, operates on it, and closes it.
    fn with<T>(
        &self,
        user: usize,
        plan: OpenPlan,
        run: impl FnOnce(&Self, &Arc<OpenFile>) -> Result<T, LayerReply>,
    ) -> Result<T, LayerReply> {
        let open = self.open(user, plan)?.open;
        let result = run(self, &open);
        now(self.files.close(open))?;
        result
    }

    fn change_by_path(&self, user: usize, op: &CacheOperation) -> StepResult {
        match op {
            CacheOperation::Make { at, is_directory } => {
                let kind =
                    if *is_directory { RequestedKind::Directory } else { RequestedKind::File };
                let (if_exists, if_missing) = (IfExists::Fail, IfMissing::Create);
                let plan = OpenPlan { if_exists, if_missing, kind, ..plan(at, LOOK) };
                self.with(user, plan, |_, _| Ok(()))?;
            }
            CacheOperation::Write { at, byte, length } => {
                let kind = RequestedKind::File;
                let plan = OpenPlan {
                    if_missing: IfMissing::Create,
                    kind,
                    ..plan(at, Access::WRITE_DATA)
                };
                let data = vec![*byte; *length];
                self.with(user, plan, |side, open| {
                    Ok(side.files.write(open.caller(), open, 0, &data)?)
                })?;
            }
            CacheOperation::Remove { at } => {
                let plan = OpenPlan { delete_on_close: true, ..plan(at, Access::DELETE) };
                self.with(user, plan, |_, _| Ok(()))?;
            }
            CacheOperation::Rename { at, to, replaces } => {
                let plan = plan(at, Access::DELETE);
                self.with(user, plan, |side, open| now(side.files.rename(open, to, *replaces)))?;
            }
            CacheOperation::Link { at, to } => {
                let plan = plan(at, Access::WRITE_ATTRIBUTES);
                self.with(user, plan, |side, open| now(side.files.link(open, to, false)))?;
            }
            CacheOperation::Mode { at, mode } => {
                let plan = plan(at, Access::WRITE_DAC);
                self.with(user, plan, |side, open| Ok(side.files.set_mode(open, *mode)?))?;
            }
            CacheOperation::Dos { at, bits } => {
                let change = BasicChange { dos_bits: Some(*bits), ..BasicChange::default() };
                self.set_basic(user, at, &change)?;
            }
            CacheOperation::Modified { at, seconds } => {
                let modified = TimeSetting::Set(Timestamp(i128::from(*seconds) * 1_000_000_000));
                self.set_basic(user, at, &BasicChange { modified, ..BasicChange::default() })?;
            }
            CacheOperation::Deny { at, user: denied } => self.deny(user, at, *denied)?,
            _ => {}
        }
        Ok(LayerReply::Done)
    }

    fn set_basic(&self, user: usize, at: &RelPath, change: &BasicChange) -> Result<(), LayerReply> {
        let plan = plan(at, Access::WRITE_ATTRIBUTES);
        self.with(user, plan, |side, open| Ok(side.files.set_attributes(open, change)?))
    }

    /// A descriptor that grants everything to everyone but one user.
    fn deny(&self, user: usize, at: &RelPath, denied: usize) -> Result<(), LayerReply> {
        let everyone = files::Ace {
            kind: files::AceKind::Allow,
            flags: 0,
            access: Access::FILE_ALL,
            sid: Sid::everyone(),
        };
        let uid = self.callers[denied].identity.uid;
        let sid = Sid::unix_user(uid);
        let one = files::Ace { kind: files::AceKind::Deny, sid, ..everyone.clone() };
        let new = Descriptor { dacl: Some(vec![one, everyone]), ..Descriptor::default() };
        let parts = SecurityParts { dacl: true, ..SecurityParts::default() };
        let plan = plan(at, Access::WRITE_DAC);
        self.with(user, plan, |side, open| Ok(side.files.set_descriptor(open, &new, parts)?))
    }

    fn ask_by_path(&self, user: usize, op: &CacheOperation) -> StepResult {
        match op {
            CacheOperation::Stat { at } => {
                let opened = self.open(user, plan(at, LOOK))?;
                let seen = self.seen(&opened.open, opened.attributes);
                now(self.files.close(opened.open))?;
                seen
            }
            CacheOperation::Read { at } => {
                self.with(user, plan(at, Access::READ_DATA), |side, open| side.data(open))
            }
            CacheOperation::List { at, first } => {
                let kind = RequestedKind::Directory;
                let plan = OpenPlan { kind, ..plan(at, Access::READ_DATA) };
                self.with(user, plan, |side, open| {
                    let mut taking = EntryLimit { count_max: *first, cookie: 0, taken: Vec::new() };
                    let wanted = ListingRequest {
                        attributes: true,
                        stored: Some(vfs::ServerWork::Metadata),
                        few: false,
                    };
                    if !side.files.readdir_with_attributes(open, 0, wanted, &mut taking)? {
                        taking.count_max = usize::MAX;
                        let from = taking.cookie;
                        side.files.readdir_with_attributes(open, from, wanted, &mut taking)?;
                    }
                    Ok(LayerReply::Listed(taking.taken))
                })
            }
            _ => Ok(LayerReply::Done),
        }
    }

    fn seen(&self, open: &OpenFile, opened: Attributes) -> StepResult {
        let present = self.files.attributes(open)?;
        let access = self.files.maximal_access(open)?;
        let descriptor = self.files.descriptor(open, ALL_PARTS)?;
        Ok(LayerReply::Seen(Box::new((opened, present, access, Some(descriptor)))))
    }

    fn data(&self, open: &Arc<OpenFile>) -> StepResult {
        let mut data = Vec::new();
        now(self.files.read(open, 0, DATA_MAX, &mut data))?;
        Ok(LayerReply::Data(data))
    }

    fn held_by_path(&mut self, user: usize, op: &CacheOperation) -> StepResult {
        if let CacheOperation::Hold { at, slot, writes } = op {
            if let Some(before) = self.held[*slot].take() {
                now(self.files.close(before))?;
            }
            let desired =
                if *writes { LOOK | Access::READ_DATA | Access::WRITE_DATA } else { LOOK };
            let opened = self.open(user, plan(at, desired))?;
            let seen = self.seen(&opened.open, opened.attributes);
            self.held[*slot] = Some(opened.open);
            return seen;
        }
        let slot = match op {
            CacheOperation::StatHeld { slot }
            | CacheOperation::WriteHeld { slot, .. }
            | CacheOperation::ReadHeld { slot }
            | CacheOperation::Release { slot } => *slot,
            _ => return Ok(LayerReply::Done),
        };
        let Some(open) = self.held[slot].clone() else { return Ok(LayerReply::Done) };
        match op {
            CacheOperation::StatHeld { .. } => self.seen(&open, self.files.attributes(&open)?),
            CacheOperation::ReadHeld { .. } => self.data(&open),
            CacheOperation::WriteHeld { byte, .. } => {
                self.files.write(open.caller(), &open, 0, &[*byte; 20])?;
                Ok(LayerReply::Done)
            }
            _ => {
                self.held[slot] = None;
                now(self.files.close(open))?;
                Ok(LayerReply::Done)
            }
        }
    }
}

/// Accepts a limited number of entries.
struct EntryLimit {
    count_max: usize,
    cookie: u64,
    taken: Vec<(Vec<u8>, Attributes)>,
}

impl ListSink for EntryLimit {
    fn choose(&mut self, _: &[u8], _: u64) -> EntryChoice {
        if self.taken.len() < self.count_max { EntryChoice::Take } else { EntryChoice::Stop }
    }

    fn put(&mut self, entry: ListedEntry<'_>) -> bool {
        let Some(attributes) = entry.attributes else { return false };
        self.taken.push((entry.name.to_vec(), attributes));
        self.cookie = entry.next;
        true
    }
}
