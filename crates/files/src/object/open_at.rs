//! Parameters of an open by handle: its target, and what a path has not.

use super::Object;
use crate::{CacheHolder, OpenFile};
use std::sync::Arc;
use vfs::Name;

/// Target of an open. The path of its [`crate::OpenPlan`] is ignored.
#[derive(Clone, Debug)]
pub enum OpenAt {
    /// Exactly this object, under any name.
    Object(Object),
    /// The entry of this name in this directory, existing or not.
    Name(Object, Name),
}

/// Parameters of an open beside its [`crate::OpenPlan`].
#[derive(Clone, Debug, Default)]
pub struct ObjectOpen {
    /// Open of the same file that the new one replaces: an upgrade. Its rights and share mode do
    /// not conflict, and its byte-range locks are transferred. Operations that use it may finish,
    /// then the caller closes it. If the open fails, the old one is unchanged.
    pub instead_of: Option<Arc<OpenFile>>,
    /// Verifier of an exclusive create. It is stored with the file, also across a restart, so that
    /// a repeated create with [`crate::IfExists::Fail`] and the same verifier finds the file. RFC
    /// 8881 18.16.3.
    pub verifier: Option<[u8; 8]>,
    /// Holder for breaks. The open uses its client's delegation key for the file
    /// ([`crate::delegation_key`]), so that the file may be delegated.
    pub holder: Option<Arc<dyn CacheHolder>>,
}
