//! Conversion between SMB's names (UTF-16, `\` separators) and the backend's (bytes, `/`
//! separators). MS-FSCC 2.1.5, MS-SMB2 2.2.13.
//!
//! Stream names allow nearly every character, and are stored unchanged.
//!
//! Characters that Windows forbids are shown as private-use characters. macOS and Linux clients use
//! the same mapping on NTFS (`:` is U+F022, a trailing dot U+F029, …). So both see the true name,
//! and Windows sees one that it can open. A byte that is not UTF-8 is shown as U+F100 plus its
//! value.
//!
//! Samba stores such private-use characters on disk. Those names are shown unchanged, so a path
//! with such a character has two readings ([`AmbiguousPath`]). Where a directory has both names,
//! the stored private-use characters are shown as their bytes, each as U+F100 plus its value. Every
//! shown name therefore opens exactly the file that it is shown for.

use files::private_use::{
    AMBIGUOUS_NAMES_MAX, AmbiguousPath, CONTROL_BASE, PUNCTUATION, PUNCTUATION_BASE, RAW_BYTE_BASE,
    TRAILING_DOT, TRAILING_SPACE, mapped_byte, mapped_name,
};
use vfs::{Case, FsError, Name, RelPath, StreamName};

/// Separator of path components.
const SEPARATOR: u16 = b'\\' as u16;
const SLASH: u16 = b'/' as u16;
/// Separator of a stream name.
const COLON: u16 = b':' as u16;

/// The parsed path of a CREATE or rename.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmbPath {
    /// The file or directory.
    pub path: RelPath,
    /// Present if a component has private-use characters, which may be stored literally.
    pub ambiguous: Option<Box<AmbiguousPath>>,
    /// The stream, if the path has one.
    pub stream: Option<SmbStreamName>,
}

/// The part after the first `:`. MS-FSCC 2.1.5.3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SmbStreamName {
    /// `:name` or `:name:$DATA`.
    Named(StreamName),
    /// `::$DATA`: the data stream of a file; directories have none.
    Default,
    /// `::$INDEX_ALLOCATION` or `:$I30:$INDEX_ALLOCATION`: the index of a directory; files have
    /// none.
    Index,
}

impl SmbPath {
    /// A path with one reading.
    #[must_use]
    pub fn plain(path: RelPath) -> Self {
        Self { path, ambiguous: None, stream: None }
    }

    /// True if `path` is one of its readings.
    #[must_use]
    pub fn may_be(&self, path: &RelPath, case: Case) -> bool {
        let same = || AmbiguousPath { mapped: self.path.clone(), literal: self.path.clone() };
        self.ambiguous
            .as_deref()
            .map_or_else(|| same().may_be(path, case), |a| a.may_be(path, case))
    }
}

/// True if the path ends in a separator, which only a directory's may. MS-FSA 2.1.5.1.
#[must_use]
pub fn names_directory(units: &[u16]) -> bool {
    units.last().is_some_and(|last| [SEPARATOR, SLASH].contains(last))
}

/// Parses the path of a CREATE. An empty path is the share's root.
///
/// # Errors
/// [`FsError::InvalidName`] for a leading separator, `.` or `..` components, wildcards, control
/// characters or an invalid stream part; [`FsError::InvalidParameter`] for an unknown index;
/// [`FsError::NameTooLong`] for a component beyond the backend's limit.
pub fn parse_path(units: &[u16]) -> Result<SmbPath, FsError> {
    if units.is_empty() {
        return Ok(SmbPath::plain(RelPath::root()));
    }
    let units = units.strip_suffix(&[SEPARATOR]).unwrap_or(units);
    // A slash is a separator as well, as in Samba, because no name can contain one.
    let is_separator = |u: &u16| *u == SEPARATOR || *u == SLASH;
    if let Some(bytes) = plain_bytes(units) {
        let is_doubled = || {
            let is_last = units.last().is_some_and(is_separator);
            is_last || units.windows(2).any(|pair| pair.iter().all(is_separator))
        };
        match RelPath::of_components(bytes) {
            Err(FsError::InvalidName) if is_doubled() => {}
            other => return other.map(SmbPath::plain),
        }
    }
    let names_stream = units.contains(&COLON);
    let mut path = PathBuilder::new(units);
    let mut stream = None;
    let mut parts = units.split(is_separator).peekable();
    while let Some(part) = parts.next() {
        // Repeated separators count as one, as in Samba.
        if part.is_empty() && !path.mapped.is_root() {
            continue;
        }
        let mut component = part;
        let colon = names_stream.then(|| part.iter().position(|&u| u == COLON)).flatten();
        if let Some(colon) = colon {
            if parts.peek().is_some() {
                return Err(FsError::InvalidName);
            }
            stream = Some(parse_stream(&part[colon + 1..])?);
            component = &part[..colon];
            if component.is_empty() && path.mapped.is_root() && units[0] == COLON {
                // `:stream` names a stream of the share's root.
                break;
            }
        }
        path.push(component, push_name)?;
    }
    Ok(SmbPath { stream, ..path.built() })
}

