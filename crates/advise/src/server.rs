//! The server's product, by what it says of itself.

use serde::Serialize;

/// ExtendedInfo of Samba begins with this number. MS-FSCC 2.5.6 leaves the field to servers.
const SAMBA: &[u8] = b"aBmS";
/// ExtendedInfo of Anabranch begins with its name.
const ANABRANCH: &[u8] = b"Anabranch";
/// The first build of Windows with SMB 2. Other servers claim build 0.
const WINDOWS_BUILD_MIN: u16 = 6000;

/// Product of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerProduct {
    /// It does not say.
    #[default]
    Unknown,
    /// Anabranch.
    Anabranch,
    /// Samba.
    Samba,
    /// Windows, or a product that claims to be Windows.
    Windows,
}

impl ServerProduct {
    /// The product by ExtendedInfo of FileFsObjectIdInformation, and by the build that the NTLM
    /// challenge claims.
    #[must_use]
    pub fn of(extended_info: &[u8], ntlm_build: Option<u16>) -> Self {
        let is_windows = ntlm_build.is_some_and(|build| build >= WINDOWS_BUILD_MIN);
        if extended_info.starts_with(SAMBA) {
            Self::Samba
        } else if extended_info.starts_with(ANABRANCH) {
            Self::Anabranch
        } else if is_windows && extended_info.iter().all(|byte| *byte == 0) {
            Self::Windows
        } else {
            Self::Unknown
        }
    }

    /// The displayed name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "a server of an unknown product",
            Self::Anabranch => "Anabranch",
            Self::Samba => "Samba",
            Self::Windows => "Windows",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn product_is_known_by_what_the_server_says() {
        let mut samba = [0; 48];
        samba[..4].copy_from_slice(&0x536d_4261u32.to_le_bytes());
        assert_eq!(ServerProduct::of(&samba, Some(0)), ServerProduct::Samba);
        // Anabranch claims a build of Windows in its challenge.
        let ours = ServerProduct::of(b"Anabranch\0\0", Some(17_763));
        assert_eq!(ours, ServerProduct::Anabranch);
        assert_eq!(ServerProduct::of(&[0; 48], Some(20_348)), ServerProduct::Windows);
        assert_eq!(ServerProduct::of(&[], Some(20_348)), ServerProduct::Windows);
        assert_eq!(ServerProduct::of(b"other", Some(20_348)), ServerProduct::Unknown);
        assert_eq!(ServerProduct::of(&[], Some(0)), ServerProduct::Unknown);
        assert_eq!(ServerProduct::of(&[], None), ServerProduct::Unknown);
    }
}
