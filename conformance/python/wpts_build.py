"""Compiles Microsoft's file server suites and their test runner. Arguments:
`SUITES-COMMIT SUITES-GIT FRAMEWORK-COMMIT FRAMEWORK-GIT SDK HOST WORK OUT`.

The packages that the projects refer to are unavailable, so this script calls the C# compiler of the .NET SDK
for each project, and HOST has replacements for the used parts of those packages. The git directories may
lack large files: no compiled file is large.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

TESTS = "TestSuites/FileServer/src"
SUITES = [
    f"{TESTS}/SMB2/TestSuite/MS-SMB2_ServerTestSuite.csproj",
    f"{TESTS}/SMB2Model/TestSuite/MS-SMB2Model_ServerTestSuite.csproj",
    f"{TESTS}/FSA/TestSuite/MS-FSA_ServerTestSuite.csproj",
]
SUITE_PATHS = ["AssemblyInfo", "ProtoSDK", TESTS]
FRAMEWORK_PATHS = ["src"]
# These projects are for domains and need further packages. No test of a workgroup needs them.
LEFT_OUT = {"Claim.csproj", "Pac.csproj"}
# Model cases in files that a git directory without large files lacks. They are always excluded, so that the result
# does not depend on the source of the files.
MODELS_LEFT_OUT = {
    f"{name}TestCase.cs"
    for name in (
        "BreakReadHandleLeaseV1",
        "BreakReadWriteHandleLeaseV1",
        "BreakReadWriteHandleLeaseV2",
        "Encryption",
        "OplockOnShareWithForceLevel2AndSOFS",
        "OplockOnShareWithForceLevel2WithoutSOFS",
        "OplockOnShareWithoutForceLevel2WithSOFS",
        "ReplayCreateDurableHandleV2",
        "ReplayCreateDurableHandleV2Persistent",
        "ResilientHandleBasic",
        "ResilientHandleDurable",
        "SessionMgmtBindSessionAfterLogOffScenario",
        "SessionMgmtBindSessionScenario",
        "SessionMgmtNewSessionScenario",
        "Signing",
    )
}
# Files of the runtime with the names below are not assemblies of managed code.
ASSEMBLIES = re.compile(r"(System\.|Microsoft\.CSharp|Microsoft\.Win32\.(Primitives|Registry)|mscorlib|netstandard)(?!.*\.Native).*\.dll")


def extract(git, commit, paths, folder):
    """Extracts the files below `paths` at the commit, except those that the git directory lacks."""
    listed = subprocess.run(
        ["git", "-C", git, "ls-tree", "-r", "-z", commit, "--", *paths], check=True, stdout=subprocess.PIPE
    ).stdout.split(b"\0")
    environment = {**os.environ, "GIT_NO_LAZY_FETCH": "1"}
    with subprocess.Popen(
        ["git", "-C", git, "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as reader:
        for entry in filter(None, listed):
            facts, path = entry.split(b"\t", 1)
            _mode, kind, name = facts.split()
            if kind != b"blob":
                continue
            reader.stdin.write(name + b"\n")
            reader.stdin.flush()
            head = reader.stdout.readline().split()
            if head[1] == b"missing":
                continue
            data = reader.stdout.read(int(head[2]))
            reader.stdout.read(1)
            target = folder / os.fsdecode(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(older_syntax(data) if target.suffix == ".cs" else data)
        reader.stdin.close()


def older_syntax(source):
    """Rewrites newer syntax for the C# 8 compiler: it requires a type after `new`, and has no `is not`."""
    source = re.sub(rb"\b([A-Z]\w*) (\w+) = new\(\);", rb"\1 \2 = new \1();", source)
    return re.sub(rb"\b(\w+\[0\]) is not ([A-Z]\w*)\)", rb"!(\1 is \2))", source)


class Project:
    """The relevant parts of a project file."""

    def __init__(self, path):
        self.folder = path.parent
        self.file = path.name
        root = xml.etree.ElementTree.parse(path).getroot()
        self.name = next((e.text for e in self.tags(root, "AssemblyName")), path.stem)
        self.references = [
            reference
            for reference in (self.path(e.get("Include")) for e in self.tags(root, "ProjectReference"))
            if reference.name not in LEFT_OUT
        ]
        self.sources = {self.path(e.get("Include")) for e in self.tags(root, "Compile") if e.get("Include")}
        self.sources.update(path for path in self.folder.rglob("*.cs") if path.name not in MODELS_LEFT_OUT)

    @staticmethod
    def tags(root, name):
        return [e for e in root.iter() if e.tag.rsplit("}", 1)[-1].lower() == name.lower()]

    def path(self, relative):
        return pathlib.Path(os.path.normpath(self.folder / relative.replace("\\", "/")))


