# SPDX-License-Identifier: GPL-2.0-or-later
"""Modules of the distribution in use, with all checks: none of them has a finding.

A use is a short script in a folder that is empty. It fails where a module or a tool is
missing, and that is told. ``python -m tests.campaign.sound [KERNEL...] [USE...]``
prints a table of kernels and uses; as a part of the campaign it takes the kernel 6.12,
or that of ``--kernel``. One for arm64 has the programs of arm64's packages.
In 7.3 scsi_debug has two findings that are real: see docs/explanation/found.md.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kpfs.linux.store import store
from tests import harness
from tests.campaign.hunt import Hunt, Part
from tests.harness import Kpfs

KERNELS = ("5.10", "6.1", "6.12", "7.3", "6.12-arm64")
CHECKS = ("memory,lock,ibt", "memory,lock")  # the second one where there is no IBT
NO_IBT = "CONFIG_X86_KERNEL_IBT"
ARM64_CHECKS = ("memory,race,lock",)
TITLES = "memory", "data race", "lock", "ibt"  # begin what is found
# what the uses need, and what that needs
ARM64_PACKAGES = tuple(
    """
    bash btrfs-progs coreutils dash dmsetup dosfstools e2fsprogs f2fs-tools findutils
    grep iproute2 kmod libacl1 libattr1 libaudit1 libblkid1 libbpf1 libbsd0 libc6
    libcap-ng0 libcap2 libcap2-bin libcom-err2 libcrypt1 libdevmapper1.02.1 libedit2
    libelf1 libexpat1 libext2fs2 libgcc-s1 libgcrypt20 libgmp10 libgpg-error0
    libgssapi-krb5-2 libicu72 libinih1 libjansson4 libk5crypto3 libkeyutils1 libkmod2
    libkrb5-3 libkrb5support0 liblz4-1 liblzma5 liblzo2-2 libmd0 libmnl0 libmount1
    libncursesw6 libnftables1 libnftnl11 libpcre2-8-0 libpython3.11-minimal libreadline8
    libselinux1 libsepol2 libsmartcols1 libss2 libssl3 libstdc++6 libsystemd0 libtinfo6
    libtirpc3 libudev1 liburcu8 libuuid1 libxtables12 libxxhash0 libzstd1 mount nftables
    python3.11-minimal util-linux util-linux-extra xfsprogs zlib1g
    """.split()
)
TIMEOUT = 600
IN_FOLDER = "mkdir -p /run/use; mount -t tmpfs none /run/use; cd /run/use; mkdir m\n"
FILES = """
    for i in 1 2 3 4 5 6 7 8 9; do echo $i > m/f$i; done; mkdir m/d; mv m/f1 m/d
    dd if=/dev/urandom of=m/big bs=16k count=40 status=none; sync; ln -s big m/l
    cat m/l >/dev/null; rm m/f2 m/big; ls -lR m >/dev/null; umount m
"""
SEND = "bash -c 'for i in 1 2 3; do echo $i >/dev/udp/$0/9; done'"
LINKS = "modprobe {0} && ip link add x0 type {0} && ip link set x0 up; ip link del x0"


def _disk(name: str, mkfs: str, size: str = "20M") -> str:
    made = f"truncate -s {size} disk && {mkfs} disk >/dev/null 2>&1"
    mounted = f"modprobe loop && modprobe {name} && mount -o loop -t {name} disk m"
    return f"{made} && {mounted} && {{ {FILES} }} && rmmod {name}"


def _over_dummy(name: str, options: str = "") -> str:
    return (
        f"modprobe dummy && modprobe {name} && ip link add d0 type dummy"
        f" && ip link set d0 up && ip link add link d0 name x0 type {name} {options}"
        " && ip addr add 10.9.0.1/24 dev x0 && ip link set x0 up;"
        f" ip link del x0 && ip link del d0 && rmmod {name} dummy"
    )


def _filter(name: str, options: str = "") -> str:
    return (
        f"modprobe dummy && modprobe sch_{name} && ip link add d0 type dummy"
        f" && ip addr add 10.9.0.1/24 dev d0 && ip link set d0 up"
        f" && tc qdisc add dev d0 root {name} {options}"
        f" && {SEND} 10.9.0.2; tc qdisc del dev d0 root"
        f" && ip link del d0 && rmmod sch_{name} dummy"
    )


def _hashes(*names: str) -> str:
    modules = " ".join(("af_alg", "algif_hash", "algif_skcipher", *names))
    return f"""modprobe -a {modules} && python3 -c '
import socket
def use(kind, name, key=None, iv=None):
    s = socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)
    s.bind((kind, name))
    if key: s.setsockopt(socket.SOL_ALG, socket.ALG_SET_KEY, key)
    for size in 0, 1, 63, 64, 4096, 9000:
        op, _ = s.accept()
        if kind == "hash":
            op.sendall(b"x" * size); op.recv(64)
        elif size % 64 == 0 and size:
            op.sendmsg_afalg([b"x" * size], op=socket.ALG_OP_ENCRYPT, iv=iv)
            op.recv(size)
        op.close()
