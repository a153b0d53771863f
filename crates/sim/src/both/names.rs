//! Certain knowledge of the names in the one directory, derived from the clients' replies.
//!
//! A name is certain while no change of it is in flight. The reply to a change without a concurrent
//! change determines the name's state.

/// State of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameState {
    /// The name does not exist.
    Absent,
    /// The name refers to the file with this number.
    Present(u32),
}

/// State of a name after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameAfter {
    /// Unchanged.
    Same,
    /// This state.
    Is(NameState),
    /// Unknown.
    Unknown,
}

#[derive(Clone, Copy, Debug, Default)]
struct Fact {
    state: Option<NameState>,
    /// Number of changes in flight.
    busy: u32,
    /// The last step in which a change was requested or answered.
    touched: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct NameKnowledge(Vec<Fact>);

impl NameKnowledge {
    /// A number of names in an unknown state.
    pub fn new(count: u8) -> Self {
        Self(vec![Fact::default(); usize::from(count)])
    }

    /// All names.
    pub fn all(&self) -> std::ops::Range<u8> {
        0..u8::try_from(self.0.len()).unwrap_or(u8::MAX)
    }

    /// A change of a name was requested.
    pub fn begin(&mut self, name: u8, now: u64) {
        let fact = &mut self.0[usize::from(name)];
        fact.busy += 1;
        fact.touched = now;
    }

    /// The state of a name, if it is certain and has been since the step `asked`.
    pub fn certain(&self, name: u8, sent_at: u64) -> Option<NameState> {
        let fact = &self.0[usize::from(name)];
        fact.state.filter(|_| fact.busy == 0 && fact.touched < sent_at)
    }

    /// The state of a name before a change that has had no concurrent change.
    pub fn before(&self, name: u8, began: u64) -> Option<NameState> {
        let fact = &self.0[usize::from(name)];
        fact.state.filter(|_| fact.busy == 1 && fact.touched == began)
    }

    /// The change that began in that step has ended.
    pub fn end(&mut self, name: u8, began: u64, now: u64, after: NameAfter) {
        let fact = &mut self.0[usize::from(name)];
        let was_alone = fact.busy == 1 && fact.touched == began;
        fact.busy -= 1;
        fact.touched = now;
        match after {
            NameAfter::Same if was_alone => {}
            NameAfter::Is(state) if was_alone => fact.state = Some(state),
            _ => fact.state = None,
        }
    }

    /// The change that began in that step has found this state.
    ///
    /// # Errors
    /// The name was certainly in another state.
    pub fn found(&self, name: u8, began: u64, state: NameState) -> Result<(), String> {
        match self.before(name, began) {
            Some(known) if known != state => {
                Err(format!("names: {name} is found {state:?}, and must be {known:?}"))
            }
            _ => Ok(()),
        }
    }

    /// A client observed the state of a name.
    ///
    /// # Errors
    /// The name is certainly in another state.
    pub fn observe(&mut self, name: u8, sent_at: u64, state: NameState) -> Result<(), String> {
        let fact = &mut self.0[usize::from(name)];
        if fact.busy > 0 || fact.touched >= sent_at {
            return Ok(());
        }
        match fact.state {
            Some(known) if known != state => {
                Err(format!("names: {name} was observed as {state:?}, and must be {known:?}"))
            }
            _ => {
                fact.state = Some(state);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observation_must_match_a_certain_name() {
        let mut names = NameKnowledge::new(2);
        names.observe(0, 1, NameState::Present(3)).unwrap();
        names.observe(0, 2, NameState::Present(3)).unwrap();
        assert!(names.observe(0, 3, NameState::Absent).unwrap_err().contains("must be Present"));
        assert!(names.observe(0, 3, NameState::Present(4)).is_err(), "another file");
        names.begin(0, 4);
        names.observe(0, 5, NameState::Absent).unwrap();
        assert!(names.found(0, 4, NameState::Absent).is_err());
        names.end(0, 4, 6, NameAfter::Is(NameState::Absent));
        names.observe(0, 6, NameState::Present(3)).unwrap();
        assert!(names.observe(0, 7, NameState::Present(3)).is_err());
    }

    #[test]
    fn concurrent_name_changes_leave_no_certainty() {
        let mut names = NameKnowledge::new(1);
        names.observe(0, 1, NameState::Absent).unwrap();
        names.begin(0, 2);
        names.begin(0, 3);
        names.found(0, 2, NameState::Present(1)).unwrap();
        names.end(0, 2, 4, NameAfter::Is(NameState::Present(1)));
        names.end(0, 3, 5, NameAfter::Same);
        assert_eq!(names.certain(0, 9), None);
        names.observe(0, 9, NameState::Present(1)).unwrap();
        assert_eq!(names.certain(0, 10), Some(NameState::Present(1)));
    }
}
