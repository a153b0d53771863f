//! Lists that mostly have one entry, allocated for every open file.

/// As [`Vec::insert`], but allocates the first entry exactly instead of room for four.
pub fn insert_exact<T>(list: &mut Vec<T>, at: usize, entry: T) {
    if list.is_empty() {
        list.reserve_exact(1);
    }
    list.insert(at, entry);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_entry_allocates_exactly_one() {
        let mut list = Vec::new();
        insert_exact(&mut list, 0, 7_u64);
        assert_eq!(list.capacity(), 1);
        insert_exact(&mut list, 0, 6);
        assert_eq!(list, [6, 7]);
    }
}
