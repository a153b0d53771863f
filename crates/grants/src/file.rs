//! Opens of one file and what they tolerate of each other. MS-FSA 2.1.5.1.2.

use crate::{Access, RangeLocks};

/// Number of an open, unique in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpenId(pub u64);

/// What an open lets others do meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share(pub u32);

impl Share {
    /// Others may read.
    pub const READ: Self = Self(1);
    /// Others may write.
    pub const WRITE: Self = Self(2);
    /// Others may delete and rename.
    pub const DELETE: Self = Self(4);
    /// Others may do anything.
    pub const ALL: Self = Self(7);

    /// Whether all of `other` are in the set.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What an open is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenWish {
    /// Number of the open.
    pub id: OpenId,
    /// Rights that it will have.
    pub access: Access,
    /// What it tolerates.
    pub share: Share,
    /// The file is to vanish when this open is closed.
    pub delete_on_close: bool,
}

/// Why an open is not possible now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The file is about to vanish.
    DeletePending,
    /// An open forbids this access, or this share mode forbids an open's access.
    ShareViolation,
    /// [`FileGrants::OPENS_MAX`] was reached.
    TooMany,
}

/// What closing an open leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// It was the last one.
    pub last: bool,
    /// It was the last one, and the file must be removed now.
    pub remove: bool,
}

/// All that is held on one file.
#[derive(Debug, Default)]
pub struct FileGrants {
    opens: Vec<OpenWish>,
    delete_pending: bool,
    /// Byte ranges.
    pub locks: RangeLocks,
}

/// Rights that count in share modes. Looking at attributes never conflicts.
const COUNTED: Access = Access(
    Access::READ_DATA.0
        | Access::WRITE_DATA.0
        | Access::APPEND_DATA.0
        | Access::EXECUTE.0
        | Access::DELETE.0,
);

impl FileGrants {
    /// Opens of one file.
    pub const OPENS_MAX: usize = 1 << 16;

    /// Whether an open could be had now; enters nothing.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn check_open(&self, wish: &OpenWish) -> Result<(), Refusal> {
        if self.delete_pending {
            return Err(Refusal::DeletePending);
        }
        if self.opens.len() >= Self::OPENS_MAX {
            return Err(Refusal::TooMany);
        }
        if self.opens.iter().any(|open| conflict(open, wish)) {
            return Err(Refusal::ShareViolation);
        }
        Ok(())
    }

    /// Enters an open.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing has changed then.
    pub fn handle_open(&mut self, wish: OpenWish) -> Result<(), Refusal> {
        self.check_open(&wish)?;
        self.opens.push(wish);
        Ok(())
    }

    /// Takes an open out, with its locks. One that is not there changes nothing.
    pub fn handle_close(&mut self, id: OpenId) -> Closed {
        let Some(at) = self.opens.iter().position(|o| o.id == id) else { return Closed::default() };
        let open = self.opens.swap_remove(at);
        self.locks.handle_close(id);
        self.delete_pending |= open.delete_on_close;
        let last = self.opens.is_empty();
        Closed { last, remove: last && self.delete_pending }
    }

    /// Marks the file to vanish at its last close, or no longer.
    pub fn set_delete_pending(&mut self, pending: bool) {
        self.delete_pending = pending;
    }

    /// The file vanishes when `id` is closed.
    pub fn set_delete_on_close(&mut self, id: OpenId) {
        if let Some(open) = self.opens.iter_mut().find(|o| o.id == id) {
            open.delete_on_close = true;
        }
    }

    /// Whether the file will vanish at its last close.
    #[must_use]
    pub fn is_delete_pending(&self) -> bool {
        self.delete_pending
    }

    /// Whether an open other than `id` does not share deletion: a rename or a
    /// replacement must not happen under it.
    #[must_use]
    pub fn others_forbid_delete(&self, id: OpenId) -> bool {
        self.opens
            .iter()
            .any(|o| o.id != id && o.access.intersects(COUNTED) && !o.share.contains(Share::DELETE))
    }

    /// Whether an open may delete the file.
    #[must_use]
    pub fn may_someone_delete(&self) -> bool {
        self.opens.iter().any(|o| o.access.contains(Access::DELETE))
    }

    /// Number of opens.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.opens.len()
    }
}

/// Whether two opens exclude each other: either's access against the other's share mode.
fn conflict(a: &OpenWish, b: &OpenWish) -> bool {
    if !a.access.intersects(COUNTED) || !b.access.intersects(COUNTED) {
        return false;
    }
    forbids(a.share, b.access) || forbids(b.share, a.access)
}

fn forbids(share: Share, access: Access) -> bool {
    let read = Access::READ_DATA | Access::EXECUTE;
    let write = Access::WRITE_DATA | Access::APPEND_DATA;
    (access.intersects(read) && !share.contains(Share::READ))
        || (access.intersects(write) && !share.contains(Share::WRITE))
        || (access.intersects(Access::DELETE) && !share.contains(Share::DELETE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(id: u64, access: Access, share: Share) -> OpenWish {
        OpenWish { id: OpenId(id), access, share, delete_on_close: false }
    }

    #[test]
    fn either_side_can_forbid_the_other() {
        let mut file = FileGrants::default();
        file.handle_open(wish(1, Access::READ_DATA, Share::READ)).unwrap();
        assert_eq!(
            file.handle_open(wish(2, Access::WRITE_DATA, Share::ALL)),
            Err(Refusal::ShareViolation)
        );
        assert_eq!(
            file.handle_open(wish(2, Access::READ_DATA, Share::WRITE)),
            Err(Refusal::ShareViolation)
        );
        assert_eq!(file.handle_open(wish(2, Access::READ_DATA, Share::READ)), Ok(()));
        assert_eq!(file.open_count(), 2);
    }

    #[test]
    fn looking_at_attributes_never_conflicts() {
        let mut file = FileGrants::default();
        file.handle_open(wish(1, Access::WRITE_DATA, Share::default())).unwrap();
        assert_eq!(file.handle_open(wish(2, Access::READ_ATTRIBUTES, Share::default())), Ok(()));
    }

    #[test]
    fn delete_on_close_turns_into_pending_and_the_last_close_removes() {
        let mut file = FileGrants::default();
        let doomed = OpenWish { delete_on_close: true, ..wish(1, Access::DELETE, Share::ALL) };
        file.handle_open(doomed).unwrap();
        file.handle_open(wish(2, Access::READ_DATA, Share::ALL)).unwrap();
        assert_eq!(file.handle_close(OpenId(1)), Closed { last: false, remove: false });
        assert_eq!(
            file.handle_open(wish(3, Access::READ_DATA, Share::ALL)),
            Err(Refusal::DeletePending)
        );
        assert_eq!(file.handle_close(OpenId(2)), Closed { last: true, remove: true });
        assert_eq!(file.handle_close(OpenId(2)), Closed::default(), "closing twice does nothing");
    }
}
