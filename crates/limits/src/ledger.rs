//! Shared resources: their total, and the part of one holder.
//!
//! A holder may have as much as would still be free (the dynamic threshold of Choudhury and Hahne).
//! A single holder gets half of all, two get a third each, and a later holder always finds some. No
//! limit for each holder needs configuration. A server with one busy account gives that account
//! much, and an attacked server retains room for others. Every holder may have a small floor beyond
//! that rule, while any is free.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use sync::Mutex;

/// Prefix length of an IPv6 site, which may use all addresses below it.
const IPV6_SITE_BITS: u32 = 64;

/// The account or address that pays for a resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LedgerHolder {
    /// A user with a proven identity.
    User(Arc<str>),
    /// An address, or an IPv6 site; see [`site_of`].
    Site(IpAddr),
}

impl LedgerHolder {
    /// The holder for a client without a proven identity.
    #[must_use]
    pub fn site(address: IpAddr) -> Self {
        Self::Site(site_of(address))
    }
}

/// The address under which a client is counted: an IPv4 address itself, also if it is mapped to
/// IPv6; for IPv6 the first of its /64, because one machine may use all of that.
#[must_use]
pub fn site_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let mask = u128::MAX << (128 - IPV6_SITE_BITS);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// The holder may have no more of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceExhausted;

/// One shared resource.
#[derive(Debug)]
pub struct Ledger {
    max: AtomicU64,
    /// Amount that every holder may have, while any is free.
    floor: u64,
    used: AtomicU64,
    refused: AtomicU64,
    accounts: Mutex<HashMap<LedgerHolder, Weak<LedgerAccount>>>,
}

/// One holder's part of a [`Ledger`].
#[derive(Debug)]
pub struct LedgerAccount {
    ledger: Arc<Ledger>,
    holder: LedgerHolder,
    used: AtomicU64,
}

/// An amount in use; released on drop.
#[derive(Debug)]
pub struct ResourceCharge {
    account: Arc<LedgerAccount>,
    amount: u64,
}

/// Figures of a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceUsage {
    /// The total.
    pub max: u64,
    /// The amount in use.
    pub used: u64,
    /// Holders with a part.
    pub holders: u64,
    /// Refusals since the start.
    pub refused: u64,
}

impl Ledger {
    /// A resource of `max`, of which every holder may have `floor` while any is free.
    #[must_use]
    pub fn new(max: u64, floor: u64) -> Arc<Self> {
        Arc::new(Self {
            max: AtomicU64::new(max),
            floor,
            used: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            accounts: Mutex::default(),
        })
    }

    /// A resource without a limit.
    #[must_use]
    pub fn unlimited() -> Arc<Self> {
        Self::new(u64::MAX, u64::MAX)
    }

    /// Changes the total. Amounts in use stay.
    pub fn set_max(&self, max: u64) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// The total.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }

    /// The account of `holder`. Callers that charge often retain it.
    #[must_use]
    pub fn account(self: &Arc<Self>, holder: &LedgerHolder) -> Arc<LedgerAccount> {
        let mut accounts = self.accounts.lock();
        if let Some(known) = accounts.get(holder).and_then(Weak::upgrade) {
            return known;
        }
        let account = Arc::new(LedgerAccount {
            ledger: self.clone(),
            holder: holder.clone(),
            used: AtomicU64::new(0),
        });
        accounts.insert(holder.clone(), Arc::downgrade(&account));
        account
    }

    /// Takes one unit for `holder`.
    ///
    /// # Errors
    /// [`ResourceExhausted`].
    pub fn take(
        self: &Arc<Self>,
        holder: &LedgerHolder,
    ) -> Result<ResourceCharge, ResourceExhausted> {
        self.account(holder).take(1)
    }

    /// Figures of the resource.
    #[must_use]
    pub fn usage(&self) -> ResourceUsage {
        // The accounts drop after the lock is released, because the last reference to an account
        // takes the lock.
        let accounts: Vec<_> = self.accounts.lock().values().filter_map(Weak::upgrade).collect();
        ResourceUsage {
            max: self.max(),
            used: self.used.load(Ordering::Relaxed),
            holders: accounts.iter().filter(|account| account.used() > 0).count() as u64,
            refused: self.refused.load(Ordering::Relaxed),
        }
    }
}

impl LedgerAccount {
    /// The resource.
    #[must_use]
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// The holder's amount.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Takes `amount`.
    ///
    /// # Errors
    /// [`ResourceExhausted`].
    pub fn take(self: &Arc<Self>, amount: u64) -> Result<ResourceCharge, ResourceExhausted> {
        let mut share = self.force(0);
        share.try_resize(amount)?;
        Ok(share)
    }

    /// Takes `amount` without a limit, for state that existed before and cannot be refused.
    #[must_use]
    pub fn force(self: &Arc<Self>, amount: u64) -> ResourceCharge {
        let mut share = ResourceCharge { account: self.clone(), amount: 0 };
        share.resize(amount);
        share
    }

    /// Adds an amount, if the rule permits it.
    fn add(&self, more: u64) -> Result<(), ResourceExhausted> {
        let max = self.ledger.max();
        let used = self.ledger.used.fetch_add(more, Ordering::AcqRel).saturating_add(more);
        let own = self.used.fetch_add(more, Ordering::AcqRel).saturating_add(more);
        let is_fair = own <= max.saturating_sub(used).max(self.ledger.floor);
        if used <= max && is_fair {
            return Ok(());
        }
        self.subtract(more);
        Err(ResourceExhausted)
    }

