"""Writes an OCI image layout as a tar archive: oci_layout.py VERSION OUTPUT ARCHITECTURE=LAYER:LAYER...

Each LAYER is a directory. The same directories and SOURCE_DATE_EPOCH give the same bytes.
Formats: OCI image specification 1.1; manifest.json is for versions of Docker below 25."""

import datetime
import gzip
import hashlib
import io
import json
import os
import stat
import sys
import tarfile

# The user that the server runs as, and its directories in the image.
SERVER_ID = 65532
SERVER_OWNS = ("srv/data", "var/lib/anabranch", "run/anabranch")
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
SECOND_NS = 1_000_000_000
EPOCH = int(os.environ["SOURCE_DATE_EPOCH"])


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def json_bytes(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def add_bytes(archive, name, data):
    """Adds a file of the layout itself."""
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = len(data), 0o644, EPOCH
    archive.addfile(member, io.BytesIO(data))


def layer_of(folder):
    """The directory as an uncompressed tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        paths = []
        for parent, folders, files in os.walk(folder):
            paths += [os.path.relpath(os.path.join(parent, name), folder) for name in folders + files]
        for path in sorted(paths):
            full = os.path.join(folder, path)
            member = tarfile.TarInfo(path)
            mode = os.lstat(full).st_mode
            member.mode, member.mtime = stat.S_IMODE(mode), EPOCH
            if path in SERVER_OWNS:
                member.uid = member.gid = SERVER_ID
            if stat.S_ISLNK(mode):
                member.type, member.linkname = tarfile.SYMTYPE, os.readlink(full)
                archive.addfile(member)
            elif stat.S_ISDIR(mode):
                member.type = tarfile.DIRTYPE
                archive.addfile(member)
            else:
                member.size = os.path.getsize(full)
                with open(full, "rb") as content:
                    archive.addfile(member, content)
    return buffer.getvalue()


def settings(version):
    """How a container of the image runs."""
    label = "org.opencontainers.image."
    return {
        "User": f"{SERVER_ID}:{SERVER_ID}",
        "Env": ["PATH=/usr/bin", "HOME=/var/lib/anabranch", "NO_COLOR=1"],
        "Entrypoint": ["/usr/bin/anabranch"],
        "Cmd": ["serve", "--config", "/etc/anabranch/anabranch.toml"],
        "WorkingDir": "/srv/data",
        "ExposedPorts": {"4450/tcp": {}, "2049/tcp": {}},
        "Volumes": {"/srv/data": {}, "/var/lib/anabranch": {}},
        "StopSignal": "SIGTERM",
        # A key of Docker's image specification, which others ignore.
        "Healthcheck": {
            "Test": ["CMD", "/usr/bin/anabranch", "status", "--admin-token-file", "/var/lib/anabranch/admin-token"],
            "Interval": 30 * SECOND_NS,
            "Timeout": 5 * SECOND_NS,
            "StartPeriod": 10 * SECOND_NS,
            "Retries": 3,
        },
        "Labels": {
            label + "title": "anabranch",
            label + "description": "File-share server for SMB 3.1.1 and NFSv4.1/4.2",
            label + "version": version,
            label + "licenses": "Apache-2.0 OR MIT",
        },
    }


def image(archive, version, architecture, folders):
    """Adds the blobs of one architecture; returns the manifest's descriptor and Docker's list entry."""
    layers, diff_ids = [], []
    for folder in folders:
        plain = layer_of(folder)
        packed = gzip.compress(plain, compresslevel=9, mtime=0)
        diff_ids.append(digest_of(plain))
        layers.append(blob(archive, LAYER, packed))
    created = datetime.datetime.fromtimestamp(EPOCH, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    history = [{"created": created, "created_by": "packaging/image", "comment": comment} for comment in ("libraries of Debian", "anabranch")]
    config = blob(archive, CONFIG, json_bytes({
        "created": created,
        "architecture": architecture,
        "os": "linux",
        "config": settings(version),
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
        "history": history,
    }))
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers}
    descriptor = blob(archive, MANIFEST, json_bytes(manifest)) | {"platform": {"architecture": architecture, "os": "linux"}}
    path = lambda of: "blobs/" + of["digest"].replace(":", "/")
    listed = {"Config": path(config), "RepoTags": [f"anabranch:{version}"], "Layers": [path(layer) for layer in layers]}
    return descriptor, listed


def blob(archive, media_type, data):
    digest = digest_of(data)
    name = "blobs/" + digest.replace(":", "/")
    if name not in archive.getnames():
        add_bytes(archive, name, data)
    return {"mediaType": media_type, "digest": digest, "size": len(data)}


def main():
    version, output, *platforms = sys.argv[1:]
    with tarfile.open(output, "w", format=tarfile.PAX_FORMAT) as archive:
        add_bytes(archive, "oci-layout", json_bytes({"imageLayoutVersion": "1.0.0"}))
        images = []
        for platform in platforms:
            architecture, folders = platform.split("=", 1)
            images.append(image(archive, version, architecture, folders.split(":")))
        descriptors = [descriptor for descriptor, _ in images]
        if len(descriptors) > 1:
            index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": descriptors}
            descriptors = [blob(archive, INDEX, json_bytes(index))]
        else:
            add_bytes(archive, "manifest.json", json_bytes([listed for _, listed in images]))
        # Readers find the image by the first annotation, containerd also by the second.
        names = {"org.opencontainers.image.ref.name": version, "io.containerd.image.name": f"docker.io/library/anabranch:{version}"}
        descriptors[0]["annotations"] = names
        add_bytes(archive, "index.json", json_bytes({"schemaVersion": 2, "mediaType": INDEX, "manifests": descriptors}))


main()
