//! What is certain of the names in the one directory, from what clients were told.
//!
//! A name is certain while nobody has asked for a change of it whose answer is missing. Who is
//! answered one that was alone at work knows what is there afterwards.

/// What has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing.
    Absent,
    /// The file of this number.
    Present(u32),
}

/// What a change has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// What was there before.
    Same,
    /// This.
    Is(State),
    /// Nobody can tell.
    Unknown,
}

#[derive(Clone, Copy, Debug, Default)]
struct Fact {
    state: Option<State>,
    /// Changes that are not answered.
    busy: u32,
    /// The step in which one was asked for or answered last.
    touched: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Names(Vec<Fact>);

impl Names {
    /// So many names, of which nothing is known.
    pub fn new(count: u8) -> Self {
        Self(vec![Fact::default(); usize::from(count)])
    }

    /// All names.
    pub fn all(&self) -> std::ops::Range<u8> {
        0..u8::try_from(self.0.len()).unwrap_or(u8::MAX)
    }

    /// A change of a name is asked for.
    pub fn begin(&mut self, name: u8, now: u64) {
        let fact = &mut self.0[usize::from(name)];
        fact.busy += 1;
        fact.touched = now;
    }

    /// What has a name, if that is certain and has been since it was asked for.
    pub fn certain(&self, name: u8, asked: u64) -> Option<State> {
        let fact = &self.0[usize::from(name)];
        fact.state.filter(|_| fact.busy == 0 && fact.touched < asked)
    }

    /// What had a name when a change of it began that has been alone since.
    pub fn before(&self, name: u8, began: u64) -> Option<State> {
        let fact = &self.0[usize::from(name)];
        fact.state.filter(|_| fact.busy == 1 && fact.touched == began)
    }

    /// A change that began then has ended.
    pub fn end(&mut self, name: u8, began: u64, now: u64, after: After) {
        let fact = &mut self.0[usize::from(name)];
        let was_alone = fact.busy == 1 && fact.touched == began;
        fact.busy -= 1;
        fact.touched = now;
        match after {
            After::Same if was_alone => {}
            After::Is(state) if was_alone => fact.state = Some(state),
            _ => fact.state = None,
        }
    }

    /// A change that began then has found this.
    ///
    /// # Errors
    /// If it was certain that something else was there.
    pub fn found(&self, name: u8, began: u64, state: State) -> Result<(), String> {
        match self.before(name, began) {
            Some(known) if known != state => {
                Err(format!("names: {name} is found {state:?}, and must be {known:?}"))
            }
            _ => Ok(()),
        }
    }

    /// Somebody was told what has a name.
    ///
    /// # Errors
    /// If it is certain that something else has.
    pub fn observe(&mut self, name: u8, asked: u64, state: State) -> Result<(), String> {
        let fact = &mut self.0[usize::from(name)];
        if fact.busy > 0 || fact.touched >= asked {
            return Ok(());
        }
        match fact.state {
            Some(known) if known != state => {
                Err(format!("names: {name} is told to be {state:?}, and must be {known:?}"))
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
    fn what_is_told_of_a_certain_name_must_be_so() {
        let mut names = Names::new(2);
        names.observe(0, 1, State::Present(3)).unwrap();
        names.observe(0, 2, State::Present(3)).unwrap();
        assert!(names.observe(0, 3, State::Absent).unwrap_err().contains("must be Present"));
        assert!(names.observe(0, 3, State::Present(4)).is_err(), "another file");
        names.begin(0, 4);
        names.observe(0, 5, State::Absent).unwrap();
        assert!(names.found(0, 4, State::Absent).is_err());
        names.end(0, 4, 6, After::Is(State::Absent));
        names.observe(0, 6, State::Present(3)).unwrap();
        assert!(names.observe(0, 7, State::Present(3)).is_err());
    }

    #[test]
    fn of_two_changes_at_once_nothing_is_certain() {
        let mut names = Names::new(1);
        names.observe(0, 1, State::Absent).unwrap();
        names.begin(0, 2);
        names.begin(0, 3);
        names.found(0, 2, State::Present(1)).unwrap();
        names.end(0, 2, 4, After::Is(State::Present(1)));
        names.end(0, 3, 5, After::Same);
        assert_eq!(names.certain(0, 9), None);
        names.observe(0, 9, State::Present(1)).unwrap();
        assert_eq!(names.certain(0, 10), Some(State::Present(1)));
    }
}
