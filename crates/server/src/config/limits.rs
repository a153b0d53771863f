//! Class, size and limits of a share: parsing and meaning.

use super::meaning::ConfigInterpreter;
use super::values::parse_size;
use super::{ConfigError, ShareConfig, suggest};
use limits::{Limits, PROVISIONED_GIB_MAX, PROVISIONED_GIB_MIN, PerformanceClass, Provision};
use serde::Deserialize;
use std::ops::RangeInclusive;
use std::path::Path;
use toml::Spanned;

/// Lower bounds exist because clients time out below them.
const IOPS: RangeInclusive<u64> = 10..=100_000_000;
const THROUGHPUT: RangeInclusive<u64> = (1 << 20)..=(1 << 40);
const THROUGHPUT_MIB: RangeInclusive<u64> = 1..=1 << 20;
/// Opens also count against the limit of their session.
const HANDLES: RangeInclusive<u64> = 1..=1 << 20;

/// Keys of the `limits` table.
const KEYS: &[&str] = &[
    "bandwidth",
    "burst_iops",
    "egress",
    "file_bandwidth",
    "file_egress",
    "file_handles",
    "file_ingress",
    "file_iops",
    "file_read_iops",
    "file_write_iops",
    "ingress",
    "iops",
    "metadata_iops",
    "read_iops",
    "root_handles",
    "write_iops",
];

/// The `limits` table of a share. Throughput is in bytes per second, for example `"100 MiB"`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLimits {
    /// Operations per second.
    iops: Option<Spanned<u64>>,
    /// Operations per second while credits last, which accrue below `iops`.
    burst_iops: Option<Spanned<u64>>,
    /// Reads per second.
    read_iops: Option<Spanned<u64>>,
    /// Writes per second.
    write_iops: Option<Spanned<u64>>,
    /// Name and attribute operations per second.
    metadata_iops: Option<Spanned<u64>>,
    /// Bytes read and written per second.
    bandwidth: Option<Spanned<String>>,
    /// Bytes written per second.
    ingress: Option<Spanned<String>>,
    /// Bytes read per second.
    egress: Option<Spanned<String>>,
    /// Operations per second on one file.
    file_iops: Option<Spanned<u64>>,
    /// Reads per second of one file.
    file_read_iops: Option<Spanned<u64>>,
    /// Writes per second to one file.
    file_write_iops: Option<Spanned<u64>>,
    /// Bytes read from and written to one file per second.
    file_bandwidth: Option<Spanned<String>>,
    /// Bytes written to one file per second.
    file_ingress: Option<Spanned<String>>,
    /// Bytes read from one file per second.
    file_egress: Option<Spanned<String>>,
    /// Concurrent opens of the share's root.
    root_handles: Option<Spanned<u64>>,
    /// Concurrent opens of any other file or directory.
    file_handles: Option<Spanned<u64>>,
}

/// Class, size and limits before their checks.
#[derive(Debug, Default)]
pub(super) struct RawProvision {
    pub class: Option<Spanned<String>>,
    pub gib: Option<Spanned<u64>>,
    pub iops: Option<Spanned<u64>>,
    pub mib_per_second: Option<Spanned<u64>>,
    pub limits: Option<RawLimits>,
}

impl ConfigInterpreter<'_> {
    pub(super) fn provision(&mut self, raw: RawProvision, share: &mut ShareConfig) {
        let mut typed: Vec<(&str, std::ops::Range<usize>, String)> = Vec::new();
        let numbers = [
            ("provisioned_gib", raw.gib),
            ("provisioned_iops", raw.iops),
            ("provisioned_mib_per_second", raw.mib_per_second),
        ];
        let text = |value: Spanned<String>| (value.span(), value.into_inner());
        typed.extend(raw.class.map(text).map(|(span, text)| ("class", span, text)));
        for (key, value) in numbers {
            typed.extend(value.map(|value| (key, value.span(), value.get_ref().to_string())));
        }
        for (key, span, value) in typed {
            if let Err(what) = set_provision(&mut share.provision, key, &value) {
                self.wrong(span, what);
            }
        }
        if let Some(limits) = raw.limits {
            self.own_limits(limits, &mut share.provision.own);
        }
    }

    fn own_limits(&mut self, raw: RawLimits, own: &mut Limits) {
        let counts = [
            ("iops", raw.iops),
            ("burst_iops", raw.burst_iops),
            ("read_iops", raw.read_iops),
            ("write_iops", raw.write_iops),
            ("metadata_iops", raw.metadata_iops),
            ("file_iops", raw.file_iops),
            ("file_read_iops", raw.file_read_iops),
            ("file_write_iops", raw.file_write_iops),
            ("root_handles", raw.root_handles),
            ("file_handles", raw.file_handles),
        ];
        let flows = [
            ("bandwidth", raw.bandwidth),
            ("ingress", raw.ingress),
            ("egress", raw.egress),
            ("file_bandwidth", raw.file_bandwidth),
            ("file_ingress", raw.file_ingress),
            ("file_egress", raw.file_egress),
        ];
        for (key, value) in counts {
            let Some(value) = value else { continue };
            if let Err(what) = set_limit(own, key, &value.get_ref().to_string()) {
                self.wrong(value.span(), what);
            }
        }
        for (key, value) in flows {
            let Some(value) = value else { continue };
            if let Err(what) = set_limit(own, key, value.get_ref()) {
                self.wrong(value.span(), what);
            }
        }
    }
}

