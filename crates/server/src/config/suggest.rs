//! Which word may have been meant.

/// `; did you mean …?`, or the words that there are.
pub fn hint(typed: &str, known: &[&str]) -> String {
    match nearest(typed, known) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => format!("; there are: {}", known.join(", ")),
    }
}

/// The word that is nearest to what was typed, if any is near.
fn nearest<'a>(typed: &str, known: &[&'a str]) -> Option<&'a str> {
    let best = known.iter().map(|k| (distance(typed, k), *k)).min()?;
    (best.0 <= typed.len().max(3) / 2).then_some(best.1)
}

/// Letters to insert, remove or replace.
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
    fn a_near_word_is_suggested_and_a_far_one_is_not() {
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
