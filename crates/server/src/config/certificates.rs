//! Certificates that clients will refuse because of their dates. RFC 5280 4.1.
//!
//! Reads just the validity of a certificate; rustls verifies everything else.

use super::{Problem, ServerConfig, TlsFiles};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// A certificate that expires within this time needs its replacement now.
const SOON_SECONDS: i64 = 30 * DAY_SECONDS;
const DAY_SECONDS: i64 = 24 * 60 * 60;
/// Certificates of one file that are looked at.
const CERTIFICATES_MAX: usize = 100;

impl ServerConfig {
    /// Certificates for NFS under TLS that are not valid now, or not for long.
    pub(super) fn certificate_warnings(&self) -> Vec<Problem> {
        let Some(files) = &self.nfs_tls else { return Vec::new() };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let texts = dates_of(files, i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
        texts.into_iter().map(|text| Problem { line: files.line, text }).collect()
    }
}

fn dates_of(files: &TlsFiles, now: i64) -> Vec<String> {
    let own = of_file("nfs_tls_certificate", &files.certificate, now);
    let ca = files.client_ca.as_deref().map(|path| of_file("nfs_tls_client_ca", path, now));
    own.into_iter().chain(ca.into_iter().flatten()).collect()
}

/// A file that cannot be read has no warning here: loading it is an error.
fn of_file(key: &str, path: &Path, now: i64) -> Vec<String> {
    let Ok(found) = CertificateDer::pem_file_iter(path) else { return Vec::new() };
    let of = |(index, der): (usize, CertificateDer<'_>)| {
        let what = finding(&validity(&der)?, now)?;
        let path = path.display();
        let which =
            if index == 0 { String::new() } else { format!(" (certificate {})", index + 1) };
        Some(format!("{key} = {path}{which} {what}"))
    };
    found.map_while(Result::ok).take(CERTIFICATES_MAX).enumerate().filter_map(of).collect()
}

fn finding(valid: &RangeInclusive<i64>, now: i64) -> Option<String> {
    let (from, until) = (day(*valid.start()), day(*valid.end()));
    let remedy = "put a new one in its place and reload the server";
    if now < *valid.start() {
        return Some(format!(
            "is not valid before {from}: clients refuse it until then; {remedy}, or correct this \
             machine's clock"
        ));
    }
    if now > *valid.end() {
        return Some(format!("expired on {until}: clients refuse it; {remedy}"));
    }
    let left = (valid.end() - now) / DAY_SECONDS;
    let days = if left == 1 { "day" } else { "days" };
    (valid.end() - now < SOON_SECONDS).then(|| {
        format!("expires on {until}, in {left} {days}: clients refuse it afterwards; {remedy}")
    })
}

/// The time in which a certificate is valid, in seconds since 1970. RFC 5280 4.1.2.5.
fn validity(der: &[u8]) -> Option<RangeInclusive<i64>> {
    const SEQUENCE: u8 = 0x30;
    const VERSION: u8 = 0xa0;
    let (certificate, _) = element(der, SEQUENCE)?;
    let (mut rest, _) = element(certificate, SEQUENCE)?;
    if rest.first() == Some(&VERSION) {
        rest = element(rest, VERSION)?.1;
    }
    // Serial number, signature algorithm, issuer.
    for tag in [0x02, SEQUENCE, SEQUENCE] {
        rest = element(rest, tag)?.1;
    }
    let (dates, _) = element(rest, SEQUENCE)?;
    let (from, dates) = time(dates)?;
    let (until, _) = time(dates)?;
    Some(from..=until)
}

/// The content of a DER element with this tag, and the bytes after it. X.690 8.1.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        short @ 0..=0x7f => (usize::from(*short), rest),
        // Lengths of more than four bytes exceed any certificate.
        long @ 0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            (bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    (*found == tag).then(|| rest.split_at_checked(length)).flatten()
}

/// A time in UTC, and the bytes after it. RFC 5280 4.1.2.5.1 and 4.1.2.5.2.
fn time(der: &[u8]) -> Option<(i64, &[u8])> {
    const UTC_TIME: u8 = 0x17;
    const GENERALIZED_TIME: u8 = 0x18;
    let (text, rest, year) = match der.first()? {
        &UTC_TIME => {
            let (text, rest) = element(der, UTC_TIME)?;
            let year = digits(text, 0, 2)?;
            (text.get(2..)?, rest, if year < 50 { 2000 + year } else { 1900 + year })
        }
        _ => {
            let (text, rest) = element(der, GENERALIZED_TIME)?;
            (text.get(4..)?, rest, digits(text, 0, 4)?)
        }
    };
    let two = |at| digits(text, at, 2);
    let (month, date) = (two(0)?, two(2)?);
    let seconds = (two(4)? * 60 + two(6)?) * 60 + two(8)?;
    let is_valid =
        (1..=12).contains(&month) && (1..=31).contains(&date) && text.get(10) == Some(&b'Z');
    is_valid.then(|| (days_from_civil(year, month, date) * DAY_SECONDS + seconds, rest))
}

fn digits(text: &[u8], at: usize, count: usize) -> Option<i64> {
    text.get(at..at + count)?
        .iter()
        .try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
}

/// Days from 1970-01-01 to a date of the Gregorian calendar, whose years begin with March here: the
/// leap day is the last of its year.
fn days_from_civil(year: i64, month: i64, date: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + date - 1;
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year
        - 719_468
}

/// The date of a time, as `2027-01-31`.
fn day(seconds: i64) -> String {
    let days = seconds.div_euclid(DAY_SECONDS);
    // The estimate is early by less than a year.
    let mut year = 1970 + days.div_euclid(366).min(days.div_euclid(365));
    while days_from_civil(year + 1, 1, 1) <= days {
        year += 1;
    }
    let month = (1..=12).rev().find(|month| days_from_civil(year, *month, 1) <= days).unwrap_or(1);
    let date = days - days_from_civil(year, month, 1) + 1;
    format!("{year:04}-{month:02}-{date:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_2027_01_31: i64 = 1_801_353_600;

    fn file(name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/tls").join(name)
    }

    #[test]
    fn date_is_converted_both_ways() {
        for (year, month, date, days, text) in [
            (1970, 1, 1, 0, "1970-01-01"),
            (2000, 2, 29, 11_016, "2000-02-29"),
            (2027, 1, 31, AT_2027_01_31 / DAY_SECONDS, "2027-01-31"),
            (1969, 12, 31, -1, "1969-12-31"),
            (9999, 12, 31, 2_932_896, "9999-12-31"),
        ] {
            assert_eq!(days_from_civil(year, month, date), days, "{text}");
            assert_eq!(day(days * DAY_SECONDS), text);
        }
    }

    #[test]
    fn certificate_is_refused_outside_of_its_dates() {
        let valid = AT_2027_01_31..=AT_2027_01_31 + 100 * DAY_SECONDS;
        for (now, part) in [
            (
                valid.start() - 1,
                Some("is not valid before 2027-01-31: clients refuse it until then"),
            ),
            (*valid.start(), None),
            (valid.end() - SOON_SECONDS, None),
            (valid.end() - SOON_SECONDS + 1, Some("expires on 2027-05-11, in 29 days: ")),
            (valid.end() - 2 * DAY_SECONDS + 1, Some("in 1 day: ")),
            (*valid.end(), Some("expires on 2027-05-11, in 0 days: ")),
            (valid.end() + 1, Some("expired on 2027-05-11: clients refuse it; put a new one")),
        ] {
            let found = finding(&valid, now);
            let is_expected = match (&found, part) {
                (Some(text), Some(part)) => text.contains(part),
                (None, None) => true,
                _ => false,
            };
            assert!(is_expected, "{now}: {found:?}, expected {part:?}");
        }
    }

    #[test]
    fn dates_are_read_from_certificates() {
        let of = |name: &str, now| of_file("nfs_tls_certificate", &file(name), now).join("\n");
        let expired = of("expired.pem", AT_2027_01_31);
        assert!(expired.contains("expired.pem expired on 2021-01-01: "), "{expired}");
        let future = of("future.pem", AT_2027_01_31);
        assert!(future.contains("future.pem is not valid before 2090-01-01: "), "{future}");
        // A year from 2050 on has the other form of time.
        assert!(of("future.pem", 4_102_000_000).contains("expires on 2099-12-31"));
        assert_eq!(of("server.key", AT_2027_01_31), "");
        assert_eq!(of("none.pem", AT_2027_01_31), "");
    }

    #[test]
    fn truncated_certificate_has_no_dates() {
        let der = CertificateDer::from_pem_file(file("server.pem")).unwrap();
        assert!(validity(&der).is_some_and(|valid| valid.start() < valid.end()));
        for length in 0..der.len() {
            assert_eq!(validity(&der[..length]), None, "{length}");
        }
        for at in 0..der.len().min(200) {
            let mut changed = der.to_vec();
            changed[at] = 0xff;
            let _ = validity(&changed);
        }
    }
}
