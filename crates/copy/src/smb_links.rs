//! Symbolic links of an SMB share: reparse points with the tag SYMLINK. MS-FSCC 2.1.2.4.
//!
//! A share whose server follows links shows what they lead to; only an open with
//! FILE_OPEN_REPARSE_POINT finds the link itself.

use crate::error::Error;
use crate::item::LinkTarget;
use crate::pairs::NameForm;
use client::{SmbOpenHow, SmbTree};
use wire::fscc;
use wire::fscc::{REPARSE_BYTES_MAX, REPARSE_TAG_NFS, REPARSE_TAG_SYMLINK, ReparseBuffer, Symlink};
use wire::smb::fsctl;

/// DELETE.
const DELETE: u32 = 0x0001_0000;
/// FILE_WRITE_DATA and FILE_WRITE_ATTRIBUTES, as FSCTL_SET_REPARSE_POINT needs.
const WRITE: u32 = 0x102;
/// FileDispositionInformation. MS-FSCC 2.4.11.
const DISPOSITION_INFORMATION: u8 = 13;
/// The bit of reparse tags whose reparse points stand for another file. MS-FSCC 2.1.2.1.
const NAME_SURROGATE: u32 = 0x2000_0000;
/// FILE_OPEN_REPARSE_POINT.
const OPEN_LINK: u32 = fscc::FILE_OPEN_REPARSE_POINT;

/// The target of the link at `path`.
pub(crate) async fn read_link(tree: &SmbTree, path: &str) -> Result<LinkTarget, Error> {
    let file = tree.open(path, &SmbOpenHow { options: OPEN_LINK, ..SmbOpenHow::stat() }).await?;
    let is_directory = file.created().is_directory();
    let read = file.control(fsctl::GET_REPARSE_POINT, &[], REPARSE_BYTES_MAX as u32).await;
    file.close().await?;
    let text = decoded(&read?)?;
    Ok(LinkTarget { text, is_directory })
}

/// Whether a directory that the share lists is a link to one. One request finds what is none.
pub(crate) async fn is_link(tree: &SmbTree, path: &str) -> Result<bool, Error> {
    let how = SmbOpenHow { options: OPEN_LINK, ..SmbOpenHow::stat() };
    let attributes = tree.touch(path, &how).await?.attributes;
    let is_directory = attributes & fscc::FILE_ATTRIBUTE_DIRECTORY != 0;
    if is_directory && attributes & fscc::FILE_ATTRIBUTE_REPARSE_POINT == 0 {
        return Ok(false);
    }
    let file = tree.open(path, &how).await?;
    let read = file.control(fsctl::GET_REPARSE_POINT, &[], REPARSE_BYTES_MAX as u32).await;
    file.close().await?;
    Ok(leads_elsewhere(&read?))
}

/// Whether a reparse point stands for another file or directory. MS-FSCC 2.1.2.1.
fn leads_elsewhere(buffer: &[u8]) -> bool {
    // A directory is neither entered nor emptied if its reparse point cannot be decoded.
    ReparseBuffer::decode(buffer)
        .map_or(true, |buffer| buffer.tag & NAME_SURROGATE != 0 || buffer.tag == REPARSE_TAG_NFS)
}

/// Creates a link, whose name must be free.
pub(crate) async fn make_link(tree: &SmbTree, path: &str, to: &LinkTarget) -> Result<(), Error> {
    let buffer = encoded(&to.text)?;
    let kind = if to.is_directory { SmbOpenHow::DIRECTORY } else { SmbOpenHow::FILE };
    let how = SmbOpenHow {
        access: SmbOpenHow::stat().access | WRITE | DELETE,
        disposition: fscc::FILE_CREATE,
        options: OPEN_LINK | kind,
        ..SmbOpenHow::stat()
    };
    let file = tree.open(path, &how).await?;
    let set = file.control(fsctl::SET_REPARSE_POINT, &buffer, 0).await;
    if set.is_err() {
        // Without its target the link would stay as an empty file.
        let _ = file.set_info(DISPOSITION_INFORMATION, &[1]).await;
    }
    file.close().await?;
    Ok(set.map(drop)?)
}

/// Removes a file, an empty directory or a link, not what the link leads to.
pub(crate) async fn remove(tree: &SmbTree, path: &str) -> Result<(), Error> {
    let options = SmbOpenHow::DELETE_ON_CLOSE | OPEN_LINK;
    let how = SmbOpenHow { access: DELETE, options, ..SmbOpenHow::stat() };
    Ok(tree.touch(path, &how).await.map(drop)?)
}

/// The text of a link with slashes, in bytes.
fn decoded(buffer: &[u8]) -> Result<String, Error> {
    let bad = || Error::Refused("it is a reparse point, but not a symbolic link".into());
    let buffer = ReparseBuffer::decode(buffer).map_err(|_| bad())?;
    if buffer.tag != REPARSE_TAG_SYMLINK {
        return Err(bad());
    }
    let link = Symlink::decode(buffer.data).map_err(|_| bad())?;
    let text = String::from_utf16(&link.target).map_err(|_| bad())?;
    if text.starts_with(r"\??\") {
        return Err(Error::Refused(format!("it leads to {text}, a path of Windows")));
    }
    Ok(each_name(&text.replace('\\', "/"), |name| NameForm::Bytes.of(NameForm::Smb, name), "/"))
}

/// The reparse buffer of a link.
fn encoded(text: &str) -> Result<Vec<u8>, Error> {
    let target = each_name(text, |name| NameForm::Smb.of(NameForm::Bytes, name), "\\");
    let link =
        Symlink { target: target.encode_utf16().collect(), is_relative: !text.starts_with('/') };
    link.encode().ok_or_else(|| Error::Refused("the link's target is too long for SMB".into()))
}

/// A path whose names are written in another form; `.` and `..` stay.
fn each_name(path: &str, form: impl Fn(&str) -> String, separator: &str) -> String {
    let written = |name: &str| match name {
        "" | "." | ".." => name.to_owned(),
        name => form(name),
    };
    path.split('/').map(written).collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_text_returns_from_its_reparse_buffer() {
        for text in ["a", "../b c/d", "./e", "/srv/data", "a:b/c.", "dir/"] {
            assert_eq!(decoded(&encoded(text).unwrap()).unwrap(), text);
        }
        let stored = encoded("../a:b").unwrap();
        let link = Symlink::decode(ReparseBuffer::decode(&stored).unwrap().data).unwrap();
        assert_eq!(String::from_utf16(&link.target).unwrap(), "..\\a\u{F022}b");
        assert!(link.is_relative);
    }

    #[test]
    fn windows_path_and_other_reparse_points_are_refused() {
        let target = r"\??\C:\x".encode_utf16().collect();
        let link = Symlink { target, is_relative: false }.encode().unwrap();
        assert!(decoded(&link).is_err());
        assert!(decoded(&fscc::SpecialFile::Fifo.encode()).is_err());
        assert!(decoded(&[1, 2, 3]).is_err());
    }

    #[test]
    fn link_is_known_by_tag_of_its_reparse_point() {
        assert!(leads_elsewhere(&encoded("a").unwrap()));
        assert!(leads_elsewhere(&fscc::SpecialFile::Fifo.encode()), "it may be a link");
        assert!(leads_elsewhere(&[1, 2, 3]), "who knows");
        // IO_REPARSE_TAG_CLOUD: a directory of its own.
        assert!(!leads_elsewhere(&[0x1A, 0, 0, 0x90, 0, 0, 0, 0]));
    }
}
