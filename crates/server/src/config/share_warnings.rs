//! Warnings about the directories of shares: the whole system, and file systems that cannot store
//! what clients set.

use super::{Problem, ServerConfig, ShareConfig};
use crate::backend;

impl ServerConfig {
    /// Warnings about the directories of all shares. Looks at their file systems.
    pub(super) fn directory_warnings(&self) -> impl Iterator<Item = Problem> {
        self.shares.iter().flat_map(|share| {
            let texts = [share.whole_system(), share.lacking_attributes()];
            let line = share.line;
            let name = &share.name;
            texts
                .into_iter()
                .flatten()
                .map(move |text| Problem { line, text: format!("share {name}: {text}") })
        })
    }
}

impl ShareConfig {
    fn whole_system(&self) -> Option<String> {
        let path = self.path.display().to_string();
        let is_root = path.split('/').all(|part| matches!(part, "" | "."));
        is_root.then(|| {
            "path = \"/\" serves the whole system with its settings, its password hashes and all \
             disks; serve a directory below it, such as /srv/data"
                .to_owned()
        })
    }

    fn lacking_attributes(&self) -> Option<String> {
        let kind = backend::configured().lacks_attributes(&self.source())?;
        Some(format!(
            "{} is on {kind}, which has no extended attributes: DOS attributes, creation times, \
             Windows permissions and named streams cannot be stored; serve a directory on ext4, \
             XFS, btrfs or ZFS",
            self.path.display()
        ))
    }
}
