//! Charts of a series: bars by load, or curves where the loads are a sweep.
//!
//! Colours are variables of the style, which the page has once and a picture of its own within
//! itself, so that both follow the reader's choice of light or dark.

use super::series::{Series, SeriesSummary};
use std::fmt::Write;

/// Widths and heights in the pictures' own units.
const WIDTH: f64 = 720.0;
const EDGE: f64 = 12.0;
const TITLE: f64 = 34.0;
const HEADING: f64 = 24.0;
const BAR: f64 = 20.0;
/// Of a figure at a bar's end, and of a letter of a label, about.
const FIGURE: f64 = 64.0;
const LETTER: f64 = 6.6;
const LABEL_MAX: f64 = 300.0;
/// Of a chart of curves: its height, and the place of the axis on the left.
const PLOT: f64 = 220.0;
const AXIS: f64 = 56.0;
/// Colours before they begin again.
const COLOURS: usize = 8;
/// Loads from which on they may be a sweep.
const SWEEP_MIN: usize = 3;
/// Lines of the grid, about.
const TICKS: f64 = 4.0;

/// The style sheet of each chart.
pub const STYLE: &str = include_str!("chart.css");

/// One kind of chart.
pub struct ChartKind {
    /// A file's name.
    pub name: &'static str,
    title: &'static str,
    figure: fn(&SeriesSummary) -> Option<f64>,
}

/// All of them.
const CHARTS: [ChartKind; 6] = [
    ChartKind {
        name: "throughput",
        title: "Throughput, MiB a second",
        figure: |one| (one.bytes_per_second > 0.0).then_some(one.bytes_per_second / 1_048_576.0),
    },
    ChartKind { name: "rate", title: "Requests a second", figure: |one| Some(one.per_second) },
    ChartKind {
        name: "median",
        title: "Median time of a request, microseconds",
        figure: |one| Some(one.p50_us),
    },
    ChartKind {
        name: "p99",
        title: "99th percentile, microseconds",
        figure: |one| Some(one.p99_us),
    },
    ChartKind {
        name: "client-cpu",
        title: "CPU time of the client, microseconds a request",
        figure: |one| Some(one.client_cpu_us),
    },
    ChartKind {
        name: "server-cpu",
        title: "CPU time of the server, microseconds a request",
        figure: |one| one.server_cpu_us,
    },
];

/// The charts with at least one value to draw.
pub fn charts(series: &Series) -> Vec<&'static ChartKind> {
    const ALL: &[ChartKind] = &CHARTS;
    let shows = |chart: &&ChartKind| series.summary.iter().any(|one| (chart.figure)(one).is_some());
    ALL.iter().filter(shows).collect()
}

/// An axis: what differs between the loads.
struct Sweep {
    title: &'static str,
    points: Vec<String>,
}

/// The axis, if the loads differ in one thing only.
fn sweep(series: &Series) -> Option<Sweep> {
    let mut loads: Vec<&SeriesSummary> = Vec::new();
    for one in &series.summary {
        if loads.last().is_none_or(|last| last.load != one.load) {
            loads.push(one);
        }
    }
    let all_differ = |of: &dyn Fn(&SeriesSummary) -> u64| {
        loads.windows(2).all(|pair| of(pair[0]) != of(pair[1]))
    };
    let all_agree = |of: &dyn Fn(&SeriesSummary) -> u64| {
        loads.windows(2).all(|pair| of(pair[0]) == of(pair[1]))
    };
    let (mix, block) = (
        |one: &SeriesSummary| u64::from(one.read_percent),
        |one: &SeriesSummary| u64::from(one.block_bytes),
    );
    let files = |one: &SeriesSummary| one.files as u64;
    let is_one_order = loads.windows(2).all(|pair| pair[0].random == pair[1].random);
    if loads.len() < SWEEP_MIN || !is_one_order {
        None
    } else if all_differ(&files) && all_agree(&mix) && all_agree(&block) {
        let points = loads.iter().map(|one| one.files.to_string()).collect();
        Some(Sweep { title: "files", points })
    } else if !all_agree(&files) {
        None
    } else if all_differ(&mix) && all_agree(&block) {
        let points = loads.iter().map(|one| format!("{} %", one.read_percent)).collect();
        Some(Sweep { title: "share of reads", points })
    } else if all_differ(&block) && all_agree(&mix) {
        let points = loads.iter().map(|one| advise::size(f64::from(one.block_bytes))).collect();
        Some(Sweep { title: "size of a request", points })
    } else {
        None
    }
}

