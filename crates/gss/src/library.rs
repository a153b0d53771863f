//! The library's functions, by the names and signatures of RFC 2744 and MIT's gssapi_ext.h.

use crate::Error;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// Status codes of the library.
pub type GssStatus = u32;

/// An object identifier.
#[repr(C)]
pub struct Oid {
    pub length: u32,
    pub elements: *mut c_void,
}

/// A set of object identifiers.
#[repr(C)]
pub struct OidSet {
    pub count: usize,
    pub elements: *mut Oid,
}

/// A buffer of the caller's or the library's.
#[repr(C)]
pub struct Buffer {
    pub length: usize,
    pub value: *mut c_void,
}

impl Buffer {
    pub const EMPTY: Self = Self { length: 0, value: std::ptr::null_mut() };

    /// A buffer that the library reads during a call and does not retain.
    pub fn of(bytes: &[u8]) -> Self {
        Self { length: bytes.len(), value: bytes.as_ptr().cast_mut().cast() }
    }
}

/// A set of buffers.
#[repr(C)]
pub struct BufferSet {
    pub count: usize,
    pub elements: *mut Buffer,
}

/// One element of a credential store: key and value.
#[repr(C)]
pub struct StoreElement {
    pub key: *const c_char,
    pub value: *const c_char,
}

/// A credential store.
#[repr(C)]
pub struct CredentialStore {
    pub count: u32,
    pub elements: *mut StoreElement,
}

/// The first fields of gss_krb5_lucid_context_v1_t in gssapi_krb5.h.
#[repr(C)]
pub struct LucidContext {
    pub version: u32,
    pub initiate: u32,
    /// Seconds since 1970.
    pub end_time: u32,
}

/// An opaque handle of the library.
pub type GssHandle = *mut c_void;

macro_rules! functions {
    ($($field:ident: $name:literal, fn($($argument:ty),*);)*) => {
        /// The functions that this crate uses.
        pub struct Library {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> GssStatus,)*
        }

        impl Library {
            fn load() -> Result<Self, Error> {
                // SAFETY: the name ends in NUL. The library's initialisers are run by many programs
                // that load it like this; it is never unloaded.
                let library = unsafe { libc::dlopen(NAME.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
                if library.is_null() {
                    return Err(Error::Absent(format!("{} is not installed", NAME.to_string_lossy())));
                }
                Ok(Self {
                    $($field: {
                        let name: &CStr = $name;
                        // SAFETY: the library is loaded, the name ends in NUL.
                        let found = unsafe { libc::dlsym(library, name.as_ptr()) };
                        if found.is_null() {
                            return Err(Error::Absent(format!("its library has no {}", name.to_string_lossy())));
                        }
                        // SAFETY: a function of this name has this signature, by RFC 2744 or
                        // gssapi_ext.h.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> GssStatus>(found) }
                    },)*
                })
            }
        }
    };
}

const NAME: &CStr = c"libgssapi_krb5.so.2";
/// The text of status 0 in the C locale.
const NO_ERROR: &str = "Success";

functions! {
    import_name: c"gss_import_name", fn(*mut GssStatus, *mut Buffer, *mut Oid, *mut GssHandle);
    display_name: c"gss_display_name", fn(*mut GssStatus, GssHandle, *mut Buffer, *mut *mut Oid);
    release_name: c"gss_release_name", fn(*mut GssStatus, *mut GssHandle);
    acquire_cred_from: c"gss_acquire_cred_from",
        fn(*mut GssStatus, GssHandle, u32, *const OidSet, c_int, *const CredentialStore, *mut GssHandle, *mut GssHandle, *mut u32);
    release_cred: c"gss_release_cred", fn(*mut GssStatus, *mut GssHandle);
    init: c"gss_init_sec_context",
        fn(*mut GssStatus, GssHandle, *mut GssHandle, GssHandle, *mut Oid, u32, u32, GssHandle, *mut Buffer, *mut *mut Oid,
           *mut Buffer, *mut u32, *mut u32);
    accept: c"gss_accept_sec_context",
        fn(*mut GssStatus, *mut GssHandle, GssHandle, *mut Buffer, GssHandle, *mut GssHandle, *mut *mut Oid, *mut Buffer,
           *mut u32, *mut u32, *mut GssHandle);
    delete_context: c"gss_delete_sec_context", fn(*mut GssStatus, *mut GssHandle, *mut Buffer);
    inquire: c"gss_inquire_sec_context_by_oid", fn(*mut GssStatus, GssHandle, *mut Oid, *mut *mut BufferSet);
    release_buffer: c"gss_release_buffer", fn(*mut GssStatus, *mut Buffer);
    release_buffer_set: c"gss_release_buffer_set", fn(*mut GssStatus, *mut *mut BufferSet);
    name_attribute: c"gss_get_name_attribute",
        fn(*mut GssStatus, GssHandle, *mut Buffer, *mut c_int, *mut c_int, *mut Buffer, *mut Buffer, *mut c_int);
    export_lucid: c"gss_krb5_export_lucid_sec_context", fn(*mut GssStatus, *mut GssHandle, u32, *mut *mut c_void);
    free_lucid: c"gss_krb5_free_lucid_sec_context", fn(*mut GssStatus, *mut c_void);
    display_status: c"gss_display_status", fn(*mut GssStatus, GssStatus, c_int, *mut Oid, *mut u32, *mut Buffer);
}

/// The library, loaded on first use.
///
/// # Errors
/// [`Error::Absent`].
pub fn library() -> Result<&'static Library, Error> {
    static LIBRARY: OnceLock<Result<Library, Error>> = OnceLock::new();
    LIBRARY.get_or_init(Library::load).as_ref().map_err(Clone::clone)
}

