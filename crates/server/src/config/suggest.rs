//! Suggestions for mistyped words.

/// Returns `; did you mean …?`, or a list of all known words.
pub fn hint(typed: &str, known: &[&str]) -> String {
    match nearest(typed, known) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => format!("; there are: {}", known.join(", ")),
    }
}

/// As [`hint`] for one of many names, of which only a similar one is worth a word.
pub fn similar(typed: &str, known: &[&str]) -> String {
    nearest(typed, known).map_or_else(String::new, |near| format!("; did you mean {near:?}?"))
}

/// The known word nearest to `typed`, if one is near.
fn nearest<'a>(typed: &str, known: &[&'a str]) -> Option<&'a str> {
    let best = known.iter().map(|k| (distance(typed, k), *k)).min()?;
    (best.0 <= typed.len().max(3) / 2).then_some(best.1)
}

/// Edit distance: characters to insert, remove or replace.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_word_is_suggested_and_a_different_one_is_not() {
        let known = ["signing", "smb", "users"];
        assert_eq!(nearest("signin", &known), Some("signing"));
        assert_eq!(nearest("user", &known), Some("users"));
        assert_eq!(nearest("zzzzzz", &known), None);
        assert_eq!(
            (distance("", "ab"), distance("kitten", "sitting"), distance("a", "a")),
            (2, 3, 0)
        );
    }
}
