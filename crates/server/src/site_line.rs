//! A line of work for few threads, in which addresses take turns: slow work of one of them leaves
//! threads for the others.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// Work that waits, by the address that it is done for. `T` is one piece of work.
#[derive(Debug)]
pub struct SiteLine<T> {
    sites: HashMap<IpAddr, Site<T>>,
    /// Addresses with work waiting, each once.
    turns: VecDeque<IpAddr>,
    waiting: usize,
    waiting_max: usize,
    begun_per_site_max: usize,
}

/// The work of one address.
#[derive(Debug)]
struct Site<T> {
    waiting: VecDeque<T>,
    begun: usize,
}

impl<T> SiteLine<T> {
    /// An empty line of at most `waiting_max` pieces, of which `begun_per_site_max` of one address
    /// are worked on at once.
    pub fn new(waiting_max: usize, begun_per_site_max: usize) -> Self {
        let (sites, turns) = (HashMap::new(), VecDeque::new());
        Self { sites, turns, waiting: 0, waiting_max, begun_per_site_max }
    }

    /// A piece of work joins; false if too much waits.
    pub fn join(&mut self, site: IpAddr, work: T) -> bool {
        if self.waiting >= self.waiting_max {
            return false;
        }
        let of = || Site { waiting: VecDeque::new(), begun: 0 };
        let waiting = &mut self.sites.entry(site).or_insert_with(of).waiting;
        waiting.push_back(work);
        self.waiting += 1;
        if waiting.len() == 1 {
            self.turns.push_back(site);
        }
        true
    }

    /// The next piece that may begin; to be followed by [`SiteLine::end`].
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

    /// A piece of an address is done.
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
    fn slow_work_of_one_address_leaves_threads_for_others() {
        let mut line = SiteLine::new(100, 2);
        for work in 0..10 {
            assert!(line.join(site(1), work));
        }
        let of_first: Vec<_> = std::iter::from_fn(|| line.begin()).collect();
        assert_eq!(of_first, [(site(1), 0), (site(1), 1)], "as many as one may have");
        assert!(line.join(site(2), 100));
        assert_eq!(line.begin(), Some((site(2), 100)), "whatever the other has waiting");
        assert_eq!(line.begin(), None);
        line.end(site(1));
        assert_eq!(line.begin(), Some((site(1), 2)));
    }

    #[test]
    fn addresses_take_turns_and_leave_nothing_behind() {
        let mut line = SiteLine::new(100, 2);
        for (at, work) in [(1, 10), (1, 11), (1, 12), (2, 20), (3, 30)] {
            assert!(line.join(site(at), work));
        }
        let mut order = Vec::new();
        while let Some((at, work)) = line.begin() {
            order.push(work);
            line.end(at);
        }
        assert_eq!(order, [10, 20, 30, 11, 12]);
        assert!(line.sites.is_empty() && line.turns.is_empty() && line.waiting == 0);
        for work in 0..100 {
            assert!(line.join(site(1), work));
        }
        assert!(!line.join(site(2), 0));
    }
}
