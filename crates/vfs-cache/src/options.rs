//! Limits of a cache.

/// Limits of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// Memory budget in bytes.
    pub budget_bytes: usize,
    /// Followed directories: the kernel pins each in memory.
    pub directories_max: usize,
    /// Cached opens.
    pub open_nodes_max: usize,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self { budget_bytes: 128 << 20, directories_max: 8192, open_nodes_max: 1024 }
    }
}
