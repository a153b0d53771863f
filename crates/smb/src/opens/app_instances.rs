//! Opens by application instance. When an application fails over to another machine, the opens of
//! its first instance are closed. MS-SMB2 3.3.5.9.13.

use crate::opens::create_guids::Guid;
use std::collections::HashMap;
use std::sync::Arc;
use sync::Mutex;
use wire::smb::AppInstanceVersion;

/// The application instance contexts of a CREATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppInstance {
    /// AppInstanceId.
    pub id: Guid,
    /// AppInstanceVersion, if the client sent it.
    pub version: Option<AppInstanceVersion>,
}

/// An open of an application instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceOpen {
    /// FileId.Persistent of the open.
    pub open: u64,
    /// GUID of its client.
    pub client: Guid,
    /// See [`AppInstance::version`].
    pub version: Option<AppInstanceVersion>,
}

type InstanceTable = HashMap<Guid, Vec<InstanceOpen>>;

/// The opens of all application instances.
#[derive(Debug, Default)]
pub struct AppInstances {
    by_id: Arc<Mutex<InstanceTable>>,
}

/// An open's entry in the list. Dropping it removes the entry.
#[derive(Debug)]
pub struct InstanceEntry {
    by_id: Arc<Mutex<InstanceTable>>,
    id: Guid,
    open: u64,
}

impl AppInstances {
    /// Adds an open.
    #[must_use]
    pub fn enter(&self, instance: AppInstance, open: u64, client: Guid) -> InstanceEntry {
        let member = InstanceOpen { open, client, version: instance.version };
        self.by_id.lock().entry(instance.id).or_default().push(member);
        InstanceEntry { by_id: self.by_id.clone(), id: instance.id, open }
    }

    /// The opens that other clients than `client` have for an application instance.
    #[must_use]
    pub fn of_others(&self, id: Guid, client: Guid) -> Vec<InstanceOpen> {
        let by_id = self.by_id.lock();
        let members = by_id.get(&id).into_iter().flatten();
        members.filter(|member| member.client != client).copied().collect()
    }
}

impl Drop for InstanceEntry {
    fn drop(&mut self) {
        let mut by_id = self.by_id.lock();
        if let Some(members) = by_id.get_mut(&self.id) {
            members.retain(|member| member.open != self.open);
            if members.is_empty() {
                by_id.remove(&self.id);
            }
        }
    }
}

impl AppInstance {
    /// True if the existing open must stay: its version is equal or higher, or only it has a
    /// version.
    #[must_use]
    pub fn is_older_than(&self, present: Option<AppInstanceVersion>) -> bool {
        present.is_some_and(|present| self.version.is_none_or(|version| present >= version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Guid = [1; 16];

    fn instance(low: Option<u64>) -> AppInstance {
        let version = low.map(|low| AppInstanceVersion { high: 0, low });
        AppInstance { id: ID, version }
    }

    #[test]
    fn instance_opens_of_other_clients_are_found_until_dropped() {
        let all = AppInstances::default();
        let first = all.enter(instance(None), 1, [2; 16]);
        let second = all.enter(instance(None), 2, [3; 16]);
        let opens = |client| -> Vec<u64> {
            all.of_others(ID, client).iter().map(|member| member.open).collect()
        };
        assert_eq!((opens([2; 16]), opens([9; 16])), (vec![2], vec![1, 2]));
        assert!(all.of_others([9; 16], [9; 16]).is_empty());
        drop(first);
        assert_eq!(opens([9; 16]), [2]);
        drop(second);
        assert!(all.by_id.lock().is_empty());
    }

    #[test]
    fn existing_instance_yields_to_a_later_version_only() {
        let present = instance(Some(5)).version;
        assert!(!instance(None).is_older_than(None) && !instance(Some(1)).is_older_than(None));
        assert!(instance(None).is_older_than(present));
        assert!(instance(Some(4)).is_older_than(present));
        assert!(instance(Some(5)).is_older_than(present));
        assert!(!instance(Some(6)).is_older_than(present));
    }
}
