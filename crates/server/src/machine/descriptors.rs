//! Division of the process's file descriptors.
//!
//! Every connection takes one, every open takes one, and the process needs some itself. Separate
//! shares make sure that one kind cannot exhaust the others.

use crate::limits::{DESCRIPTORS_MIN, DESCRIPTORS_OWN, DESCRIPTORS_WANTED, KEPT_NODES_MAX};
use rustix::process::{Resource, getrlimit, setrlimit};

/// Remedy for too few descriptors, for logs and errors.
pub const REMEDY: &str = "raise LimitNOFILE= in the unit (524288 is usual), or ulimit -n";

/// The division; its parts sum to at most `limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorPlan {
    /// RLIMIT_NOFILE.
    pub limit: u64,
    /// Descriptors of the process itself: threads, workers, journals, and nodes that caches pin.
    pub own: u64,
    /// Nodes that the cache of one share may keep open.
    pub kept_nodes: usize,
    /// Connections.
    pub connections: usize,
    /// Opens of all users together.
    pub opens: u64,
}

impl DescriptorPlan {
    /// Divides `limit` descriptors among `shares` shares and at most `connections_max` connections.
    /// The process's own part comes first. Three fifths of the rest go to connections, up to their
    /// limit, and the remainder to opens. 20,000 descriptors give 11,000 and 7,400; 524,288 give
    /// 100,000 and 422,000.
    #[must_use]
    pub fn new(limit: u64, connections_max: usize, workers: usize, shares: usize) -> Self {
        let shares = shares.max(1) as u64;
        let kept_nodes = (limit / 8 / shares).min(KEPT_NODES_MAX as u64);
        // A worker's call holds a directory, a file, and the other file of a copy.
        let own = DESCRIPTORS_OWN + 4 * workers as u64 + kept_nodes * shares;
        let own = own.min(limit / 2);
        let rest = limit - own;
        let connections = (rest * 3 / 5).min(connections_max as u64);
        let opens = rest - connections;
        let as_usize = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        Self {
            limit,
            own,
            kept_nodes: as_usize(kept_nodes),
            connections: as_usize(connections),
            opens,
        }
    }

    /// Checks that the server can start at all.
    ///
    /// # Errors
    /// A sentence with the remedy.
    pub fn check(&self) -> Result<(), String> {
        if self.limit < DESCRIPTORS_MIN {
            return Err(format!(
                "the limit of open files is {}, and the server needs {DESCRIPTORS_MIN}; {REMEDY}",
                self.limit
            ));
        }
        Ok(())
    }

    /// Whether the limit is so low that users will notice.
    #[must_use]
    pub fn is_small(&self) -> bool {
        self.limit < DESCRIPTORS_WANTED
    }
}

/// Raises the soft limit to the hard limit and returns it.
#[must_use]
pub fn raise_limit() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    let before = limit.current;
    limit.current = limit.maximum;
    let is_raised = setrlimit(Resource::Nofile, limit)
        .inspect_err(|errno| tracing::warn!(%errno, "cannot raise the soft limit of open files to the hard limit"));
    let current = if is_raised.is_ok() { limit.maximum } else { before };
    current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptor_shares_never_exceed_the_limit() {
        for limit in [256, 1024, 4096, 20_000, 524_288, 1 << 30] {
            for (connections, workers, shares) in
                [(1, 1, 0), (100_000, 64, 1), (1_000_000, 4096, 300)]
            {
                let plan = DescriptorPlan::new(limit, connections, workers, shares);
                assert!(plan.own + plan.connections as u64 + plan.opens <= limit, "{plan:?}");
                assert!(plan.connections > 0 && plan.opens > 0, "{plan:?}");
                let kept = (plan.kept_nodes * shares) as u64;
                assert!(kept <= plan.own, "caches keep within the process's part: {plan:?}");
            }
        }
    }

    #[test]
    fn descriptor_limit_is_divided_as_documented() {
        let plan = |limit| DescriptorPlan::new(limit, 100_000, 64, 1);
        assert_eq!((plan(20_000).connections, plan(20_000).opens), (11_078, 7_386));
        assert_eq!((plan(524_288).connections, plan(524_288).opens), (100_000, 422_752));
        assert!(plan(20_000).check().is_ok() && !plan(20_000).is_small());
        assert!(plan(1024).check().is_ok() && plan(1024).is_small());
        assert!(plan(255).check().unwrap_err().contains("LimitNOFILE"));
    }
}
