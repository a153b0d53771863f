//! The descriptor of what is newly made. MS-DTYP 2.5.3.4.

use crate::{Ace, Descriptor, Sid, control};

/// Who makes it.
#[derive(Clone, Debug)]
pub struct Creator {
    /// The user: becomes owner.
    pub owner: Sid,
    /// The user's group.
    pub group: Sid,
}

/// The descriptor of a new file or directory below `parent`, if the parent has
/// anything to pass on.
#[must_use]
pub fn inherit(parent: &Descriptor, creator: &Creator, is_directory: bool) -> Option<Descriptor> {
    let entries = parent.dacl.as_deref()?;
    let mut list = Vec::new();
    for ace in entries {
        push_inherited(ace, creator, is_directory, &mut list);
    }
    if list.is_empty() {
        return None;
    }
    Some(Descriptor {
        control: control::SELF_RELATIVE
            | control::DACL_PRESENT
            | parent.control & control::DACL_AUTO_INHERITED,
        owner: Some(creator.owner.clone()),
        group: Some(creator.group.clone()),
        sacl: None,
        dacl: Some(list),
    })
}

fn push_inherited(ace: &Ace, creator: &Creator, is_directory: bool, list: &mut Vec<Ace>) {
    let container = ace.flags & Ace::CONTAINER_INHERIT != 0;
    let object = ace.flags & Ace::OBJECT_INHERIT != 0;
    let propagates = ace.flags & Ace::NO_PROPAGATE == 0;
    if !is_directory {
        if object {
            list.push(effective(ace, creator, 0));
        }
        return;
    }
    if container {
        let kept =
            if propagates { ace.flags & (Ace::CONTAINER_INHERIT | Ace::OBJECT_INHERIT) } else { 0 };
        let is_creator = ace.sid == Sid::creator_owner() || ace.sid == Sid::creator_group();
        let is_generic = ace.access.map_generic() != ace.access;
        if kept != 0 && (is_creator || is_generic) {
            // One entry for the directory itself, one to hand on as it was.
            list.push(effective(ace, creator, 0));
            let handed_on = kept | Ace::INHERIT_ONLY | Ace::INHERITED;
            list.push(Ace { flags: handed_on, ..ace.clone() });
        } else {
            list.push(effective(ace, creator, kept));
        }
    } else if object && propagates {
        let handed_on = Ace::OBJECT_INHERIT | Ace::INHERIT_ONLY | Ace::INHERITED;
        list.push(Ace { flags: handed_on, ..ace.clone() });
    }
}

fn effective(ace: &Ace, creator: &Creator, flags: u8) -> Ace {
    let sid = if ace.sid == Sid::creator_owner() {
        creator.owner.clone()
    } else if ace.sid == Sid::creator_group() {
        creator.group.clone()
    } else {
        ace.sid.clone()
    };
    Ace {
        kind: ace.kind.clone(),
        flags: flags | Ace::INHERITED,
        access: ace.access.map_generic(),
        sid,
    }
}
