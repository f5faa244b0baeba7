# SPDX-License-Identifier: GPL-2.0-or-later

import hashlib
import lzma

import pytest

from kpfs.linux.distribution import deb_archive, debian, distributions, signature
from kpfs.linux.distribution.deb_archive import Suite
from kpfs.linux.distribution.offer import Access, rank
from kpfs.linux.distribution.ubuntu import Ubuntu
from kpfs.linux.errors import UnfitError


def stanza(name, version, *depends, size=3):
    digest = hashlib.sha256(name.encode()).hexdigest()
    file = f"pool/{name}_{version}.deb"
    return (
        f"Package: {name}\nVersion: {version}\nDepends: {', '.join(depends)}\n"
        f"Description: a kernel\n of many lines\nFilename: {file}\nSize: {size}\n"
        f"SHA256: {digest}\n"
    )


def put(archive, place, *stanzas, architecture="amd64"):
    """Have a suite with these packages in the archive, without a signature."""
    index = lzma.compress("\n".join(stanzas).encode())
    path = f"main/binary-{architecture}/Packages.xz"
    archive.files[f"{place}/{path}"] = index
    rows = f" {hashlib.sha256(index).hexdigest()} {len(index)} {path}\n"
    begin = f"SHA256:\n {'0' * 64} 12 main/other\n".encode()
    release = archive.files.get(f"{place}/InRelease", begin)
    archive.files[f"{place}/InRelease"] = release + rows.encode()


@pytest.fixture
def access(archive, monkeypatch):
    """Signatures have tests of their own: here all are good."""
    monkeypatch.setattr(signature, "checked", lambda text, *_: text)
    return Access(f"{archive.url}/debian")


@pytest.fixture
def kernels(archive):
    put(
        archive,
        "/debian-security/dists/bookworm-security",
        stanza("linux-image-6.1.0-9-amd64", "6.1.90-1"),
        stanza("linux-image-6.1.0-10-amd64", "6.1.100-1", "kmod", "linux-base (>= 4)"),
        stanza("linux-image-6.1.0-10-amd64-unsigned", "6.1.100-1"),
        stanza("linux-image-6.1.0-11-cloud-amd64", "6.1.101-1"),
        stanza("linux-image-6.1.0-12-amd64-dbg", "6.1.102-1", size=2 << 30),
        stanza("linux-image-6.1-amd64", "6.1.103-1", "linux-image-6.1.0-10-amd64"),
        stanza("linux-headers-6.1.0-13-amd64", "6.1.104-1"),
    )
    put(
        archive,
        "/debian/dists/trixie-backports",
        stanza(
            "linux-image-7.2.9+deb13-amd64",
            "7.2.9-1",
            "dracut | initramfs-tools",
            "linux-binary-7.2.9+deb13-amd64 (= 7.2.9-1)",
            "linux-modules-7.2.9+deb13-amd64 (= 7.2.9-1)",
        ),
        stanza("linux-binary-7.2.9+deb13-amd64", "7.2.9-1"),
        stanza("linux-modules-7.2.9+deb13-amd64", "7.2.9-1"),
    )
    put(
        archive,
        "/debian/dists/trixie-backports",
        stanza("linux-image-6.12.4+deb13-arm64", "6.12.4-1"),
        architecture="arm64",
    )
    put(archive, "/debian/dists/sid", stanza("linux-image-6.3.0-1-amd64", "6.3.7-1"))


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("6.1", ["linux-image-6.1.0-10-amd64_6.1.100-1.deb"]),
        ("6.1-cloud", ["linux-image-6.1.0-11-cloud-amd64_6.1.101-1.deb"]),
        ("6.1.0-9-amd64", ["linux-image-6.1.0-9-amd64_6.1.90-1.deb"]),
        ("linux-image-6.1.0-9-amd64", ["linux-image-6.1.0-9-amd64_6.1.90-1.deb"]),
        ("6.3", ["linux-image-6.3.0-1-amd64_6.3.7-1.deb"]),  # in a long index
        ("debian:sid", ["linux-image-6.3.0-1-amd64_6.3.7-1.deb"]),
        (
            "latest",
            [
                "linux-image-7.2.9+deb13-amd64_7.2.9-1.deb",
                "linux-binary-7.2.9+deb13-amd64_7.2.9-1.deb",
                "linux-modules-7.2.9+deb13-amd64_7.2.9-1.deb",
            ],
        ),
    ],
)
def test_names(access, name, files):
    offer = distributions.find(name, access)
    assert offer.name == name
    assert [file.name for file in offer.files] == files
    assert offer.origin == " ".join(files)


