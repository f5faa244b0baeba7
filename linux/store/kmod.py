# SPDX-License-Identifier: GPL-2.0-or-later
"""The modules of a kernel as kmod's programs look for them: in /lib/modules/RELEASE.

Packages come without the tables of depmod, as each host runs it for itself.  So depmod
is run when somebody first looks there, and an archive is unpacked before.
The image does not depend on that, and its digest neither.  Each ``kpfs run`` calls
install(), so only its first call imports what it needs.
"""

from __future__ import annotations

import contextlib
import os

from kpfs.base import aside, places
from kpfs.base.programs import search_path
from kpfs.linux.store import image

TREE = "installed"  # in the folder of a kernel: a root directory for kmod's programs
_TABLE = "modules.dep"  # is there when depmod has run


def _program(name: str) -> str | None:
    import shutil

    return shutil.which(name, path=search_path())


def install(folder: str, release: str) -> str:
    """Unpack a kernel's modules, once, and return the path of lib/modules/RELEASE.

    Without kmod they have no tables.  Raises UnfitError if the archive is damaged, and
    OSError.
    """
    root = _root(folder)
    place = os.path.join(root, "lib/modules", release)
    if not os.path.isdir(place):
        _unpack(folder, root, release)
    if not os.path.exists(os.path.join(place, _TABLE)) and (
        depmod := _program("depmod")
    ):
        import subprocess

        # it complains of what it can do without, as the symbols of the kernel itself
        subprocess.run([depmod, "-b", root, release], stderr=subprocess.DEVNULL)
    return place


def _unpack(folder: str, root: str, release: str) -> None:
    from kpfs.linux.store.modules import ModuleArchive, share

    home = os.path.dirname(root)
    places.make(home)
    with aside.folder(home, f".{TREE}-") as made:
        new = os.path.join(made, TREE)
        if there := _unpacked_elsewhere(folder):
            share(there, new)
        else:
            with ModuleArchive(os.path.join(folder, image.MODULES)) as archive:
                archive.unpack(os.path.join(new, "lib/modules", release))
        with contextlib.suppress(OSError):  # somebody else was faster
            os.rename(new, root)


def _unpacked_elsewhere(folder: str) -> str:
    """Return the root of another image that has the same archive, or ""."""
    archive = os.path.join(folder, image.MODULES)
    for other in os.scandir(os.path.dirname(folder)):
        root = os.path.join(other.path, TREE)
        with contextlib.suppress(OSError):
            same = os.path.samefile(archive, os.path.join(other.path, image.MODULES))
            if same and os.path.isdir(root) and not os.path.samefile(folder, other):
                return root
    return ""


def _root(folder: str) -> str:
    """Return kmod's root directory, which may be missing.

    It is in the user's cache if depmod cannot write beside the image.
    """
    modules = os.path.join(folder, image.MODULES)
    root = modules if os.path.isdir(modules) else os.path.join(folder, TREE)
    if os.access(folder, os.W_OK) or _has_tables(root):
        return root
    made = os.stat(modules).st_mtime_ns
    name = f"{os.path.basename(folder)}-{made}"
    return os.path.join(places.private_cache(), name, TREE)


def _has_tables(root: str) -> bool:
    """Return True if depmod has run there before, as nobody need write then."""
    with contextlib.suppress(OSError):
        places = os.scandir(os.path.join(root, "lib/modules"))
        return any(os.path.exists(os.path.join(one.path, _TABLE)) for one in places)
    return False


def load_order(folder: str, release: str, name: str) -> list[str]:
    """Return the names of the modules that modprobe loads for a name, in its order.

    Some may be built in.  The list is empty if nothing has that name.  Without kmod,
    aliases are unknown and soft dependencies are ignored.  Raises UnfitError, OSError.
    """
    import subprocess

    from kpfs.linux.store.modules import ModuleArchive, module_name

    modprobe = _program("modprobe")
    if not modprobe:
        with ModuleArchive(os.path.join(folder, image.MODULES)) as archive:
            if name in archive:
                return [*archive.needed(name), module_name(name)]
            return [module_name(name)] if archive.is_builtin(name) else []
    install(folder, release)
    words = ["-C", "/dev/null", "-d", _root(folder), "-S", release, "-D", name]
    done = subprocess.run(
        [modprobe, *words], capture_output=True, text=True, errors="surrogateescape"
    )
    rows = [line.split() for line in done.stdout.splitlines()]
    # "insmod PATH PARAMETER...", "builtin NAME"
    return list(dict.fromkeys(module_name(row[1]) for row in rows if len(row) > 1))
