//! Judges a server layer by layer: the faulty or slow layer, and the remedy.
//!
//! The order is that of elimination: lower layers come first, and two hosts with alike lower layers
//! differ above them.

mod compare;
mod story;

pub use compare::compare;
pub use story::story;

use crate::{Attempt, InterfaceFacts};
use serde::Serialize;

/// Round trip time from which a host is distant: sequential requests pay for it.
pub const DISTANT_MS: f64 = 10.0;
/// A connect time is unsteady if its 99th percentile exceeds the minimum by this factor and by this
/// time.
const UNSTEADY_FACTOR: f64 = 5.0;
const UNSTEADY_MS: f64 = 5.0;
/// Time of a reply beyond the network's part: NEGOTIATE, logon, a small read.
const GREETING_MS: f64 = 100.0;
const LOGON_MS: f64 = 1000.0;
const SMALL_READ_MS: f64 = 10.0;
/// Round trips of a logon: NEGOTIATE, two legs, and a connect.
const LOGON_ROUND_TRIPS: f64 = 4.0;
/// Bytes in flight below which TCP windows limit a distant link.
const WINDOW_BYTES: f64 = 2.0 * 1024.0 * 1024.0;
/// Rate in bytes per second below which large reads are slow on any network.
const LARGE_READ_MIN: f64 = 30e6;

/// Statistics of repeated connects.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Connects {
    /// Attempts.
    pub count: usize,
    /// Attempts without an answer.
    pub lost: usize,
    /// Fastest in milliseconds.
    pub min_ms: f64,
    /// Mean.
    pub avg_ms: f64,
    /// Slowest.
    pub max_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// Error of the last failed attempt.
    pub failure: Option<String>,
}

impl Connects {
    /// Computes the statistics from the times of successful attempts, in milliseconds.
    #[must_use]
    pub fn new(count: usize, mut times_ms: Vec<f64>, failure: Option<String>) -> Self {
        times_ms.sort_by(f64::total_cmp);
        let lost = count - times_ms.len().min(count);
        let (Some(min_ms), Some(max_ms)) = (times_ms.first(), times_ms.last()) else {
            return Self { count, lost, failure, ..Self::default() };
        };
        let rank = (times_ms.len() as f64 * 0.99).ceil() as usize;
        Self {
            count,
            lost,
            min_ms: *min_ms,
            avg_ms: times_ms.iter().sum::<f64>() / times_ms.len() as f64,
            max_ms: *max_ms,
            p99_ms: times_ms[rank.clamp(1, times_ms.len()) - 1],
            failure,
        }
    }
}

/// The server's first reply: NEGOTIATE, or the first calls of NFS.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ServerNegotiation {
    /// Its time on a fresh connection, in milliseconds.
    pub ms: f64,
    /// The negotiated dialect or version.
    pub dialect: String,
    /// Dialects or versions that the server accepts.
    pub dialects: Vec<String>,
    /// Ciphers that the server accepts.
    pub ciphers: Vec<String>,
    /// Signing algorithms that the server accepts.
    pub signing_algorithms: Vec<String>,
    /// Whether the server requires signing.
    pub signing_required: bool,
    /// Advertised capabilities.
    pub capabilities: Vec<String>,
    /// Largest READ, in bytes.
    pub read_bytes_max: u32,
    /// Largest WRITE, in bytes.
    pub write_bytes_max: u32,
}

/// An authenticated session.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProbedSession {
    /// Time of the logon including the connect, in milliseconds.
    pub ms: f64,
    /// Signing algorithm, or "off".
    pub signing: String,
    /// Cipher, or "off".
    pub cipher: String,
    /// Requested connections.
    pub channels_requested: usize,
    /// Established connections.
    pub channels: usize,
    /// Reason for which the server refused more connections.
    pub channel_refusal: Option<String>,
    /// Available credits of each connection, or slots of an NFS session.
    pub credits: Vec<u32>,
    /// Interfaces that the server advertises.
    pub interfaces: Attempt<Vec<InterfaceFacts>>,
}

/// A read measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Reads {
    /// Request size.
    pub block_bytes: u32,
    /// Requests in flight.
    pub depth: usize,
    /// Requests per second.
    pub per_second: f64,
    /// Payload bytes per second.
    pub bytes_per_second: f64,
    /// Median latency in milliseconds.
    pub p50_ms: f64,
    /// 99th percentile of the latency.
    pub p99_ms: f64,
}

