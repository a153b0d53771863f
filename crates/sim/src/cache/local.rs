//! A process on the server's machine, which changes the tree directly.

use super::CacheOperation;
use super::side::{FileLayer, LayerReply, either};
use std::sync::Arc;
use vfs::{
    Actor, AttributeChanges, AttributeRequest, Case, CreateHow, DosInfo, FileKind, FsError,
    Identity, Node, OpenHow, RelPath, Replace, TimeChange, Timestamp, Vfs, Wait,
};

impl FileLayer {
    pub(super) fn by_local(&self, op: &CacheOperation) -> LayerReply {
        let who = Identity::root();
        either(
            self.change_locally(who.actor(), op)
                .map(|()| LayerReply::Done)
                .map_err(LayerReply::Refused),
        )
    }

    fn change_locally(&self, who: Actor<'_>, op: &CacheOperation) -> vfs::Result<()> {
        let set = |at: &RelPath, changes: AttributeChanges| {
            self.node(who, at, false)?.set_attributes(who, &changes)
        };
        match op {
            CacheOperation::Make { at, is_directory } => {
                let kind = if *is_directory { FileKind::Directory } else { FileKind::File };
                self.make(who, at, kind).map(drop)
            }
            CacheOperation::Write { at, byte, length } => {
                let node = match self.node(who, at, true) {
                    Err(FsError::NotFound) => self.make(who, at, FileKind::File),
                    other => other,
                }?;
                node.write(Actor::SUPERUSER, 0, &vec![*byte; *length])
            }
            CacheOperation::Remove { at } => {
                let key = self.node(who, at, false)?.key();
                self.backend.remove(who, at, key)
            }
            CacheOperation::Rename { at, to, replaces } => {
                let replace = if *replaces { Replace::Any } else { Replace::Never };
                self.backend.rename(who, at, to, replace)
            }
            CacheOperation::Link { at, to } => {
                let node = self.node(who, at, false)?;
                self.backend.link(who, &*node, to, Replace::Never)
            }
            CacheOperation::Symlink { at, target } => {
                self.backend.symlink(who, at, target.as_bytes()).map(drop)
            }
            CacheOperation::Mode { at, mode } => {
                set(at, AttributeChanges { mode: Some(*mode), ..AttributeChanges::default() })
            }
            CacheOperation::Dos { at, bits } => {
                let dos = Some(DosInfo { bits: Some(*bits), created: None });
                set(at, AttributeChanges { dos, ..AttributeChanges::default() })
            }
            CacheOperation::Modified { at, seconds } => {
                let modified = TimeChange::Set(Timestamp(i128::from(*seconds) * 1_000_000_000));
                set(at, AttributeChanges { modified, ..AttributeChanges::default() })
            }
            CacheOperation::Deny { at, user } => {
                let mode = if *user == 0 { 0o700 } else { 0o705 };
                set(at, AttributeChanges { mode: Some(mode), ..AttributeChanges::default() })
            }
            _ => Ok(()),
        }
    }

    fn node(&self, who: Actor<'_>, at: &RelPath, write: bool) -> vfs::Result<Arc<dyn Node>> {
        let how = OpenHow {
            read: false,
            write,
            case: Case::Sensitive,
            wanted: AttributeRequest::default(),
            no_follow: true,
            wait: Wait::Allowed,
        };
        Ok(self.backend.open(who, at, how)?.node)
    }

    fn make(&self, who: Actor<'_>, at: &RelPath, kind: FileKind) -> vfs::Result<Arc<dyn Node>> {
        let mode = if kind == FileKind::Directory { 0o777 } else { 0o666 };
        let how = CreateHow::plain(kind, mode);
        Ok(self.backend.create(who, at, Case::Sensitive, how)?.node)
    }
}
