//! Tests of the conversion of events to changes.

use super::*;

#[test]
fn added_and_removed_name_is_reported_in_fitting_order() {
    use ExternalChange::{Added, DataModified, Removed};
    let named = |name| ExternalName { name, is_directory: false };
    let name = Name::new(&b"f"[..]).unwrap();
    let [added, modified, removed] =
        [Added, DataModified, Removed].map(|change| change(named(name.clone())));
    let reported = |exists| {
        let name = name.clone();
        let both =
            NameEvent::Names { name, added: true, removed: true, attributes: false, data: true };
        changes(both, exists, &named)
    };
    assert_eq!(reported(false), [added.clone(), modified.clone(), removed.clone()]);
    assert_eq!(reported(true), [removed, added, modified]);
}
