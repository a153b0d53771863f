//! Compares hosts: if their lower layers are alike, the difference lies above.

use super::ProbedHost;

/// Relative difference up to which round trip times are alike.
const ALIKE: f64 = 0.25;
/// Absolute difference in milliseconds up to which they are alike.
const ALIKE_MS: f64 = 0.5;
/// Factor from which rates are different.
const DIFFERENT: f64 = 1.3;

/// Similarities of the hosts, and differences of each from the first.
#[must_use]
pub fn compare(hosts: &[ProbedHost]) -> Vec<String> {
    let reached: Vec<&ProbedHost> =
        hosts.iter().filter(|h| h.connects.lost < h.connects.count).collect();
    let Some((first, others)) = reached.split_first() else { return Vec::new() };
    others.iter().flat_map(|other| pair(first, other)).collect()
}

fn pair(a: &ProbedHost, b: &ProbedHost) -> Vec<String> {
    let (near, far) =
        (a.round_trip_ms().min(b.round_trip_ms()), a.round_trip_ms().max(b.round_trip_ms()));
    let alike = far - near <= ALIKE_MS.max(far * ALIKE);
    let mut out = vec![format!(
        "{} and {}: round trips of {:.2} and {:.2} ms: {}",
        a.place(),
        b.place(),
        a.round_trip_ms(),
        b.round_trip_ms(),
        if alike {
            "similar, so the network does not explain the difference; see the layers above"
        } else {
            "different, so start with the network"
        }
    )];
    let rate = |host: &ProbedHost| host.large_reads.done().map(|reads| reads.bytes_per_second);
    if let (Some(of_a), Some(of_b)) = (rate(a), rate(b)) {
        let factor = of_a.max(of_b) / of_a.min(of_b).max(1.0);
        if factor >= DIFFERENT {
            let (quick, slow) = if of_a > of_b { (a, b) } else { (b, a) };
            out.push(format!("large reads from {} are {factor:.2} times as fast", quick.place()));
            if alike {
                out.extend(reasons(quick, slow));
            }
        }
    }
    out
}

/// Properties of the quick host that the slow host lacks.
fn reasons(quick: &ProbedHost, slow: &ProbedHost) -> Vec<String> {
    let mut out = Vec::new();
    if let (Some(q), Some(s)) = (quick.session.done(), slow.session.done()) {
        if q.channels > s.channels {
            out.push(format!(
                "{} has {} connections, {} has {}: Multichannel explains the difference",
                quick.place(),
                q.channels,
                slow.place(),
                s.channels
            ));
        }
        if (&q.signing, &q.cipher) != (&s.signing, &s.cipher) {
            out.push(format!(
                "their protection differs: signing {} and {}, encryption {} and {}",
                q.signing, s.signing, q.cipher, s.cipher
            ));
        }
    }
    if let (Some(q), Some(s)) = (quick.negotiation.done(), slow.negotiation.done())
        && q.dialect != s.dialect
    {
        out.push(format!("their dialects differ: {} and {}", q.dialect, s.dialect));
    }
    if out.is_empty() {
        out.push(format!(
            "connections, protection and dialect are equal: {} itself is slower; check its \
             limits, disks and CPUs",
            slow.place()
        ));
    }
    out
}
