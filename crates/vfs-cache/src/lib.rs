//! A backend over a backend, which keeps what it knows of names.
//!
//! SMB's names have no case, those of most file systems do: a name that is not
//! found as it is spelt may be there in another case, and only a scan of its
//! directory tells. So the names of a directory are read once, when the first
//! name is missed in it, and kept in an index ([`index`]) that is told of every
//! change by the backend ([`vfs::ChangeFeed`]): changes of this process too, so
//! that there is one order of all changes, the backend's own. Before an answer is
//! taken from what is kept, the feed is drained: what was changed before a request
//! came is known to it.
//!
//! What directories list is kept with the attributes of files ([`listings`]), until the
//! backend tells of the first change in them ([`vfs::ListingFeed`]).
//!
//! Where a backend cannot tell, or there is no room, it is asked as if nothing
//! stood in between.
#![forbid(unsafe_code)]

mod counters;
mod directories;
mod index;
mod listing;
mod listings;
mod opening;
mod pace;
mod places;
mod recent;
mod records;
mod remembering;
mod spelling;
mod state;
mod tree;

pub use counters::Count;
pub use tree::{CacheOptions, CachedVfs, Clock};
