//! Several clients at once: processes of this machine, or of others over ssh, and their sum.

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::Value;
use std::io::Write;
use std::process::{Child, Command, Stdio};

/// Options of ours that a client's own command line does not have, and whether a value follows.
const OURS: [(&str, bool); 6] = [
    ("--clients", true),
    ("--hosts", true),
    ("--json", true),
    ("--quiet", false),
    ("-q", false),
    ("--password-stdin", false),
];

/// The report of one client.
#[derive(Clone, Debug, Serialize)]
pub struct ClientReport {
    /// Which: a number, or a number and its host.
    pub client: String,
    /// The client's report, as its `--json -` printed it.
    pub report: Value,
}

/// The sum of all clients' reports.
#[derive(Clone, Debug, Serialize)]
pub struct ClientsSum {
    /// Number of clients.
    pub clients: usize,
    /// Requests in a second, of all.
    pub per_second: f64,
    /// Payload in a second, of all.
    pub bytes_per_second: f64,
    /// The slowest client's 99th percentile, in microseconds.
    pub p99_us: f64,
    /// The report of each client.
    pub each: Vec<ClientReport>,
}

/// The command line of one client, from ours without the program's name.
fn line_of(ours: &[String]) -> Vec<String> {
    let mut line: Vec<String> =
        ["bench", "--json", "-", "--quiet", "--password-stdin"].map(str::to_owned).to_vec();
    let mut words = ours.iter().skip(1).peekable();
    while let Some(word) = words.next() {
        // Words after `--` belong to another program's command line.
        if word == "--" {
            line.push(word.clone());
            line.extend(words.cloned());
            break;
        }
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        match OURS.iter().find(|(ours, _)| *ours == name) {
            Some((_, true)) if !word.contains('=') => {
                let is_value = |next: &String| next == "-" || !next.starts_with('-');
                // The value of `--json` may be missing.
                words.next_if(|next| is_value(next));
            }
            Some(_) => {}
            None => line.push(word.clone()),
        }
    }
    line
}

/// A word that a remote shell takes as it is.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

fn start(host: Option<&str>, line: &[String], password: &str) -> Result<Child> {
    let mut command = match host {
        None => {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(line);
            command
        }
        Some(host) => {
            if host.is_empty() || host.starts_with('-') {
                bail!("{host:?} is not a host name");
            }
            let words: Vec<String> = line.iter().map(|word| quoted(word)).collect();
            let mut command = Command::new("ssh");
            command
                .args(["-o", "BatchMode=yes", host])
                .arg(format!("anabranch {}", words.join(" ")));
            command
        }
    };
    let mut child = command
        .env_remove("ANABRANCH_PASSWORD")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| {
            format!("cannot start a client{}", host.map(|h| format!(" on {h}")).unwrap_or_default())
        })?;
    if let Some(mut stdin) = child.stdin.take() {
        // A client that has already ended reports the cause by its exit status.
        let _ = writeln!(stdin, "{password}");
    }
    Ok(child)
}

/// Runs the clients at the same time on each host, or on this machine, and sums their reports.
pub fn measure(clients: usize, hosts: &[String], password: &str) -> Result<ClientsSum> {
    let ours: Vec<String> = std::env::args().skip(1).collect();
    let line = line_of(&ours);
    let mut running = Vec::new();
    for number in 1..=clients {
        if hosts.is_empty() {
            running.push((number.to_string(), start(None, &line, password)?));
        }
        for host in hosts {
            running.push((format!("{number} on {host}"), start(Some(host), &line, password)?));
        }
    }
    let mut each = Vec::new();
    for (client, child) in running {
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("client {client} failed: {}", output.status);
        }
        let report = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("client {client} returned no report"))?;
        let report: Value = report;
        if !report["per_second"].is_number() {
            bail!("--clients runs one load over one kind of connection");
        }
        each.push(ClientReport { client, report });
    }
    Ok(sum(each))
}

fn sum(each: Vec<ClientReport>) -> ClientsSum {
    let total = |key: &str| each.iter().filter_map(|one| one.report[key].as_f64()).sum();
    let operations = each.iter().filter_map(|one| one.report["operations"].as_array()).flatten();
    let p99 = operations.filter_map(|one| one["latency_us"]["p99"].as_f64());
    ClientsSum {
        clients: each.len(),
        per_second: total("per_second"),
        bytes_per_second: total("bytes_per_second"),
        p99_us: p99.fold(0.0, f64::max),
        each,
    }
}

impl ClientsSum {
    /// As a table, a line for each client.
    pub fn table(&self) -> String {
        let mut out = format!("{:<24}{:>12}{:>14}\n", "client", "/s", "payload/s");
        let line = |name: &str, rate: f64, bytes: f64| {
            format!("{name:<24}{rate:>12.0}{:>14}\n", advise::size(bytes.round()))
        };
        for one in &self.each {
            let figure = |key: &str| one.report[key].as_f64().unwrap_or_default();
            out += &line(&one.client, figure("per_second"), figure("bytes_per_second"));
        }
        out += &line("together", self.per_second, self.bytes_per_second);
        out + &format!("slowest p99: {:.0} µs\n", self.p99_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_bench_client_gets_load_options_without_local_ones() {
        let ours =
            "bench smb://a@h/s --clients 5 --block 4K --json=x.json --hosts a,b -q fio -- --json";
        let ours: Vec<String> = ours.split(' ').map(str::to_owned).collect();
        let line = line_of(&ours).join(" ");
        assert_eq!(
            line,
            "bench --json - --quiet --password-stdin smb://a@h/s --block 4K fio -- --json"
        );
        let ours = "bench --json --clients 5 smb://a@h/s --json".split(' ').map(str::to_owned);
        let ours: Vec<String> = ours.collect();
        let line = line_of(&ours).join(" ");
        assert_eq!(line, "bench --json - --quiet --password-stdin smb://a@h/s");
        assert_eq!(quoted("it's; rm"), "'it'\\''s; rm'");
    }

    #[test]
    fn client_reports_sum_rates_and_keep_the_slowest_p99() {
        let one = |rate: f64, p99: f64| ClientReport {
            client: "1".into(),
            report: serde_json::json!({
                "per_second": rate, "bytes_per_second": rate * 4096.0,
                "operations": [{ "latency_us": { "p99": p99 } }],
            }),
        };
        let all = sum(vec![one(10.0, 5.0), one(20.0, 50.0)]);
        assert_eq!((all.clients, all.per_second, all.p99_us), (2, 30.0, 50.0));
        assert_eq!(all.bytes_per_second, 30.0 * 4096.0);
    }
}
