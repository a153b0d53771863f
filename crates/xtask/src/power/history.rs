//! History of one register of the model: its values, their operations, and when each was promised.

/// A value and the operation that set it. Points in time are numbers of disk requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterVersion<T> {
    /// The register's value from then on.
    pub value: T,
    /// The operation, by its place in the journal.
    pub operation: usize,
    /// Requests that the disk had completed when the operation was sent.
    pub requested: usize,
    /// Requests that it had completed when the reply to this or a later operation promised the
    /// value.
    pub promised: Option<usize>,
}

/// All versions of a register, oldest first: one client after another changes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterHistory<T> {
    versions: Vec<RegisterVersion<T>>,
    /// The value before any operation; `None` if there is no such state.
    initial: Option<T>,
}

/// Values that a register may have after a cut.
#[derive(Debug)]
pub struct PermittedVersions<'a, T> {
    /// The initial one, where nothing is promised.
    pub initial: Option<&'a T>,
    /// The last one that was promised, if one was, and later ones that had been requested.
    pub versions: &'a [RegisterVersion<T>],
    /// Place of the first of `versions` in the history.
    pub first: usize,
    /// Operation of the last version that was promised.
    pub promised_by: Option<usize>,
}

impl<T: PartialEq> RegisterHistory<T> {
    /// A history without any version.
    pub fn new(initial: Option<T>) -> Self {
        Self { versions: Vec::new(), initial }
    }

    /// Appends a version, and returns its place.
    pub fn push(&mut self, version: RegisterVersion<T>) -> usize {
        self.versions.push(version);
        self.versions.len() - 1
    }

    /// The version before the one at a place.
    pub fn before(&self, place: usize) -> Option<&RegisterVersion<T>> {
        self.versions.get(place.checked_sub(1)?)
    }

    /// Whether a version before the one at a place had this value.
    pub fn had_before(&self, place: usize, value: &T) -> bool {
        self.versions.iter().take(place).any(|version| version.value == *value)
    }

    /// The operation that was the first.
    pub fn first_operation(&self) -> Option<usize> {
        self.versions.first().map(|version| version.operation)
    }

    /// Promises, at the point `at`, the versions so far for which `is_meant` is true, by place.
    pub fn promise(&mut self, at: usize, is_meant: impl Fn(&[RegisterVersion<T>], usize) -> bool) {
        for place in 0..self.versions.len() {
            if is_meant(&self.versions, place) {
                let promised = &mut self.versions[place].promised;
                *promised = Some(promised.map_or(at, |before| before.min(at)));
            }
        }
    }

    /// The values that the register may have after a cut at the point `at`.
    pub fn permitted(&self, at: usize) -> PermittedVersions<'_, T> {
        let base = self.versions.iter().rposition(|v| v.promised.is_some_and(|since| since <= at));
        let first = base.unwrap_or(0);
        let requested = self.versions.iter().rposition(|version| version.requested < at);
        // A promised version is required even if its operation had nothing to write.
        let end = requested.max(base).map_or(first, |last| last + 1);
        let versions = &self.versions[first..end];
        let initial = if base.is_none() { self.initial.as_ref() } else { None };
        PermittedVersions {
            initial,
            versions,
            first,
            promised_by: base.map(|place| self.versions[place].operation),
        }
    }
}

impl<T: PartialEq> PermittedVersions<'_, T> {
    /// Whether the value is permitted.
    pub fn contains(&self, value: &T) -> bool {
        self.initial == Some(value) || self.versions.iter().any(|version| version.value == *value)
    }

    /// All values.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.initial.into_iter().chain(self.versions.iter().map(|version| &version.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(versions: &[(u64, usize, Option<usize>)]) -> RegisterHistory<u64> {
        let mut history = RegisterHistory::new(Some(0));
        for (operation, (value, requested, promised)) in versions.iter().enumerate() {
            history.push(RegisterVersion {
                value: *value,
                operation,
                requested: *requested,
                promised: *promised,
            });
        }
        history
    }

    fn values(history: &RegisterHistory<u64>, at: usize) -> Vec<u64> {
        history.permitted(at).values().copied().collect()
    }

    #[test]
    fn promised_version_excludes_those_before_it() {
        let history = history(&[(1, 10, Some(15)), (2, 20, Some(25)), (3, 30, Some(35))]);
        assert_eq!(values(&history, 10), [0]);
        assert_eq!(values(&history, 11), [0, 1]);
        assert_eq!(values(&history, 15), [1]);
        assert_eq!(values(&history, 22), [1, 2]);
        assert_eq!(values(&history, 25), [2]);
        assert_eq!(values(&history, 99), [3]);
        assert_eq!(history.permitted(26).promised_by, Some(1));
    }

    #[test]
    fn version_that_took_no_request_is_promised() {
        let history = history(&[(1, 10, Some(15)), (2, 20, Some(20))]);
        assert_eq!(values(&history, 19), [1]);
        assert_eq!(values(&history, 20), [2]);
    }

    #[test]
    fn version_without_promise_excludes_nothing() {
        let history = history(&[(1, 10, Some(15)), (2, 20, None), (3, 30, None)]);
        assert_eq!(values(&history, 99), [1, 2, 3]);
        assert_eq!(values(&history, 30), [1, 2]);
    }

    #[test]
    fn later_flush_promises_what_was_before_it() {
        let mut history = history(&[(1, 10, None), (2, 20, None)]);
        history.promise(40, |_, place| place == 1);
        history.promise(50, |_, _| true);
        assert_eq!(values(&history, 39), [0, 1, 2]);
        assert_eq!(values(&history, 40), [2]);
    }
}
