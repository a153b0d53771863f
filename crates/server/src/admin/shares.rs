//! Operations on shares, and their space.

use super::AdminState;
use super::answer::{AdminAnswer, AdminRefusal, OperationInput};
use crate::accounts::system_users;
use crate::config::{ExportLine, ShareConfig};
use crate::shares::limits::ChangeRefusal;
use limits::{LimitsSnapshot, Provision, Rates};
use meter::Peak;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Instant;
use sync::Mutex;

const NO_SHARE: AdminRefusal = AdminRefusal::Missing("there is no such share");

/// Lists all shares.
pub fn list(state: &AdminState, input: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    let (shares, limits) = (state.shares.all(), state.limits.snapshots(Instant::now()));
    Ok(AdminAnswer::Json(input.page(&shares, |share| {
        let limits = limits.iter().find(|(name, _)| *name == share.name);
        shown(state, share, limits.map(|(_, snapshot)| snapshot))
    })))
}

/// Lists the NFS exports.
pub fn exports(state: &AdminState, input: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    let config = state.nfs.config();
    let has_paths = config.tree.has_paths();
    let shares = state.shares.all();
    let line = |export: &std::sync::Arc<nfs::Export>| {
        let share = shares.iter().find(|share| share.name.as_bytes() == export.name)?;
        Some(ExportLine::new(share, has_paths, export.reserved_ports))
    };
    let lines: Vec<ExportLine> = config.exports.iter().filter_map(line).collect();
    Ok(AdminAnswer::Json(input.page(&lines, ExportLine::json)))
}

/// Shows the limits of one share.
pub fn limits(state: &AdminState, input: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    let wanted = input.part("share").to_lowercase();
    let limits = state.limits.snapshots(Instant::now());
    let found = limits.iter().find(|(name, _)| name.to_lowercase() == wanted);
    let shown =
        |(name, snapshot): &(String, LimitsSnapshot)| limits_shown(snapshot, peak(state, name));
    found.map(shown).map(AdminAnswer::Json).ok_or(NO_SHARE)
}

/// Changes limits of a share: keys of its configuration, each with a value or `default`.
pub fn change(state: &AdminState, input: &OperationInput) -> Result<AdminAnswer, AdminRefusal> {
    let bad = || {
        AdminRefusal::Bad(
            "send keys of a share's configuration with values, as {\"class\": \"premium\", \
             \"limits.iops\": 500}, or with \"default\""
                .into(),
        )
    };
    let wish: &Map<String, Value> = input.body.as_object().ok_or_else(bad)?;
    let text = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err(bad()),
    };
    let keys = wish.iter().map(|(key, value)| Ok((key.as_str(), text(value)?)));
    let keys = keys.collect::<Result<Vec<_>, AdminRefusal>>()?;
    if keys.is_empty() {
        return Err(bad());
    }
    let pairs = keys.iter().map(|(key, value)| (*key, value.as_str()));
    let share = input.part("share");
    let changed = state.limits.change(share, pairs, Instant::now());
    let shown = |snapshot: LimitsSnapshot| limits_shown(&snapshot, peak(state, share));
    changed.map(shown).map(AdminAnswer::Json).map_err(|refusal| match refusal {
        ChangeRefusal::NoShare => NO_SHARE,
        ChangeRefusal::Wrong(why) => AdminRefusal::Bad(why),
        ChangeRefusal::TooSoon(why) => AdminRefusal::Conflict(why),
    })
}

fn rates(rates: &Rates) -> Value {
    json!({
        "iops": rates.iops,
        "read_iops": rates.read_iops,
        "write_iops": rates.write_iops,
        "bandwidth": rates.bandwidth,
        "ingress": rates.ingress,
        "egress": rates.egress,
    })
}

/// The busiest second of the share's last full minute.
fn peak(state: &AdminState, share: &str) -> Peak {
    state.files.meter().peak(share)
}

