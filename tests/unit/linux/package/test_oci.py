# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels in container images that are made up here."""

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile

import pytest

from kpfs.linux.errors import UnfitError
from kpfs.linux.package import oci, packages

KERNEL = {
    "boot/vmlinuz": b"kernel",
    "lib/modules/6.6.1/kernel/fs/fat.ko": b"module",
    "usr/src/linux/README": b"nobody wants it",
}
MODULES = {"kernel/fs/fat.ko": b"module"}
TAG = "org.opencontainers.image.ref.name"


def tar(files):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for path, data in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return raw.getvalue()


class Layout:
    """A folder with images, as skopeo writes it."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "blobs" / "sha256").mkdir(parents=True)
        (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')

    def path(self, row):
        return self.folder / "blobs" / row["digest"].replace(":", "/")

    def blob(self, data, kind="x", **more):
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        row = {"mediaType": kind, "digest": digest, "size": len(data), **more}
        self.path(row).write_bytes(data)
        return row

    def document(self, kind, content, **more):
        kind = f"application/vnd.oci.image.{kind}.v1+json"
        return self.blob(json.dumps(content).encode(), kind, **more)

    def image(self, *layers, pack=gzip.compress, arch="amd64", **more):
        config = {
            "architecture": arch,
            "os": "linux",
            "rootfs": {
                "type": "layers",
                "diff_ids": [
                    f"sha256:{hashlib.sha256(tar(files)).hexdigest()}"
                    for files in layers
                ],
            },
        }
        kind = "application/vnd.oci.image.layer.v1.tar"
        if pack is gzip.compress:
            kind += "+gzip"
        manifest = {
            "schemaVersion": 2,
            "config": self.document("config", config),
            "layers": [self.blob(pack(tar(files)), kind) for files in layers],
        }
        return self.document("manifest", manifest, **more)

    def end(self, *rows):
        index = {"schemaVersion": 2, "manifests": rows}
        (self.folder / "index.json").write_text(json.dumps(index))
        return str(self.folder)


@pytest.fixture
def layout(tmp_path):
    return Layout(tmp_path / "layout")


def refused(path, why, name="mine"):
    with pytest.raises(UnfitError, match=why) as caught:
        oci.read_image(str(path), name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("pack", [gzip.compress, bytes, "zstd"])
@pytest.mark.parametrize("as_archive", [False, True])
def test_a_kernel_in_a_layer(layout, tmp_path, pack, as_archive):
    if pack == "zstd":
        pack = pytest.importorskip("zstandard").compress
    path = layout.end(layout.image({"etc/passwd": b""}, KERNEL, pack=pack))
    if as_archive:
        path = str(tmp_path / "image.tar")
        with tarfile.open(path, "w") as archive:
            archive.add(layout.folder, ".")
    found = oci.read_image(path, "mine")
    origin = os.path.basename(path)
    assert found == packages.KernelFiles(b"kernel", "", MODULES, origin)


def test_the_tag_is_chosen(layout):
    rows = [
        layout.image({"boot/vmlinuz": tag.encode()}, annotations={TAG: tag})
        for tag in ("6.1", "6.6")
    ]
    path = layout.end(*rows)
    assert oci.read_image(f"{path}:6.6", "mine").vmlinuz == b"6.6"
    assert oci.read_image(f"{path}:6.1", "mine").origin == "layout:6.1"
    refused(path, r"which tag\? Those that are there: 6.1, 6.6")
    refused(f"{path}:5", r"no tag 5; those that are there: 6.1, 6.6")


@pytest.mark.parametrize("told_by", ["index", "config"])
def test_the_architecture_is_that_of_the_name(layout, told_by):
    rows = []
    for arch in ("amd64", "arm64"):
        more = {"platform": {"os": "linux", "architecture": arch}}
        more = more if told_by == "index" else {}
        files = {"boot/vmlinuz": arch.encode()}
        rows.append(layout.image(files, arch=arch, **more))
    path = layout.end(layout.document("index", {"manifests": rows}))
    assert oci.read_image(path, "6.6").vmlinuz == b"amd64"
    assert oci.read_image(path, "6.6-arm64").vmlinuz == b"arm64"
    refused(path, "linux/riscv64, only for: linux/amd64, linux/arm64", "6.6-riscv64")


def test_a_later_layer_covers_an_earlier_one(layout):
    old = {
        "boot/vmlinuz": b"old",
        "boot/config": b"old",
        "lib/modules/6.1/kernel/gone.ko": b"",
        "lib/modules/6.1/kernel/fs/all_gone.ko": b"",
    }
    new = {
        "boot/vmlinuz": b"new",
        "lib/modules/6.1/kernel/.wh.gone.ko": b"",
        "lib/modules/6.1/kernel/fs/.wh..wh..opq": b"",
        "lib/modules/6.1/kernel/fs/new.ko": b"new",
    }
    found = oci.read_image(layout.end(layout.image(old, new)), "mine")
    modules = {"kernel/fs/new.ko": b"new"}
    assert found == packages.KernelFiles(b"new", "old", modules, "layout")


def test_a_blob_that_is_not_what_its_digest_says(layout):
    row = layout.image(KERNEL)
    path = layout.end(row)
    manifest = json.loads(layout.path(row).read_bytes())
    for part in (manifest["layers"][0], manifest["config"], row):
        file = layout.path(part)
        right = file.read_bytes()
        for wrong in (right[:-1] + b"\n\n", right[:-1], right[:-1] + b"?"):
            file.write_bytes(wrong)
            refused(path, f"the blob {part['digest']} is damaged")
        file.write_bytes(right)
    layout.path(row).unlink()
    refused(path, "No such file")


@pytest.mark.parametrize(
    "index",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        '{"manifests": [1]}',
        '{"manifests": [{"digest": "sha256:../../x", "size": 1}]}',
        '{"manifests": [{"digest": 7, "size": 1}]}',
        '{"manifests": {"a": "b"}}',
    ],
)
def test_an_index_that_is_none(layout, index):
    layout.end()
    (layout.folder / "index.json").write_text(index)
    refused(layout.folder, "the image is damaged")


def test_what_is_no_image(layout, tmp_path):
    refused(tmp_path / "none", "none: No such file")
    refused(layout.folder, "index.json: No such file")
    refused(layout.end(), "only for: none")
    refused(layout.end(layout.image({"a": b""})), r"holds no kernel \(boot/vmlinuz\)")
    file = tmp_path / "file"
    file.write_bytes(b"no archive" * 100)
    refused(file, "the image is damaged")
    file.write_bytes(tar({"a": b""}))
    refused(file, "there is no index.json")


def test_a_file_that_nobody_writes_is_not_waited_for(layout):
    os.mkfifo(layout.folder / "index.json")
    refused(layout.folder, "it is no ordinary file")


def test_an_image_that_has_no_end(layout, monkeypatch):
    path = layout.end(layout.image({"a": bytes(600)}, {"b": bytes(600)}))
    monkeypatch.setattr(oci, "MAX_UNPACKED", 1000)
    refused(path, "more than any kernel")
    row = layout.image(KERNEL)
    refused(layout.end({**row, "size": 1 << 40}), "more than any kernel")
    refused(layout.end(*[row] * 200), "too many parts")


@pytest.mark.skipif(not shutil.which("skopeo"), reason="skopeo is missing")
def test_an_image_that_skopeo_writes(layout, tmp_path):
    source = f"oci:{layout.end(layout.image(KERNEL, annotations={TAG: 'a'}))}:a"
    archive, folder = f"{tmp_path}/image.tar", f"{tmp_path}/dir"
    for target in (f"oci-archive:{archive}:b", f"dir:{folder}"):
        command = "skopeo", "--insecure-policy", "copy", "--quiet", source, target
        subprocess.run(command, check=True)
    for where in (f"{archive}:b", archive, f"dir:{folder}", source):
        found = oci.read_image(where, "mine")
        assert (found.vmlinuz, found.modules) == (b"kernel", MODULES)
    refused("dir:/no/such/folder", "dir:/no/such/folder: skopeo cannot copy it: [^=]*$")


def test_without_skopeo(monkeypatch):
    monkeypatch.setenv("PATH", "")
    refused("docker://quay.io/lvh-images/kernel-images:6.6", "skopeo is missing")
