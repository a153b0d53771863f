//! Remarks of an import, and their report: grouped by cause, the gravest first.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Parameters of one group that are shown by name.
const NAMES_SHOWN_MAX: usize = 4;

/// File and line of a parameter or section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePosition {
    /// File.
    pub file: Arc<Path>,
    /// Line, from 1.
    pub line: usize,
}

/// Consequence of a parameter that was not carried over, the gravest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RemarkWeight {
    /// A share is missing, or other users or clients may use it than before.
    Access,
    /// Data that clients saw before is missing or looks different.
    Data,
    /// A feature is missing.
    #[default]
    Feature,
    /// The parameter is unknown.
    Unknown,
}

impl RemarkWeight {
    /// The name in reports for programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Access => "access",
            Self::Data => "data",
            Self::Feature => "feature",
            Self::Unknown => "unknown",
        }
    }
}

/// A remark on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportRemark {
    /// File and line.
    pub place: SourcePosition,
    /// The setting as typed, `name = value`; empty if the remark is about something else.
    pub setting: String,
    /// The problem and its remedy.
    pub text: String,
    /// Its consequence.
    pub weight: RemarkWeight,
}

impl ImportRemark {
    /// A remark that concerns a place, not one setting.
    pub fn new(place: SourcePosition, text: impl Into<String>) -> Self {
        let (setting, weight) = (String::new(), RemarkWeight::default());
        Self { place, setting, text: text.into(), weight }
    }
}

impl fmt::Display for ImportRemark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.place.file.display(), self.place.line)?;
        if !self.setting.is_empty() {
            write!(f, "{}: ", self.setting)?;
        }
        f.write_str(&self.text)
    }
}

/// One line for each cause, the gravest first. The line of a cause with several settings has their
/// lines and names instead of their values.
#[must_use]
pub fn grouped(remarks: &[ImportRemark]) -> Vec<String> {
    let mut groups: Vec<Vec<&ImportRemark>> = Vec::new();
    let mut numbers = std::collections::HashMap::new();
    for remark in remarks {
        let cause = (&remark.place.file, remark.setting.is_empty(), &remark.text);
        let number = *numbers.entry(cause).or_insert(groups.len());
        match groups.get_mut(number) {
            Some(group) => group.push(remark),
            None => groups.push(vec![remark]),
        }
    }
    groups.sort_by_key(|group| group.iter().map(|remark| remark.weight).min());
    groups.iter().map(|group| line_of(group)).collect()
}

fn line_of(group: &[&ImportRemark]) -> String {
    let [first, others @ ..] = group else { return String::new() };
    if others.is_empty() {
        return first.to_string();
    }
    let mut lines: Vec<usize> = group.iter().map(|remark| remark.place.line).collect();
    lines.dedup();
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    let mut names: Vec<&str> =
        group.iter().map(|remark| remark.setting.split(" =").next().unwrap_or_default()).collect();
    names.sort_unstable();
    names.dedup();
    let more = names.len().saturating_sub(NAMES_SHOWN_MAX);
    names.truncate(NAMES_SHOWN_MAX);
    let mut line = format!("{}:{}: ", first.place.file.display(), lines.join(","));
    if !first.setting.is_empty() {
        line += &names.join(", ");
        if more > 0 {
            line += &format!(" and {more} more");
        }
        line += ": ";
    }
    line + &first.text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remark(line: usize, setting: &str, text: &str, weight: RemarkWeight) -> ImportRemark {
        let place = SourcePosition { file: Path::new("smb.conf").into(), line };
        ImportRemark { place, setting: setting.into(), text: text.into(), weight }
    }

    #[test]
    fn remarks_of_one_cause_become_one_line() {
        use RemarkWeight::{Access, Feature};
        let remarks = [
            remark(1, "realm = A", "no domains", Feature),
            remark(2, "idmap range = 1-2", "no domains", Feature),
            remark(3, "", "[x] was omitted", Access),
            remark(4, "hosts deny = b", "a name", Access),
        ];
        assert_eq!(
            grouped(&remarks),
            [
                "smb.conf:3: [x] was omitted",
                "smb.conf:4: hosts deny = b: a name",
                "smb.conf:1,2: idmap range, realm: no domains",
            ]
        );
        let many: Vec<_> =
            (1..=6).map(|line| remark(line, &format!("p{line} = 1"), "no", Feature)).collect();
        assert_eq!(grouped(&many), ["smb.conf:1,2,3,4,5,6: p1, p2, p3, p4 and 2 more: no"]);
    }
}
