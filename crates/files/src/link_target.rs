//! Targets of symbolic links: one check for all protocols.

use crate::{OpenFile, Volume};
use vfs::{FileKind, FsError, RelPath, Result};

/// Refuses to store a symbolic link at `link` whose target leads out of the volume, unless
/// [`crate::VolumeOptions::absolute_links`] permits it. The server does not follow such links, but
/// local programs and clients do.
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

/// Refuses the new name `to` for an open symbolic link that would lead out of the volume there, and
/// does not at `from`. Links that lead out already were created locally. Links below a moved
/// directory are not checked.
///
/// # Errors
/// As [`check_target`]; errors from reading the link.
pub(crate) fn check_moved(open: &OpenFile, (from, to): (&RelPath, &RelPath)) -> Result<()> {
    let (volume, node) = (open.volume(), open.present());
    if node.kind() != FileKind::Symlink || volume.options.absolute_links {
        return Ok(());
    }
    let text = open.link_text()?;
    let led_out = !from.is_nameless() && leads_out(from, &text);
    if led_out { Ok(()) } else { check_target(volume, to, &text) }
}

/// Whether the target is absolute, or climbs above the root. Links among its components are
/// ignored, since they may change.
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
    fn link_targets_outside_volume_are_detected() {
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
