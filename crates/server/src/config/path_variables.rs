//! Variables in a share's path, by Samba's names: the directory then depends on the user.

use std::fmt;
use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};

/// Variables that Samba has and this server does not, since nothing proves their value.
const UNSUPPORTED: &str = "aDdHhiLMmNPpRSTVvw";
/// Longest value in bytes: the longest name of a directory.
const VALUE_BYTES_MAX: usize = 255;

/// A variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathVariable {
    /// `%I`, the client's address.
    Address,
    /// `%G` or `%g`, the name of the user's primary group.
    Group,
    /// `%U` or `%u`, the user's name.
    User,
}

impl fmt::Display for PathVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => "%I",
            Self::Group => "%G",
            Self::User => "%U",
        })
    }
}

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PathPiece {
    Text(String),
    Variable(PathVariable),
}

/// A path with at least one variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathTemplate {
    pieces: Vec<PathPiece>,
}

/// The values for one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathValues {
    /// Name of the user.
    pub user: String,
    /// Name of the user's primary group, if it has one.
    pub group: Option<String>,
    /// Address of the client.
    pub address: Option<IpAddr>,
}

/// A value that cannot be a part of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableValue {
    /// The variable.
    pub variable: PathVariable,
    /// Its value.
    pub value: String,
}

impl fmt::Display for UnusableValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { variable, value } = self;
        write!(f, "{variable} has the value {value:?}, which cannot be the name of a directory")
    }
}

impl PathTemplate {
    /// Parses a configured path. Returns the path itself if it has no variable; `%%` stands for `%`.
    ///
    /// # Errors
    /// A sentence that names the variable which is not supported.
    pub fn parse(path: &Path) -> Result<Result<Self, PathBuf>, String> {
        let Some(text) = path.to_str() else { return Ok(Err(path.to_owned())) };
        let mut pieces = vec![PathPiece::Text(String::new())];
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            let variable = match letters.peek().filter(|_| letter == '%') {
                Some('U' | 'u') => PathVariable::User,
                Some('G' | 'g') => PathVariable::Group,
                Some('I') => PathVariable::Address,
                Some(other) if UNSUPPORTED.contains(*other) => {
                    return Err(format!(
                        "path = {text:?}: %{other} is not supported; there are %U (user), %G (the \
                         user's primary group) and %I (the client's address), and %% stands for %"
                    ));
                }
                other => {
                    if other == Some(&'%') {
                        letters.next();
                    }
                    push(&mut pieces, letter);
                    continue;
                }
            };
            letters.next();
            pieces.push(PathPiece::Variable(variable));
        }
        let template = Self { pieces };
        if template.variables().next().is_some() {
            return Ok(Ok(template));
        }
        let texts = template.pieces.iter().map(|piece| match piece {
            PathPiece::Text(text) => text.as_str(),
            PathPiece::Variable(_) => "",
        });
        Ok(Err(texts.collect::<String>().into()))
    }

    fn variables(&self) -> impl Iterator<Item = PathVariable> {
        self.pieces.iter().filter_map(|piece| match piece {
            PathPiece::Text(_) => None,
            PathPiece::Variable(variable) => Some(*variable),
        })
    }

    /// Whether the path depends on the client's address.
    #[must_use]
    pub fn depends_on_address(&self) -> bool {
        self.variables().any(|variable| variable == PathVariable::Address)
    }

    /// The directory above the first variable.
    #[must_use]
    pub fn base(&self) -> PathBuf {
        let mut text = String::new();
        for piece in &self.pieces {
            let PathPiece::Text(part) = piece else {
                text.truncate(text.rfind('/').unwrap_or(0) + 1);
                break;
            };
            text.push_str(part);
        }
        let base: PathBuf = Path::new(&text).components().collect();
        if base.as_os_str().is_empty() { PathBuf::from("/") } else { base }
    }

    /// The path for one session. It has as many components as the template: a value adds none.
    ///
    /// # Errors
    /// [`UnusableValue`]: a value that is empty, begins with a dot, or has a slash or a control
    /// character.
    pub fn resolve(&self, values: &PathValues) -> Result<PathBuf, UnusableValue> {
        let mut path = String::new();
        for piece in &self.pieces {
            let variable = match piece {
                PathPiece::Text(text) => {
                    path.push_str(text);
                    continue;
                }
                PathPiece::Variable(variable) => *variable,
            };
            let value = match variable {
                PathVariable::Address => values.address.map(|ip| ip.to_string()),
                PathVariable::Group => values.group.clone(),
                PathVariable::User => Some(values.user.clone()),
            };
            let value = value.unwrap_or_default();
            if !is_usable(&value) {
                return Err(UnusableValue { variable, value });
            }
            path.push_str(&value);
        }
        Ok(path.into())
    }
}

