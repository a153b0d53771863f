//! Create contexts that identify the application instance of an open, so that the instance can fail
//! over to another machine. MS-SMB2 2.2.13.2.13, 2.2.13.2.15.

use crate::codec::{DecodeError, Reader, Writer};

/// Name of SMB2_CREATE_APP_INSTANCE_ID.
pub const APP_INSTANCE_ID: [u8; 16] = [
    0x45, 0xBC, 0xA6, 0x6A, 0xEF, 0xA7, 0xF7, 0x4A, 0x90, 0x08, 0xFA, 0x46, 0x2E, 0x14, 0x4D, 0x74,
];
/// Name of SMB2_CREATE_APP_INSTANCE_VERSION.
pub const APP_INSTANCE_VERSION: [u8; 16] = [
    0xB9, 0x82, 0xD0, 0xB7, 0x3B, 0x56, 0x07, 0x4F, 0xA0, 0x7B, 0x52, 0x4A, 0x81, 0x16, 0xA0, 0x10,
];

const ID_BYTES: u16 = 20;
const VERSION_BYTES: u16 = 24;

/// Version of an application instance; a greater version is a later start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AppInstanceVersion {
    /// `AppInstanceVersionHigh`, the more significant part.
    pub high: u64,
    /// `AppInstanceVersionLow`.
    pub low: u64,
}

impl AppInstanceVersion {
    /// Reads the context's data.
    ///
    /// # Errors
    /// [`DecodeError`] if the data has the wrong size.
    pub fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        let mut r = start(data, VERSION_BYTES, "app instance version")?;
        r.skip(4, "app instance version")?;
        let (high, low) = (r.u64("app instance version")?, r.u64("app instance version")?);
        Ok(Self { high, low })
    }

    /// Appends the context's data.
    pub fn encode(&self, w: &mut Writer<'_>) {
        w.u16(VERSION_BYTES);
        w.zeros(2 + 4);
        w.u64(self.high);
        w.u64(self.low);
    }
}

/// Reads the data of the context with the id.
///
/// # Errors
/// [`DecodeError`] if the data has the wrong size.
pub fn decode_app_instance_id(data: &[u8]) -> Result<[u8; 16], DecodeError> {
    start(data, ID_BYTES, "app instance id")?.array("app instance id")
}

fn start<'a>(data: &'a [u8], size: u16, what: &'static str) -> Result<Reader<'a>, DecodeError> {
    let mut r = Reader::new(data);
    if r.u16(what)? != size || data.len() != usize::from(size) {
        return Err(r.malformed(what));
    }
    r.skip(2, what)?;
    Ok(r)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn app_instance_version_has_the_specified_bytes() {
        let version = AppInstanceVersion { high: 1, low: 2 };
        let mut bytes = Vec::new();
        version.encode(&mut Writer::new(&mut bytes));
        assert_eq!((bytes.len(), bytes[0], bytes[8], bytes[16]), (24, 24, 1, 2));
        assert_eq!(AppInstanceVersion::decode(&bytes), Ok(version));
        assert!(version > AppInstanceVersion { high: 0, low: 9 });
    }

    #[test]
    fn app_instance_data_of_another_size_is_refused() {
        let id = [&[20, 0, 0, 0][..], &[7; 16]].concat();
        assert_eq!(decode_app_instance_id(&id), Ok([7; 16]));
        for length in 0..id.len() {
            assert!(decode_app_instance_id(&id[..length]).is_err(), "{length}");
        }
        assert!(decode_app_instance_id(&[&id[..], &[0]].concat()).is_err());
        assert!(AppInstanceVersion::decode(&[24; 23]).is_err());
        assert!(AppInstanceVersion::decode(&[0; 24]).is_err());
    }
}
