//! Variables in a share's path, by Samba's names: the directory then depends on the user.

use crate::backend::UserPath;
use std::fmt;
use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};

/// The variables, for texts.
pub const VARIABLES: &str = "%U (the user's name), %G (the name of the user's primary group), %I \
                             (the client's address) and, at the beginning, %H (the user's home \
                             directory); %% stands for %";
/// Longest value in bytes: NAME_MAX, the longest name of a directory.
const VALUE_BYTES_MAX: usize = 255;

/// A variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathVariable {
    /// `%I`, the client's address.
    Address,
    /// `%G` or `%g`, the name of the user's primary group.
    Group,
    /// `%H`, the home directory of the user's system account.
    Home,
    /// `%U` or `%u`, the user's name without its domain.
    User,
}

impl fmt::Display for PathVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => "%I",
            Self::Group => "%G",
            Self::Home => "%H",
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathValues {
    /// Name of the user, which may contain its domain.
    pub user: String,
    /// Name of the user's primary group, if it has one.
    pub group: Option<String>,
    /// Address of the client.
    pub address: Option<IpAddr>,
    /// Home directory of the system account, if it has one.
    pub home: Option<PathBuf>,
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
        let what = match variable {
            PathVariable::Home => "an absolute path of a home directory",
            _ => "the name of a directory",
        };
        write!(f, "{variable} has the value {value:?}, which cannot be {what}")
    }
}

/// A configured path, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParsedPath {
    /// Without variables.
    Fixed(PathBuf),
    /// With variables.
    Template(PathTemplate),
}

impl PathTemplate {
    /// Parses a configured path. `%%` stands for `%`, and so does a `%` before anything but a letter.
    ///
    /// # Errors
    /// A sentence that names the variable which is not supported.
    pub fn parse(path: &Path) -> Result<ParsedPath, String> {
        let Some(text) = path.to_str() else { return Ok(ParsedPath::Fixed(path.to_owned())) };
        let mut pieces = Vec::new();
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            let next = letters
                .next_if(|next| letter == '%' && (*next == '%' || next.is_ascii_alphabetic()));
            let variable = match next {
                None | Some('%') => {
                    push(&mut pieces, letter);
                    continue;
                }
                Some('U' | 'u') => PathVariable::User,
                Some('G' | 'g') => PathVariable::Group,
                Some('H') if pieces.is_empty() => PathVariable::Home,
                Some('I') => PathVariable::Address,
                Some('H') => {
                    return Err(format!("path = {text:?}: %H must stand at the beginning"));
                }
                Some(other) => {
                    return Err(format!(
                        "path = {text:?}: %{other} is not supported; the variables are {VARIABLES}"
                    ));
                }
            };
            pieces.push(PathPiece::Variable(variable));
        }
        let template = Self { pieces };
        if template.variables().next().is_some() {
            template.check(text)?;
            return Ok(ParsedPath::Template(template));
        }
        let texts = template.pieces.iter().map(|piece| match piece {
            PathPiece::Text(text) => text.as_str(),
            PathPiece::Variable(_) => "",
        });
        Ok(ParsedPath::Fixed(texts.collect::<String>().into()))
    }

    /// Checks that the path leads into the directories of its variables and not out of them.
    fn check(&self, text: &str) -> Result<(), String> {
        if Path::new(text).components().any(|part| part == Component::ParentDir) {
            return Err(format!("path = {text:?}: a path with variables cannot contain `..`"));
        }
        let follows_home = match self.pieces.get(..2) {
            Some([PathPiece::Variable(PathVariable::Home), PathPiece::Text(rest)]) => {
                rest.starts_with('/')
            }
            Some([PathPiece::Variable(PathVariable::Home), PathPiece::Variable(_)]) => false,
            _ => true,
        };
        if follows_home {
            return Ok(());
        }
        Err(format!("path = {text:?}: a / must follow %H"))
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

    /// Whether the directory is one user's own, and not one of a group or a client.
    #[must_use]
    pub fn is_of_one_user(&self) -> bool {
        let is_user = |variable| matches!(variable, PathVariable::User | PathVariable::Home);
        self.variables().any(is_user)
    }

    /// Whether the path is that of the user's home directory.
    #[must_use]
    pub fn is_of_home(&self) -> bool {
        self.variables().next() == Some(PathVariable::Home)
    }

    /// The directory above the first variable: the part of the path in which links are followed. A
    /// home directory may be anywhere, so this is the root directory for one.
    #[must_use]
    pub fn base(&self) -> PathBuf {
        let mut text = String::new();
        for piece in &self.pieces {
            let PathPiece::Text(part) = piece else {
                text.truncate(text.rfind('/').map_or(0, |slash| slash + 1));
                break;
            };
            text.push_str(part);
        }
        let base: PathBuf = Path::new(&text).components().collect();
        if base.as_os_str().is_empty() { PathBuf::from("/") } else { base }
    }

    /// The path for one session. A value other than a home directory adds no component.
    ///
    /// # Errors
    /// [`UnusableValue`]: a value that is empty, begins with a dot, or has a slash or a control
    /// character; a home directory that is no absolute path.
    pub fn resolve(&self, values: &PathValues) -> Result<UserPath, UnusableValue> {
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
                PathVariable::Home => values.home.as_ref().map(|home| home.display().to_string()),
                PathVariable::User => Some(without_domain(&values.user).to_owned()),
            };
            let value = value.unwrap_or_default();
            let is_usable = match variable {
                PathVariable::Home => is_home(&value),
                _ => is_name(&value),
            };
            if !is_usable {
                return Err(UnusableValue { variable, value });
            }
            path.push_str(&value);
        }
        let base = self.base();
        let below = Path::new(&path).strip_prefix(&base).map(Path::to_owned).unwrap_or_default();
        Ok(UserPath { base, below })
    }
}