impl ShareConfig {
    /// Sets a class, size or limit key from the command line; returns false for other keys.
    pub(super) fn set_provision(&mut self, key: &str, value: &str) -> Result<bool, ConfigError> {
        let result = match key {
            "class" | "provisioned_gib" | "provisioned_iops" | "provisioned_mib_per_second" => {
                set_provision(&mut self.provision, key, value)
            }
            _ => match key.strip_prefix("limits.") {
                Some(key) => set_limit(&mut self.provision.own, key, value),
                None => return Ok(false),
            },
        };
        result.map(|()| true).map_err(ConfigError::of)
    }

    /// The share's provision, including other keys that affect its limits.
    #[must_use]
    pub fn provision(&self) -> Provision {
        Provision { metadata_cache: self.metadata_cache_bytes > 0, ..self.provision }
    }

    /// Contradictions among class, size and limits.
    pub(super) fn provision_contradictions(&self) -> Vec<String> {
        let (name, Provision { class, gib, iops, mib_per_second, own, .. }) =
            (&self.name, self.provision);
        let mut wrong = Vec::new();
        if class == PerformanceClass::Custom && (iops.is_some() || mib_per_second.is_some()) {
            wrong.push(format!("share {name}: provisioned_iops and provisioned_mib_per_second belong to class \"premium\" or \"standard\"; of class \"custom\", set limits.iops and limits.bandwidth"));
        }
        if class != PerformanceClass::Custom && gib.is_none() {
            wrong.push(format!("share {name}: class \"{}\" needs provisioned_gib, since its limits follow from its size", class.name()));
        }
        let limits = self.provision.limits();
        if own.burst_iops.is_some() && limits.share.iops.is_none() {
            wrong.push(format!(
                "share {name}: limits.burst_iops needs limits.iops, below which credits accrue"
            ));
        }
        if let (Some(burst), Some(base)) = (own.burst_iops, limits.share.iops)
            && burst < base
        {
            wrong.push(format!("share {name}: limits.burst_iops = {burst} is below iops = {base}"));
        }
        wrong
    }
}

/// Applies key changes to a provision and checks that they agree.
///
/// # Errors
/// A sentence with the remedy.
pub(crate) fn change_provision<'a>(
    name: &str,
    present: Provision,
    keys: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Provision, String> {
    let mut share = ShareConfig::new(name, Path::new("/"));
    share.provision = present;
    for (key, value) in keys {
        let known = share.set_provision(key, value).map_err(|error| error.to_string())?;
        if !known {
            return Err(format!("the key `{key}` cannot be changed at run time"));
        }
    }
    match share.provision_contradictions().into_iter().next() {
        Some(wrong) => Err(wrong),
        None => Ok(share.provision),
    }
}

/// Sets class, size or a provisioned rate.
///
/// # Errors
/// A sentence with the remedy.
pub(crate) fn set_provision(
    provision: &mut Provision,
    key: &str,
    value: &str,
) -> Result<(), String> {
    match key {
        "class" => {
            provision.class = PerformanceClass::of_name(value).ok_or_else(|| {
                format!("class = {value:?} is none of standard, premium and custom")
            })?;
        }
        "provisioned_gib" => {
            let range = PROVISIONED_GIB_MIN..=PROVISIONED_GIB_MAX;
            // A share without a class has no limits that follow from its size.
            let range =
                if provision.class == PerformanceClass::Custom { 1..=*range.end() } else { range };
            provision.gib = unless_default(value, || number(key, value, range))?;
        }
        "provisioned_iops" => {
            provision.iops = unless_default(value, || number(key, value, IOPS))?;
        }
        "provisioned_mib_per_second" => {
            provision.mib_per_second =
                unless_default(value, || number(key, value, THROUGHPUT_MIB))?;
        }
        _ => return Err(format!("a share has no key `{key}`")),
    }
    Ok(())
}

