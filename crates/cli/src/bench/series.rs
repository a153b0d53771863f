//! Several loads over several kinds of connections, measured in turns.

use anyhow::{Context, Result};
use client::load::{LoadKind, LoaderRun, Plan, Report, Storage};
use serde::Serialize;

/// Digits of a ratio.
const DIGITS: usize = 2;

/// One load over one kind of connection, once.
#[derive(Clone, Debug, Serialize)]
pub struct LoadRun {
    /// Label of the kind of connection, as "channels 4"; empty if there is one kind.
    pub connection: String,
    /// The load in words.
    pub load: String,
    /// From 1.
    pub round: usize,
    /// Its figures.
    pub report: Report,
}

/// All rounds of one load over one kind of connection.
#[derive(Clone, Debug, Serialize)]
pub struct SeriesSummary {
    /// See [`LoadRun::connection`].
    pub connection: String,
    /// See [`LoadRun::load`].
    pub load: String,
    /// Size of a request.
    pub block_bytes: u32,
    /// Files that the requests are spread over.
    pub files: usize,
    /// Share of reads.
    pub read_percent: u8,
    /// At random places, not one after the other.
    pub random: bool,
    /// Requests in a second: the mean of the rounds.
    pub per_second: f64,
    /// Payload in a second: requests times their size.
    pub bytes_per_second: f64,
    /// Median time of a request, in microseconds.
    pub p50_us: f64,
    /// 90 of 100 are faster.
    pub p90_us: f64,
    /// 99 of 100 are.
    pub p99_us: f64,
    /// 999 of 1000 are.
    pub p99_9_us: f64,
    /// CPU time of this program for a request, in microseconds.
    pub client_cpu_us: f64,
    /// CPU time of the server for a request, if its process is known.
    pub server_cpu_us: Option<f64>,
    /// How far the rounds lie apart, as a part of their mean.
    pub spread: f64,
    /// Rate over that of the first kind of connection.
    pub ratio: f64,
}

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// The profile or the line, if there was one.
    pub name: String,
    /// Part of the times and sizes that was done.
    pub scale: f64,
    /// Each load of each round.
    pub runs: Vec<LoadRun>,
    /// The means of each load and kind of connection.
    pub summary: Vec<SeriesSummary>,
    /// Published results of the same loads on other machines.
    pub documents: Vec<&'static str>,
}