/// The interpretation of private-use characters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PrivateUse {
    Mapped,
    Literal,
}

/// Appends the bytes of a component.
type PushName = fn(&mut Vec<u8>, &[u16], PrivateUse) -> Result<(), FsError>;

/// A path under construction, in both readings while they differ.
pub(crate) struct PathBuilder {
    mapped: RelPath,
    literal: Option<RelPath>,
    name: Vec<u8>,
}

impl PathBuilder {
    /// A builder for a path of these units.
    pub fn new(units: &[u16]) -> Self {
        let has_private = units.iter().any(|unit| is_mapped(*unit));
        let root = || RelPath::with_capacity(units.len());
        Self { mapped: root(), literal: has_private.then(root), name: Vec::new() }
    }

    /// Appends a component. If one reading is no valid name, the component has the other reading
    /// only; so a lone U+F029 is not `.`.
    ///
    /// The error of the mapped reading if neither is valid.
    pub fn push(&mut self, units: &[u16], push_name: PushName) -> Result<(), FsError> {
        self.name.clear();
        let mapped = push_name(&mut self.name, units, PrivateUse::Mapped);
        let mapped = mapped.and_then(|()| self.mapped.try_push(&self.name));
        let Some(literal) = &mut self.literal else { return mapped };
        if mapped.is_ok() && !units.iter().any(|unit| is_mapped(*unit)) {
            return literal.try_push(&self.name);
        }
        let mut as_is = Vec::with_capacity(units.len() * 3);
        let pushed = push_name(&mut as_is, units, PrivateUse::Literal);
        match (mapped, pushed.and_then(|()| literal.try_push(&as_is))) {
            (Ok(()), Ok(())) => Ok(()),
            (Ok(()), Err(_)) => literal.try_push(&self.name),
            (Err(_), Ok(())) => self.mapped.try_push(&as_is),
            (Err(error), Err(_)) => Err(error),
        }
    }

    /// Removes the last component; false if there is none.
    pub fn pop(&mut self) -> bool {
        let Some(parent) = self.mapped.parent() else { return false };
        self.mapped = parent;
        self.literal = self.literal.take().map(|path| path.parent().unwrap_or_default());
        true
    }

    /// The finished path.
    pub fn built(self) -> SmbPath {
        let Self { mapped, literal, .. } = self;
        let literal = literal.filter(|literal| *literal != mapped);
        let path = mapped.clone();
        let ambiguous = literal.map(|literal| Box::new(AmbiguousPath { mapped, literal }));
        SmbPath { path, ambiguous, stream: None }
    }
}

fn is_mapped(unit: u16) -> bool {
    char::from_u32(unit.into()).and_then(mapped_byte).is_some()
}

/// Name of a directory's only index. MS-FSCC 2.1.5.
const INDEX_NAME: &str = "$I30";

/// Parses `name`, `name:$DATA`, `:$DATA` or a directory index. Types ignore case, and a named
/// stream may omit its type. MS-FSA 2.1.5.1.
fn parse_stream(units: &[u16]) -> Result<SmbStreamName, FsError> {
    let mut parts = units.splitn(2, |&u| u == COLON);
    let name = parts.next().unwrap_or_default();
    let kind = parts.next().map(|kind| String::from_utf16_lossy(kind).to_ascii_uppercase());
    match (name.is_empty(), kind.as_deref()) {
        (true, Some("$DATA")) => Ok(SmbStreamName::Default),
        (false, None | Some("$DATA")) => stream_from_units(name).map(SmbStreamName::Named),
        (_, Some("$INDEX_ALLOCATION")) => {
            let text = String::from_utf16_lossy(name);
            let is_index = text.is_empty() || text.eq_ignore_ascii_case(INDEX_NAME);
            if is_index { Ok(SmbStreamName::Index) } else { Err(FsError::InvalidParameter) }
        }
        _ => Err(FsError::InvalidName),
    }
}