/// The kinds of connections, in their order.
fn arms(series: &Series) -> Vec<&str> {
    let mut arms: Vec<&str> = Vec::new();
    for one in &series.summary {
        if !arms.contains(&one.connection.as_str()) {
            arms.push(&one.connection);
        }
    }
    arms
}

impl ChartKind {
    /// The picture as a part of the page.
    pub fn inline(&self, series: &Series) -> String {
        self.draw(series, "")
    }

    /// The picture as a file of its own.
    pub fn file(&self, series: &Series) -> String {
        self.draw(series, &format!("<style>{STYLE}</style>\n"))
    }

    fn draw(&self, series: &Series, style: &str) -> String {
        let (height, body) = match sweep(series) {
            Some(axis) => self.curves(series, &axis),
            None => self.bars(series),
        };
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" class=\"chart\" data-chart=\"{}\" role=\"img\" \
             aria-label=\"{title}\">\n{style}<rect class=\"ground\" width=\"100%\" \
             height=\"100%\" rx=\"8\"/>\n<text class=\"title\" x=\"{EDGE}\" y=\"22\">{title}</text>\n\
             {body}</svg>\n",
            self.name,
            title = escape(self.title),
        )
    }

    /// The largest figure, and the distance of the grid's lines.
    fn scale(&self, series: &Series) -> (f64, f64) {
        let figures = series.summary.iter().filter_map(self.figure);
        let most = figures.fold(f64::MIN_POSITIVE, f64::max);
        let step = step(most);
        (step * (most / step).ceil().max(1.0), step)
    }

    /// One group a load, one bar a kind of connection.
    fn bars(&self, series: &Series) -> (f64, String) {
        let arms = arms(series);
        let longest = arms.iter().map(|arm| arm.chars().count()).max().unwrap_or(0);
        let label = (longest as f64 * LETTER + 8.0).min(LABEL_MAX);
        let (left, length) = (EDGE + label, WIDTH - EDGE * 2.0 - label - FIGURE);
        let (most, step) = self.scale(series);
        let (mut out, mut top) = (String::new(), TITLE);
        let mut load = "";
        for (row, one) in series.summary.iter().enumerate() {
            let Some(value) = (self.figure)(one) else { continue };
            if one.load != load {
                load = &one.load;
                top += HEADING;
                let y = top - 7.0;
                // Writing to a string does not fail.
                let _ = writeln!(
                    out,
                    "<text class=\"load\" x=\"{EDGE}\" y=\"{y}\">{}</text>",
                    escape(load)
                );
            }
            let (wide, y) = (length * value / most, top + BAR * 0.7);
            let _ = writeln!(
                out,
                "<text class=\"arm\" x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{}</text>{}\
                 <text class=\"figure\" x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
                left - 8.0,
                escape(&one.connection),
                rectangle(row, one, value, &arms, [left, top + 2.0, wide, BAR - 4.0]),
                left + wide + 6.0,
                short(value),
            );
            top += BAR;
        }
        let mut grid = String::new();
        for at in ticks(most, step) {
            let x = left + length * at / most;
            let _ = writeln!(
                grid,
                "<path class=\"grid\" d=\"M{x:.1} {TITLE}V{top:.1}\"/><text class=\"tick\" \
                 x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                top + 16.0,
                plain(at)
            );
        }
        (top + 26.0, grid + &out)
    }

    /// One curve a kind of connection, over what is swept.
    fn curves(&self, series: &Series, axis: &Sweep) -> (f64, String) {
        let arms = arms(series);
        let (most, step) = self.scale(series);
        let (left, right, top) = (AXIS + EDGE, WIDTH - EDGE * 3.0, TITLE + 12.0);
        let x_of = |at: usize| left + (right - left) * at as f64 / (axis.points.len() - 1) as f64;
        let y_of = |value: f64| top + PLOT * (1.0 - value / most);
        let mut out = String::new();
        for at in ticks(most, step) {
            let y = y_of(at);
            let _ = writeln!(
                out,
                "<path class=\"grid\" d=\"M{left:.1} {y:.1}H{right:.1}\"/><text class=\"tick\" \
                 x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 8.0,
                y + 4.0,
                plain(at)
            );
        }
        for (at, name) in axis.points.iter().enumerate() {
            let (x, y) = (x_of(at), top + PLOT + 20.0);
            let _ = writeln!(
                out,
                "<text class=\"tick\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{name}</text>"
            );
        }
        for (colour, arm) in arms.iter().enumerate() {
            let of_arm =
                series.summary.iter().enumerate().filter(|(_, one)| one.connection == *arm);
            let (mut path, mut points) = (String::new(), String::new());
            for (at, (row, one)) in of_arm.enumerate() {
                let Some(value) = (self.figure)(one) else { continue };
                let (x, y) = (x_of(at), y_of(value));
                let _ = write!(path, "{}{x:.1} {y:.1}", if path.is_empty() { 'M' } else { 'L' });
                points += &point(row, one, value, colour, x, y);
            }
            let class = colour % COLOURS;
            let _ = writeln!(out, "<path class=\"curve c{class}\" d=\"{path}\"/>{points}");
        }
        let y = top + PLOT + 46.0;
        let _ = writeln!(
            out,
            "<text class=\"tick\" x=\"{right:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{}</text>",
            axis.title
        );
        (y + 16.0, out + &legend(&arms, left, y))
    }
}