impl Series {
    /// From what was measured, in the order in which it was.
    pub fn new(name: &str, scale: f64, runs: Vec<LoadRun>) -> Self {
        let mut keys: Vec<(&str, &str)> = Vec::new();
        for run in &runs {
            let key = (run.load.as_str(), run.connection.as_str());
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys.sort_by_key(|(load, _)| runs.iter().position(|run| run.load == *load));
        let mut summary: Vec<SeriesSummary> =
            keys.iter().filter_map(|(load, connection)| summed(&runs, load, connection)).collect();
        for at in 0..summary.len() {
            let first = summary.iter().find(|one| one.load == summary[at].load);
            let base = first.map_or(0.0, |first| first.per_second);
            summary[at].ratio = if base > 0.0 { summary[at].per_second / base } else { 1.0 };
        }
        let documents = documents(name);
        Self { name: name.to_owned(), scale, runs, summary, documents }
    }

    /// The summary as a table.
    pub fn table(&self) -> String {
        let wide = |of: fn(&SeriesSummary) -> usize| self.summary.iter().map(of).max().unwrap_or(0);
        let (load, connection) =
            (wide(|one| one.load.chars().count()), wide(|one| one.connection.chars().count()));
        let mut out = String::new();
        if let Some(first) = self.runs.first() {
            let at = &first.report.environment;
            out += &format!("{}: {} {}\n", at.server, at.protocol, at.dialect);
        }
        if self.scale != 1.0 {
            out += &format!("{}: at {} of its original length and size\n", self.name, self.scale);
        }
        out += &format!(
            "\n{:<load$}  {:<connection$}  {:>10} x {:>8} = {:>11}/s  {:>9}  {:>9}  {:>6}  {:>7}\n",
            "", "", "/s", "size", "payload", "p50 µs", "p99 µs", "ratio", "spread"
        );
        for one in &self.summary {
            out += &format!(
                "{:<load$}  {:<connection$}  {:>10.0} x {:>8} = {:>11}/s  {:>9.0}  {:>9.0}  {:>5.DIGITS$}x  {:>6.1}%\n",
                one.load,
                one.connection,
                one.per_second,
                advise::size(f64::from(one.block_bytes)),
                advise::size(one.bytes_per_second.round()),
                one.p50_us,
                one.p99_us,
                one.ratio,
                one.spread * 100.0
            );
        }
        if !self.documents.is_empty() {
            out += "\npublished results, on other machines:\n";
            self.documents.iter().for_each(|line| out += &format!("  {line}\n"));
        }
        out
    }

    /// The summary as comma-separated values.
    pub fn csv(&self) -> String {
        let mut out = String::from(
            "load,connection,block_bytes,read_percent,per_second,bytes_per_second,p50_us,p90_us,p99_us,\
             p99_9_us,client_cpu_us,server_cpu_us,spread,ratio\n",
        );
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        for one in &self.summary {
            out += &format!(
                "{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
                quoted(&one.load),
                quoted(&one.connection),
                one.block_bytes,
                one.read_percent,
                one.per_second,
                one.bytes_per_second,
                one.p50_us,
                one.p90_us,
                one.p99_us,
                one.p99_9_us,
                one.client_cpu_us,
                one.server_cpu_us.map_or_else(String::new, |us| us.to_string()),
                one.spread,
                one.ratio
            );
        }
        out
    }
}

fn summed(runs: &[LoadRun], load: &str, connection: &str) -> Option<SeriesSummary> {
    let rounds: Vec<&Report> = runs
        .iter()
        .filter(|r| (r.load.as_str(), r.connection.as_str()) == (load, connection))
        .map(|r| &r.report)
        .collect();
    let mean = |of: &dyn Fn(&Report) -> f64| {
        rounds.iter().map(|report| of(report)).sum::<f64>() / rounds.len() as f64
    };
    let first = rounds.first()?;
    let rates: Vec<f64> = rounds.iter().map(|report| report.per_second).collect();
    let per_second = mean(&|report| report.per_second);
    let (low, high) = rates
        .iter()
        .fold((f64::MAX, 0.0f64), |(low, high), rate| (low.min(*rate), high.max(*rate)));
    // The slower of reads and writes: what an application waits for.
    let slowest = |report: &Report, of: fn(&client::load::Latency) -> f64| {
        report.operations.iter().map(|one| of(&one.latency_us)).fold(0.0, f64::max)
    };
    Some(SeriesSummary {
        connection: connection.to_owned(),
        load: load.to_owned(),
        block_bytes: first.plan.block_bytes,
        files: first.plan.files,
        read_percent: first.plan.read_percent,
        random: first.plan.random,
        per_second,
        bytes_per_second: mean(&|report| report.bytes_per_second),
        p50_us: mean(&|report| slowest(report, |l| l.p50)),
        p90_us: mean(&|report| slowest(report, |l| l.p90)),
        p99_us: mean(&|report| slowest(report, |l| l.p99)),
        p99_9_us: mean(&|report| slowest(report, |l| l.p99_9)),
        client_cpu_us: mean(&|report| by_request(report, report.client_cpu_seconds)),
        server_cpu_us: first
            .server_cpu_seconds
            .map(|_| mean(&|report| by_request(report, report.server_cpu_seconds.unwrap_or(0.0)))),
        spread: if per_second > 0.0 { (high - low) / per_second } else { 0.0 },
        ratio: 1.0,
    })
}

/// CPU time for each request, in microseconds.
fn by_request(report: &Report, seconds: f64) -> f64 {
    let requests = report.per_second * report.seconds;
    if requests > 0.0 { seconds * 1e6 / requests } else { 0.0 }
}

/// Published ratios of each profile, for comparison.
fn documents(name: &str) -> Vec<&'static str> {
    match name {
        "seed-multichannel" => vec![
            "many files: 2 to 4 times by four channels; reads 2 to 3, writes 3 to 4 times",
            "one file, small requests: about 10 % less",
        ],
        "seed-anf-random" => vec!["four channels are enough; 8 and 16 add almost nothing"],
        "seed-nconnect" => vec![
            "reads of all sizes 2 to 4 times, writes of 64 KiB and 1 MiB 3 times by nconnect 4",
        ],
        "seed-copy" => vec!["1 GB at 23 ms: 57 s over one channel, 33 s over four (1.73 times)"],
        _ => Vec::new(),
    }
}

/// Measures every load over every kind of connection in turns, so that disturbances hit all
/// alike. The runs have created their files; `turn_to` receives the index of the next kind.
pub async fn in_turns<S: Storage>(
    runs: &mut [(String, LoaderRun<S>)],
    plans: &[Plan],
    rounds: usize,
    server: Option<u32>,
    mut turn_to: impl FnMut(usize) -> Result<()>,
    mut tell: impl FnMut(&str),
) -> Result<Vec<LoadRun>> {
    let mut measured = Vec::new();
    let names_files = plans.windows(2).any(|pair| pair[0].files != pair[1].files);
    for plan in plans {
        for round in 1..=rounds {
            for (at, (connection, run)) in runs.iter_mut().enumerate() {
                turn_to(at)?;
                tell(&format!("{} {connection}, round {round}", plan.describe()));
                run.change(plan.clone())?;
                let report = run.measure(server, |_| {}).await.context(connection.clone())?;
                let (connection, load) = (connection.clone(), named(plan, names_files));
                measured.push(LoadRun { connection, load, round, report });
            }
        }
    }
    Ok(measured)
}

/// Short label of a load, with its number of files if the series varies them.
fn named(plan: &Plan, names_files: bool) -> String {
    match plan.work {
        LoadKind::Metadata => return "create, stat, list, delete".to_owned(),
        LoadKind::Unpack => return "create, stat, list".to_owned(),
        LoadKind::Folder => {
            return format!("create, open, close, delete beside {} files", plan.files);
        }
        LoadKind::Listing => return format!("listing {} files", plan.files),
        LoadKind::Usage(usage) => return usage.describe().to_owned(),
        LoadKind::Data | LoadKind::SmallFiles => {}
    }
    let mix = match plan.read_percent {
        100 => "read".to_owned(),
        0 => "write".to_owned(),
        percent => format!("{percent} % read"),
    };
    let order = if plan.random { "random" } else { "sequential" };
    let load = format!("{order} {} {mix}", advise::size(f64::from(plan.block_bytes)));
    if names_files { format!("{load}, files: {}", plan.files) } else { load }
}
