//! Caching decorator of a backend: names, paths, attributes and listings.
//!
//! SMB names are case-insensitive, while most file systems are case-sensitive. So a name without an
//! exact match may exist in another case, which only a scan of its directory can tell. The cache
//! reads the names of a directory once, at the first miss, into an index ([`name_index`]). The
//! backend reports every change ([`vfs::ChangeFeed`]), including those of this process, so all
//! changes have one order. Before the cache answers, it drains the feed: it sees every change made
//! before the request arrived.
//!
//! Listings are cached with the attributes of their entries ([`listing_cache`]) until the backend
//! reports the first change in the directory ([`vfs::ListingFeed`]).
//!
//! Without feeds or room, calls pass through to the backend.
#![forbid(unsafe_code)]

mod case_lookup;
mod counters;
mod create;
mod created_files;
mod created_names;
mod directories;
mod list;
mod listing_cache;
mod name_index;
mod open;
mod options;
mod pace;
mod path_cache;
mod records;
mod state;
mod tree;

pub use counters::CacheCount;
pub use options::CacheOptions;
pub use tree::{CachedVfs, Clock};