    fn subtract(&self, less: u64) {
        self.used.fetch_sub(less, Ordering::AcqRel);
        self.ledger.used.fetch_sub(less, Ordering::AcqRel);
    }
}

impl Drop for LedgerAccount {
    fn drop(&mut self) {
        let mut accounts = self.ledger.accounts.lock();
        // A new account of the holder may have replaced this one since its last reference was
        // dropped.
        if accounts.get(&self.holder).is_some_and(|known| known.strong_count() == 0) {
            accounts.remove(&self.holder);
        }
    }
}

impl ResourceCharge {
    /// The amount.
    #[must_use]
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// Grows or shrinks to `amount`; shrinking always succeeds.
    ///
    /// # Errors
    /// [`ResourceExhausted`]: the amount is unchanged, and the refusal is counted.
    pub fn try_resize(&mut self, amount: u64) -> Result<(), ResourceExhausted> {
        self.retry_resize(amount).inspect_err(|_| {
            self.account.ledger.refused.fetch_add(1, Ordering::Relaxed);
        })
    }

    /// Like [`ResourceCharge::try_resize`] for a repeated attempt: the refusal is not counted again.
    ///
    /// # Errors
    /// [`ResourceExhausted`].
    pub fn retry_resize(&mut self, amount: u64) -> Result<(), ResourceExhausted> {
        if amount > self.amount {
            self.account.add(amount - self.amount)?;
            self.amount = amount;
        } else {
            self.resize(amount);
        }
        Ok(())
    }

    /// Like [`ResourceCharge::try_resize`], but never refused.
    pub fn resize(&mut self, amount: u64) {
        if amount < self.amount {
            self.account.subtract(self.amount - amount);
        } else {
            let more = amount - self.amount;
            self.account.ledger.used.fetch_add(more, Ordering::AcqRel);
            self.account.used.fetch_add(more, Ordering::AcqRel);
        }
        self.amount = amount;
    }

    /// Moves the charge to another account of the same resource.
    pub fn move_to(&mut self, account: &Arc<LedgerAccount>) {
        let amount = self.amount;
        *self = account.force(amount);
    }

    /// The account that pays.
    #[must_use]
    pub fn account(&self) -> &Arc<LedgerAccount> {
        &self.account
    }
}

impl Drop for ResourceCharge {
    fn drop(&mut self) {
        self.account.subtract(self.amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> LedgerHolder {
        LedgerHolder::User(name.into())
    }

    fn take_all(ledger: &Arc<Ledger>, holder: &LedgerHolder) -> Vec<ResourceCharge> {
        std::iter::from_fn(|| ledger.take(holder).ok()).collect()
    }

    #[test]
    fn one_holder_gets_half_and_later_ones_find_some() {
        let ledger = Ledger::new(120, 1);
        let first = take_all(&ledger, &user("first"));
        assert_eq!(first.len(), 60);
        let second = take_all(&ledger, &user("second"));
        assert_eq!(second.len(), 30);
        assert_eq!(take_all(&ledger, &user("third")).len(), 15);
        drop(first);
        assert_eq!(ledger.usage().used, 30);
        assert!(ledger.take(&user("second")).is_ok(), "more are free, so it may have more");
        assert_eq!(ledger.usage().refused, 3);
    }

    #[test]
    fn floor_is_granted_within_the_maximum() {
        let ledger = Ledger::new(10, 4);
        let first = take_all(&ledger, &user("first"));
        let second = take_all(&ledger, &user("second"));
        let third = take_all(&ledger, &user("third"));
        assert_eq!((first.len(), second.len(), third.len()), (5, 4, 1));
    }

    #[test]
    fn account_without_shares_is_removed() {
        let ledger = Ledger::new(9, 1);
        let share = ledger.take(&user("a")).unwrap();
        assert_eq!(ledger.usage().holders, 1);
        drop(share);
        assert_eq!(ledger.usage(), ResourceUsage { max: 9, ..ResourceUsage::default() });
    }

    #[test]
    fn share_grows_within_the_rule_and_moves_whole() {
        let ledger = Ledger::new(100, 0);
        let mut share = ledger.account(&user("a")).take(40).unwrap();
        assert_eq!(share.try_resize(51), Err(ResourceExhausted));
        assert_eq!((share.amount(), ledger.usage().used), (40, 40));
        share.resize(60);
        share.move_to(&ledger.account(&user("b")));
        assert_eq!((ledger.account(&user("a")).used(), ledger.account(&user("b")).used()), (0, 60));
        share.try_resize(10).unwrap();
        assert_eq!(ledger.usage().used, 10);
    }

    #[test]
    fn ipv6_address_is_counted_by_its_site() {
        let site = |text: &str| site_of(text.parse().unwrap());
        assert_eq!(site("2001:db8:1:2:3::4"), site("2001:db8:1:2:ffff::"));
        assert_ne!(site("2001:db8:1:2::1"), site("2001:db8:1:3::1"));
        assert_eq!(site("::ffff:192.0.2.1"), site("192.0.2.1"));
        assert_ne!(site("192.0.2.1"), site("192.0.2.2"));
    }
}
