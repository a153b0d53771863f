"""Checks a bill of materials: bill_of_materials.py FILE. It is valid CycloneDX, and its components are
the crates that cargo links into the command for this machine. Prints their number."""

import json
import re
import subprocess
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

with open(sys.argv[1]) as file:
    text = file.read()
error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(text)
if error is not None:
    sys.exit(f"not valid: {error.data.message}")
bom = json.loads(text)
listed = {(one["name"], one["version"]) for one in bom["components"]}
tree = subprocess.run(
    ["cargo", "tree", "--locked", "--package", "cli", "--edges", "normal", "--prefix", "none", "--format", "{p}", "--target", "x86_64-unknown-linux-gnu"],
    check=True, capture_output=True, text=True,
).stdout
linked = {match.groups() for match in re.finditer(r"^(\S+) v(\S+)", tree, re.MULTILINE)} - {("cli", bom["metadata"]["component"]["version"])}
if linked - listed:
    sys.exit(f"not listed: {sorted(linked - listed)}")
foreign = [one for one in bom["components"] if not one.get("licenses")]
if foreign:
    sys.exit(f"without a licence: {[one['name'] for one in foreign]}")
print(f"{len(listed)} crates")
