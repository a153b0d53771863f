//! The upper case that names are compared in.

/// Upper case of one UTF-16 code unit, as NTFS' table has it: one unit to one
/// unit, surrogates as they are. ASCII is decided without a table.
#[must_use]
pub fn upcase(unit: u16) -> u16 {
    if unit < 0x80 {
        return if (0x61..=0x7A).contains(&unit) { unit - 0x20 } else { unit };
    }
    let Some(c) = char::from_u32(u32::from(unit)) else { return unit };
    // NTFS keeps sharp s and dotless i, whose upper case is another letter's.
    if matches!(c, 'ß' | 'ı' | 'ŉ' | 'ſ') {
        return unit;
    }
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(u), None) => u16::try_from(u32::from(u)).unwrap_or(unit),
        _ => unit,
    }
}