/// OIDs live as long as the program, because the library retains pointers to some.
macro_rules! oid {
    ($name:ident, $bytes:expr, $what:literal) => {
        #[doc = $what]
        pub fn $name() -> Oid {
            const BYTES: &[u8] = $bytes;
            Oid { length: BYTES.len() as u32, elements: BYTES.as_ptr().cast_mut().cast() }
        }
    };
}

oid!(kerberos, b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02", "Kerberos 5, 1.2.840.113554.1.2.2.");
oid!(
    host_service,
    b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x01\x04",
    "Names as in `cifs@host`. RFC 2743 4.1."
);
oid!(
    session_key,
    b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x05\x05",
    "MIT's GSS_C_INQ_SSPI_SESSION_KEY."
);

/// GSS_C_ROUTINE_ERROR_MASK. RFC 2744 3.9.1.
const ROUTINE_ERRORS: GssStatus = 0x00FF_0000;
/// GSS_S_FAILURE, whose text refers to the mechanism's. RFC 2744 3.9.1.
const FAILURE: GssStatus = 13 << 16;

/// True for calling errors and routine errors. RFC 2744 3.9.1.
pub fn is_error(status: GssStatus) -> bool {
    status & 0xFFFF_0000 != 0
}

/// The exchange needs another token.
pub const CONTINUE_NEEDED: GssStatus = 1;

impl Library {
    /// Builds the error of a failed call, with its reason in words.
    pub fn refused(&self, what: &'static str, status: GssStatus, minor: GssStatus) -> Error {
        // The library renumbers the errors of its mechanisms, including their 0.
        let by_mechanism = self.words(minor, 2);
        let is_explained = minor != 0 && !["", NO_ERROR].contains(&by_mechanism.as_str());
        let reason = match status & ROUTINE_ERRORS {
            _ if is_explained => by_mechanism,
            FAILURE => "malformed, or the library gives no reason".to_owned(),
            _ => self.words(status, 1),
        };
        Error::Refused { what, reason }
    }

    fn words(&self, status: GssStatus, kind: c_int) -> String {
        let (mut minor, mut more, mut text) = (0, 0, Buffer::EMPTY);
        let mut mechanism = kerberos();
        // SAFETY: all pointers are to locals of this function.
        let result = unsafe {
            (self.display_status)(&mut minor, status, kind, &mut mechanism, &mut more, &mut text)
        };
        if is_error(result) {
            return String::new();
        }
        String::from_utf8_lossy(&self.take(text)).into_owned()
    }

    /// Copies the library's bytes and releases its buffer.
    pub fn take(&self, mut buffer: Buffer) -> Vec<u8> {
        let bytes = if buffer.value.is_null() {
            Vec::new()
        } else {
            // SAFETY: the library guarantees the length, and nothing else refers to the bytes.
            unsafe { std::slice::from_raw_parts(buffer.value.cast::<u8>(), buffer.length) }.to_vec()
        };
        let mut minor = 0;
        // SAFETY: it comes from the library, and is not used again.
        unsafe { (self.release_buffer)(&mut minor, &mut buffer) };
        bytes
    }
}
