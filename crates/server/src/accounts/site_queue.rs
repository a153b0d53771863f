//! A work queue for few threads that takes client addresses in turn. Slow work of one address
//! leaves threads for the others; much work of one address leaves room in the queue.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// Queue of work items by client address. `T` is one item.
#[derive(Debug)]
pub struct SiteQueue<T> {
    sites: HashMap<IpAddr, Site<T>>,
    /// Addresses with queued items, each once.
    turns: VecDeque<IpAddr>,
    waiting: usize,
    waiting_max: usize,
    waiting_per_site_max: usize,
    begun_per_site_max: usize,
}

/// The queue has no room for an item of this address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull;

/// Items of one address.
#[derive(Debug)]
struct Site<T> {
    waiting: VecDeque<T>,
    begun: usize,
}

impl<T> SiteQueue<T> {
    /// Creates a queue of at most `waiting_max` items, `waiting_per_site_max` of one address. At
    /// most `begun_per_site_max` items of an address run at once.
    pub fn new(waiting_max: usize, waiting_per_site_max: usize, begun_per_site_max: usize) -> Self {
        let (sites, turns) = (HashMap::new(), VecDeque::new());
        Self { sites, turns, waiting: 0, waiting_max, waiting_per_site_max, begun_per_site_max }
    }

    /// Adds an item. In a full queue the address with the most items loses its last one to an
    /// address with fewer; that item is returned.
    ///
    /// # Errors
    /// [`QueueFull`]: this address has its share of the queue.
    pub fn join(&mut self, site: IpAddr, work: T) -> Result<Option<T>, QueueFull> {
        let own = self.sites.get(&site).map_or(0, |site| site.waiting.len());
        if own >= self.waiting_per_site_max {
            return Err(QueueFull);
        }
        let displaced = match self.waiting < self.waiting_max {
            true => None,
            false => Some(self.displace(own + 1)?),
        };
        let of = || Site { waiting: VecDeque::new(), begun: 0 };
        let waiting = &mut self.sites.entry(site).or_insert_with(of).waiting;
        waiting.push_back(work);
        self.waiting += 1;
        if waiting.len() == 1 {
            self.turns.push_back(site);
        }
        Ok(displaced)
    }

    /// Removes the last item of the address with the most, if it has more than `than`.
    fn displace(&mut self, than: usize) -> Result<T, QueueFull> {
        let most = self.sites.values_mut().max_by_key(|site| site.waiting.len());
        let most = most.filter(|site| site.waiting.len() > than).ok_or(QueueFull)?;
        // The address had more than one item, so it keeps its turn.
        let work = most.waiting.pop_back().ok_or(QueueFull)?;
        self.waiting -= 1;
        Ok(work)
    }

    /// Removes a queued item that is no longer wanted.
    pub fn leave(&mut self, site: IpAddr, work: &T)
    where
        T: PartialEq,
    {
        let Some(of_site) = self.sites.get_mut(&site) else { return };
        let Some(at) = of_site.waiting.iter().position(|other| other == work) else { return };
        of_site.waiting.remove(at);
        self.waiting -= 1;
        if of_site.waiting.is_empty() {
            self.turns.retain(|turn| *turn != site);
            if of_site.begun == 0 {
                self.sites.remove(&site);
            }
        }
    }

    /// Takes the next item that may run; call [`SiteQueue::end`] when it has finished.
    pub fn begin(&mut self) -> Option<(IpAddr, T)> {
        let max = self.begun_per_site_max;
        let has_room = |site: &IpAddr| self.sites.get(site).is_some_and(|s| s.begun < max);
        let at = self.turns.iter().position(has_room)?;
        let site = self.turns.remove(at)?;
        let of_site = self.sites.get_mut(&site)?;
        let work = of_site.waiting.pop_front()?;
        of_site.begun += 1;
        self.waiting -= 1;
        if !of_site.waiting.is_empty() {
            self.turns.push_back(site);
        }
        Some((site, work))
    }

    /// Records that an item of `site` has finished.
    pub fn end(&mut self, site: IpAddr) {
        let Some(of_site) = self.sites.get_mut(&site) else { return };
        of_site.begun -= 1;
        if of_site.begun == 0 && of_site.waiting.is_empty() {
            self.sites.remove(&site);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(n: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, n])
    }

    #[test]
    fn slow_items_of_one_address_leave_threads_for_others() {
        let mut line = SiteQueue::new(100, 100, 2);
        for work in 0..10 {
            assert_eq!(line.join(site(1), work), Ok(None));
        }
        let of_first: Vec<_> = std::iter::from_fn(|| line.begin()).collect();
        assert_eq!(of_first, [(site(1), 0), (site(1), 1)], "as many as one may have");
        assert_eq!(line.join(site(2), 100), Ok(None));
        assert_eq!(line.begin(), Some((site(2), 100)), "whatever the other has waiting");
        assert_eq!(line.begin(), None);
        line.end(site(1));
        assert_eq!(line.begin(), Some((site(1), 2)));
    }

    #[test]
    fn addresses_take_turns_and_leave_no_entries() {
        let mut line = SiteQueue::new(100, 100, 2);
        for (at, work) in [(1, 10), (1, 11), (1, 12), (2, 20), (3, 30)] {
            assert_eq!(line.join(site(at), work), Ok(None));
        }
        let mut order = Vec::new();
        while let Some((at, work)) = line.begin() {
            order.push(work);
            line.end(at);
        }
        assert_eq!(order, [10, 20, 30, 11, 12]);
        assert!(line.sites.is_empty() && line.turns.is_empty() && line.waiting == 0);
        for work in 0..100 {
            assert_eq!(line.join(site(1), work), Ok(None));
        }
        assert_eq!(line.join(site(1), 100), Err(QueueFull));
    }

    #[test]
    fn address_with_the_most_items_loses_one_and_has_its_bound() {
        let mut line = SiteQueue::new(8, 6, 2);
        (0..6).for_each(|work| assert_eq!(line.join(site(1), work), Ok(None)));
        assert_eq!(line.join(site(1), 6), Err(QueueFull), "its own bound");
        (0..2).for_each(|work| assert_eq!(line.join(site(2), 20 + work), Ok(None)));
        assert_eq!(line.join(site(3), 30), Ok(Some(5)), "the last of the first");
        assert_eq!(line.join(site(3), 31), Ok(Some(4)));
        assert_eq!(line.join(site(3), 32), Ok(Some(3)));
        assert_eq!(line.join(site(3), 33), Err(QueueFull), "now all have the same");
        line.leave(site(2), &20);
        line.leave(site(2), &21);
        line.leave(site(2), &21);
        assert_eq!(line.join(site(3), 33), Ok(None));
        let order: Vec<_> = std::iter::from_fn(|| line.begin()).map(|(_, work)| work).collect();
        assert_eq!(order, [0, 30, 1, 31]);
        assert_eq!(line.waiting, 3);
    }
}
