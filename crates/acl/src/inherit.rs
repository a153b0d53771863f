//! The descriptor of a new file or directory. MS-DTYP 2.5.3.4.

use crate::{Ace, Descriptor, Sid, control};

/// The creator of a file.
#[derive(Clone, Debug)]
pub struct Creator {
    /// The user, who becomes the owner.
    pub owner: Sid,
    /// The user's group.
    pub group: Sid,
}

/// The descriptor of a new file or directory below `parent`, if the parent has inheritable entries.
/// Entries are marked as inherited only if the parent's own list is auto-inherited; later changes
/// propagate only then.
#[must_use]
pub fn inherit(parent: &Descriptor, creator: &Creator, is_directory: bool) -> Option<Descriptor> {
    let pass_on = |list: &Option<Vec<Ace>>, marked: u16| {
        let mark = if parent.control & marked != 0 { Ace::INHERITED } else { 0 };
        let mut inherited = InheritedList { creator, mark, list: Vec::new() };
        list.iter().flatten().for_each(|ace| inherited.pass_on(ace, is_directory));
        Some(inherited.list).filter(|list| !list.is_empty())
    };
    let dacl = pass_on(&parent.dacl, control::DACL_AUTO_INHERITED)?;
    let sacl = pass_on(&parent.sacl, control::SACL_AUTO_INHERITED);
    let of_sacl = control::SACL_PRESENT | parent.control & control::SACL_AUTO_INHERITED;
    Some(Descriptor {
        control: control::SELF_RELATIVE
            | control::DACL_PRESENT
            | parent.control & control::DACL_AUTO_INHERITED
            | if sacl.is_some() { of_sacl } else { 0 },
        owner: Some(creator.owner.clone()),
        group: Some(creator.group.clone()),
        sacl,
        dacl: Some(dacl),
    })
}

/// An inherited list under construction.
struct InheritedList<'a> {
    creator: &'a Creator,
    /// The INHERITED flag, or none.
    mark: u8,
    list: Vec<Ace>,
}

impl InheritedList<'_> {
    fn pass_on(&mut self, ace: &Ace, is_directory: bool) {
        let container = ace.flags & Ace::CONTAINER_INHERIT != 0;
        let object = ace.flags & Ace::OBJECT_INHERIT != 0;
        let propagates = ace.flags & Ace::NO_PROPAGATE == 0;
        if !is_directory {
            if object {
                self.push_effective(ace, 0);
            }
        } else if container {
            let both = Ace::CONTAINER_INHERIT | Ace::OBJECT_INHERIT;
            let kept = if propagates { ace.flags & both } else { 0 };
            let is_creator = ace.sid == Sid::creator_owner() || ace.sid == Sid::creator_group();
            let is_generic = ace.access.map_generic() != ace.access;
            if kept != 0 && (is_creator || is_generic) {
                // One effective entry for the directory itself, and one unchanged inherit-only
                // entry.
                self.push_effective(ace, 0);
                self.push_inherit_only(ace, kept);
            } else {
                self.push_effective(ace, kept);
            }
        } else if object && propagates {
            self.push_inherit_only(ace, Ace::OBJECT_INHERIT);
        }
    }

    fn push_inherit_only(&mut self, ace: &Ace, flags: u8) {
        let audit = ace.flags & Ace::AUDITS;
        let flags = flags | audit | Ace::INHERIT_ONLY | self.mark;
        self.list.push(Ace { flags, ..ace.clone() });
    }

    fn push_effective(&mut self, ace: &Ace, flags: u8) {
        let sid = if ace.sid == Sid::creator_owner() {
            self.creator.owner.clone()
        } else if ace.sid == Sid::creator_group() {
            self.creator.group.clone()
        } else {
            ace.sid.clone()
        };
        self.list.push(Ace {
            kind: ace.kind.clone(),
            flags: flags | ace.flags & Ace::AUDITS | self.mark,
            access: ace.access.map_generic(),
            sid,
        });
    }
}