fn push(pieces: &mut Vec<PathPiece>, letter: char) {
    match pieces.last_mut() {
        Some(PathPiece::Text(text)) => text.push(letter),
        _ => pieces.push(PathPiece::Text(letter.into())),
    }
}

/// The user of `DOMAIN\user` or `user@REALM`, as Samba's `%U` is.
fn without_domain(account: &str) -> &str {
    let user = account.rsplit('\\').next().unwrap_or(account);
    user.split('@').next().unwrap_or(user)
}

/// Whether a value is one component of a path, and no hidden one: the server has hidden names of its
/// own.
fn is_name(value: &str) -> bool {
    let mut components = Path::new(value).components();
    let is_one = matches!(components.next(), Some(Component::Normal(_)));
    is_one
        && components.next().is_none()
        && !value.starts_with('.')
        && value.len() <= VALUE_BYTES_MAX
        && !value.contains(|c: char| c == '/' || c.is_control())
}

/// Whether a value is the path of a home directory: absolute, below the root, without `..`.
fn is_home(value: &str) -> bool {
    let mut components = Path::new(value).components();
    let is_absolute = components.next() == Some(Component::RootDir);
    let rest: Vec<_> = components.collect();
    is_absolute
        && !rest.is_empty()
        && rest.iter().all(|part| matches!(part, Component::Normal(_)))
        && !value.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(user: &str) -> PathValues {
        PathValues {
            user: user.into(),
            group: Some("staff".into()),
            address: "192.0.2.7".parse().ok(),
            home: Some("/srv/people/a".into()),
        }
    }

    fn template(path: &str) -> PathTemplate {
        match PathTemplate::parse(Path::new(path)) {
            Ok(ParsedPath::Template(template)) => template,
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn path_variables_are_replaced_by_the_session() {
        for (path, base, below) in [
            ("/home/%U", "/home", "alice"),
            ("/home/%u/files", "/home", "alice/files"),
            ("/srv/%G/%U", "/srv", "staff/alice"),
            ("/srv/by-%I", "/srv", "by-192.0.2.7"),
            ("/%U", "/", "alice"),
            ("/srv/100%%/x-%g-%U", "/srv/100%", "x-staff-alice"),
            ("%H", "/", "srv/people/a"),
            ("%H/files", "/", "srv/people/a/files"),
        ] {
            let (base, below) = (base.into(), below.into());
            let resolved = template(path).resolve(&values("alice"));
            assert_eq!(resolved, Ok(UserPath { base, below }), "{path}");
        }
        assert!(template("/srv/%I").depends_on_address() && !template("/srv/%I").is_of_one_user());
        assert!(!template("/srv/%U").depends_on_address() && template("/srv/%U").is_of_one_user());
        assert!(template("%H").is_of_one_user() && !template("/srv/%G").is_of_one_user());
    }

    #[test]
    fn base_of_a_path_without_a_slash_is_the_root() {
        for path in ["é%U", "x%U", "%U", "é%U/x"] {
            assert_eq!(template(path).base(), Path::new("/"), "{path}");
        }
    }

    #[test]
    fn user_of_a_domain_gives_the_user_part() {
        for account in ["EXAMPLE\\alice", "alice@EXAMPLE.ORG", "alice"] {
            let resolved = template("/home/%U").resolve(&values(account)).unwrap();
            assert_eq!(resolved.below, Path::new("alice"), "{account}");
        }
        for account in ["EXAMPLE\\", "EXAMPLE\\..", "@EXAMPLE.ORG", "a\\b/c", "..@A"] {
            assert!(template("/home/%U").resolve(&values(account)).is_err(), "{account}");
        }
    }

    #[test]
    fn path_without_a_variable_stays_itself() {
        for (path, expected) in [
            ("/srv/data", "/srv/data"),
            ("/srv/50%", "/srv/50%"),
            ("/srv/50% off", "/srv/50% off"),
            ("/a%%U", "/a%U"),
            ("/", "/"),
        ] {
            let parsed = PathTemplate::parse(Path::new(path));
            assert_eq!(parsed, Ok(ParsedPath::Fixed(expected.into())));
        }
    }

    #[test]
    fn unknown_variable_is_refused_and_the_others_are_named() {
        for path in ["/srv/%m", "/home/%x", "/srv/%U/%S"] {
            let refusal = PathTemplate::parse(Path::new(path)).unwrap_err();
            assert!(refusal.contains("is not supported; the variables are %U"), "{refusal}");
            assert!(refusal.contains("%G") && refusal.contains("%I") && refusal.contains("%H"));
        }
        for path in ["/srv/%H", "%Hx", "%H%U", "/home/%U/../x", "/home/../%U"] {
            assert!(PathTemplate::parse(Path::new(path)).is_err(), "{path}");
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
            assert_eq!(path.whole(), Path::new("/home").join(format!("x{value}")).join(value));
        }
        let nobody = PathValues { group: None, ..values("alice") };
        let by_group = self::template("/srv/%G");
        assert_eq!(by_group.resolve(&nobody).unwrap_err().variable, PathVariable::Group);
    }

    #[test]
    fn home_directory_is_an_absolute_path_below_the_root() {
        for home in [None, Some(""), Some("/"), Some("home/a"), Some("/home/../etc"), Some("/a\n")]
        {
            let values = PathValues { home: home.map(PathBuf::from), ..values("alice") };
            let refused = template("%H").resolve(&values).unwrap_err();
            assert_eq!(refused.variable, PathVariable::Home, "{home:?}");
        }
    }
}
