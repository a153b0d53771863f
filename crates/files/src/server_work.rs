//! What the file layer asks a backend for on behalf of the server, each with its reason: the
//! kernel would ask a user for rights that have nothing to do with what the user is shown.

use vfs::{Actor, ServerWork, Wanted};

/// Where a node is by now, and its handle: directories above it that the caller may not pass do
/// not matter to an open.
pub(crate) const LOCATE: Actor<'static> = Actor::server(ServerWork::LocateNode);

/// Names and lengths of streams, lengths of extended attributes, verifiers and reparse data: who
/// may look at a file may know them without the right to read its data.
pub(crate) const METADATA: Actor<'static> = Actor::server(ServerWork::Metadata);

/// Making data and names stable, of what may be open for looking only.
pub(crate) const SYNC: Actor<'static> = Actor::server(ServerWork::Sync);

/// Attributes with DOS attributes and what else is stored beside a file.
pub(crate) const WANTED: Wanted = Wanted { dos: Some(ServerWork::Metadata) };
