//! Size of Time Machine backups, by which a share with a limit reports its room. A backup is a
//! directory `NAME.sparsebundle` with data files of one size below `bands`; its `Info.plist`
//! contains the size.

use crate::{RequestFiles, Volume};
use std::sync::Arc;
use vfs::{
    Actor, AttributeRequest, Case, FileKind, FsError, Name, Node, OpenHow, RelPath, Result,
    ServerWork, Vfs, Wait,
};

/// Limit of backups that are counted in one share.
const BUNDLES_MAX: usize = 256;
/// Limit of the property list's size.
const PROPERTIES_BYTES_MAX: usize = 64 * 1024;
/// Band size without a property: the long-standing macOS default.
const BAND_BYTES: u64 = 8 * 1024 * 1024;

impl RequestFiles {
    /// Bytes that all backups in the volume's root may occupy, by their number of bands.
    ///
    /// # Errors
    /// [`FsError::Io`], [`FsError::Stale`] if the volume's directory was removed.
    pub async fn backup_bytes(&self, volume: &Arc<Volume>) -> Result<u64> {
        let vfs = volume.vfs.clone();
        self.offload(move || backup_bytes(&*vfs)).await
    }
}

fn backup_bytes(vfs: &dyn Vfs) -> Result<u64> {
    let mut bundles: Vec<Name> = Vec::new();
    open(vfs, &RelPath::root())?.readdir(0, &mut |entry| {
        if entry.name.as_bytes().ends_with(b".sparsebundle") {
            bundles.push(entry.name);
        }
        bundles.len() < BUNDLES_MAX
    })?;
    let bytes = bundles.iter().map(|bundle| bundle_bytes(vfs, bundle));
    Ok(bytes.fold(0, u64::saturating_add))
}

/// Bytes of one backup; 0 if it is none, or is being created.
fn bundle_bytes(vfs: &dyn Vfs, bundle: &Name) -> u64 {
    let within = |name: &[u8]| Some(RelPath::root().join(bundle).join(&Name::new(name).ok()?));
    let node = |name| within(name).and_then(|path| open(vfs, &path).ok());
    let mut properties = Vec::new();
    if let Some(file) = node(b"Info.plist").filter(|node| node.kind() == FileKind::File) {
        // An unreadable list leaves the default.
        let _ = file.read(0, PROPERTIES_BYTES_MAX, &mut properties, Wait::Allowed);
    }
    let mut bands = 0u64;
    if let Some(directory) = node(b"bands") {
        let _ = directory.readdir(0, &mut |_| {
            bands += 1;
            true
        });
    }
    bands.saturating_mul(band_bytes(&properties).unwrap_or(BAND_BYTES))
}

/// Value of the key `band-size` in a property list.
fn band_bytes(properties: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(properties).ok()?;
    let (_, value) = text.split_once("<key>band-size</key>")?;
    let (number, _) = value.trim_start().strip_prefix("<integer>")?.split_once("</integer>")?;
    number.trim().parse().ok()
}

fn open(vfs: &dyn Vfs, path: &RelPath) -> Result<Arc<dyn Node>> {
    let how = OpenHow {
        read: true,
        write: false,
        case: Case::Sensitive,
        wanted: AttributeRequest::default(),
        no_follow: true,
        wait: Wait::Allowed,
    };
    match vfs.open(Actor::server(ServerWork::ShareRoot), path, how) {
        Err(FsError::NotFound) if path.is_root() => Err(FsError::Stale),
        other => other.map(|opened| opened.node),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn band_size_is_read_from_property_list() {
        let list = b"<plist><dict>\n\t<key>band-size</key>\n\t<integer> 67108864 </integer></dict>";
        assert_eq!(band_bytes(list), Some(67_108_864));
        for none in [
            &b""[..],
            b"<key>band-size</key>",
            b"<key>band-size</key><integer>x</integer>",
            b"\xFF",
        ] {
            assert_eq!(band_bytes(none), None);
        }
    }
}
