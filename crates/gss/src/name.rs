//! GSS-API names.

use crate::Error;
use crate::library::{Buffer, GssHandle, Library, host_service, is_error};
use std::ptr::null_mut;

/// A name of the library, released on drop.
pub struct GssName {
    library: &'static Library,
    pub handle: GssHandle,
}

// SAFETY: names are immutable.
unsafe impl Send for GssName {}

impl GssName {
    /// Takes ownership of a name that the library returned, or null.
    pub fn from_raw(library: &'static Library, handle: GssHandle) -> Self {
        Self { library, handle }
    }

    /// The name of a service, such as `cifs@host`.
    pub fn of_service(library: &'static Library, service: &str) -> Result<Self, Error> {
        let (mut minor, mut handle) = (0, null_mut());
        let mut text = Buffer::of(service.as_bytes());
        // SAFETY: the library reads the text during the call; all pointers are to locals.
        let status = unsafe {
            (library.import_name)(&mut minor, &mut text, &mut host_service(), &mut handle)
        };
        if is_error(status) {
            return Err(library.refused("the server's name", status, minor));
        }
        Ok(Self::from_raw(library, handle))
    }

    /// A name attribute that the realm vouches for; none without one. RFC 6680.
    pub fn authenticated(&self, attribute: &str) -> Option<Vec<u8>> {
        if self.handle.is_null() {
            return None;
        }
        let mut attribute = Buffer::of(attribute.as_bytes());
        let (mut minor, mut is_authenticated, mut is_complete, mut more) = (0, 0, 0, -1);
        let (mut value, mut shown) = (Buffer::EMPTY, Buffer::EMPTY);
        // SAFETY: the name is the library's, which reads the attribute during the call; all other
        // pointers are to locals.
        let status = unsafe {
            (self.library.name_attribute)(
                &mut minor,
                self.handle,
                &mut attribute,
                &mut is_authenticated,
                &mut is_complete,
                &mut value,
                &mut shown,
                &mut more,
            )
        };
        let value = self.library.take(value);
        drop(self.library.take(shown));
        (!is_error(status) && is_authenticated != 0).then_some(value)
    }

    /// The name as text; empty for a null name.
    pub fn text(&self) -> String {
        if self.handle.is_null() {
            return String::new();
        }
        let (mut minor, mut text) = (0, Buffer::EMPTY);
        // SAFETY: the name is the library's; all other pointers are to locals or null.
        let status =
            unsafe { (self.library.display_name)(&mut minor, self.handle, &mut text, null_mut()) };
        if is_error(status) {
            return String::new();
        }
        String::from_utf8_lossy(&self.library.take(text)).into_owned()
    }
}

impl Drop for GssName {
    fn drop(&mut self) {
        if self.handle.is_null() {
            return;
        }
        let mut minor = 0;
        // SAFETY: the library made it; it is not used again.
        unsafe { (self.library.release_name)(&mut minor, &mut self.handle) };
    }
}