/// Sets one explicit limit.
///
/// # Errors
/// A sentence with the remedy.
pub(crate) fn set_limit(own: &mut Limits, key: &str, value: &str) -> Result<(), String> {
    let shown = format!("limits.{key}");
    let rates = if key.starts_with("file_") { &mut own.file } else { &mut own.share };
    let iops = || unless_default(value, || number(&shown, value, IOPS));
    let flow = || unless_default(value, || throughput(&shown, value));
    let handles = || {
        let count = unless_default(value, || number(&shown, value, HANDLES))?;
        Ok::<_, String>(count.and_then(|count| u32::try_from(count).ok()))
    };
    match key {
        "iops" | "file_iops" => rates.iops = iops()?,
        "read_iops" | "file_read_iops" => rates.read_iops = iops()?,
        "write_iops" | "file_write_iops" => rates.write_iops = iops()?,
        "bandwidth" | "file_bandwidth" => rates.bandwidth = flow()?,
        "ingress" | "file_ingress" => rates.ingress = flow()?,
        "egress" | "file_egress" => rates.egress = flow()?,
        "burst_iops" => own.burst_iops = iops()?,
        "metadata_iops" => own.metadata_iops = iops()?,
        "root_handles" => own.root_handles = handles()?,
        "file_handles" => own.file_handles = handles()?,
        _ => return Err(format!("a share has no limit `{key}`{}", suggest::hint(key, KEYS))),
    }
    Ok(())
}

/// Returns `None` for the word `default`, which restores the class's value.
fn unless_default<T>(
    value: &str,
    parse: impl FnOnce() -> Result<T, String>,
) -> Result<Option<T>, String> {
    if value == "default" { Ok(None) } else { parse().map(Some) }
}

fn number(key: &str, value: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    let number = value.parse().map_err(|_| format!("{key} = {value:?} is not a number"))?;
    if range.contains(&number) {
        return Ok(number);
    }
    Err(format!("{key} = {number} is not between {} and {}", range.start(), range.end()))
}

fn throughput(key: &str, value: &str) -> Result<u64, String> {
    let bytes = parse_size(key, value).map_err(|_| {
        format!("{key} = {value:?} is not a throughput per second, such as \"100 MiB\"")
    })?;
    if THROUGHPUT.contains(&bytes) {
        return Ok(bytes);
    }
    Err(format!("{key} = {value:?} is not between 1 MiB and 1 TiB per second"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ServerConfig;

    fn parse(keys: &str) -> Result<ShareConfig, String> {
        let text = format!("[[share]]\nname = \"data\"\npath = \"/\"\n{keys}");
        let config = ServerConfig::parse(&text).map_err(|error| error.to_string())?;
        Ok(config.shares.into_iter().next().unwrap())
    }

    #[test]
    fn share_limits_are_parsed_with_class_and_size() {
        let keys = "class = \"premium\"\nprovisioned_gib = 1024\nmetadata_cache = \"off\"\nlimits = { egress = \"50 MiB\", file_iops = 500 }";
        let provision = parse(keys).unwrap().provision();
        let limits = provision.limits();
        assert_eq!((provision.class, provision.gib), (PerformanceClass::Premium, Some(1024)));
        assert_eq!((limits.share.iops, limits.burst_iops), (Some(4024), Some(10_000)));
        assert_eq!((limits.share.egress, limits.file.iops), (Some(50 << 20), Some(500)));
        assert_eq!(limits.metadata_iops, Some(12_000), "without a cache of names");
        assert!(!parse("").unwrap().provision().limits().is_any());
    }

    #[test]
    fn command_line_sets_the_same_keys_as_the_file() {
        let mut share = ShareConfig::new("data", Path::new("/"));
        let keys = [
            ("class", "custom"),
            ("limits.iops", "100"),
            ("limits.burst_iops", "300"),
            ("limits.ingress", "10 MiB"),
            ("limits.file_handles", "3"),
        ];
        keys.iter().for_each(|(key, value)| share.set(key, value).unwrap());
        let limits = share.provision().limits();
        assert_eq!((limits.share.iops, limits.credits_max()), (Some(100), 720_000));
        assert_eq!((limits.share.ingress, limits.file_handles), (Some(10 << 20), Some(3)));
        let wrong = share.set("limits.iopps", "1").unwrap_err().to_string();
        assert!(wrong.contains("no limit `iopps`") && wrong.contains("`iops`"), "{wrong}");
    }

    #[test]
    fn contradictory_limits_are_reported_with_the_remedy() {
        let table = [
            ("class = \"gold\"", "line 4: class = \"gold\" is none of"),
            ("class = \"premium\"", "needs provisioned_gib"),
            (
                "class = \"premium\"\nprovisioned_gib = 99",
                "line 5: provisioned_gib = 99 is not between 100 and",
            ),
            ("provisioned_iops = 5000", "belong to class"),
            ("limits = { iops = 1 }", "limits.iops = 1 is not between 10 and"),
            (
                "limits = { egress = \"fast\" }",
                "is not a throughput per second, such as \"100 MiB\"",
            ),
            ("limits = { egress = \"1 KiB\" }", "is not between 1 MiB and 1 TiB"),
            ("limits = { burst_iops = 100 }", "needs limits.iops"),
            ("limits = { iops = 100, burst_iops = 50 }", "is below iops = 100"),
            ("limits = { iop = 100 }", "unknown key `iop`"),
        ];
        for (keys, says) in table {
            let error = parse(keys).unwrap_err();
            assert!(error.contains(says), "{keys}: {error}");
        }
    }
}