fn rectangle(row: usize, one: &SeriesSummary, value: f64, arms: &[&str], at: [f64; 4]) -> String {
    let colour = arms.iter().position(|arm| *arm == one.connection).unwrap_or(0) % COLOURS;
    let [x, y, wide, high] = at;
    format!(
        "<rect class=\"mark bar c{colour}\" data-row=\"{row}\" data-value=\"{value}\" x=\"{x:.1}\" \
         y=\"{y:.1}\" width=\"{wide:.2}\" height=\"{high}\" rx=\"2\"><title>{}</title></rect>",
        hint(one, value)
    )
}

fn point(row: usize, one: &SeriesSummary, value: f64, colour: usize, x: f64, y: f64) -> String {
    let colour = colour % COLOURS;
    format!(
        "<circle class=\"mark point c{colour}\" data-row=\"{row}\" data-value=\"{value}\" \
         cx=\"{x:.1}\" cy=\"{y:.2}\" r=\"4\"><title>{}</title></circle>",
        hint(one, value)
    )
}

/// Tooltip of a mark.
fn hint(one: &SeriesSummary, value: f64) -> String {
    let arm =
        if one.connection.is_empty() { String::new() } else { format!(", {}", one.connection) };
    format!("{}{}: {}", escape(&one.load), escape(&arm), short(value))
}

/// The curves' names; none where there is one without.
fn legend(arms: &[&str], left: f64, y: f64) -> String {
    let (mut out, mut x) = (String::new(), left);
    for (colour, arm) in arms.iter().enumerate().filter(|(_, arm)| !arm.is_empty()) {
        let class = colour % COLOURS;
        let _ = writeln!(
            out,
            "<circle class=\"c{class}\" cx=\"{x:.1}\" cy=\"{:.1}\" r=\"5\"/><text class=\"arm\" \
             x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
            y - 4.0,
            x + 10.0,
            escape(arm)
        );
        x += arm.chars().count() as f64 * LETTER + 34.0;
    }
    out
}

/// A distance of 1, 2 or 5 times a power of ten, so that there are about [`TICKS`] lines.
fn step(most: f64) -> f64 {
    let wanted = most / TICKS;
    let power = 10f64.powf(wanted.log10().floor());
    let of = |times: f64| times * power;
    [1.0, 2.0, 5.0].map(of).into_iter().find(|step| *step >= wanted).unwrap_or(of(10.0))
}

/// The places of the grid's lines, from 0.
fn ticks(most: f64, step: f64) -> impl Iterator<Item = f64> {
    let count = (most / step).round() as usize;
    (0..=count).map(move |at| at as f64 * step)
}

/// About three digits.
pub fn short(value: f64) -> String {
    let digits = if value >= 100.0 || value == 0.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$}")
}

/// A line of the grid: as few digits as say it.
fn plain(value: f64) -> String {
    // Multiples of a step are off by less than a millionth of it.
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Text within an element or an attribute.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_have_round_numbers_and_reach_beyond_the_largest_figure() {
        for (most, lines) in [
            (0.7, vec![0.0, 0.2, 0.4, 0.6, 0.8]),
            (97.0, vec![0.0, 50.0, 100.0]),
            (100.0, vec![0.0, 50.0, 100.0]),
            (1234.0, vec![0.0, 500.0, 1000.0, 1500.0]),
        ] {
            let step = step(most);
            let top = step * (most / step).ceil();
            let found: Vec<f64> = ticks(top, step).collect();
            assert_eq!(found.len(), lines.len(), "{most}: {found:?}");
            assert!(found.iter().zip(&lines).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?}");
        }
    }
}
