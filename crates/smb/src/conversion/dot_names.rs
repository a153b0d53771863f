//! Dot directory names in the path of a CREATE. MS-SMB2 3.3.5.9 and its note on them, MS-FSCC
//! 2.1.5.1.
//!
//! `.` and `..` are removed textually, before any look-up. A path therefore needs no existing
//! directory before `..`, and never leads above the share.

use std::borrow::Cow;
use wire::ntstatus::NtStatus;

const DOT: u16 = b'.' as u16;
const BACKSLASH: u16 = b'\\' as u16;
/// A separator as well, because no name can contain it.
const SLASH: u16 = b'/' as u16;

const CURRENT: &[u16] = &[DOT];
const PARENT: &[u16] = &[DOT; 2];

/// The path without `.` components, and without each `..` and the component before it.
///
/// # Errors
/// `INVALID_PARAMETER` for a path that begins `name\..\`, which Windows refuses,
/// `OBJECT_PATH_SYNTAX_BAD` for one that leads out of the share.
pub fn normalize(units: &[u16]) -> Result<Cow<'_, [u16]>, NtStatus> {
    let parts = || units.split(|unit| matches!(*unit, BACKSLASH | SLASH));
    // The common case: a path without dot components.
    if !units.contains(&DOT) || !parts().any(|part| part == CURRENT || part == PARENT) {
        return Ok(Cow::Borrowed(units));
    }
    let mut first = parts();
    let begins = [first.next(), first.next(), first.next()];
    if let [Some(name), Some(PARENT), Some(_)] = begins
        && name != CURRENT
        && name != PARENT
    {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let mut components: Vec<&[u16]> = Vec::new();
    for part in parts() {
        if part == PARENT {
            components.pop().ok_or(NtStatus::OBJECT_PATH_SYNTAX_BAD)?;
        } else if part != CURRENT {
            components.push(part);
        }
    }
    Ok(Cow::Owned(components.join(&BACKSLASH)))
}

/// True if the last component is a dot directory name, so that the path refers to a directory.
pub fn ends_in_dots(units: &[u16]) -> bool {
    let last = units.rsplit(|unit| matches!(*unit, BACKSLASH | SLASH)).next();
    last.is_some_and(|last| last == CURRENT || last == PARENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn normal(text: &str) -> Result<String, NtStatus> {
        let units: Vec<u16> = text.encode_utf16().collect();
        normalize(&units).map(|units| String::from_utf16_lossy(&units))
    }

    #[test]
    fn dot_components_are_removed() {
        for (path, expected) in [
            (r"a\b", r"a\b"),
            (r".\a", "a"),
            (r"a\.\b", r"a\b"),
            (r"a\.", "a"),
            (".", ""),
            (r".\.", ""),
            ("a/./b", r"a\b"),
            (r"a\b\..\c", r"a\c"),
            (r"a\b\..\..\c\d", r"c\d"),
            (r".\a\..\b", "b"),
            (r"a\..", ""),
            (r"a\..b\...", r"a\..b\..."),
            (r"a\.b\.:s", r"a\.b\.:s"),
        ] {
            assert_eq!(normal(path), Ok(expected.into()), "{path}");
        }
    }

    #[test]
    fn path_beginning_with_name_and_parent_is_refused() {
        for path in [r"x\..\y", r"x\..\", r"x\..\..\y", "x/../y"] {
            assert_eq!(normal(path), Err(NtStatus::INVALID_PARAMETER), "{path}");
        }
    }

    #[test]
    fn path_never_leads_out_of_the_share() {
        for outside in ["..", r"..\a", r"a\b\..\..\..", r".\..\a", r"a\b\..\..\..\a"] {
            assert_eq!(normal(outside), Err(NtStatus::OBJECT_PATH_SYNTAX_BAD), "{outside}");
        }
    }

    proptest! {
        #[test]
        fn normalized_path_has_no_dot_component(path in r"[ab.\\/]{0,16}") {
            if let Ok(left) = normal(&path) {
                let is_dot = |part: &str| part == "." || part == "..";
                prop_assert!(!left.split(['\\', '/']).any(is_dot), "{left}");
            }
        }
    }
}
