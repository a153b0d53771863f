//! Snapshot names that contain the creation time, in a strftime-like format.

use vfs::Timestamp;

/// Maximum number of parts of a format.
const PARTS_MAX: usize = 64;

/// A name format: `%Y`, `%m`, `%d`, `%H`, `%M`, `%S` (with the usual number of digits), `%s`
/// (seconds since 1970), `%%`, and `*` for any text. Times are UTC; an omitted field has its
/// minimum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameFormat(Vec<NamePart>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NamePart {
    Byte(u8),
    Any,
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Epoch,
}

/// Why a format is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameFormatError(String);

impl std::fmt::Display for NameFormatError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NameFormatError {}

#[derive(Clone, Copy, Debug)]
struct SnapshotNameFields {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    epoch: Option<i64>,
}

impl NameFormat {
    /// Parses a format.
    ///
    /// # Errors
    /// [`NameFormatError`] for an unknown directive, and for a format without a day.
    pub fn new(text: &str) -> Result<Self, NameFormatError> {
        let wrong = |what: String| Err(NameFormatError(what));
        let mut parts = Vec::new();
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            parts.push(match byte {
                b'*' => NamePart::Any,
                b'%' => match bytes.next() {
                    Some(b'Y') => NamePart::Year,
                    Some(b'm') => NamePart::Month,
                    Some(b'd') => NamePart::Day,
                    Some(b'H') => NamePart::Hour,
                    Some(b'M') => NamePart::Minute,
                    Some(b'S') => NamePart::Second,
                    Some(b's') => NamePart::Epoch,
                    Some(b'%') => NamePart::Byte(b'%'),
                    Some(other) => {
                        let other = char::from(other);
                        return wrong(format!(
                            "%{other} is not known; there are %Y %m %d %H %M %S, %s and %%"
                        ));
                    }
                    None => return wrong("it ends with %; write %% for one".into()),
                },
                b'/' => return wrong("a name has no /".into()),
                other => NamePart::Byte(other),
            });
        }
        let has = |part| parts.contains(&part);
        let tells_day = has(NamePart::Year) && has(NamePart::Month) && has(NamePart::Day);
        if !tells_day && !has(NamePart::Epoch) {
            return wrong("it must have %Y, %m and %d, or %s".into());
        }
        if parts.len() > PARTS_MAX || parts.iter().filter(|p| **p == NamePart::Any).count() > 2 {
            return wrong(format!("it has more than {PARTS_MAX} parts, or more than two *"));
        }
        Ok(Self(parts))
    }

    /// The creation time of the snapshot with this name; `None` if the name does not match.
    #[must_use]
    pub fn time(&self, name: &[u8]) -> Option<Timestamp> {
        let fields = SnapshotNameFields {
            year: 0,
            month: 1,
            day: 1,
            hour: 0,
            minute: 0,
            second: 0,
            epoch: None,
        };
        let fields = read(&self.0, name, fields)?;
        let seconds = match fields.epoch {
            Some(epoch) => epoch,
            None => seconds_of(&fields)?,
        };
        Some(Timestamp(i128::from(seconds) * 1_000_000_000))
    }
}

fn read(
    parts: &[NamePart],
    name: &[u8],
    mut fields: SnapshotNameFields,
) -> Option<SnapshotNameFields> {
    let Some((part, parts)) = parts.split_first() else {
        return name.is_empty().then_some(fields);
    };
    let digits = |count: usize| -> Option<(i64, &[u8])> {
        let (digits, rest) = name.split_at_checked(count)?;
        let is_number = count > 0 && digits.iter().all(u8::is_ascii_digit);
        let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
        is_number.then_some((number, rest))
    };
    let (slot, count) = match part {
        NamePart::Byte(byte) => return read(parts, name.strip_prefix(&[*byte])?, fields),
        // A format has at most two of them, and a name at most 255 bytes.
        NamePart::Any => return (0..=name.len()).find_map(|at| read(parts, &name[at..], fields)),
        NamePart::Epoch => {
            let count = name.iter().take(11).take_while(|b| b.is_ascii_digit()).count();
            let (epoch, rest) = digits(count)?;
            return read(parts, rest, SnapshotNameFields { epoch: Some(epoch), ..fields });
        }
        NamePart::Year => (&mut fields.year, 4),
        NamePart::Month => (&mut fields.month, 2),
        NamePart::Day => (&mut fields.day, 2),
        NamePart::Hour => (&mut fields.hour, 2),
        NamePart::Minute => (&mut fields.minute, 2),
        NamePart::Second => (&mut fields.second, 2),
    };
    let (number, rest) = digits(count)?;
    *slot = number;
    read(parts, rest, fields)
}