/// Results for one port of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProbedHost {
    /// Name as given.
    pub name: String,
    /// SMB or NFS.
    pub protocol: String,
    /// Port.
    pub port: u16,
    /// Its address, once resolved.
    pub address: Attempt<String>,
    /// Connect statistics.
    pub connects: Connects,
    /// First reply.
    pub negotiation: Attempt<ServerNegotiation>,
    /// Session.
    pub session: Attempt<ProbedSession>,
    /// Time to connect to the share or export, in milliseconds.
    pub share: Attempt<f64>,
    /// Small reads, one at a time.
    pub small_reads: Attempt<Reads>,
    /// Large reads, several at a time.
    pub large_reads: Attempt<Reads>,
}

impl ProbedHost {
    /// Round trip time by the fastest connect, in milliseconds.
    #[must_use]
    pub fn round_trip_ms(&self) -> f64 {
        self.connects.min_ms
    }

    /// Name and port.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{}:{} ({})", self.name, self.port, self.protocol)
    }
}

/// The layers, from the lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Name resolution.
    Name,
    /// TCP.
    Network,
    /// NEGOTIATE, or the first calls of NFS.
    Negotiation,
    /// Logon.
    Session,
    /// The share or export.
    Share,
    /// Several connections.
    Channels,
    /// Small reads.
    SmallReads,
    /// Large reads.
    LargeReads,
}

impl Layer {
    /// The displayed name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Network => "network (TCP)",
            Self::Negotiation => "negotiation",
            Self::Session => "session",
            Self::Share => "share",
            Self::Channels => "channels",
            Self::SmallReads => "small reads",
            Self::LargeReads => "large reads",
        }
    }
}

/// State of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerState {
    /// No problem.
    Good,
    /// Not tested.
    NotTested,
    /// It works, but costs more than it should.
    Slow,
    /// It does not work.
    Broken,
}

/// The verdict on one layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The layer.
    pub layer: Layer,
    /// Its state.
    pub state: LayerState,
    /// The finding.
    pub result: String,
    /// The remedy, if one is needed.
    pub remedy: Option<String>,
}

fn verdict(layer: Layer, state: LayerState, result: String, remedy: Option<&str>) -> Verdict {
    Verdict { layer, state, result, remedy: remedy.map(str::to_owned) }
}

/// Verdicts on all layers, from the lowest.
#[must_use]
pub fn judge(host: &ProbedHost) -> Vec<Verdict> {
    vec![
        name(host),
        network(host),
        negotiation(host),
        session(host),
        share(host),
        channels(host),
        small_reads(host),
        large_reads(host),
    ]
}

/// The layer to investigate: the lowest broken one, else the lowest slow one.
#[must_use]
pub fn culprit(verdicts: &[Verdict]) -> Option<&Verdict> {
    let lowest = |state| verdicts.iter().find(|verdict| verdict.state == state);
    lowest(LayerState::Broken).or_else(|| lowest(LayerState::Slow))
}

fn name(host: &ProbedHost) -> Verdict {
    let layer = Layer::Name;
    match &host.address {
        Attempt::Done(address) => verdict(layer, LayerState::Good, address.to_string(), None),
        Attempt::NotTested => verdict(layer, LayerState::NotTested, "not tested".into(), None),
        Attempt::Failed(why) => {
            let remedy = "check the spelling and this machine's name servers; probe the address \
                          instead to test the other layers";
            verdict(layer, LayerState::Broken, why.clone(), Some(remedy))
        }
    }
}

