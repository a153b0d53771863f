//! Compares the table with the parser, the effective defaults, the example and the page.

use super::*;
use crate::config::{ServerConfig, raw};

/// A key that resembles no other, so the parser lists the known keys.
const NO_KEY: &str = "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz";
const SHARE: &str = "[[share]]\nname = \"a\"\npath = \"/a\"\n";

/// The keys that the parser accepts after `before`.
fn parsers_keys(before: &str) -> Vec<String> {
    let said = ServerConfig::parse(&format!("{before}{NO_KEY} = 1\n")).unwrap_err().to_string();
    let (_, list) = said.split_once("there are: ").unwrap_or_else(|| panic!("{said}"));
    sorted(list.split(", ").map(str::to_owned))
}

fn sorted(list: impl Iterator<Item = String>) -> Vec<String> {
    let mut list: Vec<String> = list.collect();
    list.sort();
    list
}

fn tables_keys(section: &ConfigSection) -> Vec<String> {
    sorted(section.keys.iter().map(|key| key.name.to_owned()))
}

fn example() -> &'static str {
    include_str!("../../../../../packaging/anabranch.toml")
}

#[test]
fn reference_lists_exactly_the_keys_of_the_parser() {
    for section in SECTIONS {
        let above = if section.header.starts_with("[share.") { SHARE } else { "" };
        let parsers = parsers_keys(&format!("{above}{}\n", section.header));
        assert_eq!(tables_keys(section), parsers, "{} of config/reference", section.header);
    }
    let whole = |header: &str| header.trim_matches(['[', ']']).to_owned();
    let sections = SECTIONS.iter().map(|section| whole(section.header));
    let sections = sorted(sections.filter(|name| !name.contains('.')));
    assert_eq!(sections, parsers_keys(""), "tables of config/reference");
}

#[test]
fn omitted_key_has_the_default_of_the_reference() {
    for section in SECTIONS.iter().filter(|section| !section.header.contains('.')) {
        let before =
            if section.header == "[[share]]" { SHARE } else { &format!("{}\n", section.header) };
        for key in section.keys {
            let DefaultValue::Is(value) = key.default else { continue };
            let with = format!("{before}{} = {value}\n", key.name);
            let mut said =
                ServerConfig::parse(&with).unwrap_or_else(|error| panic!("{with}: {error}"));
            // Only the recorded lines may differ.
            said.multichannel.channels_max_line = None;
            said.lines = crate::config::KeyLines::default();
            assert_eq!(said, ServerConfig::parse(before).expect("it was just taken"), "{with}");
        }
    }
}

#[test]
fn missing_required_key_is_reported() {
    for section in SECTIONS {
        for key in section.keys.iter().filter(|key| key.default == DefaultValue::Needed) {
            let others = section
                .keys
                .iter()
                .filter(|other| other.default == DefaultValue::Needed && other.name != key.name);
            let lines: String = others.map(|other| format!("{} = \"/a\"\n", other.name)).collect();
            let said = ServerConfig::parse(&format!("{}\n{lines}", section.header)).unwrap_err();
            let wanted = format!("the key `{}` is missing here", key.name);
            assert!(said.problems.iter().any(|problem| problem.text == wanted), "{said}");
        }
    }
}

#[test]
fn packaged_example_has_every_key_and_default() {
    let mut missing = Vec::new();
    for section in SECTIONS {
        let lines = example().lines().map(|line| line.strip_prefix("#: ").unwrap_or(line));
        let inside: Vec<&str> = lines
            .skip_while(|line| *line != section.header)
            .skip(1)
            .take_while(|line| !line.starts_with('['))
            .collect();
        for key in section.keys.iter().filter(|key| !key.form.contains("see below")) {
            let begin = format!("{} = ", key.name);
            match inside.iter().find_map(|line| line.strip_prefix(&begin)) {
                None => missing.push(format!("{} {}", section.header, key.name)),
                // The example shows lists with elements.
                Some(value)
                    if !value.starts_with('[') && !example().contains(&format!("\n{begin}")) =>
                {
                    if let DefaultValue::Is(default) = key.default {
                        assert_eq!(value.replace('_', ""), default, "{begin}");
                    }
                }
                Some(_) => {}
            }
        }
    }
    assert!(missing.is_empty(), "packaging/anabranch.toml lacks {missing:?}");
}

#[test]
fn command_line_keys_are_keys_of_a_share() {
    let share = SECTIONS.iter().find(|section| section.header == "[[share]]").expect("one");
    for key in raw::SHARE_KEYS {
        assert!(share.keys.iter().any(|one| one.name == *key), "{key}");
    }
}

/// Rewrites the page if ANABRANCH_WRITE_DOCS is set.
#[test]
fn configuration_page_matches_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    if std::env::var_os("ANABRANCH_WRITE_DOCS").is_some() {
        std::fs::write(path, markdown()).unwrap();
    }
    let page = std::fs::read_to_string(path).unwrap();
    assert!(
        page == markdown(),
        "docs/configuration.md is not of this code: anabranch generate configuration > docs/configuration.md"
    );
}
