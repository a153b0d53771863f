//! Names in lines that users paste: for a POSIX shell, for cmd and PowerShell, in URLs.

/// `text` as one word of a POSIX shell.
pub fn shell(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/-_.:@,+=%".contains(c);
    match !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// `text` as one word of cmd. Share and user names have no quotation marks.
pub fn windows(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "\\/-_.:@".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("\"{text}\""),
    }
}

/// `text` as one segment of a URL. RFC 3986 2.1.
pub fn url(text: &str) -> String {
    let of = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(*byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.as_bytes().iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_where_the_reader_needs_it() {
        for (text, by_shell, by_windows, in_url) in [
            ("data", "data", "data", "data"),
            ("my files", "'my files'", "\"my files\"", "my%20files"),
            ("Bob's $1", r"'Bob'\''s $1'", "\"Bob's $1\"", "Bob%27s%20%241"),
            ("a;reboot", "'a;reboot'", "\"a;reboot\"", "a%3Breboot"),
            ("Größe", "Größe", "Größe", "Gr%C3%B6%C3%9Fe"),
            ("", "''", "\"\"", ""),
            ("-rf", "'-rf'", "-rf", "-rf"),
        ] {
            assert_eq!(
                (shell(text).as_str(), windows(text).as_str(), url(text).as_str()),
                (by_shell, by_windows, in_url)
            );
        }
    }
}
