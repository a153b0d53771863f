//! Interface facts that only sysfs has: the speed and the active queues.

use super::select::SystemInterface;
use std::path::Path;

/// Adds the known facts. A mounted sysfs may show another network namespace; it is ignored if the
/// interface index differs.
pub fn complete(link: &mut SystemInterface) {
    let folder = Path::new("/sys/class/net").join(&link.name);
    let number = |file: &str| {
        let text = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
        text.trim().parse::<i64>().ok()
    };
    if link.name.contains('/') || number("ifindex") != Some(i64::from(link.index)) {
        return;
    }
    // In megabits per second; -1 or an error without a carrier.
    let megabits = number("speed").and_then(|m| u64::try_from(m).ok()).filter(|m| *m > 0);
    link.bits_per_second = megabits.map(|m| m * 1_000_000);
    let queues = std::fs::read_dir(folder.join("queues")).into_iter().flatten().flatten();
    let queues = queues.filter(|q| q.file_name().as_encoded_bytes().starts_with(b"rx-")).count();
    if let Some(queues) = u32::try_from(queues).ok().filter(|q| *q > 0) {
        link.queues = queues;
    }
}
