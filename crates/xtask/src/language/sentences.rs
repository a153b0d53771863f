//! Sentences of comments: consecutive comment lines are one paragraph, code blocks are left out.
//! The literals of `#[doc = ...]` count as comments, whether they stand in the attribute or in the
//! table of a macro that writes it.

/// Words that open a sentence before any subject is named.
const OPENERS: [&str; 10] = [
    "Who",
    "Whoever",
    "Whom",
    "Whomever",
    "Whose",
    "What",
    "Whatever",
    "Whichever",
    "Those",
    "That",
];

#[derive(Debug, PartialEq, Eq)]
pub struct Sentence {
    /// The line of its paragraph's first word, from 1.
    pub line: usize,
    pub text: String,
}

/// The sentences of all comments and documenting literals in a source file.
pub fn of(source: &str) -> Vec<Sentence> {
    let mut sentences = Vec::new();
    let has_table = source.contains("#[doc = $");
    let mut paragraph = String::new();
    let mut begun = 0;
    let mut in_code = false;
    for (at, line) in source.lines().enumerate() {
        let comment = comment_text(line);
        if comment.is_some_and(|text| text.trim_start().starts_with("```")) {
            in_code = !in_code;
        }
        let prose = comment.map(str::trim).filter(|t| !in_code && is_prose(t));
        let begins = prose.is_some_and(|t| t.starts_with("- ") || t.starts_with("* "));
        if prose.is_none() || begins {
            split(begun, &std::mem::take(&mut paragraph), &mut sentences);
        }
        if let Some(literal) = documenting_literal(line, has_table) {
            split(at + 1, literal, &mut sentences);
        }
        let Some(prose) = prose else {
            in_code &= comment.is_some();
            continue;
        };
        if paragraph.is_empty() {
            begun = at + 1;
        }
        paragraph.push_str(prose.trim_start_matches(['-', '*', ' ']));
        paragraph.push(' ');
    }
    split(begun, &paragraph, &mut sentences);
    sentences
}

/// True where the first word points to something that the sentence does not name. "That" is one
/// only where a verb follows it, not a noun ("That client ...").
pub fn opens_without_subject(sentence: &str) -> bool {
    let mut words = sentence.split(|c: char| !c.is_alphanumeric() && c != '\'');
    let Some(first) = words.next() else { return false };
    let second = words.next().unwrap_or_default();
    let is_plain_that =
        first == "That" && !matches!(second, "is" | "was" | "which" | "it" | "they");
    let is_noun_phrase =
        first == "Those" && !matches!(second, "that" | "of" | "who" | "which" | "are");
    OPENERS.contains(&first) && !is_plain_that && !is_noun_phrase && !sentence.ends_with('?')
}

/// The text behind `//`, `///` or `//!`, where the line holds nothing else.
fn comment_text(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.strip_prefix(['/', '!']).unwrap_or(text))
}

/// The text of a literal that becomes a comment: of `#[doc = "..."]`, or, in a file whose macro
/// writes that attribute, the last literal of an entry of its table. Such a text ends with a full
/// stop, other literals do not.
fn documenting_literal(line: &str, has_table: bool) -> Option<&str> {
    let line = line.trim();
    let text = match line.strip_prefix("#[doc = \"") {
        Some(attribute) => attribute.split_once("\"]")?.0,
        None if has_table && comment_text(line).is_none() => {
            let entry = line.trim_end_matches([';', ')', ',']).strip_suffix('"')?;
            entry.rsplit_once('"').map_or(entry, |(_, text)| text)
        }
        None => return None,
    };
    text.ends_with('.').then_some(text)
}

fn is_prose(text: &str) -> bool {
    !text.is_empty() && !text.starts_with(['|', '#', '`'])
        || text.starts_with('`') && !text.starts_with("```")
}

fn split(line: usize, paragraph: &str, sentences: &mut Vec<Sentence>) {
    let mut rest = paragraph.trim();
    while !rest.is_empty() {
        let end = end_of_sentence(rest);
        let (sentence, after) = rest.split_at(end);
        sentences.push(Sentence { line, text: sentence.trim().into() });
        rest = after.trim_start();
    }
}

/// The byte behind the first full stop that a capital letter or the end follows.
fn end_of_sentence(text: &str) -> usize {
    for (at, _) in text.match_indices(['.', '!', '?', ':', ';']) {
        let mut after = text[at + 1..].chars();
        let is_space = after.next().is_none_or(char::is_whitespace);
        if is_space && after.next().is_none_or(char::is_uppercase) {
            return at + 1;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<String> {
        of(source).into_iter().map(|s| s.text).collect()
    }

    #[test]
    fn paragraphs_lists_and_code_are_distinguished() {
        let source = "/// One client.\n/// Two\n/// lines: Of one.\n///\n/// - First\n/// - Second\n\
                      /// ```\n/// Who.code();\n/// ```\nlet x = 1; // Not read.\n    // In 3.3.5.9 it is.\n";
        let expected =
            ["One client.", "Two lines:", "Of one.", "First", "Second", "In 3.3.5.9 it is."];
        assert_eq!(texts(source), expected);
    }

    #[test]
    fn sentence_has_the_line_of_its_paragraph() {
        let found = of("fn f() {}\n\n    // The server\n    // waits.\n");
        assert_eq!(found, [Sentence { line: 3, text: "The server waits.".into() }]);
    }

    #[test]
    fn literal_that_a_macro_turns_into_a_comment_is_read() {
        let table = "macro_rules! table {\n    ($($n:ident, $doc:literal;)*) => {\n\
                     $(#[doc = $doc] pub const $n: u8 = 0;)*\n    };\n}\n\
                     table! {\n    A = 1, \"Who may do it.\";\n    B = \"key\", \"The owner. What is left.\";\n}\n";
        let found = of(table);
        let shown: Vec<_> = found.iter().map(|s| (s.line, s.text.as_str())).collect();
        assert_eq!(shown, [(7, "Who may do it."), (8, "The owner."), (8, "What is left.")]);
        let openers = found.iter().filter(|s| opens_without_subject(&s.text)).count();
        assert_eq!(openers, 2);
    }

    #[test]
    fn literal_of_an_attribute_is_read_and_other_literals_are_not() {
        assert_eq!(texts("#[doc = \"What it is.\"]\npub const A: u8 = 1;\n"), ["What it is."]);
        assert!(texts("let text = \"What it is.\";\n").is_empty());
    }

    #[test]
    fn literal_on_a_line_of_a_macro_call_is_read() {
        let call = "#[doc = $what]\noid!(\n    name,\n    \"Those of MIT.\"\n);\noid!(b, b\"x.\", \"Kerberos 5.\");\n";
        assert_eq!(texts(call), ["Those of MIT.", "Kerberos 5."]);
    }

    #[test]
    fn relative_openers_are_found_and_plain_ones_are_not() {
        for sentence in
            ["Who asks.", "What is kept.", "Those that wait.", "Whoever holds it.", "That is so."]
        {
            assert!(opens_without_subject(sentence), "{sentence}");
        }
        for sentence in [
            "The client.",
            "That client waits.",
            "Those clients wait.",
            "What is it?",
            "Whole files.",
        ] {
            assert!(!opens_without_subject(sentence), "{sentence}");
        }
    }
}
