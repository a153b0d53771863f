//! Names of types and tests, found by lines as rustfmt leaves them.

/// Participles, adverbs, pronouns and auxiliaries that end in neither `ed` nor `ing`.
const VAGUE: [&str; 134] = [
    "Again",
    "Ago",
    "Ahead",
    "Alone",
    "Along",
    "Already",
    "Also",
    "Always",
    "Anybody",
    "Anyone",
    "Anything",
    "Apart",
    "Around",
    "At",
    "Away",
    "Before",
    "Begun",
    "Behind",
    "Beside",
    "Between",
    "Borne",
    "Both",
    "Bought",
    "Broken",
    "Brought",
    "Built",
    "Came",
    "Caught",
    "Chosen",
    "Come",
    "Could",
    "Done",
    "Drawn",
    "Else",
    "Ever",
    "Everybody",
    "Everything",
    "Everywhere",
    "Few",
    "Found",
    "Frozen",
    "Further",
    "Gave",
    "Given",
    "Gone",
    "Got",
    "Grown",
    "Heard",
    "Held",
    "Here",
    "Hidden",
    "How",
    "Instead",
    "Kept",
    "Known",
    "Laid",
    "Late",
    "Left",
    "Less",
    "Lost",
    "Made",
    "May",
    "Meanwhile",
    "Met",
    "Might",
    "More",
    "Must",
    "Never",
    "Nobody",
    "Nothing",
    "Now",
    "Nowhere",
    "Once",
    "Only",
    "Other",
    "Others",
    "Paid",
    "Said",
    "Same",
    "Saw",
    "Seen",
    "Sent",
    "Several",
    "Shall",
    "Should",
    "Shown",
    "Since",
    "Sold",
    "Somebody",
    "Someone",
    "Something",
    "Somewhere",
    "Soon",
    "Sought",
    "Spent",
    "Spoken",
    "Still",
    "Stolen",
    "Stood",
    "Stuck",
    "Sworn",
    "Taken",
    "Then",
    "There",
    "Thing",
    "Thought",
    "Thrown",
    "Together",
    "Told",
    "Too",
    "Took",
    "Torn",
    "Until",
    "Way",
    "Went",
    "What",
    "Whatever",
    "When",
    "Whenever",
    "Where",
    "Which",
    "Who",
    "Whoever",
    "Whom",
    "Whose",
    "Why",
    "Within",
    "Without",
    "Woken",
    "Won",
    "Worn",
    "Would",
    "Written",
    "Yet",
];
/// Nouns that end as a participle does.
const NOUNS: [&str; 21] = [
    "Being", "Binding", "Bed", "Building", "Encoding", "Feed", "Finding", "Framing", "Listing",
    "Mapping", "Need", "Padding", "Ring", "Seed", "Setting", "Speed", "String", "Timing", "Thing",
    "Warning", "Meaning",
];
/// First words of a test's name that leave its subject out.
const TEST_OPENERS: [&str; 26] = [
    "a", "an", "how", "it", "its", "nobody", "nothing", "others", "that", "the", "there", "these",
    "they", "this", "those", "what", "whatever", "when", "where", "whether", "which", "who",
    "whoever", "whom", "whose", "why",
];
/// Names that Rust gives to one type a module, by custom.
const SHARED: [&str; 4] = ["Args", "Error", "Result", "Fixture"];

#[derive(Debug)]
pub struct Type {
    pub name: String,
    /// Line number, from 1.
    pub line: usize,
    pub place: String,
}

impl Type {
    pub fn at(self, place: String) -> Self {
        Self { place, ..self }
    }
}

