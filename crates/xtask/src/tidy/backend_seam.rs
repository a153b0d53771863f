//! Checks that the server reaches its shares through `server/src/backend` alone, so that a backend
//! without a local directory can take the place of the present one.

use std::path::Path;

/// Words that reveal a use of the local backend.
const LOCAL_BACKEND: [&str; 2] = ["LocalVfs", "vfs_local"];

/// Files below `crates` that may contain these words, and why.
const LOCAL_BACKEND_PLACES: [(&str, &str); 6] = [
    ("files/tests/", "tests of the file layer over a real directory"),
    ("fuzz/src/targets/", "hostile handles and requests reach a real directory"),
    ("server/src/backend/", "the seam, which chooses a share's backend"),
    ("vfs-cache/tests/", "tests of the cache over a real directory"),
    ("vfs-local/", "the local backend"),
    ("xtask/", "this list"),
];

/// Folders whose code knows the configured path of a share.
const PATH_PLACES: [&str; 2] = ["server/src/", "cli/src/"];

/// Parts of these folders to which the rule does not apply, and why.
const PATH_EXCEPTIONS: [(&str, &str); 2] = [
    ("server/src/backend/", "the seam"),
    ("server/src/import/", "texts of other servers' configurations, without a look at the disk"),
];

/// Expressions that read a share's path for a text or for a name in the pseudo file system.
const SHOWS: [&str; 3] = [".display()", ".to_string_lossy()", ".as_os_str()"];

/// The line of `ShareConfig::source` that gives the path to the backend.
const SOURCE: &str = "path: self.path.clone(),";

/// The type of a configured share, whose own methods know the path as `self.path`.
const SHARE: &str = "impl ShareConfig {";

/// Checks one file; `file` is its path below `crates`, and `text` what it contains.
pub fn check(file: &Path, text: &str, breaches: &mut Vec<String>) {
    let is_below = |folder: &str| file.starts_with(folder);
    let code = || text.lines().enumerate().filter(|(_, l)| !l.trim_start().starts_with("//"));
    let shown = file.display();
    if !LOCAL_BACKEND_PLACES.iter().any(|(place, _)| is_below(place)) {
        let mut found = code().filter(|(_, line)| LOCAL_BACKEND.iter().any(|w| line.contains(w)));
        if let Some((at, _)) = found.next() {
            breaches.push(format!(
                "{shown}:{}: the local backend: ask server::backend, or list the place in \
                 xtask/src/tidy/backend_seam.rs",
                at + 1
            ));
        }
    }
    let is_excepted = PATH_EXCEPTIONS.iter().any(|(place, _)| is_below(place));
    if PATH_PLACES.into_iter().any(is_below) && !is_excepted {
        let mut is_in_share = false;
        let mut opens = |line: &str| {
            is_in_share = line == SHARE || is_in_share && line != "}";
            let has_path = ["share.path", "source().path"].iter().any(|w| line.contains(w))
                || is_in_share && line.contains("self.path") && line.trim() != SOURCE;
            has_path && !SHOWS.iter().any(|s| line.contains(s))
        };
        for (at, _) in code().filter(|(_, line)| opens(line)) {
            breaches.push(format!(
                "{shown}:{}: a share's path may be shown here, not opened: extend \
                 server::backend::Backend",
                at + 1
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(file: &str, text: &str) -> usize {
        let mut breaches = Vec::new();
        check(Path::new(file), text, &mut breaches);
        breaches.len()
    }

    #[test]
    fn backend_types_outside_of_the_seam_are_found() {
        let text = "use vfs_local::LocalVfs;\n";
        assert_eq!(of("server/src/service.rs", text), 1);
        assert_eq!(of("server/src/backend/local/mod.rs", text), 0);
        assert_eq!(of("files/src/open.rs", text), 1);
        assert_eq!(of("files/tests/local.rs", text), 0);
        assert_eq!(of("server/src/service.rs", "// LocalVfs is elsewhere.\n"), 0);
    }

    #[test]
    fn opened_share_path_outside_of_the_seam_is_found() {
        let text = "    let found = std::fs::metadata(&share.path);\n";
        assert_eq!(of("server/src/usage.rs", text), 1);
        assert_eq!(of("cli/src/doctor/places.rs", text), 1);
        assert_eq!(of("server/src/backend/local/mod.rs", text), 0);
        assert_eq!(of("cli/src/serve.rs", "    let path = share.path.display();\n"), 0);
        let text = "    let found = share.source().path.is_dir();\n";
        assert_eq!(of("cli/src/doctor/places.rs", text), 1);
    }

    #[test]
    fn own_path_that_a_share_opens_is_found() {
        let of_share = |line: &str| {
            let text = format!("impl ShareConfig {{\n    fn look(&self) {{\n{line}\n    }}\n}}\n");
            of("server/src/config/surroundings.rs", &text)
        };
        assert_eq!(of_share("        self.path.is_dir()"), 1);
        assert_eq!(of_share("        access_error(&self.path, Access::WRITE_OK)"), 1);
        assert_eq!(of_share("        let path = self.path.display();"), 0);
        assert_eq!(of_share("            path: self.path.clone(),"), 0);
        let other = "impl ShareConfig {\n}\nimpl Journal {\n    fn f() {\n        self.path.is_dir()\n    }\n}\n";
        assert_eq!(of("server/src/journal.rs", other), 0);
    }
}
