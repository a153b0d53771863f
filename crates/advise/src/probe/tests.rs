//! Tests that each layer is found, and that the lowest faulty one is blamed.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use super::*;

/// A host without faults and with this round trip time.
fn host(name: &str, round_trip_ms: f64) -> ProbedHost {
    let interface = InterfaceFacts { rss_capable: true, ..InterfaceFacts::default() };
    ProbedHost {
        name: name.into(),
        protocol: "SMB".into(),
        port: 445,
        address: Attempt::Done("192.0.2.1".into()),
        connects: Connects::new(3, vec![round_trip_ms; 3], None),
        negotiation: Attempt::Done(ServerNegotiation {
            ms: round_trip_ms + 1.0,
            dialect: "3.1.1".into(),
            capabilities: vec!["multichannel".into()],
            ..ServerNegotiation::default()
        }),
        session: Attempt::Done(ProbedSession {
            ms: 3.0 * round_trip_ms + 5.0,
            signing: "off".into(),
            cipher: "off".into(),
            channels_requested: 4,
            channels: 4,
            interfaces: Attempt::Done(vec![interface]),
            ..ProbedSession::default()
        }),
        share: Attempt::Done(round_trip_ms),
        small_reads: Attempt::Done(Reads {
            block_bytes: 4096,
            depth: 1,
            p50_ms: round_trip_ms + 0.1,
            ..Reads::default()
        }),
        large_reads: Attempt::Done(Reads {
            block_bytes: 1 << 20,
            depth: 8,
            bytes_per_second: 500e6,
            ..Reads::default()
        }),
    }
}

fn blamed(host: &ProbedHost) -> Option<(Layer, LayerState)> {
    culprit(&judge(host)).map(|one| (one.layer, one.state))
}

#[test]
fn healthy_host_is_good_in_every_layer() {
    let verdicts = judge(&host("a", 0.2));
    assert!(verdicts.iter().all(|one| one.state == LayerState::Good), "{verdicts:#?}");
    assert_eq!(culprit(&verdicts), None);
}

#[test]
fn lowest_broken_layer_is_the_verdict_with_a_remedy() {
    type Break = fn(&mut ProbedHost);
    let cases: [(Layer, Break); 6] = [
        (Layer::Name, |h| h.address = Attempt::Failed("no such host".into())),
        (Layer::Network, |h| {
            h.connects = Connects::new(3, Vec::new(), Some("connection refused".into()));
        }),
        (Layer::Negotiation, |h| h.negotiation = Attempt::Failed("not SMB".into())),
        (Layer::Session, |h| h.session = Attempt::Failed("LOGON_FAILURE".into())),
        (Layer::Share, |h| h.share = Attempt::Failed("BAD_NETWORK_NAME".into())),
        (Layer::SmallReads, |h| h.small_reads = Attempt::Failed("ACCESS_DENIED".into())),
    ];
    for (layer, spoil) in cases {
        let mut spoiled = host("a", 0.2);
        spoil(&mut spoiled);
        // Faults in higher layers must not distract.
        spoiled.large_reads = Attempt::Failed("lost".into());
        let verdicts = judge(&spoiled);
        let found = culprit(&verdicts).unwrap();
        assert_eq!((found.layer, found.state), (layer, LayerState::Broken));
        assert!(found.remedy.is_some(), "{layer:?}");
    }
}

#[test]
fn slow_layer_is_distinguished_from_the_network() {
    let mut slow = host("a", 0.2);
    slow.connects.p99_ms = 40.0;
    assert_eq!(blamed(&slow), Some((Layer::Network, LayerState::Slow)), "unsteady");
    assert_eq!(blamed(&host("a", 23.0)), Some((Layer::Network, LayerState::Slow)), "distant");
    let mut slow = host("a", 0.2);
    slow.connects.lost = 1;
    assert_eq!(blamed(&slow), Some((Layer::Network, LayerState::Slow)), "lossy");
    let mut slow = host("a", 0.2);
    slow.session = match slow.session {
        Attempt::Done(session) => Attempt::Done(ProbedSession { ms: 4000.0, ..session }),
        other => other,
    };
    assert_eq!(blamed(&slow), Some((Layer::Session, LayerState::Slow)));
    let mut slow = host("a", 0.2);
    slow.small_reads = Attempt::Done(Reads { p50_ms: 25.0, ..Reads::default() });
    assert_eq!(blamed(&slow), Some((Layer::SmallReads, LayerState::Slow)));
    let mut slow = host("a", 0.2);
    slow.large_reads = Attempt::Done(Reads { bytes_per_second: 9e6, ..Reads::default() });
    assert_eq!(blamed(&slow), Some((Layer::LargeReads, LayerState::Slow)));
}

fn with_channels(mut host: ProbedHost, channels: usize) -> ProbedHost {
    if let Attempt::Done(session) = &mut host.session {
        session.channels = channels;
    }
    host
}

#[test]
fn missing_multichannel_refusal_and_missing_rss_differ() {
    let remedy = |host: &ProbedHost| {
        let verdicts = judge(host);
        let one = verdicts.into_iter().find(|one| one.layer == Layer::Channels).unwrap();
        assert_eq!(one.state, LayerState::Slow);
        one.remedy.unwrap()
    };
    let single = with_channels(host("a", 0.2), 1);
    assert!(remedy(&single).contains("refuses"));
    let mut plain = single.clone();
    if let Attempt::Done(session) = &mut plain.session {
        session.interfaces = Attempt::Done(vec![InterfaceFacts::default()]);
    }
    assert!(remedy(&plain).contains("rss = true"));
    let mut without = single;
    without.negotiation = Attempt::Done(ServerNegotiation {
        dialect: "3.1.1".into(),
        ..ServerNegotiation::default()
    });
    assert!(remedy(&without).contains("Multichannel"));
}

#[test]
fn equal_latency_with_fewer_channels_excludes_the_network() {
    let quick = host("vm", 23.0);
    let mut slow = with_channels(host("endpoint", 23.4), 1);
    slow.large_reads = Attempt::Done(Reads { bytes_per_second: 290e6, ..Reads::default() });
    let lines = compare(&[quick.clone(), slow.clone()]).join("\n");
    assert!(lines.contains("similar, so the network does not explain the difference"), "{lines}");
    assert!(lines.contains("1.72 times as fast"), "{lines}");
    assert!(lines.contains("Multichannel explains the difference"), "{lines}");
    let far = compare(&[quick, host("far", 80.0)]).join("\n");
    assert!(far.contains("start with the network"), "{far}");
}

#[test]
fn report_has_four_chapters_and_escapes_names() {
    let mut odd = host("a|b\n# c<script>", 0.3);
    odd.negotiation = Attempt::Failed("not SMB".into());
    let text = story(&[host("vm", 23.0), odd]);
    for part in [
        "## Scenario",
        "## Network layer",
        "## Application layer",
        "## Outcome",
        "| vm:445 (SMB) | 3 | 0 | 23.00 |",
        "the negotiation layer is broken",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(!text.contains("\n# c") && !text.contains("<script"), "{text}");
}

#[test]
fn connect_statistics_of_no_connects_do_not_divide_by_zero() {
    let times = (1..=200).map(f64::from).collect();
    let all = Connects::new(210, times, Some("timed out".into()));
    assert_eq!((all.lost, all.min_ms, all.max_ms, all.p99_ms), (10, 1.0, 200.0, 198.0));
    assert!((all.avg_ms - 100.5).abs() < 1e-9);
    let none = Connects::new(2, Vec::new(), None);
    assert_eq!((none.lost, none.avg_ms), (2, 0.0));
}
