//! A security context of either side.

use crate::library::{Buffer, GssHandle, Library, LucidContext, is_error, session_key};
use crate::{Error, GssSessionKey};
use std::ptr::null_mut;

/// A context, deleted when it is dropped. Its calls never run concurrently.
pub struct Context {
    pub library: &'static Library,
    pub handle: GssHandle,
}

// SAFETY: MIT contexts have no thread affinity; they must not be used concurrently, and every call
// here takes `&mut self`.
unsafe impl Send for Context {}

impl Context {
    pub fn new(library: &'static Library) -> Self {
        Self { library, handle: null_mut() }
    }

    /// The session key. MS-KILE 3.1.1.2: the subkey, if one was negotiated.
    pub fn key(&mut self) -> Result<GssSessionKey, Error> {
        let (mut minor, mut set) = (0, null_mut());
        // SAFETY: the context is established, all other pointers are to locals.
        let status = unsafe {
            (self.library.inquire)(&mut minor, self.handle, &mut session_key(), &mut set)
        };
        if is_error(status) || set.is_null() {
            return Err(self.library.refused("the session's key", status, minor));
        }
        // SAFETY: the library made the set, and says how many elements there are.
        let key = unsafe {
            let set = &*set;
            let first = (set.count > 0).then(|| &*set.elements);
            first.map(|buffer| {
                GssSessionKey::new(
                    std::slice::from_raw_parts(buffer.value.cast::<u8>(), buffer.length).to_vec(),
                )
            })
        };
        // SAFETY: it comes from the library, and is not used again.
        unsafe { (self.library.release_buffer_set)(&mut minor, &mut set) };
        key.filter(|key| !key.is_empty())
            .ok_or(Error::Refused { what: "the session's key", reason: "there is none".to_owned() })
    }
}

impl Context {
    /// Expiry of the ticket, in seconds since 1970. [`Self::key`] must be read before, because the
    /// library consumes the context here. The lifetime that the library reports elsewhere includes
    /// the clock skew tolerance.
    pub fn end_time(mut self) -> Result<u64, Error> {
        let (mut minor, mut lucid) = (0, null_mut());
        // SAFETY: the context is established, all other pointers are to locals.
        let status =
            unsafe { (self.library.export_lucid)(&mut minor, &mut self.handle, 1, &mut lucid) };
        if is_error(status) || lucid.is_null() {
            return Err(self.library.refused("the ticket's end", status, minor));
        }
        // SAFETY: the library created a version 1 context, which begins with these fields.
        let end_time = unsafe { (*lucid.cast::<LucidContext>()).end_time };
        // SAFETY: it comes from the library, and is not used again.
        unsafe { (self.library.free_lucid)(&mut minor, lucid) };
        Ok(u64::from(end_time))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.handle.is_null() {
            return;
        }
        let mut minor = 0;
        // SAFETY: the library created it; it is not used again. No token is requested.
        unsafe {
            (self.library.delete_context)(&mut minor, &mut self.handle, null_mut::<Buffer>())
        };
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Context")
    }
}