/// Decodes a stream name from UTF-16.
fn stream_from_units(units: &[u16]) -> Result<StreamName, FsError> {
    let mut bytes = Vec::with_capacity(units.len() + 8);
    for decoded in char::decode_utf16(units.iter().copied()) {
        match decoded {
            Ok('\\' | '/' | ':') => return Err(FsError::InvalidName),
            Ok(c) => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            Err(lone) => push_surrogate(&mut bytes, lone.unpaired_surrogate()),
        }
    }
    StreamName::new(bytes)
}

/// A stream name as UTF-16; none if no client could name the stream.
#[must_use]
pub fn stream_units(name: &StreamName) -> Option<Vec<u16>> {
    let mut units = Vec::with_capacity(name.as_bytes().len());
    let mut rest = name.as_bytes();
    while !rest.is_empty() {
        let valid = std::str::from_utf8(rest).map_or_else(|e| e.valid_up_to(), str::len);
        let (text, after) = rest.split_at(valid);
        units.extend(String::from_utf8_lossy(text).encode_utf16());
        rest = push_invalid(&mut units, after);
    }
    (stream_from_units(&units).as_ref() == Ok(name)).then_some(units)
}

/// Decodes one component, with private-use characters as the bytes that they represent.
///
/// The errors of [`parse_path`].
pub fn name_from_units(units: &[u16]) -> Result<Name, FsError> {
    let mut bytes = Vec::with_capacity(units.len());
    push_name(&mut bytes, units, PrivateUse::Mapped)?;
    Name::new(bytes)
}

/// Appends the bytes of a component.
fn push_name(bytes: &mut Vec<u8>, units: &[u16], private: PrivateUse) -> Result<(), FsError> {
    for decoded in char::decode_utf16(units.iter().copied()) {
        match decoded {
            Ok(c) => push_char(bytes, c, private)?,
            // A lone surrogate is stored as its three bytes of generalized UTF-8 (WTF-8), so that
            // the name round-trips.
            Err(lone) => push_surrogate(bytes, lone.unpaired_surrogate()),
        }
    }
    Ok(())
}

/// The bytes of a path without mapped characters, the common case; none for any other path. The
/// loop has no branch per unit.
fn plain_bytes(units: &[u16]) -> Option<Vec<u8>> {
    let mut bytes = vec![0; units.len()];
    let mut is_plain = true;
    for (byte, &unit) in bytes.iter_mut().zip(units) {
        *byte = PLAIN_BYTES[usize::from(unit & 0x7F)];
        is_plain &= (unit < 0x80) & (*byte != 0);
    }
    is_plain.then_some(bytes)
}

/// The backend's byte for each unit of a plain path; 0 for units that no plain path contains.
const PLAIN_BYTES: [u8; 128] = {
    let mut table = [0; 128];
    let mut unit = 0;
    while unit < table.len() {
        if STANDS_FOR_ITSELF[unit] {
            table[unit] = unit as u8;
        }
        unit += 1;
    }
    table[SEPARATOR as usize] = b'/';
    table
};

fn push_char(bytes: &mut Vec<u8>, c: char, private: PrivateUse) -> Result<(), FsError> {
    if let Some(byte) = mapped_byte(c).filter(|_| private == PrivateUse::Mapped) {
        bytes.push(byte);
        return Ok(());
    }
    if u32::from(c) < 0x20 || matches!(c, '"' | '*' | '<' | '>' | '?' | '|' | '/' | ':' | '\\') {
        return Err(FsError::InvalidName);
    }
    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    Ok(())
}

pub(crate) fn push_surrogate(bytes: &mut Vec<u8>, unit: u16) {
    bytes.push(0xE0 | (unit >> 12) as u8);
    bytes.push(0x80 | ((unit >> 6) & 0x3F) as u8);
    bytes.push(0x80 | (unit & 0x3F) as u8);
}

