//! Case folding of names.

/// Upper case of one UTF-16 code unit by NTFS' table: one unit maps to one unit, and surrogates map
/// to themselves. ASCII needs no table.
#[must_use]
pub fn upcase(unit: u16) -> u16 {
    if unit < 0x80 {
        return if (0x61..=0x7A).contains(&unit) { unit - 0x20 } else { unit };
    }
    let Some(c) = char::from_u32(u32::from(unit)) else { return unit };
    // NTFS leaves sharp s and dotless i unchanged, because their upper case is another letter's.
    if matches!(c, 'ß' | 'ı' | 'ŉ' | 'ſ') {
        return unit;
    }
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(u), None) => u16::try_from(u32::from(u)).unwrap_or(unit),
        _ => unit,
    }
}