/// Converts to seconds since 1970; `None` for an invalid date or time.
fn seconds_of(fields: &SnapshotNameFields) -> Option<i64> {
    let SnapshotNameFields { year, month, day, hour, minute, second, .. } = *fields;
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_of_month = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    let is_time = hour < 24 && minute < 60 && second < 60;
    if !(1970..=9999).contains(&year) || !(1..=days_of_month).contains(&day) || !is_time {
        return None;
    }
    // Years start in March, so that a leap day is the last day of its year.
    let (years, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = years * 365 + years / 4 - years / 100 + years / 400 + (153 * month + 2) / 5 + day;
    // Days to 1 January 1970.
    const DAYS_TO_1970: i64 = 719_469;
    Some((days - DAYS_TO_1970) * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(format: &str, name: &str) -> Option<i128> {
        NameFormat::new(format).unwrap().time(name.as_bytes()).map(|t| t.0 / 1_000_000_000)
    }

    #[test]
    fn snapshot_names_are_parsed_by_the_calendar() {
        let gmt = "@GMT-%Y.%m.%d-%H.%M.%S";
        assert_eq!(time(gmt, "@GMT-1970.01.01-00.00.00"), Some(0));
        assert_eq!(time(gmt, "@GMT-2001.09.09-01.46.40"), Some(1_000_000_000));
        assert_eq!(time(gmt, "@GMT-2024.02.29-23.59.59"), Some(1_709_251_199));
        assert_eq!(time(gmt, "@GMT-2100.03.01-00.00.00"), Some(4_107_542_400));
        for bad in [
            "@GMT-2023.02.29-00.00.00",
            "@GMT-2024.13.01-00.00.00",
            "@GMT-2024.01.01-24.00.00",
            "@GMT-2024.01.01-00.00.00x",
            "@GMT-+024.01.01-00.00.00",
            "",
        ] {
            assert_eq!(time(gmt, bad), None, "{bad}");
        }
    }

    #[test]
    fn snapshot_names_of_other_tools_are_parsed() {
        let day = 999_993_600;
        assert_eq!(
            time("autosnap_%Y-%m-%d_%H:%M:%S_*", "autosnap_2001-09-09_01:46:40_daily"),
            Some(1_000_000_000)
        );
        assert_eq!(
            time("zfs-auto-snap_*-%Y-%m-%d-%H%M", "zfs-auto-snap_hourly-2001-09-09-0000"),
            Some(day)
        );
        assert_eq!(time("daily-%Y-%m-%d", "daily-2001-09-09"), Some(day));
        assert_eq!(time("snap-%s*", "snap-1000000000.x"), Some(1_000_000_000));
        assert_eq!(time("*%Y%m%d*", "a1-20010909-b"), Some(day));
    }

    #[test]
    fn invalid_name_format_is_refused_with_its_reason() {
        for bad in ["%Y-%m", "%q", "100%", "a/%s", "***%s", &"x".repeat(100)] {
            assert!(NameFormat::new(bad).is_err(), "{bad}");
        }
        let long = "a".repeat(255);
        assert_eq!(time("*%Y*%m%d", &long), None, "soon");
    }
}
