//! Previous versions: paths as of a time. MS-SMB2 2.2.13.2.7, 2.2.32.2, MS-SMB 2.2.1.1.1.
//!
//! The time comes in a create context. Older clients send it as a path component,
//! `@GMT-YYYY.MM.DD-HH.MM.SS`.

use vfs::Timestamp;

const SECOND: i128 = 1_000_000_000;
const DAY_SECONDS: i128 = 86_400;
/// Days from 1 March of the year 0 to 1970.
const DAYS_TO_1970: i128 = 719_468;
/// Length of a token in UTF-16 units.
const TOKEN_UNITS: usize = 24;
const SEPARATOR: u16 = b'\\' as u16;
/// First character of a token.
const AT: u16 = b'@' as u16;

/// The token of a time, which has whole seconds only.
#[must_use]
pub fn token(at: Timestamp) -> String {
    let seconds = at.0.div_euclid(SECOND);
    let (days, rest) = (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("@GMT-{year:04}.{month:02}.{day:02}-{hour:02}.{minute:02}.{second:02}")
}

/// Year, month and day of a day count since 1970, by the Gregorian calendar.
fn civil(days: i128) -> (i128, i128, i128) {
    // Years begin in March, in eras of 400 years.
    let days = days + DAYS_TO_1970;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + later, month, day)
}

/// The time of a token; none if it is not a token.
#[must_use]
pub fn time_of(units: &[u16]) -> Option<Timestamp> {
    if units.len() != TOKEN_UNITS || units[0] != AT {
        return None;
    }
    let text = String::from_utf16(units).ok()?;
    let mut numbers = text.strip_prefix("@GMT-")?.split(['.', '-']).map(str::parse::<i128>);
    let mut next = || numbers.next()?.ok();
    let (year, month, day) = (next()?, next()?, next()?);
    let (hour, minute, second) = (next()?, next()?, next()?);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (years, months) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = years * 365 + years / 4 - years / 100 + years / 400 + (153 * months + 2) / 5 + day
        - 1
        - DAYS_TO_1970;
    let at = Timestamp((days * DAY_SECONDS + hour * 3600 + minute * 60 + second) * SECOND);
    // Invalid dates, such as the 31st of a short month, do not round-trip.
    (token(at) == text).then_some(at)
}

/// A path without its token, and the token's time.
#[must_use]
pub fn take_token(units: &[u16]) -> Option<(Vec<u16>, Timestamp)> {
    // Most paths have no token.
    if !units.contains(&AT) {
        return None;
    }
    let parts = || units.split(|&u| u == SEPARATOR);
    let (index, at) =
        parts().enumerate().find_map(|(index, part)| Some((index, time_of(part)?)))?;
    let mut parts: Vec<&[u16]> = parts().collect();
    parts.remove(index);
    Some((parts.join(&SEPARATOR), at))
}

/// SRV_SNAPSHOT_ARRAY: all times if they fit into `room`, else only the required size. A query with
/// the minimum of 16 bytes gets exactly those.
#[must_use]
pub fn snapshot_array(times: &[Timestamp], room: usize) -> Vec<u8> {
    let mut array = Vec::new();
    for at in times {
        array.extend(token(*at).encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
    }
    array.extend_from_slice(&[0; 2]);
    let fits = !times.is_empty() && 12 + array.len() <= room;
    let returned = if fits { times.len() } else { 0 };
    let numbers = [times.len(), returned, array.len()];
    let mut out: Vec<u8> = numbers.iter().flat_map(|n| (*n as u32).to_le_bytes()).collect();
    if fits {
        out.extend(array);
    } else {
        out.extend_from_slice(&[0; 4]);
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

    fn at(seconds: i128) -> Timestamp {
        Timestamp(seconds * SECOND)
    }

    #[test]
    fn snapshot_tokens_round_trip_by_the_calendar() {
        for (seconds, text) in [
            (0, "@GMT-1970.01.01-00.00.00"),
            (951_782_400, "@GMT-2000.02.29-00.00.00"),
            (1_000_000_000, "@GMT-2001.09.09-01.46.40"),
            (4_107_542_400, "@GMT-2100.03.01-00.00.00"),
        ] {
            assert_eq!(token(at(seconds)), text);
            assert_eq!(time_of(&units(text)), Some(at(seconds)));
        }
        for bad in
            ["@GMT-2023.02.29-00.00.00", "@GMT-2023.2.28-000.00.00", "@GMT-2023.01.01-25.00.00"]
        {
            assert_eq!(time_of(&units(bad)), None, "{bad}");
        }
    }

    #[test]
    fn snapshot_token_is_found_anywhere_in_a_path() {
        let token = "@GMT-2001.09.09-01.46.40";
        let taken = |text: &str| {
            take_token(&units(text)).map(|(path, at)| (String::from_utf16(&path).unwrap(), at))
        };
        for (path, rest) in [("{}", ""), (r"{}\a\b", r"a\b"), (r"a\{}\b", r"a\b"), (r"a\{}", "a")] {
            let found = taken(&path.replace("{}", token));
            assert_eq!(found, Some((rest.into(), at(1_000_000_000))), "{path}");
        }
        assert_eq!(taken(r"a\@GMT-x\b"), None);
    }

    #[test]
    fn snapshot_times_are_listed_all_or_only_counted() {
        let times = [at(1_000_000_000), at(0)];
        let counted = [2u32, 0, 102, 0].map(u32::to_le_bytes).concat();
        assert_eq!(snapshot_array(&times, 16), counted);
        assert_eq!(snapshot_array(&times, 113), counted);
        let array = snapshot_array(&times, 114);
        assert_eq!(array[..12], [2u32, 2, 102].map(u32::to_le_bytes).concat());
        let text = "@GMT-2001.09.09-01.46.40\0@GMT-1970.01.01-00.00.00\0\0";
        assert_eq!(
            array[12..],
            units(text).iter().flat_map(|u| u.to_le_bytes()).collect::<Vec<_>>()
        );
        assert_eq!(snapshot_array(&[], 64), [0u32, 0, 2, 0].map(u32::to_le_bytes).concat());
    }

    proptest! {
        #[test]
        fn every_second_has_one_snapshot_token(seconds in 0i128..253_402_300_800) {
            prop_assert_eq!(time_of(&units(&token(at(seconds)))), Some(at(seconds)));
        }

        #[test]
        fn snapshot_token_search_accepts_any_path(path in proptest::collection::vec(any::<u16>(), 0..60)) {
            let _ = take_token(&path);
        }
    }
}