fn network(host: &ProbedHost) -> Verdict {
    let (layer, c) = (Layer::Network, &host.connects);
    if c.count == 0 {
        return verdict(layer, LayerState::NotTested, "not tested".into(), None);
    }
    let result = format!(
        "{} of {} connects succeeded; min {:.2}, avg {:.2}, p99 {:.2}, max {:.2} ms",
        c.count - c.lost,
        c.count,
        c.min_ms,
        c.avg_ms,
        c.p99_ms,
        c.max_ms
    );
    if c.lost == c.count {
        let why = c.failure.as_deref().unwrap_or("no answer");
        let remedy = if why.contains("refused") {
            "the host refuses the port: start the server, or specify its port"
        } else {
            "a firewall or a missing route drops it: many networks block port 445 on the way out; \
             ask for the port to be opened, or use a VPN or a private endpoint"
        };
        return verdict(layer, LayerState::Broken, format!("no connection: {why}"), Some(remedy));
    }
    if c.lost > 0 {
        let remedy = "some connects fail: look for a full link, a failing path, or a firewall \
                      that limits connections, before the layers above";
        return verdict(layer, LayerState::Slow, result, Some(remedy));
    }
    if c.p99_ms > c.min_ms * UNSTEADY_FACTOR && c.p99_ms > c.min_ms + UNSTEADY_MS {
        let remedy = "the round-trip time varies: a queue on the path fills, or one of the \
                      machines is overloaded";
        return verdict(layer, LayerState::Slow, result, Some(remedy));
    }
    if c.min_ms >= DISTANT_MS {
        let remedy = "the round-trip time is high: move client and server closer together if \
                      possible; otherwise use several channels and many requests in flight (copy \
                      with several threads, not with a file manager)";
        return verdict(layer, LayerState::Slow, result, Some(remedy));
    }
    verdict(layer, LayerState::Good, result, None)
}

fn negotiation(host: &ProbedHost) -> Verdict {
    let layer = Layer::Negotiation;
    let facts = match &host.negotiation {
        Attempt::NotTested => {
            return verdict(layer, LayerState::NotTested, "not tested".into(), None);
        }
        Attempt::Failed(why) => {
            let remedy = match host.protocol.as_str() {
                "NFS" => {
                    "the listener does not support NFSv4.1: check the versions that the server \
                     is configured for"
                }
                _ => {
                    "the listener does not support SMB 2.1 or later: check the server's \
                     dialects, and look for a proxy on the path"
                }
            };
            return verdict(layer, LayerState::Broken, why.clone(), Some(remedy));
        }
        Attempt::Done(facts) => facts,
    };
    let mut result = format!("{} {} in {:.1} ms", host.protocol, facts.dialect, facts.ms);
    if !facts.ciphers.is_empty() {
        result += &format!("; ciphers {}", facts.ciphers.join(", "));
    }
    if !facts.signing_algorithms.is_empty() {
        let must = if facts.signing_required { "required" } else { "offered" };
        result += &format!("; signing {must}, {}", facts.signing_algorithms.join(", "));
    }
    if facts.ms > 2.0 * host.round_trip_ms() + GREETING_MS {
        let remedy = "the server's first reply is much slower than the network: the server is \
                      overloaded, or waits for a name server to resolve the client's name";
        return verdict(layer, LayerState::Slow, result, Some(remedy));
    }
    if host.protocol == "SMB" && facts.dialect != "3.1.1" {
        let remedy = "allow SMB 3.1.1 on the server: older dialects have weaker protection, and \
                      before 3.0 a session has one connection";
        return verdict(layer, LayerState::Slow, result, Some(remedy));
    }
    verdict(layer, LayerState::Good, result, None)
}

fn session(host: &ProbedHost) -> Verdict {
    let layer = Layer::Session;
    let facts = match &host.session {
        Attempt::NotTested => {
            return verdict(layer, LayerState::NotTested, "no user specified".into(), None);
        }
        Attempt::Failed(why) => {
            let remedy = match host.protocol.as_str() {
                "NFS" => {
                    "the server refused the session: check its NFS versions and which clients may \
                     connect"
                }
                _ => {
                    "check user, domain and password, the server's logon requirements (NTLM or \
                     Kerberos), and the clocks of both machines"
                }
            };
            return verdict(layer, LayerState::Broken, why.clone(), Some(remedy));
        }
        Attempt::Done(facts) => facts,
    };
    let result =
        format!("in {:.1} ms; signing {}, encryption {}", facts.ms, facts.signing, facts.cipher);
    if facts.ms > LOGON_ROUND_TRIPS * host.round_trip_ms() + LOGON_MS {
        let remedy = "the logon is slow but the network is not: the server may wait for its \
                      domain controller or user directory";
        return verdict(layer, LayerState::Slow, result, Some(remedy));
    }
    verdict(layer, LayerState::Good, result, None)
}

fn share(host: &ProbedHost) -> Verdict {
    let layer = Layer::Share;
    match &host.share {
        Attempt::NotTested => {
            verdict(layer, LayerState::NotTested, "no share specified".into(), None)
        }
        Attempt::Failed(why) => {
            let remedy = "check the share's name and its permitted users";
            verdict(layer, LayerState::Broken, why.clone(), Some(remedy))
        }
        Attempt::Done(ms) => {
            verdict(layer, LayerState::Good, format!("connected in {ms:.1} ms"), None)
        }
    }
}

