//! Extended attributes.

use crate::authorize::{as_granted, rights_to};
use crate::frozen_times::MovedTimes;
use crate::server_work::METADATA;
use crate::watch::WatchFilter;
use crate::{Access, OpenFile, RequestFiles};
use acl::ExecuteRule;
use vfs::{AttributeRequest, FsError, Name, Result, XattrName};

impl RequestFiles {
    /// All extended attributes with their values.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if the open lacks the right.
    pub fn xattrs(&self, open: &OpenFile) -> Result<Vec<(XattrName, Vec<u8>)>> {
        open.need_any(Access::READ_EA)?;
        let names = match names_of(open) {
            Err(FsError::NotSupported) => return Ok(Vec::new()),
            other => other?,
        };
        if names.is_empty() {
            return Ok(Vec::new());
        }
        if !open.caller.is_root() {
            // A stored descriptor may have granted the right, and have changed since the open.
            let attributes = open.node.attributes(AttributeRequest::default())?;
            let subject = (&*open.node, &attributes, None);
            let rights = rights_to(open.volume(), &open.caller, subject, ExecuteRule::WithRead);
            if !rights.contains(Access::READ_EA) {
                return Err(FsError::AccessDenied);
            }
        }
        let authority = as_granted(&open.caller, &*open.node);
        let mut all = Vec::with_capacity(names.len());
        for name in names {
            match open.node.need_xattrs()?.xattr(authority.actor(), &name) {
                Ok(value) => all.push((name, value)),
                // The attribute was removed since the listing.
                Err(FsError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// Sets an attribute; `None` removes it. An existing name that differs only in case is used.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if the open lacks the right, [`FsError::NotSupported`],
    /// [`FsError::NoSpace`].
    pub fn set_xattr(&self, open: &OpenFile, name: &XattrName, value: Option<&[u8]>) -> Result<()> {
        open.need_any(Access::WRITE_EA)?;
        open.need_writable()?;
        let names = names_of(open)?;
        let stored = names.iter().find(|n| n.as_bytes().eq_ignore_ascii_case(name.as_bytes()));
        let authority = as_granted(&open.caller, &*open.node);
        open.keep_times(MovedTimes::Changed, || {
            open.node.need_xattrs()?.set_xattr(authority.actor(), stored.unwrap_or(name), value)
        })?;
        open.report_modified(&self.context, WatchFilter::EXTENDED_ATTRIBUTES);
        Ok(())
    }

    /// EaSize of the file: approximate size of its attribute list; 0 without attributes.
    #[must_use]
    pub fn xattr_bytes(&self, open: &OpenFile) -> u32 {
        let Some(xattrs) = open.node.extended_attributes() else { return 0 };
        let names = xattrs.xattr_names(open.caller.identity.actor()).unwrap_or_default();
        let lengths = names.into_iter().map(|name| {
            let length = xattrs.xattr(METADATA, &name).map_or(0, |value| value.len());
            (name, length)
        });
        list_bytes(lengths)
    }

    /// As [`RequestFiles::xattr_bytes`], of a child by its exact name.
    #[must_use]
    pub fn child_xattr_bytes(&self, open: &OpenFile, name: &Name) -> u32 {
        let xattrs = open.node.extended_attributes();
        list_bytes(xattrs.map_or_else(Vec::new, |xattrs| xattrs.child_xattrs(METADATA, name)))
    }
}

/// Names of all attributes, as the opener may read them.
fn names_of(open: &OpenFile) -> Result<Vec<XattrName>> {
    open.node.need_xattrs()?.xattr_names(open.caller.identity.actor())
}

/// MS-FSCC 2.4.13: the size of each entry covers name, lengths and padding.
fn list_bytes(xattrs: impl IntoIterator<Item = (XattrName, usize)>) -> u32 {
    let entry = |(name, length): (XattrName, usize)| {
        (length + name.as_bytes().len() + 9).next_multiple_of(4)
    };
    let total: usize = xattrs.into_iter().map(entry).sum();
    if total == 0 { 0 } else { u32::try_from(total + 4).unwrap_or(u32::MAX) }
}
