//! What clients may keep to themselves of one file, and how they are asked to
//! give it back: oplocks. MS-FSA 2.1.4.12, 2.1.5.18, 2.1.5.19; MS-SMB2 3.3.4.6.
//!
//! An oplock is a set of [`Caching`] of one open. A break is begun here and
//! told elsewhere ([`Caches::poll_break`]); what needs it waits until it is
//! acknowledged, its open is closed, or [`Caches::handle_timeout`] ends it.

use crate::OpenId;
use std::collections::VecDeque;
use std::ops::{BitAnd, BitOr, Sub};

/// What a client may do without asking. MS-SMB2 2.2.13.2.8 numbers the bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caching(pub u8);

impl Caching {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Keep what it has read.
    pub const READ: Self = Self(1);
    /// Keep its open when the application closes.
    pub const HANDLE: Self = Self(2);
    /// Keep back what it writes and locks.
    pub const WRITE: Self = Self(4);
    /// A level II oplock.
    pub const LEVEL_II: Self = Self::READ;
    /// An exclusive oplock.
    pub const EXCLUSIVE: Self = Self(5);
    /// A batch oplock.
    pub const BATCH: Self = Self(7);

    /// Whether all of `other` is in the set.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self & other == other
    }

    /// Whether any of `other` is in the set.
    #[must_use]
    pub fn intersects(self, other: Self) -> bool {
        self & other != Self::NONE
    }

    /// The oplock that this amounts to: handles are kept with all of it only,
    /// and nothing without reading.
    fn as_oplock(self) -> Self {
        match self {
            Self::BATCH | Self::EXCLUSIVE => self,
            _ => self & Self::READ,
        }
    }
}

impl BitAnd for Caching {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for Caching {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Sub for Caching {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// A holder must be told that it has less now, or must give some back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheBreak {
    /// Whose.
    pub id: OpenId,
    /// What it may keep.
    pub to: Caching,
    /// It keeps the rest until it acknowledges. Otherwise it has lost it already.
    pub acknowledge: bool,
}

/// Why an acknowledgment is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcknowledgeRefusal {
    /// Nobody asked for it.
    NotBreaking,
    /// It keeps more than it may; it has nothing any more.
    TooMuch,
}

/// Number of a break, in the order they begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BreakNumber(u64);

/// Why caches must be given back before an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// It is compatible: what is kept back must be written.
    Share,
    /// It replaces what is in the file.
    Replace,
    /// Its share mode conflicts: perhaps with an open that only a cache keeps.
    Conflict,
}

#[derive(Clone, Copy, Debug)]
struct Holder {
    id: OpenId,
    has: Caching,
    breaking: Option<(Caching, BreakNumber)>,
}

/// The oplocks of one file.
#[derive(Debug, Default)]
pub struct Caches {
    holders: Vec<Holder>,
    breaks: VecDeque<CacheBreak>,
    begun: BreakNumber,
    settled: bool,
}

impl Caches {
    /// Whether nobody keeps anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }

    /// What an open may keep.
    #[must_use]
    pub fn of(&self, id: OpenId) -> Caching {
        self.find(id).map_or(Caching::NONE, |at| self.holders[at].has)
    }

    /// The latest break that has begun.
    #[must_use]
    pub fn latest_break(&self) -> BreakNumber {
        self.begun
    }

    /// Whether `id` must give something back and has not yet.
    #[must_use]
    pub fn is_breaking(&self, id: OpenId) -> bool {
        self.find(id).is_some_and(|at| self.holders[at].breaking.is_some())
    }

    /// Gives `id` as much of `wanted` as the others leave.
    pub(crate) fn grant(
        &mut self,
        id: OpenId,
        wanted: Caching,
        is_alone: bool,
        has_locks: bool,
    ) -> Caching {
        let mut granted = wanted;
        if has_locks {
            granted = granted - Caching::READ;
        }
        if !is_alone || !self.holders.is_empty() {
            granted = granted - Caching::WRITE;
        }
        // Only an open that looks at attributes gets here with one of these about.
        if self.holders.iter().any(|holder| holder.has != Caching::READ) {
            granted = Caching::NONE;
        }
        let granted = granted.as_oplock();
        if granted != Caching::NONE {
            self.holders.push(Holder { id, has: granted, breaking: None });
        }
        granted
    }

