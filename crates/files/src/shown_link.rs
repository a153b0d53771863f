//! Symbolic links presented to Windows clients: FILE_ATTRIBUTE_DIRECTORY beside
//! FILE_ATTRIBUTE_REPARSE_POINT says that the target is a directory. MS-FSCC 2.6.

use crate::volume::dos;
use crate::{Caller, OpenFile, Volume};
use vfs::{Attributes, DosInfo, FileKind, Name, OpenHow, RelPath, Wait};

/// Limit of links to links.
const LINKS_MAX: usize = 8;

impl OpenFile {
    /// The file's attributes, with the directory attribute of a link's target if the client follows
    /// links. It costs nothing for other kinds.
    pub(crate) fn with_link_kind(&self, attributes: Attributes) -> Attributes {
        match self.known_link_text() {
            // Reading the link again would move its access time, which stands still.
            Some(text) if is_shown(self.volume(), &attributes) && !self.is_posix() => {
                let next = target(&self.path(), text);
                let leads =
                    next.is_some_and(|next| leads_to_directory(self.volume(), &self.caller, &next));
                if leads { as_directory(attributes) } else { attributes }
            }
            _ if attributes.kind != FileKind::Symlink => attributes,
            _ => self.with_child_link_kind(&self.path(), attributes),
        }
    }

    /// The same for attributes of the name `path`.
    pub(crate) fn with_child_link_kind(
        &self,
        path: &RelPath,
        attributes: Attributes,
    ) -> Attributes {
        if attributes.kind != FileKind::Symlink || self.is_posix() {
            return attributes;
        }
        with_link_kind(self.volume(), &self.caller, path, attributes)
    }
}

/// The same for a caller that is known not to be a POSIX client.
pub(crate) fn with_link_kind(
    volume: &Volume,
    caller: &Caller,
    path: &RelPath,
    attributes: Attributes,
) -> Attributes {
    if !is_shown(volume, &attributes) || !leads_to_directory(volume, caller, path) {
        return attributes;
    }
    as_directory(attributes)
}

fn is_shown(volume: &Volume, attributes: &Attributes) -> bool {
    attributes.kind == FileKind::Symlink && !volume.features().follows_links
}

fn as_directory(attributes: Attributes) -> Attributes {
    let bits = Some(attributes.dos.bits.unwrap_or(0) | dos::DIRECTORY);
    Attributes { dos: DosInfo { bits, ..attributes.dos }, ..attributes }
}

/// Whether a link leads to a directory within the volume, over further links if necessary.
pub(crate) fn leads_to_directory(volume: &Volume, caller: &Caller, link: &RelPath) -> bool {
    let mut path = link.clone();
    for _ in 0..LINKS_MAX {
        let how = OpenHow::looking(Wait::Allowed);
        let Ok(found) = volume.vfs.open(caller.identity.actor(), &path, how) else { return false };
        if found.attributes.kind != FileKind::Symlink {
            return found.attributes.kind == FileKind::Directory;
        }
        let Some(next) =
            found.node.readlink(caller.identity.actor()).ok().and_then(|text| target(&path, &text))
        else {
            return false;
        };
        path = next;
    }
    false
}

/// Target path of a link; none outside the volume.
fn target(link: &RelPath, text: &[u8]) -> Option<RelPath> {
    let (mut path, _) = link.split()?;
    if text.first() == Some(&b'/') {
        return None;
    }
    for component in text.split(|byte| *byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." => path = path.split()?.0,
            name => path.push(&Name::new(name).ok()?),
        }
    }
    Some(path)
}