fn limits_shown(snapshot: &LimitsSnapshot, peak: Peak) -> Value {
    let LimitsSnapshot { provision, limits, credits, throttled, waiting, .. } = snapshot;
    let Provision { class, gib, iops, mib_per_second, .. } = provision;
    let throttled: Map<String, Value> =
        throttled.iter().map(|(why, count)| (why.name().to_owned(), json!(count))).collect();
    json!({
        "class": class.name(),
        "limited": limits.is_any(),
        "provisioned_gib": gib,
        "provisioned_iops": iops,
        "provisioned_mib_per_second": mib_per_second,
        "share": rates(&limits.share),
        "file": rates(&limits.file),
        "burst_iops": limits.burst_iops,
        "metadata_iops": limits.metadata_iops,
        "root_handles": limits.root_handles,
        "file_handles": limits.file_handles,
        "credits": credits.map(|credits| json!({
            "available": credits.held, "max": credits.max, "state": credits.state.name(),
        })),
        "throttled": throttled,
        "waiting": waiting,
        "peak_iops": peak.transactions_per_second,
        "peak_bytes_per_second": peak.bytes_per_second,
    })
}

fn shown(state: &AdminState, share: &ShareConfig, limits: Option<&LimitsSnapshot>) -> Value {
    let space = space(state, &share.name);
    json!({
        "name": share.name,
        "path": share.path.to_string_lossy(),
        "comment": share.comment,
        "read_only": share.read_only,
        "encryption_required": share.encryption_required,
        "continuously_available": share.continuously_available,
        "backend_latency_us": share.backend_latency_us,
        "nfs": state.nfs.config().export_named(share.name.as_bytes()).is_some(),
        "total_bytes": space.map(|(total, _)| total as u64),
        "free_bytes": space.map(|(_, free)| free as u64),
        "limits": limits.map(|limits| limits_shown(limits, peak(state, &share.name))),
    })
}

/// Last known space of the shares. Only one request at a time queries a file system, which may
/// hang; the others get the last known value.
#[derive(Debug, Default)]
pub struct Spaces(Mutex<BTreeMap<String, SpaceReading>>);

#[derive(Clone, Copy, Debug, Default)]
struct SpaceReading {
    is_asked: bool,
    space: Option<(f64, f64)>,
}

impl Spaces {
    fn look(&self, share: &str, ask: impl FnOnce() -> Option<(f64, f64)>) -> Option<(f64, f64)> {
        let lock = || self.0.lock();
        let before = {
            let mut all = lock();
            let seen = all.entry(share.to_owned()).or_default();
            std::mem::replace(seen, SpaceReading { is_asked: true, ..*seen })
        };
        if before.is_asked {
            return before.space;
        }
        let space = ask();
        lock().insert(share.to_owned(), SpaceReading { is_asked: false, space });
        space
    }
}

/// Total and free bytes of the share's file system; `None` if unknown.
pub fn space(state: &AdminState, share: &str) -> Option<(f64, f64)> {
    let config = state.server.config();
    let volume = config.share(share)?.volume.clone()?;
    state.spaces.look(share, || {
        let space = volume.vfs.space(system_users::own_identity().actor()).ok()?;
        Some((space.total_bytes as f64, space.available_bytes as f64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hanging_file_system_is_queried_once_and_old_space_returned() {
        let spaces = Spaces::default();
        assert_eq!(spaces.look("data", || Some((2.0, 1.0))), Some((2.0, 1.0)));
        let asked = spaces.look("data", || {
            let meanwhile = spaces.look("data", || unreachable!("it is being asked"));
            assert_eq!(meanwhile, Some((2.0, 1.0)));
            assert_eq!(spaces.look("other", || Some((4.0, 3.0))), Some((4.0, 3.0)));
            None
        });
        assert_eq!(asked, None);
        assert_eq!(spaces.look("data", || Some((2.0, 0.5))), Some((2.0, 0.5)));
    }
}