/// Structs, enums, traits and free type aliases; associated types are another trait's names.
pub fn types(source: &str) -> Vec<Type> {
    let mut types = Vec::new();
    for (at, line) in source.lines().enumerate() {
        let item = without_visibility(line.trim_start());
        let is_free = !line.starts_with(' ');
        let rest = ["struct ", "enum ", "trait ", "unsafe trait ", "union "]
            .iter()
            .find_map(|keyword| item.strip_prefix(keyword))
            .or(item.strip_prefix("type ").filter(|_| is_free));
        let name: String =
            rest.unwrap_or_default().chars().take_while(|c| c.is_alphanumeric()).collect();
        if name.starts_with(char::is_uppercase) {
            types.push(Type { name, line: at + 1, place: String::new() });
        }
    }
    types
}

/// An item without `pub` or `pub(...)`.
pub fn without_visibility(line: &str) -> &str {
    let Some(rest) = line.strip_prefix("pub") else { return line };
    if let Some(rest) = rest.strip_prefix('(') {
        return rest.split_once(") ").map_or(line, |(_, rest)| rest);
    }
    rest.strip_prefix(' ').unwrap_or(line)
}

/// True for one bare word that is no noun.
pub fn is_vague(name: &str) -> bool {
    let is_one_word = name.chars().skip(1).all(|c| c.is_lowercase());
    let is_participle = name.ends_with("ed") || name.ends_with("ing");
    is_one_word && (VAGUE.contains(&name) || is_participle && !NOUNS.contains(&name))
}

/// True for a test's name that opens with an article, a pronoun or a relative word.
pub fn opens_without_subject(test: &str) -> bool {
    TEST_OPENERS.contains(&test.split('_').next().unwrap_or_default())
}

pub fn may_be_shared(name: &str) -> bool {
    SHARED.contains(&name)
}

/// Each function under `#[test]` or another attribute that ends in `test`, with its line from 1.
pub fn tests(source: &str) -> Vec<(usize, &str)> {
    let mut tests = Vec::new();
    let mut is_test = false;
    for (at, line) in source.lines().enumerate() {
        let line = line.trim_start();
        if let Some(attribute) = line.strip_prefix("#[") {
            let path = attribute.split([']', '(']).next().unwrap_or_default();
            is_test |= path == "test" || path.ends_with("::test");
        } else if let Some(rest) = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ") {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            if is_test {
                tests.push((at + 1, &rest[..end]));
            }
            is_test = false;
        }
    }
    tests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_with_every_visibility() {
        let source =
            "struct A;\npub(crate) enum B {}\n    pub trait C {}\ntype D = u8;\n    type E = u8;\n";
        let names: Vec<_> = types(source).into_iter().map(|t| (t.line, t.name)).collect();
        let expected = [(1, "A".into()), (2, "B".into()), (3, "C".into()), (4, "D".into())];
        assert_eq!(names, expected);
    }

    #[test]
    fn bare_participles_are_vague_and_nouns_are_not() {
        for name in ["Held", "Kept", "Waiting", "Served", "May", "Got", "Stood", "Until", "Nowhere"]
        {
            assert!(is_vague(name), "{name}");
        }
        for name in ["HeldLocks", "String", "Listing", "Seed", "Lease"] {
            assert!(!is_vague(name), "{name}");
        }
    }

    #[test]
    fn test_name_that_opens_without_subject_is_found() {
        for name in [
            "a_reload_drops_no_session",
            "an_interrupt_stops_it_too",
            "the_help_teaches_by_example",
            "who_names_nothing_is_let_in",
            "what_is_left_is_shown",
            "whoever_is_first_has_it",
            "nothing_is_changed",
            "others_wait",
            "its_owner_may_read_it",
            "the",
        ] {
            assert!(opens_without_subject(name), "{name}");
        }
        for name in ["reload_drops_no_session", "whole_list_is_read", "anonymous_user_is_denied"] {
            assert!(!opens_without_subject(name), "{name}");
        }
    }

    #[test]
    fn only_functions_under_a_test_attribute_are_tests() {
        let source = "fn a() {}\n#[test]\n#[ignore = \"x\"]\nfn b() {}\n#[tokio::test(x = 1)]\nasync fn c() {}\nfn d() {}\n";
        assert_eq!(tests(source), [(4, "b"), (6, "c")]);
    }
}