for name in "md4", "wp512", "rmd160", "streebog512":
    try: use("hash", name)
    except OSError as e: print(name, e)
for name, key in ("cbc(twofish)", 32), ("ctr(serpent)", 32), ("xts(camellia)", 64):
    try: use("skcipher", name, b"k" * key, b"i" * 16)
    except OSError as e: print(name, e)
'"""


USES = {
    "dummy": LINKS.format("dummy") + " && rmmod dummy",
    "veth": "modprobe veth && ip link add v0 type veth peer name v1"
    " && ip link set v0 up && ip link set v1 up; ip link del v0 && rmmod veth",
    "bridge": "modprobe bridge && modprobe veth && ip link add br0 type bridge"
    " && ip link add v0 type veth peer name v1 && ip link set v0 master br0"
    " && ip link set v0 up && ip link set v1 up && ip link set br0 up; sleep 1;"
    " ip link del v0; ip link del br0 && rmmod bridge veth",
    "tun": "modprobe tun && ip tuntap add t0 mode tun && ip link set t0 up"
    " && ip link del t0 && rmmod tun",
    "bonding": "modprobe dummy && modprobe bonding max_bonds=0 && ip link add b0 type"
    " bond mode active-backup miimon 100 && ip link add d0 type dummy"
    " && ip link set d0 master b0 && ip link set b0 up; sleep .5; ip link del b0"
    " && ip link del d0 && rmmod bonding dummy",
    "8021q": _over_dummy("vlan", "id 5").replace("modprobe vlan", "modprobe 8021q")
    .replace("rmmod vlan", "rmmod 8021q"),
    "macvlan": _over_dummy("macvlan", "mode bridge"),
    "ipvlan": _over_dummy("ipvlan"),
    "vxlan": _over_dummy("vxlan", "id 9 group 239.1.1.1 dstport 4789 dev d0"),
    "ifb": LINKS.format("ifb") + "; rmmod ifb",
    "wireguard": LINKS.format("wireguard") + " && rmmod wireguard",
    "vrf": "modprobe vrf && ip link add x0 type vrf table 7 && ip link set x0 up;"
    " ip link del x0",
    "netem": _filter("netem", "delay 5ms loss 20%"),
    "tbf": _filter("tbf", "rate 1mbit burst 2k latency 20ms"),
    "fq_codel": _filter("fq_codel"),
    "nf_tables": "modprobe nf_tables && nft -f - <<'E' && nft list ruleset >/dev/null"
    f" && {SEND} 127.0.0.1; nft flush ruleset\n"
    "table inet t {\n set s { type ipv4_addr; elements = { 1.2.3.4, 5.6.7.8 } }\n"
    " chain c { type filter hook input priority 0; ip saddr @s counter drop\n"
    "  ct state established accept\n tcp dport { 22, 80 } counter accept } }\nE",
    "9p": "modprobe 9p && ! mount -t 9p -o trans=tcp 127.0.0.1 m 2>/dev/null"
    " && rmmod 9p",
    "vcan": LINKS.format("vcan") + " && rmmod vcan",
    "mac80211_hwsim": "modprobe mac80211_hwsim radios=2 && ip link set wlan0 up;"
    " sleep .3; rmmod mac80211_hwsim",
    "loop": "truncate -s 4M d && modprobe loop && L=$(losetup -f --show d)"
    " && dd if=/dev/zero of=$L bs=64k count=30 status=none && sync && losetup -d $L"
    " && rmmod loop",
    "brd": "modprobe brd rd_nr=1 rd_size=8192 && mkfs.ext2 -q /dev/ram0 && rmmod brd",
    "zram": "modprobe zram && echo 16M >/sys/block/zram0/disksize"
    " && mkfs.ext2 -q /dev/zram0 && mount /dev/zram0 m"
    f" && {{ {FILES} }}; echo 1 >/sys/block/zram0/reset; rmmod zram",
    "null_blk": "modprobe null_blk nr_devices=1 gb=1 && dd if=/dev/nullb0 of=/dev/null"
    " bs=64k count=30 status=none && rmmod null_blk",
    "scsi_debug": "modprobe scsi_debug dev_size_mb=8 && modprobe sd_mod; sleep 1;"
    " ls /sys/block | grep -q sd; rmmod scsi_debug",
    "dm_mod": "modprobe dm_mod && dmsetup create x --table '0 2048 zero'"
    " && dmsetup info x >/dev/null; dmsetup remove x",
    "ext4": _disk("ext4", "mkfs.ext4 -q"),
    "btrfs": _disk("btrfs", "mkfs.btrfs -q", "120M"),
    "xfs": _disk("xfs", "mkfs.xfs -q", "310M"),
    "vfat": _disk("vfat", "mkfs.vfat").replace("ln -s big m/l", "cp m/big m/l"),
    "f2fs": _disk("f2fs", "mkfs.f2fs", "60M"),
    "minix": _disk("minix", "mkfs.minix"),
    "overlay": "modprobe overlay; mkdir u w l; echo 1 > l/f1"
    " && mount -t overlay -o lowerdir=l,upperdir=u,workdir=w none m"
    f" && {{ {FILES} }}; rmmod overlay; true",
    "fuse": "modprobe fuse; mount -t fusectl none m && ls m && umount m",
    "crypto": _hashes("twofish_generic", "serpent_generic", "camellia_generic", "md4"),
    "tcrypt": "modprobe tcrypt mode=10; modprobe tcrypt mode=101 alg=x; true",
    "raid6_pq": "modprobe raid6_pq && rmmod raid6_pq",
    "snd_dummy": "modprobe snd_dummy && cat /proc/asound/cards >/dev/null"
    " && rmmod snd_dummy",
    "uinput": "modprobe uinput && rmmod uinput",
    "i2c_stub": "modprobe i2c_stub chip_addr=0x20 && rmmod i2c_stub",
    "vkms": "modprobe vkms && sleep .3; rmmod vkms",
    "e1000": "modprobe e1000 && rmmod e1000",
    "softdog": "modprobe softdog && echo V >/dev/watchdog; rmmod softdog",
    "test_bpf": "modprobe test_bpf test_name=LD_ABS; true",
    "mtdram": "modprobe mtdram && cat /proc/mtd >/dev/null && rmmod mtdram",
    "vivid": "modprobe vivid && rmmod vivid",
    "kvm": "modprobe kvm && rmmod kvm",
}  # fmt: skip