    /// Asks back what an open cannot be had with. True if it must wait.
    pub(crate) fn handle_demand(&mut self, demand: Demand) -> bool {
        let mut waits = false;
        for at in (0..self.holders.len()).rev() {
            let has = self.holders[at].has;
            let (lost, keeps) = match demand {
                Demand::Share => (Caching::WRITE, Caching::READ),
                Demand::Replace => (Caching::BATCH, Caching::NONE),
                Demand::Conflict => (Caching::HANDLE, Caching::READ),
            };
            if !has.intersects(lost) {
                continue;
            }
            waits |= has != Caching::READ;
            // An oplock keeps nothing but reads once it is broken.
            self.begin_break(at, has & keeps);
        }
        waits
    }

    /// What `id` changes is not what others have read; nor is it what itself
    /// has read, unless it alone may write. MS-FSA 2.1.5.18, level II.
    pub fn handle_change(&mut self, id: OpenId) {
        if self.of(id).contains(Caching::WRITE) {
            return;
        }
        for at in (0..self.holders.len()).rev() {
            self.begin_break(at, Caching::NONE);
        }
    }

    /// `id` gives back all but `keeps`.
    ///
    /// # Errors
    /// See [`AcknowledgeRefusal`].
    pub fn handle_acknowledge(
        &mut self,
        id: OpenId,
        keeps: Caching,
    ) -> Result<(), AcknowledgeRefusal> {
        let at = self.find(id).ok_or(AcknowledgeRefusal::NotBreaking)?;
        let (to, _) = self.holders[at].breaking.ok_or(AcknowledgeRefusal::NotBreaking)?;
        let fits = to.contains(keeps);
        self.settle(at, if fits { keeps } else { Caching::NONE });
        if fits { Ok(()) } else { Err(AcknowledgeRefusal::TooMuch) }
    }

    /// Breaks up to `latest` have had time enough: their holders have nothing.
    pub fn handle_timeout(&mut self, latest: BreakNumber) {
        for at in (0..self.holders.len()).rev() {
            if self.holders[at].breaking.is_some_and(|(_, number)| number <= latest) {
                self.settle(at, Caching::NONE);
            }
        }
    }

    /// An open is gone, and what it had with it.
    pub(crate) fn handle_close(&mut self, id: OpenId) {
        if let Some(at) = self.find(id) {
            self.settle(at, Caching::NONE);
        }
        self.breaks.retain(|told| told.id != id);
    }

    /// The next holder to tell.
    pub fn poll_break(&mut self) -> Option<CacheBreak> {
        self.breaks.pop_front()
    }

    /// Whether a break ended since this was last asked: who waits may try again.
    pub fn poll_settled(&mut self) -> bool {
        std::mem::take(&mut self.settled)
    }

    fn begin_break(&mut self, at: usize, to: Caching) {
        let holder = &mut self.holders[at];
        if holder.breaking.is_some() {
            return;
        }
        let acknowledge = holder.has != Caching::READ;
        self.breaks.push_back(CacheBreak { id: holder.id, to, acknowledge });
        if acknowledge {
            self.begun.0 += 1;
            holder.breaking = Some((to, self.begun));
        } else {
            self.holders.swap_remove(at);
        }
    }

    fn settle(&mut self, at: usize, has: Caching) {
        let holder = &mut self.holders[at];
        self.settled |= holder.breaking.take().is_some();
        holder.has = has;
        if has == Caching::NONE {
            self.holders.swap_remove(at);
        }
    }

    fn find(&self, id: OpenId) -> Option<usize> {
        self.holders.iter().position(|holder| holder.id == id)
    }
}

#[cfg(test)]
mod tests;
