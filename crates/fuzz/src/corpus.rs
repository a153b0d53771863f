//! The corpus: one text file for each target, with one input a line in hexadecimal digits and
//! comments after `#`. Readable in a review, and small in the history.

use std::fmt::Write;
use std::path::PathBuf;

/// The corpus file of a target.
#[must_use]
pub fn path(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(format!("{target}.hex"))
}

/// The corpus of a target.
///
/// # Errors
/// A description of the file's defect.
pub fn load(target: &str) -> Result<Vec<Vec<u8>>, String> {
    let path = path(target);
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    parse(&text).map_err(|line| format!("{}:{line}: not hexadecimal", path.display()))
}

/// The inputs of a text, or the number of the first malformed line.
fn parse(text: &str) -> Result<Vec<Vec<u8>>, usize> {
    let mut inputs = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let digits: String =
            line.split('#').next().unwrap_or_default().split_whitespace().collect();
        if !digits.is_empty() {
            inputs.push(decode(&digits).ok_or(at + 1)?);
        }
    }
    Ok(inputs)
}

fn decode(digits: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = digits.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect();
    let digits = digits.filter(|d| d.len().is_multiple_of(2))?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// Formats an input as a line of the file.
#[must_use]
pub fn line(input: &[u8]) -> String {
    input.iter().fold(String::new(), |mut line, byte| {
        // Writing to a string cannot fail.
        let _ = write!(line, "{byte:02x}");
        line
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_parser_skips_comments_and_refuses_other_letters() {
        let text = "# a title\n00ff 10 # a remark\n\nab\n";
        assert_eq!(parse(text), Ok(vec![vec![0, 255, 16], vec![0xAB]]));
        assert_eq!(parse("00\n0\n"), Err(2));
        assert_eq!(parse("xy\n"), Err(1));
        assert_eq!(line(&[0, 0xAB]), "00ab");
    }
}