fn channels(host: &ProbedHost) -> Verdict {
    let layer = Layer::Channels;
    let Attempt::Done(facts) = &host.session else {
        return verdict(layer, LayerState::NotTested, "no session".into(), None);
    };
    let mut result = format!("{} of {} connections", facts.channels, facts.channels_requested);
    if let Attempt::Done(interfaces) = &facts.interfaces {
        let rss = interfaces.iter().filter(|one| one.rss_capable).count();
        result += &format!("; {} interfaces advertised, {rss} with RSS", interfaces.len());
    }
    if facts.channels >= facts.channels_requested {
        return verdict(layer, LayerState::Good, result, None);
    }
    if let Some(refusal) = &facts.channel_refusal {
        result += &format!("; {refusal}");
    }
    let says = |name: &str| {
        host.negotiation.done().is_some_and(|g| g.capabilities.iter().any(|one| one == name))
    };
    let no_rss = facts.interfaces.done().is_some_and(|all| all.iter().all(|one| !one.rss_capable));
    let remedy = if !says("multichannel") {
        "the server does not support Multichannel: enable it there; until then, one connection \
         carries all traffic"
    } else if no_rss {
        "the server advertises no RSS-capable interface, so no further connections are opened: \
         enable RSS on its adapter, or advertise it (this server: rss = true under [multichannel])"
    } else {
        "the server refuses further channels: check its limit"
    };
    verdict(layer, LayerState::Slow, result, Some(remedy))
}

fn small_reads(host: &ProbedHost) -> Verdict {
    let layer = Layer::SmallReads;
    let facts = match &host.small_reads {
        Attempt::NotTested => {
            return verdict(layer, LayerState::NotTested, "not tested".into(), None);
        }
        Attempt::Failed(why) => {
            let remedy = "the probe creates files to read them: check the permissions on the \
                          share's directory";
            return verdict(layer, LayerState::Broken, why.clone(), Some(remedy));
        }
        Attempt::Done(facts) => facts,
    };
    let network = (host.round_trip_ms() / facts.p50_ms.max(f64::MIN_POSITIVE)).min(1.0) * 100.0;
    let result = format!(
        "{} one at a time: p50 {:.2}, p99 {:.2} ms; a connect takes {network:.0} % of p50",
        crate::size(f64::from(facts.block_bytes)),
        facts.p50_ms,
        facts.p99_ms
    );
    if facts.p50_ms > 2.0 * host.round_trip_ms() + SMALL_READ_MS {
        let remedy = "the reply takes much longer than the network: the server's disks or CPUs \
                      are busy, or a limit of the share throttles requests";
        return verdict(layer, LayerState::Slow, result, Some(remedy));
    }
    verdict(layer, LayerState::Good, result, None)
}

fn large_reads(host: &ProbedHost) -> Verdict {
    let layer = Layer::LargeReads;
    let facts = match &host.large_reads {
        Attempt::NotTested => {
            return verdict(layer, LayerState::NotTested, "not tested".into(), None);
        }
        Attempt::Failed(why) => return verdict(layer, LayerState::Broken, why.clone(), None),
        Attempt::Done(facts) => facts,
    };
    let rate = facts.bytes_per_second;
    let under_way = rate * host.round_trip_ms() / 1000.0;
    let channels = host.session.done().map_or(1, |session| session.channels.max(1));
    let result = format!(
        "{} at depth {}: {}/s over {channels} connection{}; {} in flight per round trip",
        crate::size(f64::from(facts.block_bytes)),
        facts.depth,
        crate::size(rate),
        if channels == 1 { "" } else { "s" },
        crate::size(under_way.round())
    );
    if rate >= LARGE_READ_MIN {
        return verdict(layer, LayerState::Good, result, None);
    }
    let remedy = if host.round_trip_ms() >= DISTANT_MS && under_way < WINDOW_BYTES * channels as f64
    {
        "at this round-trip time a connection's TCP window fills before the reply arrives: open \
         more channels (or raise nconnect), and permit TCP windows of several MiB on both ends"
    } else {
        "small reads are fast and large ones slow: the link, a limit of the share or the \
         server's disks is the bottleneck; check the interfaces' speeds, and watch the server \
         during the probe"
    };
    verdict(layer, LayerState::Slow, result, Some(remedy))
}

#[cfg(test)]
mod tests;