def test_the_index_of_another_architecture(archive, access):
    put(
        archive,
        "/debian/dists/trixie-backports",
        stanza("linux-image-6.12.4+deb13-cloud-arm64", "6.12.4-1"),
        architecture="arm64",
    )
    found = distributions.find("6.12-cloud-arm64", access)
    assert found.release == "6.12.4+deb13-cloud-arm64"


@pytest.mark.usefixtures("kernels")
def test_flavours_of_i386(archive, access):
    """686-pae is the ordinary one, as nearly all processors have it."""
    releases = "6.1.0-9-686-pae", "6.1.0-10-686", "6.1.0-11-rt-686-pae"
    put(
        archive,
        "/debian-security/dists/bookworm-security",
        *(stanza(f"linux-image-{release}", "6.1.90-1") for release in releases),
        architecture="i386",
    )
    names = "6.1-i386", "6.1-686-i386", "6.1-rt-i386"
    found = [distributions.find(name, access).release for name in names]
    assert found == [*releases]
    there = {
        offer.name: offer.release for offer in distributions.available("debian", access)
    }
    assert [there[name] for name in names] == found
    assert distributions.find("6.1.0-10-686", access).release == releases[1]


def test_an_architecture_that_cannot_be_read_hides_no_other(archive, access):
    place = "/debian/dists/sid"
    for architecture, name in (("riscv64", "7.2.1-riscv64"), ("s390x", "7.2.2-s390x")):
        row = stanza(f"linux-image-{name}", "7.2-1")
        put(archive, place, row, architecture=architecture)
    archive.files[f"{place}/main/binary-riscv64/Packages.xz"] = b"damaged"
    told = distributions.available("debian", access)
    names: list[str] = []
    with pytest.raises(UnfitError, match=r"binary-riscv64/Packages\.xz: not the file"):
        names += (offer.name for offer in told)
    assert "7.2-s390x" in names


@pytest.mark.usefixtures("kernels")
def test_what_is_there(access):
    rows = [
        (offer.name, offer.release)
        for offer in distributions.available("debian", access)
        if "arm64" not in offer.name
    ]
    assert sorted(rows) == [
        ("6.1", "6.1.0-10-amd64"),
        ("6.1-cloud", "6.1.0-11-cloud-amd64"),
        ("7.2", "7.2.9+deb13-amd64"),
    ]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("name", ["6.1-rt", "6.19", "debian:trixie", "6.1.0-8-amd64"])
def test_what_is_not_there(access, name):
    with pytest.raises(UnfitError, match=r"has no kernel .*list --available"):
        distributions.find(name, access)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    ("name", "likely"),
    [
        ("6.6", "6.1 or 7.2"),
        ("7.9", "7.2"),
        ("5.4", "6.1"),
        ("6.6-cloud", "6.1-cloud"),
        ("24.04", "ubuntu:24.04"),
        ("6.1.5", "6.1"),
    ],
)
def test_what_was_meant_is_asked(access, name, likely):
    with pytest.raises(UnfitError, match=rf"did you mean {likely}\?$"):
        distributions.find(name, access)


def test_a_whole_kernel_is_rather_taken_than_a_newer_one(archive, access):
    modules = "linux-modules-6.19.9+deb13-amd64"
    put(
        archive,
        "/debian/dists/trixie-backports",
        stanza("linux-image-6.19.8+deb13-amd64", "6.19.8-1", "linux-base-6.19.8+deb13"),
        stanza("linux-image-6.19.9+deb13-amd64", "6.19.9-1", f"{modules} (= 6.19.9-1)"),
    )
    found = distributions.find("6.19", access)
    assert (found.release, found.missing) == ("6.19.8+deb13-amd64", ())
    found = distributions.find("6.19.9+deb13-amd64", access)
    assert found.missing == (modules,)


@pytest.mark.usefixtures("kernels")
def test_an_older_kernel_is_taken_for_one_that_was_removed(archive, access):
    pool = "/debian-security/pool/linux-image-6.1.0-"
    archive.gone.add(f"{pool}10-amd64_6.1.100-1.deb")
    assert distributions.find("6.1", access).release == "6.1.0-9-amd64"
    archive.gone.add(f"{pool}9-amd64_6.1.90-1.deb")
    with pytest.raises(UnfitError, match="has no kernel"):
        distributions.find("6.1", access)


def test_a_release_that_has_moved_to_the_archive(archive, access, monkeypatch):
    monkeypatch.setattr(debian, "MIRROR", f"{archive.url}/debian")
    monkeypatch.setattr(debian, "ARCHIVE", f"{archive.url}/old/debian")
    kernel = stanza("linux-image-5.10.0-9-amd64", "5.10.9-1")
    put(archive, "/old/debian-security/dists/bullseye-security", kernel)
    (file,) = distributions.find("5.10", access._replace(mirror="")).files
    assert file.url.startswith(f"{archive.url}/old/debian-security/pool/")
    with pytest.raises(UnfitError, match="has no kernel"):
        distributions.find("5.10", access)  # a mirror of the user's own