/// Appends a component as UTF-16.
pub fn push_units(out: &mut Vec<u16>, name: &[u8]) {
    let start = out.len();
    // Most names begin with, or consist of, unmapped characters.
    let plain = name.iter().take_while(|&&byte| STANDS_FOR_ITSELF[usize::from(byte)]).count();
    out.extend(name[..plain].iter().copied().map(u16::from));
    let mut rest = &name[plain..];
    while !rest.is_empty() {
        let (text, after) = match std::str::from_utf8(rest) {
            Ok(text) => (text, &rest[rest.len()..]),
            Err(error) => {
                let (valid, after) = rest.split_at(error.valid_up_to());
                // `valid_up_to` is a character boundary by its contract.
                (std::str::from_utf8(valid).unwrap_or_default(), after)
            }
        };
        text.chars().for_each(|c| push_mapped(out, c));
        rest = push_invalid(out, after);
    }
    if out.len() > start {
        map_trailing(out);
    }
}

/// The ASCII characters that are not mapped, except at the end of a name.
const STANDS_FOR_ITSELF: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0x20;
    while byte < 0x80 {
        table[byte] = true;
        byte += 1;
    }
    let mut at = 0;
    while at < PUNCTUATION.len() {
        table[PUNCTUATION[at] as usize] = false;
        at += 1;
    }
    table
};

/// Consumes one lone surrogate or one raw byte of invalid UTF-8. A low surrogate after a high one
/// would form a pair, so it is shown as bytes.
pub(crate) fn push_invalid<'a>(out: &mut Vec<u16>, bytes: &'a [u8]) -> &'a [u8] {
    let after_high = out.last().is_some_and(|unit| (0xD800..0xDC00).contains(unit));
    match bytes {
        [] => bytes,
        [0xED, b1 @ 0xA0..=0xBF, b2 @ 0x80..=0xBF, rest @ ..] if !(after_high && *b1 >= 0xB0) => {
            out.push(0xD000 | u16::from(b1 & 0x3F) << 6 | u16::from(b2 & 0x3F));
            rest
        }
        [byte, rest @ ..] => {
            out.push(RAW_BYTE_BASE as u16 + u16::from(*byte));
            rest
        }
    }
}

fn push_mapped(out: &mut Vec<u16>, c: char) {
    if let Some(at) = PUNCTUATION.iter().position(|plain| char::from(*plain) == c) {
        out.push((PUNCTUATION_BASE + at as u32) as u16);
    } else if (1..0x20).contains(&u32::from(c)) {
        out.push((CONTROL_BASE + u32::from(c)) as u16);
    } else {
        let mut buffer = [0; 2];
        out.extend_from_slice(c.encode_utf16(&mut buffer));
    }
}

/// Maps a trailing dot or space, which Windows would drop.
fn map_trailing(out: &mut [u16]) {
    if let Some(last) = out.last_mut() {
        if *last == u16::from(b' ') {
            *last = TRAILING_SPACE as u16;
        } else if *last == u16::from(b'.') {
            *last = TRAILING_DOT as u16;
        }
    }
}

/// A component as UTF-16.
#[must_use]
pub fn units_of(name: &[u8]) -> Vec<u16> {
    let mut out = Vec::with_capacity(name.len());
    push_units(&mut out, name);
    out
}

/// Appends a component in the form for POSIX or for Windows clients.
pub type PushUnits = fn(&mut Vec<u16>, &[u8]);

/// Appends a component in the form by which clients open it. `has_name` reports whether its
/// directory contains another name; it is called for names with private-use characters only.
pub fn push_shown(
    out: &mut Vec<u16>,
    name: &[u8],
    push: PushUnits,
    has_name: impl FnOnce(&[u8]) -> bool,
) {
    let start = out.len();
    push(out, name);
    // The common case first: a name without private-use characters.
    let Some(_) = mapped_name(name) else { return };
    let shown = &out[start..];
    let is_itself = bytes_of(shown, PrivateUse::Literal) == name;
    let other = bytes_of(shown, PrivateUse::Mapped);
    if is_itself && !(Name::new(&*other).is_ok() && has_name(&other)) {
        return;
    }
    out.truncate(start);
    let mut rest = name;
    while let Some(at) = rest.windows(3).position(is_private) {
        let (before, from) = rest.split_at(at);
        push(out, before);
        // A dot or a space in the middle of a name is not mapped.
        if let (Some(last), Some(byte @ (b'.' | b' '))) = (out.last_mut(), before.last()) {
            *last = u16::from(*byte);
        }
        out.extend(from[..3].iter().map(|byte| RAW_BYTE_BASE as u16 + u16::from(*byte)));
        rest = &from[3..];
    }
    push(out, rest);
}

