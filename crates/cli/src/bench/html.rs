//! A series as one self-contained HTML page.

use super::chart::{self, escape, short};
use super::series::{Series, SeriesSummary};
use std::fmt::Write;

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// The page.
pub fn page(series: &Series) -> Result<String, serde_json::Error> {
    // No end of the element within it: every "<" of a text is written as an escape.
    let json = serde_json::to_string(series)?.replace('<', "\\u003c");
    let title = if series.name.is_empty() { "Comparison" } else { &series.name };
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title} · anabranch bench</title>\n<style>{STYLE}</style>\n\
         <style id=\"chart-style\">{}</style></head>\n<body><main>\n<h1>{title}</h1>\n",
        chart::STYLE,
        title = escape(title),
    );
    out += &measured_against(series);
    out += &tiles(series);
    out += "<h2>Charts</h2>\n<div class=\"charts\">\n";
    for one in chart::charts(series) {
        let picture = one.inline(series);
        // Writing to a string does not fail.
        let _ = writeln!(out, "<figure>{picture}<figcaption></figcaption></figure>");
    }
    out += "</div>\n<h2>Figures</h2>\n";
    out += &table(series);
    if !series.documents.is_empty() {
        out += "<h2>Published results of such loads, on other machines</h2>\n";
        for line in &series.documents {
            let _ = writeln!(out, "<blockquote>{}</blockquote>", escape(line));
        }
    }
    let _ = writeln!(
        out,
        "</main>\n<script type=\"application/json\" id=\"data\">{json}</script>\n\
         <script>{SCRIPT}</script>\n</body></html>"
    );
    Ok(out)
}

fn measured_against(series: &Series) -> String {
    let Some(first) = series.runs.first() else { return String::new() };
    let at = &first.report.environment;
    let mut line = format!("{}: {} {}", at.server, at.protocol, at.dialect);
    // Where it is compared, each kind says it.
    let is_one = series
        .runs
        .iter()
        .map(|run| &run.report.environment)
        .all(|other| (other.signing, other.cipher) == (at.signing, at.cipher));
    if at.protocol == "SMB" && is_one {
        line += &format!("; signing {}, encryption {}", at.signing, at.cipher);
    }
    if series.scale != 1.0 {
        line += &format!("; at {} of the original length and size", series.scale);
    }
    let rounds = series.runs.iter().map(|run| run.round).max().unwrap_or(1);
    let turns = if rounds > 1 {
        format!("; each measured {rounds} times, in turns; means")
    } else {
        String::new()
    };
    format!(
        "<p class=\"quiet\">{}</p>\n<p class=\"quiet\">First load: {}{turns}</p>\n",
        escape(&line),
        escape(&first.report.plan.describe())
    )
}

/// The headline figures.
fn tiles(series: &Series) -> String {
    let best = |of: fn(&SeriesSummary) -> f64| {
        series.summary.iter().max_by(|one, other| of(one).total_cmp(&of(other)))
    };
    let mut out = String::from("<ul class=\"tiles\">");
    let mut tile = |figure: String, what: &str, one: &SeriesSummary| {
        let arm =
            if one.connection.is_empty() { String::new() } else { format!(", {}", one.connection) };
        let _ = write!(
            out,
            "<li><small>{what}</small><b>{figure}</b><small>{}{}</small></li>",
            escape(&one.load),
            escape(&arm)
        );
    };
    if let Some(one) = best(|one| one.bytes_per_second).filter(|one| one.bytes_per_second > 0.0) {
        tile(advise::size(one.bytes_per_second.round()) + "/s", "most bytes", one);
    }
    if let Some(one) = best(|one| one.per_second) {
        tile(format!("{:.0}/s", one.per_second), "most requests", one);
    }
    if let Some(one) = best(|one| -one.p50_us) {
        tile(format!("{} µs", short(one.p50_us)), "shortest median time", one);
    }
    if let Some(one) = best(|one| one.ratio).filter(|one| one.ratio > 1.0) {
        tile(format!("{:.2} times", one.ratio), "largest gain over the first kind", one);
    }
    out + "</ul>\n"
}

fn table(series: &Series) -> String {
    let has_server = series.summary.iter().any(|one| one.server_cpu_us.is_some());
    let mut out = String::from(
        "<div class=\"table\"><table><thead><tr><th class=\"name\">load</th>\
         <th class=\"name\">connections</th><th>requests/s</th><th>size</th>\
         <th>MiB/s</th><th>p50 µs</th><th>p90 µs</th><th>p99 µs</th><th>p99.9 µs</th>\
         <th>client µs</th>",
    );
    out += if has_server { "<th>server µs</th>" } else { "" };
    out += "<th>ratio</th><th>spread</th></tr></thead><tbody>\n";
    for (row, one) in series.summary.iter().enumerate() {
        let rivals = series.summary.iter().filter(|other| other.load == one.load);
        let is_best = rivals.clone().count() > 1
            && rivals.map(|other| other.per_second).fold(0.0, f64::max) == one.per_second;
        let class = if is_best { " class=\"best\"" } else { "" };
        let _ = write!(
            out,
            "<tr data-row=\"{row}\"><td class=\"name\">{}</td><td class=\"name\">{}</td>\
             <td{class}>{}</td><td>{}</td><td{class}>{}</td>",
            escape(&one.load),
            escape(&one.connection),
            figure(one.per_second),
            advise::size(f64::from(one.block_bytes)),
            figure(one.bytes_per_second / 1_048_576.0),
        );
        for time in [one.p50_us, one.p90_us, one.p99_us, one.p99_9_us, one.client_cpu_us] {
            let _ = write!(out, "<td>{}</td>", figure(time));
        }
        if has_server {
            let server = one.server_cpu_us.map_or_else(|| "–".into(), figure);
            let _ = write!(out, "<td>{server}</td>");
        }
        let _ = writeln!(out, "<td>{:.2}</td><td>{:.1} %</td></tr>", one.ratio, one.spread * 100.0);
    }
    out + "</tbody></table></div>\n"
}

/// A cell of the table: one digit behind the point, none of large figures.
fn figure(value: f64) -> String {
    let digits = usize::from(value < 1000.0);
    format!("{value:.digits$}")
}