@pytest.mark.usefixtures("kernels")
def test_a_suite_that_cannot_be_read_need_not_matter(archive, access):
    archive.files["/debian/dists/trixie-backports/main/binary-amd64/Packages.xz"] = b""
    assert distributions.find("6.1", access).release == "6.1.0-10-amd64"
    with pytest.raises(UnfitError, match=r"trixie-backports/.*not the file"):
        distributions.find("7.2", access)


@pytest.mark.usefixtures("kernels")
def test_without_signatures_no_release_is_read(archive, access):
    for path in [*archive.files]:
        if path.endswith("InRelease"):
            del archive.files[path]
    offer = distributions.find("6.1", access._replace(signed=False))
    assert offer.release == "6.1.0-10-amd64"


def test_a_damaged_index(archive, access):
    put(archive, "/debian/dists/sid", "Package: linux-image-6.3.0-1-amd64\nSize: x\n")
    suite = Suite(f"{archive.url}/debian", "sid")
    with pytest.raises(UnfitError, match="its index is damaged"):
        deb_archive.packages(suite, "amd64", debian.KEYS, access)


@pytest.mark.usefixtures("kernels")
def test_an_archive_that_changes_has_the_index_by_its_digest(archive, access):
    place = "/debian/dists/sid"
    path = f"{place}/main/binary-amd64/Packages.xz"
    digest = hashlib.sha256(archive.files[path]).hexdigest()
    release = archive.files[f"{place}/InRelease"]
    archive.files[f"{place}/InRelease"] = b"Acquire-By-Hash: yes\n" + release
    # a mirror that lacks it has the plain name
    assert distributions.find("6.3", access).release == "6.3.0-1-amd64"
    by_hash = f"{place}/main/binary-amd64/by-hash/SHA256/{digest}"
    archive.files[by_hash] = archive.files.pop(path)
    assert distributions.find("6.3", access).release == "6.3.0-1-amd64"
    archive.files[path] = lzma.compress(b"another")
    assert distributions.find("debian:sid", access).release == "6.3.0-1-amd64"


def test_ubuntus_kernels_are_in_parts_and_pockets(archive, access):
    ubuntu = access._replace(mirror=f"{archive.url}/ubuntu")
    for pocket, minor in (("", 1), ("-updates", 2)):
        release = f"6.8.0-{minor}-generic"
        put(
            archive,
            f"/ubuntu/dists/noble{pocket}",
            stanza("linux-image-generic", f"6.8.0-{minor}", f"linux-image-{release}"),
            stanza(
                f"linux-image-{release}", f"6.8.0-{minor}", f"linux-modules-{release}"
            ),
            stanza(f"linux-modules-{release}", f"6.8.0-{minor}"),
        )
    for name in ("24.04", "noble"):
        offer = Ubuntu(ubuntu).find(name)
        assert offer.release == "6.8.0-2-generic"
        assert [file.name for file in offer.files] == [
            "linux-image-generic_6.8.0-2.deb",
            "linux-image-6.8.0-2-generic_6.8.0-2.deb",
            "linux-modules-6.8.0-2-generic_6.8.0-2.deb",
        ]
    there = distributions.available("ubuntu", ubuntu)
    assert [offer.name for offer in there] == ["ubuntu:24.04"]
    with pytest.raises(UnfitError, match=r"has no kernel 24\.04-aws"):
        distributions.find("ubuntu:24.04-aws", ubuntu)


def test_the_order_of_versions():
    versions = ["6.1.90-1", "6.1.100-1", "7.3~rc7-1~exp1", "7.3-1", "7.3.4-1~bpo13+1"]
    assert sorted([*versions[2:], *versions[:2]], key=rank) == versions


def test_which_words_are_names():
    names = "6.1", "7.2-rt", "latest", "6.12-arm64", "6.1.0-9-amd64", "fedora:43"
    assert all(map(distributions.is_name, names))
    assert not any(map(distributions.is_name, ("mine", "6", "newest")))


def test_distributions_that_nobody_knows():
    with pytest.raises(UnfitError, match=r"slackware is no distribution .* debian, "):
        distributions.find("slackware:15", Access())


@pytest.mark.parametrize("which", [debian.Debian, Ubuntu])
def test_an_archive_of_which_nothing_can_be_read_offers_not_just_nothing(which):
    with pytest.raises(UnfitError, match="refused"):
        list(which(Access("http://127.0.0.1:9/debian")).available())
