//! Compares the table with the parser, the effective defaults, the example and the page.

use super::*;
use crate::config::{Config, raw};

/// A key that resembles no other, so the parser lists the known keys.
const NO_KEY: &str = "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz";
const SHARE: &str = "[[share]]\nname = \"a\"\npath = \"/a\"\n";

/// The keys that the parser accepts after `before`.
fn parsers_keys(before: &str) -> Vec<String> {
    let said = Config::parse(&format!("{before}{NO_KEY} = 1\n")).unwrap_err().to_string();
    let (_, list) = said.split_once("there are: ").unwrap_or_else(|| panic!("{said}"));
    sorted(list.split(", ").map(str::to_owned))
}

fn sorted(list: impl Iterator<Item = String>) -> Vec<String> {
    let mut list: Vec<String> = list.collect();
    list.sort();
    list
}

fn tables_keys(section: &Section) -> Vec<String> {
    sorted(section.keys.iter().map(|key| key.name.to_owned()))
}

fn example() -> &'static str {
    include_str!("../../../../../packaging/anabranch.toml")
}

#[test]
fn every_key_that_the_parser_takes_is_in_the_reference_and_no_other() {
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
fn a_key_that_is_left_out_means_what_the_reference_says() {
    for section in SECTIONS.iter().filter(|section| !section.header.contains('.')) {
        let before =
            if section.header == "[[share]]" { SHARE } else { &format!("{}\n", section.header) };
        for key in section.keys {
            let Absent::Is(value) = key.default else { continue };
            let with = format!("{before}{} = {value}\n", key.name);
            let mut said = Config::parse(&with).unwrap_or_else(|error| panic!("{with}: {error}"));
            // Only the recorded line may differ.
            said.multichannel.channels_max_line = None;
            assert_eq!(said, Config::parse(before).expect("it was just taken"), "{with}");
        }
    }
}

#[test]
fn what_must_be_set_is_missed() {
    for section in SECTIONS {
        for key in section.keys.iter().filter(|key| key.default == Absent::Needed) {
            let others = section
                .keys
                .iter()
                .filter(|other| other.default == Absent::Needed && other.name != key.name);
            let lines: String = others.map(|other| format!("{} = \"/a\"\n", other.name)).collect();
            let said = Config::parse(&format!("{}\n{lines}", section.header)).unwrap_err();
            let wanted = format!("the key `{}` is missing here", key.name);
            assert!(said.to_string().ends_with(&wanted), "{said}");
        }
    }
}

#[test]
fn the_packaged_example_has_every_key_of_its_table_and_each_default() {
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
                    if let Absent::Is(default) = key.default {
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
fn keys_of_the_command_line_are_keys_of_a_share() {
    let share = SECTIONS.iter().find(|section| section.header == "[[share]]").expect("one");
    for key in raw::SHARE_KEYS {
        assert!(share.keys.iter().any(|one| one.name == *key), "{key}");
    }
}

#[test]
fn the_page_is_what_the_table_says() {
    let page = include_str!("../../../../../docs/configuration.md");
    assert!(
        page == markdown(),
        "docs/configuration.md is not of this code: anabranch generate configuration > docs/configuration.md"
    );
}
