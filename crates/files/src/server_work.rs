//! Backend calls with the server's authority, each with its reason: the kernel would require rights
//! of the user that are unrelated to the result.

use vfs::{Actor, AttributeRequest, ServerWork};

/// Path and handle of a node: search permission on directories above does not matter to an open.
pub(crate) const LOCATE: Actor<'static> = Actor::server(ServerWork::LocateNode);

/// Names and sizes of streams, sizes of extended attributes, verifiers and reparse data:
/// READ_ATTRIBUTES suffices for them without the right to read data.
pub(crate) const METADATA: Actor<'static> = Actor::server(ServerWork::Metadata);

/// Sync of data and names through a descriptor without write access.
pub(crate) const SYNC: Actor<'static> = Actor::server(ServerWork::Sync);

/// Attributes including DOS attributes and others stored beside a file.
pub(crate) const WANTED: AttributeRequest = AttributeRequest { dos: Some(ServerWork::Metadata) };
