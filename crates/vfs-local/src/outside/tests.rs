//! What is made of what the kernel tells.

use super::*;

#[test]
fn what_came_and_went_is_told_in_the_order_that_fits() {
    use ExternalChange::{Added, DataModified, Removed};
    let named = |name| ExternalName { name, is_directory: false };
    let name = Name::new(&b"f"[..]).unwrap();
    let [added, modified, removed] =
        [Added, DataModified, Removed].map(|change| change(named(name.clone())));
    let told = |exists| {
        let name = name.clone();
        let both =
            Happening::Names { name, added: true, removed: true, attributes: false, data: true };
        changes(both, exists, &named)
    };
    assert_eq!(told(false), [added.clone(), modified.clone(), removed.clone()]);
    assert_eq!(told(true), [removed, added, modified]);
}