class Outcome(NamedTuple):
    """One use with one kernel."""

    findings: list[str]
    why: str  # it could not be used; "": it could

    def __str__(self) -> str:
        if self.findings:
            return f"{len(self.findings)} FOUND"
        return self.why or "good"


def use(kernel: str, name: str, kpfs: Kpfs) -> Outcome:
    """Run a use with the checks that a kernel can have."""
    script, options = f"{IN_FOLDER}{USES[name]}", []
    if is_arm64 := "arm64" in kernel:
        root = harness.made_root("arm64", "bookworm", ARM64_PACKAGES, "tools")
        script = script.replace("python3 ", "python3.11 ")
        options = ["--root", str(root)]
    for checks in ARM64_CHECKS if is_arm64 else CHECKS:
        words = "run", "--kernel", kernel, *options, "--inside", "--check", checks, "--"
        done = kpfs(*words, "sh", "-c", script, timeout=TIMEOUT)
        if NO_IBT not in done.stderr:
            break
    found = done.stderr.split("\nkpfs: ")
    findings = [text for text in found if ": " in text and _is_finding(text)]
    if findings:
        return Outcome(findings, "")
    lines = [*done.stderr.split("\n"), *done.stdout.split("\n")]
    said = next((line for line in lines if line.strip()), "no reason")
    return Outcome([], "" if not done.returncode else said.strip()[:60])


def _is_finding(text: str) -> bool:
    return text.removeprefix("kpfs: ").split(":")[0] in TITLES


def run(hunt: Hunt) -> None:
    kpfs, names = Kpfs(hunt.scratch), list(USES)
    hunt.rng.shuffle(names)
    while hunt.more():
        name = names[hunt.done % len(names)]
        outcome = use(hunt.kernel or "6.12", name, kpfs)
        for finding in outcome.findings:
            hunt.finding(f"{name}: {finding}")
        hunt.did(1, "found" if outcome.findings else outcome.why or "good")


def table(kpfs: Kpfs, kernels: list[str], names: list[str]) -> Iterator[str]:
    """Yield the lines of a table, and what was found behind it."""
    told = []
    yield f"{'':15} " + " ".join(f"{kernel:20}" for kernel in kernels)
    for name in names:
        outcomes = [use(kernel, name, kpfs) for kernel in kernels]
        told += [text for each in outcomes for text in each.findings]
        yield f"{name:15} " + " ".join(f"{str(each)[:20]:20}" for each in outcomes)
    yield from told


PART = Part("uses", len(USES), 2, run, kernels=True)

if __name__ == "__main__":
    made = [kernel for kernel in KERNELS if os.path.isdir(store.folder(kernel))]
    asked = [word for word in sys.argv[1:] if word not in USES]
    only = [word for word in sys.argv[1:] if word in USES]
    with tempfile.TemporaryDirectory() as scratch:
        for row in table(Kpfs(Path(scratch)), asked or made, only or list(USES)):
            print(row, flush=True)