fn is_private(bytes: &[u8]) -> bool {
    bytes[0] == 0xEF && mapped_name(bytes).is_some()
}

/// The bytes of a name's units, without validation.
fn bytes_of(units: &[u16], private: PrivateUse) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(units.len() * 3);
    for decoded in char::decode_utf16(units.iter().copied()) {
        match decoded {
            Ok(c) => match mapped_byte(c).filter(|_| private == PrivateUse::Mapped) {
                Some(byte) => bytes.push(byte),
                None => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            },
            Err(lone) => push_surrogate(&mut bytes, lone.unpaired_surrogate()),
        }
    }
    bytes
}

/// A path with `\` before every component, as file name information classes have it; the root is
/// `\`. For `has_name` see [`push_shown`].
///
/// After [`AMBIGUOUS_NAMES_MAX`] ambiguous names, an open takes each as mapped. From there on,
/// stored private-use characters are shown as their bytes without a look-up.
#[must_use]
pub fn path_units(path: &RelPath, has_name: impl Fn(&RelPath) -> bool) -> Vec<u16> {
    let mut out = Vec::with_capacity(path.as_bytes().len() + 1);
    let mut above = RelPath::root();
    let mut ambiguous = 0;
    for component in path.components() {
        out.push(u16::from(b'\\'));
        let start = out.len();
        push_shown(&mut out, component, push_units, |name| {
            let is_there = || {
                let mut other = above.clone();
                other.try_push(name).is_ok() && has_name(&other)
            };
            ambiguous >= AMBIGUOUS_NAMES_MAX || is_there()
        });
        ambiguous += usize::from(out[start..].iter().any(|unit| is_mapped(*unit)));
        // A component of a path is a valid name.
        let _ = above.try_push(component);
    }
    if out.is_empty() {
        out.push(u16::from(b'\\'));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn units(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    fn path_of(text: &str) -> Result<Vec<u8>, FsError> {
        parse_path(&units(text)).map(|p| p.path.as_bytes().to_vec())
    }

    #[test]
    fn separators_become_slashes() {
        assert_eq!(path_of(r"a\b\c.txt").unwrap(), b"a/b/c.txt");
        assert_eq!(path_of("").unwrap(), b"");
        assert_eq!(path_of(r"dir\").unwrap(), b"dir");
    }

    #[test]
    fn path_with_dots_or_a_leading_separator_is_refused() {
        for bad in
            [r"..\a", r"a\..\b", r"a\.\b", r"\a", r"\\a", r"a\\..", "a*", "a?b", "a<b", "\u{1}"]
        {
            assert_eq!(path_of(bad), Err(FsError::InvalidName), "{bad}");
        }
    }

    #[test]
    fn repeated_separators_count_as_one() {
        for (path, stored) in
            [(r"a\\b", "a/b"), (r"a\\\b:s", "a/b"), ("a\\/ä", "a/ä"), (r"a\\", "a"), (r"a\", "a")]
        {
            assert_eq!(path_of(path).unwrap(), stored.as_bytes(), "{path}");
        }
    }

    #[test]
    fn stream_part_of_a_path_is_parsed() {
        let stream = |t: &str| parse_path(&units(t)).map(|p| p.stream);
        let named =
            |t: &str| Ok(Some(SmbStreamName::Named(StreamName::new(t.as_bytes()).unwrap())));
        assert_eq!(stream("f"), Ok(None));
        assert_eq!(stream("f::$DATA"), Ok(Some(SmbStreamName::Default)));
        assert_eq!(stream("f:s"), named("s"));
        assert_eq!(stream("f:s:$data"), named("s"));
        for index in
            ["f::$INDEX_ALLOCATION", "f:$i30:$index_allocation", "d\\f:$I30:$INDEX_ALLOCATION"]
        {
            assert_eq!(stream(index), Ok(Some(SmbStreamName::Index)), "{index}");
        }
        assert_eq!(stream("f:s:$INDEX_ALLOCATION"), Err(FsError::InvalidParameter));
        assert_eq!(stream(":s"), named("s"), "of the root");
        assert_eq!(stream("f:\u{5}a\n?*\"<>|"), named("\u{5}a\n?*\"<>|"));
        for bad in [
            "f:",
            "f::",
            "f:s:",
            "f::$OTHER",
            "f:s:$OTHER",
            "f:s:$DATA:",
            r"d:s\f",
            "f:a/b",
            "f*:s",
        ] {
            assert_eq!(stream(bad), Err(FsError::InvalidName), "{bad}");
        }
        assert_eq!(stream(&format!("f:{}", "n".repeat(256))), Err(FsError::NameTooLong));
    }

    #[test]
    fn stream_names_are_shown_unmapped_or_hidden() {
        let shown = |raw: &[u8]| stream_units(&StreamName::new(raw).unwrap());
        assert_eq!(shown(b"a?\x05."), Some(units("a?\u{5}.")));
        assert_eq!(shown("\u{F022}🦀".as_bytes()), Some(units("\u{F022}🦀")));
        assert_eq!(shown(b"\xed\xa0\xbd"), Some(vec![0xD83D]));
        for unnameable in [&b"a:b"[..], b"a/b", b"\xff"] {
            assert_eq!(shown(unnameable), None);
        }
    }

    #[test]
    fn names_that_windows_forbids_round_trip_mapped() {
        for raw in [
            &b"a:b"[..],
            b"what?",
            b"end.",
            b"end ",
            b"tab\there",
            b"back\\slash",
            b"\xff\xfe",
            b"ok.txt",
        ] {
            let shown = units_of(raw);
            assert!(
                shown.iter().all(|u| !br#""*:<>?\|"#.iter().any(|&b| u16::from(b) == *u)),
                "{raw:?}"
            );
            assert_eq!(name_from_units(&shown).unwrap().as_bytes(), raw);
        }
        assert_eq!(units_of(b"a:b"), [u16::from(b'a'), 0xF022, u16::from(b'b')]);
    }

    #[test]
    fn astral_and_lone_surrogate_names_round_trip() {
        for text in [units("🦀.txt"), vec![0xD83D], vec![u16::from(b'a'), 0xDC00, u16::from(b'b')]]
        {
            let name = name_from_units(&text).unwrap();
            assert_eq!(units_of(name.as_bytes()), text);
        }
        // Two halves that another program stored separately are not a surrogate pair.
        let halves = Name::new(b"\xED\xA0\x80\xED\xB0\x80".to_vec()).unwrap();
        assert_eq!(name_from_units(&units_of(halves.as_bytes())), Ok(halves));
    }

    /// The names shown for each name of a directory.
    fn shown_in(directory: &[&[u8]], push: PushUnits) -> Vec<Vec<u16>> {
        let has_name = |name: &[u8]| directory.contains(&name);
        let show = |name: &&[u8]| {
            let mut out = Vec::new();
            push_shown(&mut out, name, push, has_name);
            out
        };
        directory.iter().map(show).collect()
    }

    fn opened_in<'a>(directory: &[&'a [u8]], named: SmbPath) -> Option<&'a [u8]> {
        let is_there = |path: &RelPath| directory.iter().find(|name| **name == path.as_bytes());
        let literal = named.ambiguous.as_ref().map(|paths| &paths.literal);
        is_there(&named.path).or_else(|| literal.and_then(is_there)).copied()
    }

    #[test]
    fn stored_private_use_names_are_shown_unmapped() {
        let colon = "a\u{F022}b";
        let named = parse_path(&units(&format!("{colon}\\in\u{F029}"))).unwrap();
        let ambiguous = named.ambiguous.unwrap();
        assert_eq!(ambiguous.mapped.as_bytes(), b"a:b/in.");
        assert_eq!(ambiguous.literal.as_bytes(), "a\u{F022}b/in\u{F029}".as_bytes());
        assert_eq!(shown_in(&[colon.as_bytes()], push_units), [units(colon)]);
        let both = shown_in(&[b"a:b", colon.as_bytes()], push_units);
        assert_eq!(both, [units(colon), units("a\u{F1EF}\u{F180}\u{F1A2}b")]);
        let mixed = "a:b.\u{F022}".as_bytes();
        assert_eq!(shown_in(&[mixed], push_units), [units("a\u{F022}b.\u{F1EF}\u{F180}\u{F1A2}")]);
        let dot = parse_path(&units("\u{F029}")).unwrap();
        assert_eq!((dot.path.as_bytes(), dot.ambiguous), ("\u{F029}".as_bytes(), None));
    }

    /// Each look-up takes time in proportion to the path.
    #[test]
    fn long_path_is_shown_with_few_look_ups() {
        let path = RelPath::of_components(vec!["\u{F022}"; 1000].join("/").into_bytes()).unwrap();
        let count = std::cell::Cell::new(0);
        let shown = path_units(&path, |_| {
            count.set(count.get() + 1);
            false
        });
        assert_eq!(count.get(), AMBIGUOUS_NAMES_MAX);
        let escaped = "\\\u{F1EF}\u{F180}\u{F1A2}".repeat(1000 - AMBIGUOUS_NAMES_MAX);
        assert_eq!(shown, units(&("\\\u{F022}".repeat(AMBIGUOUS_NAMES_MAX) + &escaped)));
        let opened = parse_path(&units(&escaped[1..])).unwrap().path;
        assert!(opened.components().all(|name| name == "\u{F022}".as_bytes()), "as mapped");
        // The choice between both readings stops at the same name.
        let mut names = vec!["a:"; AMBIGUOUS_NAMES_MAX];
        names.push("\u{F022}");
        let path = RelPath::of_components(names.join("/").into_bytes()).unwrap();
        let shown = path_units(&path, |_| panic!("no look-up"));
        assert!(shown.ends_with(&units("\\\u{F1EF}\u{F180}\u{F1A2}")));
    }

    #[test]
    fn plain_names_have_one_reading() {
        for name in ["a.txt", "Äpfel", "\u{F000}\u{F02A}\u{F100}", "a:stream"] {
            assert_eq!(parse_path(&units(name)).unwrap().ambiguous, None, "{name}");
        }
    }

    proptest! {
        /// Each shown name opens its own file.
        #[test]
        fn each_shown_name_opens_its_own_file(
            names in prop::collection::hash_set(
                "[a.: \u{F022}\u{F029}\u{F1EF}\u{F180}\u{F1A2}\u{F1A9}]{1,4}", 1..7),
            raw in prop::collection::vec(prop::sample::select(&b"\xEF\x80\xA2\xED:a."[..]), 1..7),
        ) {
            let mut directory: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
            if !directory.contains(&&*raw) {
                directory.push(&raw);
            }
            directory.retain(|name| Name::new(*name).is_ok());
            for (name, shown) in directory.iter().zip(shown_in(&directory, push_units)) {
                prop_assert_eq!(opened_in(&directory, parse_path(&shown).unwrap()), Some(*name));
            }
            let push: PushUnits = crate::extensions::posix::push_posix_units;
            for (name, shown) in directory.iter().zip(shown_in(&directory, push)) {
                let named = crate::extensions::posix::parse_posix_path(&shown).unwrap();
                prop_assert_eq!(opened_in(&directory, named), Some(*name));
            }
        }

        /// The fast and the general parser agree.
        #[test]
        fn whole_path_and_its_components_parse_equally(
            text in r#"[ -~\u{80}\\/:*"]{0,12}"#,
        ) {
            let units = units(&text);
            let whole = parse_path(&units);
            let parts = units.strip_suffix(&[SEPARATOR]).unwrap_or(&units);
            let parts = parts.split(|unit| [SEPARATOR, SLASH].contains(unit)).enumerate();
            let parts = parts.filter(|(at, part)| *at == 0 || !part.is_empty());
            let names: Result<RelPath, FsError> =
                parts.map(|(_, part)| name_from_units(part)).collect();
            match whole {
                Ok(SmbPath { path, stream: None, .. }) if !units.is_empty() => {
                    prop_assert_eq!(Ok(path), names);
                }
                Err(error) if !text.contains(':') => prop_assert_eq!(Err(error), names),
                _ => {}
            }
        }

        #[test]
        fn every_backend_name_has_one_spelling(raw in prop::collection::vec(1u8..=255, 1..40)) {
            if let Ok(name) = Name::new(raw.clone()) {
                let shown = units_of(name.as_bytes());
                let back = name_from_units(&shown);
                // Private-use characters that are stored in a name are the only ones that look like
                // mapped ones.
                let private = String::from_utf8_lossy(&raw).chars().any(|c| ('\u{F000}'..='\u{F1FF}').contains(&c));
                prop_assert!(private || back == Ok(name));
            }
        }

        #[test]
        fn client_name_is_refused_or_round_trips(text in prop::collection::vec(any::<u16>(), 1..20)) {
            if let Ok(name) = name_from_units(&text) {
                let shown = units_of(name.as_bytes());
                prop_assert_eq!(name_from_units(&shown), Ok(name));
            }
        }
    }
}
