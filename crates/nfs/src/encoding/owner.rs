//! Owners as text: a uid or gid as a decimal number. RFC 8881 5.9.

use wire::nfs::NfsStatus;

/// A uid or gid as decimal text, which AUTH_SYS clients understand. RFC 8881 5.9.
pub fn decimal(number: u32) -> ([u8; 10], usize) {
    let (mut digits, mut at, mut left) = ([0; 10], 10, number);
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            return (digits, at);
        }
    }
}

/// The uid or gid of an owner string. The server accepts numbers only.
///
/// # Errors
/// BADOWNER for other text.
pub fn number_of(owner: &[u8]) -> Result<u32, NfsStatus> {
    let text = std::str::from_utf8(owner).map_err(|_| NfsStatus::BADOWNER)?;
    // Some clients append a domain to the number.
    let text = text.split('@').next().unwrap_or_default();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return Err(NfsStatus::BADOWNER);
    }
    // The kernel reads all ones as "no change".
    text.parse().ok().filter(|number| *number != u32::MAX).ok_or(NfsStatus::BADOWNER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_strings_are_decimal_numbers() {
        for number in [0, 7, 10, 1000, u32::MAX - 1] {
            let (digits, at) = decimal(number);
            assert_eq!(digits[at..], *number.to_string().as_bytes());
            assert_eq!(number_of(&digits[at..]), Ok(number));
        }
        assert_eq!(number_of(b"12@example.org"), Ok(12));
        for bad in [&b""[..], b"root", b"-1", b"+1", b"4294967295", b"99999999999", b"\xff", b"@a"]
        {
            assert_eq!(number_of(bad), Err(NfsStatus::BADOWNER));
        }
    }
}