class Compiler:
    """The compiler of the SDK. It writes to `out`, and searches references there, too."""

    def __init__(self, sdk, out):
        self.out = out
        self.command = [sdk / "dotnet", next(sdk.glob("sdk/*/Roslyn/bincore/csc.dll"))]
        runtime = next(sdk.glob("shared/Microsoft.NETCore.App/*"))
        self.version = runtime.name
        self.runtime = sorted(p for p in runtime.iterdir() if ASSEMBLIES.fullmatch(p.name))

    def compile(self, name, sources, references=(), options=()):
        target = self.out / f"{name}.dll"
        lines = ["-nologo", "-nostdlib", "-unsafe", "-langversion:preview", "-warn:0", "-debug:portable"]
        lines += [f'-out:"{target}"', *options]
        lines += [f'-r:"{path}"' for path in [*self.runtime, *(self.out / f"{r}.dll" for r in references)]]
        lines += [f'"{path}"' for path in sorted(sources)]
        response = self.out / f"{name}.rsp"
        response.write_text("\n".join(lines), encoding="utf-8")
        done = subprocess.run([*self.command, f"@{response}"], stdout=subprocess.PIPE, text=True, check=False)
        response.unlink()
        if done.returncode != 0:
            sys.exit(f"{name} does not compile:\n{done.stdout[:4000]}")


def ordered(paths):
    """The projects with all that they refer to, each after its references."""
    projects = {}

    def visit(path):
        if path not in projects:
            project = Project(path)
            for reference in project.references:
                visit(reference)
            projects[path] = project

    for path in paths:
        visit(path)
    return projects


def all_references(projects, project):
    found = set()
    for path in project.references:
        found |= {projects[path].name} | all_references(projects, projects[path])
    return found


def compile_framework(compiler, framework, host):
    sources = set((framework / "src/TestFramework").rglob("*.cs"))
    sources |= set((framework / "src/TestFramework.AdapterConsole").rglob("*.cs"))
    replaced = {"PowerShellAdapterProxy.cs", "Program.cs"}
    sources = {path for path in sources if path.name not in replaced} | {host / "PowerShell.cs"}
    name = "Microsoft.Protocols.TestTools"
    resources = framework / "src/TestFramework/Resources"
    options = ["-target:library"]
    for path in ["Schema/TestConfig.xsd", "site.ptfconfig"]:
        options.append(f'-res:"{resources / path}",{name}.Resources.{path.replace("/", ".")}')
    compiler.compile(name, sources, ["WptsHost.Stubs"], options)
    return name


def main(suites_commit, suites_git, framework_commit, framework_git, sdk, host, work, out):
    host, work, out = (pathlib.Path(p).resolve() for p in (host, work, out))
    suites, framework = work / "suites", work / "framework"
    extract(suites_git, suites_commit, SUITE_PATHS, suites)
    extract(framework_git, framework_commit, FRAMEWORK_PATHS, framework)
    out.mkdir(parents=True, exist_ok=True)
    compiler = Compiler(pathlib.Path(sdk).resolve(), out)
    stubs = [host / "TestFramework.cs", host / "Directory.cs"]
    compiler.compile("WptsHost.Stubs", stubs, options=["-target:library"])
    compiler.compile("WptsHost", [host / "Runner.cs"], ["WptsHost.Stubs"], ["-target:exe"])
    framework_of_runtime = {"name": "Microsoft.NETCore.App", "version": compiler.version}
    (out / "WptsHost.runtimeconfig.json").write_text(
        json.dumps({"runtimeOptions": {"tfm": "netcoreapp3.1", "framework": framework_of_runtime}}), encoding="utf-8"
    )
    base = {compile_framework(compiler, framework, host), "WptsHost.Stubs"}
    projects = ordered([suites / path for path in SUITES])
    for project in projects.values():
        sources = project.sources
        if project.file == "TransportStack.csproj":
            sources = {path for path in sources if not path.name.startswith("Quic")} | {host / "Quic.cs"}
        references = sorted(base | all_references(projects, project))
        compiler.compile(project.name, sources, references, ["-target:library", "-d:TRACE"])
    for path in (suites / TESTS).rglob("*.ptfconfig"):
        if path.parts[-3] in ("Common", "SMB2", "SMB2Model", "FSA"):
            (out / path.name).write_bytes(path.read_bytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
