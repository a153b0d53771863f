//! The Prometheus text format, version 0.0.4.

use crate::log::is_unsafe;
use meter::{BOUNDS_MICROSECONDS, HistogramSnapshot};
use std::fmt::{Display, Write};

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricType {
    /// Increases only, since the start.
    Counter,
    /// Increases and decreases.
    Gauge,
    /// Observations in buckets.
    Histogram,
}

impl MetricType {
    /// The type's name in the format.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Writer for the lines of one metric.
#[derive(Debug)]
pub struct MetricLines<'a> {
    out: &'a mut String,
    name: &'a str,
    labels: &'a [&'a str],
}

impl<'a> MetricLines<'a> {
    /// Writes the head of a metric.
    pub fn begin(
        out: &'a mut String,
        (name, kind): (&'a str, MetricType),
        help: &str,
        labels: &'a [&'a str],
    ) -> Self {
        // Writing to a string does not fail.
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {}", kind.name());
        Self { out, name, labels }
    }

    /// Writes a value with its label values in order.
    pub fn put(&mut self, values: &[&str], value: impl Display) {
        self.put_as("", values, None, value);
    }

    fn put_as(&mut self, end: &str, values: &[&str], bound: Option<&str>, value: impl Display) {
        debug_assert_eq!(self.labels.len(), values.len(), "{}", self.name);
        let _ = write!(self.out, "{}{end}", self.name);
        let given = self.labels.iter().copied().zip(values.iter().copied());
        for (at, (label, value)) in given.chain(bound.map(|bound| ("le", bound))).enumerate() {
            let _ = write!(self.out, "{}{label}=\"", if at == 0 { "{" } else { "," });
            self.escape(value);
            self.out.push('"');
        }
        if !values.is_empty() || bound.is_some() {
            self.out.push('}');
        }
        let _ = writeln!(self.out, " {value}");
    }

    fn escape(&mut self, value: &str) {
        for letter in value.chars() {
            match letter {
                '\\' => self.out.push_str("\\\\"),
                '"' => self.out.push_str("\\\""),
                '\n' => self.out.push_str("\\n"),
                other if is_unsafe(other) => {
                    let _ = write!(self.out, "\\\\u{{{:x}}}", u32::from(other));
                }
                other => self.out.push(other),
            }
        }
    }

    /// Writes a latency histogram.
    pub fn put_latencies(&mut self, values: &[&str], histogram: &HistogramSnapshot) {
        let bounds = BOUNDS_MICROSECONDS.map(|bound| (bound as f64 / 1e6).to_string());
        let bounds = bounds.iter().map(String::as_str).chain(["+Inf"]);
        let seconds = histogram.sum_nanoseconds as f64 / 1e9;
        self.put_histogram(values, bounds.zip(&histogram.buckets), seconds);
    }

    /// Writes a histogram from bounds and the count of each bucket alone; the last bound is `+Inf`.
    pub fn put_histogram<'b>(
        &mut self,
        values: &[&str],
        buckets: impl Iterator<Item = (&'b str, &'b u64)>,
        sum: f64,
    ) {
        let mut count = 0;
        for (bound, bucket) in buckets {
            count += bucket;
            self.put_as("_bucket", values, Some(bound), count);
        }
        self.put_as("_sum", values, None, sum);
        self.put_as("_count", values, None, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_with_control_characters_stays_printable() {
        let mut out = String::new();
        let mut lines = MetricLines::begin(&mut out, ("m", MetricType::Gauge), "Help.", &["share"]);
        lines.put(&["a\r\u{1b}[2J\u{9b}\u{202e}\u{2028}"], 1);
        let share = r"a\\u{d}\\u{1b}[2J\\u{9b}\\u{202e}\\u{2028}";
        assert!(out.ends_with(&format!("m{{share=\"{share}\"}} 1\n")), "{out}");
    }

    #[test]
    fn metric_labels_are_escaped_and_buckets_are_cumulative() {
        let mut out = String::new();
        let mut lines =
            MetricLines::begin(&mut out, ("m", MetricType::Histogram), "Help.", &["share"]);
        lines.put_histogram(&["a\"\\\n"], [("1", &2), ("+Inf", &3)].into_iter(), 1.5);
        let mut lines = MetricLines::begin(&mut out, ("n", MetricType::Gauge), "Help.", &[]);
        lines.put(&[], 7);
        let share = "share=\"a\\\"\\\\\\n\"";
        let expected = [
            "# HELP m Help.".to_owned(),
            "# TYPE m histogram".to_owned(),
            format!("m_bucket{{{share},le=\"1\"}} 2"),
            format!("m_bucket{{{share},le=\"+Inf\"}} 5"),
            format!("m_sum{{{share}}} 1.5"),
            format!("m_count{{{share}}} 5"),
            "# HELP n Help.".to_owned(),
            "# TYPE n gauge".to_owned(),
            "n 7".to_owned(),
        ];
        assert_eq!(out.lines().collect::<Vec<_>>(), expected);
    }
}
