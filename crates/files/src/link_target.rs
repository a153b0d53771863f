//! Where the text of a symbolic link leads: one decision for all protocols.

use crate::{OpenFile, Volume};
use vfs::{FileKind, FsError, RelPath, Result};

/// Refuses to store a symbolic link at `link` whose text leads out of the volume, unless the
/// volume has [`crate::VolumeOptions::absolute_links`]. The server itself follows none of these;
/// other programs on the server and clients do.
///
/// # Errors
/// [`FsError::PrivilegeNotHeld`].
pub(crate) fn check_target(volume: &Volume, link: &RelPath, text: &[u8]) -> Result<()> {
    if volume.options.absolute_links || !leads_out(link, text) {
        return Ok(());
    }
    let (path, target) = (String::from_utf8_lossy(link.as_bytes()), String::from_utf8_lossy(text));
    tracing::warn!(%path, %target, "refused, since the symbolic link would lead out of the share; use a relative target within the share, or set absolute_links = true for the share");
    Err(FsError::PrivilegeNotHeld)
}

/// Refuses an open symbolic link the new or further name `to` if it would lead out of the volume
/// there and does not by its name `from`. What leads out already was made so by this machine.
/// Links below a directory that moves are not looked at.
///
/// # Errors
/// As [`check_target`]; those of reading the link.
pub(crate) fn check_moved(open: &OpenFile, (from, to): (&RelPath, &RelPath)) -> Result<()> {
    let (volume, node) = (open.volume(), open.present());
    if node.kind() != FileKind::Symlink || volume.options.absolute_links {
        return Ok(());
    }
    let text = node.read_link(open.caller.identity.actor())?;
    let led_out = !from.is_nameless() && leads_out(from, &text);
    if led_out { Ok(()) } else { check_target(volume, to, &text) }
}

/// Whether the text is absolute, or climbs above the root at some point. Links among its
/// components are not looked at: they may be others tomorrow.
fn leads_out(link: &RelPath, text: &[u8]) -> bool {
    if text.first() == Some(&b'/') {
        return true;
    }
    let mut depth = link.components().count().saturating_sub(1);
    for component in text.split(|byte| *byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." if depth == 0 => return true,
            b".." => depth -= 1,
            _ => depth += 1,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::Name;

    fn at(path: &str) -> RelPath {
        path.split('/').map(|name| Name::new(name.as_bytes()).unwrap()).collect()
    }

    #[test]
    fn texts_that_leave_the_volume_are_known() {
        for (link, text) in [
            ("l", "/etc/passwd"),
            ("l", "/"),
            ("l", ".."),
            ("l", "../x"),
            ("l", "a/../../x"),
            ("l", "./../x"),
            ("d/l", "../.."),
            ("d/l", "..//./../x"),
            ("d/l", "../../d/x"),
        ] {
            assert!(leads_out(&at(link), text.as_bytes()), "{link} -> {text}");
        }
        for (link, text) in [
            ("l", "x"),
            ("l", "."),
            ("l", "a/../x"),
            ("l", "..."),
            ("l", "..x/y"),
            ("d/l", ".."),
            ("d/l", "../x"),
            ("a/b/l", "../../x/../y"),
            ("l", ""),
        ] {
            assert!(!leads_out(&at(link), text.as_bytes()), "{link} -> {text}");
        }
    }
}