fn push(pieces: &mut Vec<PathPiece>, letter: char) {
    match pieces.last_mut() {
        Some(PathPiece::Text(text)) => text.push(letter),
        _ => pieces.push(PathPiece::Text(letter.into())),
    }
}

/// Whether a value is one component of a path, and no hidden one.
fn is_usable(value: &str) -> bool {
    let mut components = Path::new(value).components();
    let is_one = matches!(components.next(), Some(Component::Normal(_)));
    is_one
        && components.next().is_none()
        && !value.starts_with('.')
        && value.len() <= VALUE_BYTES_MAX
        && !value.contains(|c: char| c == '/' || c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(user: &str) -> PathValues {
        let address = "192.0.2.7".parse().ok();
        PathValues { user: user.into(), group: Some("staff".into()), address }
    }

    fn template(path: &str) -> PathTemplate {
        PathTemplate::parse(Path::new(path)).unwrap().unwrap()
    }

    #[test]
    fn path_variables_are_replaced_by_the_session() {
        for (path, expected, base) in [
            ("/home/%U", "/home/alice", "/home"),
            ("/home/%u/files", "/home/alice/files", "/home"),
            ("/srv/%G/%U", "/srv/staff/alice", "/srv"),
            ("/srv/by-%I", "/srv/by-192.0.2.7", "/srv"),
            ("/%U", "/alice", "/"),
            ("/srv/100%%/x-%g-%U", "/srv/100%/x-staff-alice", "/srv/100%"),
        ] {
            let template = template(path);
            assert_eq!(template.resolve(&values("alice")), Ok(expected.into()));
            assert_eq!(template.base(), Path::new(base), "{path}");
        }
        assert!(template("/srv/%I").depends_on_address());
        assert!(!template("/srv/%U").depends_on_address());
    }

    #[test]
    fn path_without_a_variable_stays_itself() {
        for (path, expected) in
            [("/srv/data", "/srv/data"), ("/srv/50%", "/srv/50%"), ("/a%%U", "/a%U"), ("/", "/")]
        {
            assert_eq!(PathTemplate::parse(Path::new(path)), Ok(Err(expected.into())));
        }
    }

    #[test]
    fn unproven_variable_is_refused() {
        for path in ["/srv/%m", "/home/%H", "/srv/%U/%S"] {
            let refusal = PathTemplate::parse(Path::new(path)).unwrap_err();
            assert!(refusal.contains("is not supported; there are %U (user)"), "{refusal}");
        }
    }

    #[test]
    fn value_never_leaves_its_directory() {
        let template = template("/home/x%U/%U");
        let long = "a".repeat(VALUE_BYTES_MAX + 1);
        for value in
            ["", ".", "..", ".ssh", "../etc", "a/b", "/etc", "a/", "a\0b", "a\nb", long.as_str()]
        {
            let refused = template.resolve(&values(value)).unwrap_err();
            assert_eq!(refused.variable, PathVariable::User, "{value:?}");
        }
        for value in ["a..b", "a b", "größe", "%U", "a.", "-rf"] {
            let path = template.resolve(&values(value)).unwrap();
            assert_eq!(path, Path::new("/home").join(format!("x{value}")).join(value));
        }
        let nobody = PathValues { group: None, ..values("alice") };
        let by_group = PathTemplate::parse(Path::new("/srv/%G")).unwrap().unwrap();
        assert_eq!(by_group.resolve(&nobody).unwrap_err().variable, PathVariable::Group);
    }
}
