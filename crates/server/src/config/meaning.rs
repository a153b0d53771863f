//! Mistakes of the configuration with their lines, and conversions that several parts need.

use super::Problem;
use std::ops::Range;
use toml::Spanned;

/// Converts typed values to their meaning and collects mistakes.
pub(super) struct ConfigInterpreter<'a> {
    pub(super) text: &'a str,
    pub(super) problems: Vec<Problem>,
}

impl ConfigInterpreter<'_> {
    pub(super) fn dialect(&mut self, text: &Spanned<String>) -> Option<smb::Dialect> {
        use smb::Dialect::{Smb202, Smb210, Smb300, Smb302, Smb311};
        let all = [Smb202, Smb210, Smb300, Smb302, Smb311];
        let found = all.into_iter().find(|d| d.to_string() == *text.get_ref());
        if found.is_none() {
            let what = format!(
                "{:?} is not a dialect; there are 2.0.2, 2.1, 3.0, 3.0.2 and 3.1.1",
                text.get_ref()
            );
            self.wrong(text.span(), what);
        }
        found
    }

    pub(super) fn bounded<N: Copy + PartialOrd + std::fmt::Display>(
        &mut self,
        key: &str,
        value: &Spanned<N>,
        range: std::ops::RangeInclusive<N>,
    ) -> N {
        let number = *value.get_ref();
        if !range.contains(&number) {
            let what =
                format!("{key} = {number} is not between {} and {}", range.start(), range.end());
            self.wrong(value.span(), what);
        }
        number
    }

    pub(super) fn line_of(&self, offset: usize) -> usize {
        line_of(self.text, offset)
    }

    pub(super) fn wrong(&mut self, span: Range<usize>, text: impl Into<String>) {
        self.problems
            .push(Problem { line: Some(line_of(self.text, span.start)), text: text.into() });
    }
}

/// Number of the line, from 1, that contains the byte at `offset`.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|b| *b == b'\n').count()
}
