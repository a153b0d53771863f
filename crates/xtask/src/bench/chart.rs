//! Bar charts as SVG.

use std::fmt::Write;

/// Widths and heights in the picture's own units.
const LABELS: f64 = 330.0;
const BARS: f64 = 400.0;
const FIGURES: f64 = 80.0;
const BAR: f64 = 12.0;
const GAP: f64 = 8.0;
const TOP: f64 = 52.0;
/// Colour of each series, ours first; they differ in brightness, too.
const COLOURS: [&str; 2] = ["#1f77b4", "#c7c7c7"];

/// A chart with one bar for each series beside each name.
pub struct BarChart {
    title: String,
    series: Vec<String>,
    rows: Vec<(String, Vec<f64>)>,
}

impl BarChart {
    /// A chart without rows; at most two series.
    pub fn new<'a>(title: &str, series: impl IntoIterator<Item = &'a str>) -> Self {
        let series = series.into_iter().map(str::to_owned).collect();
        Self { title: title.to_owned(), series, rows: Vec::new() }
    }

    /// A name with one bar for each of the series.
    pub fn row(&mut self, name: &str, figures: impl IntoIterator<Item = f64>) {
        self.rows.push((name.to_owned(), figures.into_iter().collect()));
    }

    /// The picture.
    pub fn svg(&self) -> String {
        let row = BAR * self.series.len() as f64 + GAP;
        let height = TOP + row * self.rows.len() as f64;
        let width = LABELS + BARS + FIGURES;
        let most = self.rows.iter().flat_map(|(_, f)| f).copied().fold(f64::MIN_POSITIVE, f64::max);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"11\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"8\" y=\"18\" font-size=\"14\" font-weight=\"bold\">{}</text>\n",
            escape(&self.title)
        );
        for (at, name) in self.series.iter().enumerate() {
            let x = 8.0 + 130.0 * at as f64;
            let _ = writeln!(
                out,
                "<rect x=\"{x}\" y=\"28\" width=\"12\" height=\"12\" fill=\"{}\"/>\
                 <text x=\"{}\" y=\"38\">{}</text>",
                COLOURS[at % COLOURS.len()],
                x + 18.0,
                escape(name)
            );
        }
        for (at, (name, figures)) in self.rows.iter().enumerate() {
            self.draw_row(&mut out, TOP + row * at as f64, name, figures, most);
        }
        out + "</svg>\n"
    }

    fn draw_row(&self, out: &mut String, top: f64, name: &str, figures: &[f64], most: f64) {
        let middle = top + BAR * self.series.len() as f64 / 2.0 + 4.0;
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{middle}\" text-anchor=\"end\">{}</text>",
            LABELS - 8.0,
            escape(name)
        );
        for (at, figure) in figures.iter().enumerate() {
            let y = top + BAR * at as f64;
            let width = BARS * figure.max(0.0) / most;
            let _ = writeln!(
                out,
                "<rect x=\"{LABELS}\" y=\"{y}\" width=\"{width:.1}\" height=\"{}\" fill=\"{}\"/>\
                 <text x=\"{:.1}\" y=\"{}\">{}</text>",
                BAR - 1.0,
                COLOURS[at % COLOURS.len()],
                LABELS + width + 4.0,
                y + 10.0,
                short(*figure)
            );
        }
    }
}

/// Formats a figure with about three digits.
fn short(figure: f64) -> String {
    if figure >= 100.0 {
        format!("{figure:.0}")
    } else if figure >= 10.0 {
        format!("{figure:.1}")
    } else {
        format!("{figure:.2}")
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_bar_has_full_width_and_names_are_escaped() {
        let mut chart = BarChart::new("a < b", ["ours", "theirs"]);
        chart.row("one & two", [2.0, 4.0]);
        let svg = chart.svg();
        assert!(svg.contains("a &lt; b") && svg.contains("one &amp; two"));
        assert!(svg.contains("width=\"400.0\"") && svg.contains("width=\"200.0\""));
        assert!(svg.contains(">2.00</text>") && svg.contains(">4.00</text>"));
    }
}
