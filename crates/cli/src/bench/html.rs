//! A series as one page that needs nothing else, and as pictures.

use super::series::{Series, Summary};
use std::fmt::Write;

/// Widths and heights in the pictures' own units.
const LABELS: f64 = 330.0;
const BARS: f64 = 420.0;
const FIGURES: f64 = 110.0;
const BAR: f64 = 18.0;
const TOP: f64 = 34.0;
/// One a kind of connection; told apart by brightness, too.
const COLOURS: [&str; 6] = ["#08519c", "#6baed6", "#e6550d", "#fdae6b", "#31a354", "#a1d99b"];

/// A figure of a row.
type Figure = fn(&Summary) -> f64;

/// What is drawn: a file's name, a title, and the figure.
const CHARTS: [(&str, &str, Figure); 4] = [
    ("throughput", "Throughput, MiB a second", |one| one.bytes_per_second / 1_048_576.0),
    ("rate", "Requests a second", |one| one.per_second),
    ("median", "Median time, microseconds", |one| one.p50_us),
    ("p99", "99th percentile, microseconds", |one| one.p99_us),
];

/// The pictures, each with its name.
pub fn charts(series: &Series) -> Vec<(&'static str, String)> {
    CHARTS
        .iter()
        .map(|(name, title, figure)| (*name, chart(series, name, title, *figure)))
        .collect()
}

fn chart(series: &Series, name: &str, title: &str, figure: Figure) -> String {
    let mut arms: Vec<&str> = Vec::new();
    for one in &series.summary {
        if !arms.contains(&one.arm.as_str()) {
            arms.push(&one.arm);
        }
    }
    let height = TOP + BAR * series.summary.len() as f64 + 8.0;
    let width = LABELS + BARS + FIGURES;
    let most = series.summary.iter().map(figure).fold(f64::MIN_POSITIVE, f64::max);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\" data-chart=\"{name}\" role=\"img\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"8\" y=\"20\" font-size=\"14\" font-weight=\"bold\">{}</text>\n",
        escape(title)
    );
    for (at, one) in series.summary.iter().enumerate() {
        let value = figure(one);
        let top = TOP + BAR * at as f64;
        let colour = arms.iter().position(|arm| *arm == one.arm).unwrap_or(0) % COLOURS.len();
        let length = BARS * value / most;
        let label = if one.arm.is_empty() {
            one.load.clone()
        } else {
            format!("{}, {}", one.load, one.arm)
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\
             <rect class=\"bar\" data-row=\"{at}\" data-value=\"{value}\" x=\"{LABELS}\" y=\"{top}\" \
             width=\"{length:.2}\" height=\"{}\" fill=\"{}\"/>\
             <text x=\"{:.2}\" y=\"{}\">{}</text>",
            LABELS - 8.0,
            top + 12.0,
            escape(&label),
            BAR - 4.0,
            COLOURS[colour],
            LABELS + length + 4.0,
            top + 12.0,
            short(value)
        );
    }
    out + "</svg>\n"
}

/// The page.
pub fn page(series: &Series) -> Result<String, serde_json::Error> {
    // No end of the element within it: every "<" of a text is written as an escape.
    let json = serde_json::to_string(series)?.replace('<', "\\u003c");
    let mut out = String::from(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <title>anabranch bench</title><style>body{font-family:sans-serif;max-width:60em;\
         margin:2em auto}svg{width:100%;margin:1em 0}table{border-collapse:collapse}\
         td,th{padding:.2em .6em;border-bottom:1px solid #ccc;text-align:right}\
         td:nth-child(-n+2),th:nth-child(-n+2){text-align:left}</style></head><body>\n",
    );
    let title = if series.name.is_empty() { "A comparison" } else { &series.name };
    let _ = writeln!(out, "<h1>{}</h1>", escape(title));
    if let Some(first) = series.runs.first() {
        let at = &first.report.environment;
        let _ = writeln!(
            out,
            "<p>{}: {} {}; signing {}, sealing {}; {} of full times and sizes; {}</p>",
            escape(&at.server),
            at.protocol,
            escape(&at.dialect),
            at.signing,
            at.cipher,
            series.scale,
            escape(&first.report.plan.describe())
        );
    }
    charts(series).iter().for_each(|(_, svg)| out += svg);
    out += "<table><tr><th>load</th><th>connections</th><th>requests/s</th><th>size</th>\
            <th>bytes/s</th><th>p50 µs</th><th>p99 µs</th><th>ratio</th><th>spread</th></tr>\n";
    for one in &series.summary {
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{:.1}</td><td>{}</td><td>{:.0}</td><td>{:.1}</td>\
             <td>{:.1}</td><td>{:.2}</td><td>{:.1} %</td></tr>",
            escape(&one.load),
            escape(&one.arm),
            one.per_second,
            one.block_bytes,
            one.bytes_per_second,
            one.p50_us,
            one.p99_us,
            one.ratio,
            one.spread * 100.0
        );
    }
    out += "</table>\n";
    for line in &series.documents {
        let _ = writeln!(out, "<p>The documents: {}</p>", escape(line));
    }
    let _ = writeln!(
        out,
        "<script type=\"application/json\" id=\"data\">{json}</script>\n</body></html>"
    );
    Ok(out)
}

/// About three digits.
fn short(value: f64) -> String {
    let digits = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$}")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
