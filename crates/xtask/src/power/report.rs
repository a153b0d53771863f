//! Report of a run, by the rows of the promise.

use super::model::PromiseModel;
use super::recording::CutPoint;
use super::replay::CutOutcome;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

/// Violations of a row that are printed in full.
const EXAMPLES_MAX: usize = 3;
/// The row of violations that no promise explains.
const UNPROMISED: &str = "what no operation explains";

/// Cuts at which a row's promise was broken.
#[derive(Debug, Default)]
struct BrokenRow {
    cuts: BTreeSet<CutPoint>,
    operations: BTreeSet<String>,
    examples: Vec<(CutPoint, String)>,
}

/// The outcome on one file system.
#[derive(Debug)]
pub struct PowerReport {
    file_system: &'static str,
    cuts: usize,
    rows: BTreeMap<String, usize>,
    broken: BTreeMap<String, BrokenRow>,
}

impl PowerReport {
    /// Of these outcomes.
    pub fn new(file_system: &'static str, model: &PromiseModel, outcomes: &[CutOutcome]) -> Self {
        let mut broken = BTreeMap::<String, BrokenRow>::new();
        for outcome in outcomes {
            for violation in &outcome.violations {
                let row = violation.row.clone().unwrap_or_else(|| UNPROMISED.to_owned());
                let row = broken.entry(row).or_default();
                row.cuts.insert(outcome.cut);
                if row.operations.insert(violation.operation.clone())
                    && row.examples.len() < EXAMPLES_MAX
                {
                    row.examples.push((outcome.cut, violation.to_string()));
                }
            }
        }
        let rows = model.rows().into_iter().map(|(row, count)| (row.to_owned(), count)).collect();
        Self { file_system, cuts: outcomes.len(), rows, broken }
    }

    /// Whether there is any violation.
    pub fn is_violated(&self) -> bool {
        !self.broken.is_empty()
    }

    /// Some violations of each row, with the command that repeats each on the run kept at `kept`.
    pub fn examples(&self, kept: &Path) -> String {
        let examples = self.broken.values().flat_map(|row| &row.examples);
        examples
            .map(|(cut, text)| {
                format!(
                    "VIOLATION {} {cut}: {text}\n    cargo xtask power --replay {} --cut {cut}\n",
                    self.file_system,
                    kept.display()
                )
            })
            .collect()
    }
}

impl fmt::Display for PowerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operations: usize = self.rows.values().sum();
        writeln!(
            f,
            "{}: {} cuts, {operations} operations in {} rows, {} rows broken",
            self.file_system,
            self.cuts,
            self.rows.len(),
            self.broken.len()
        )?;
        for (row, broken) in &self.broken {
            let of = self.rows.get(row).copied().unwrap_or_default();
            let (lost, cuts) = (broken.operations.len(), broken.cuts.len());
            writeln!(f, "  LOST {row}: {lost} of {of} operations, at {cuts} cuts")?;
        }
        Ok(())
    }
}
