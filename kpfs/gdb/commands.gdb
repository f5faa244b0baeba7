# SPDX-License-Identifier: GPL-2.0-or-later
# The command kpfs-symbols, which 'kpfs gdb' adds to gdb.
python
import os


class KpfsSymbols(gdb.Command):
    """Read the symbols of the modules that the kernel has loaded.

Usage: kpfs-symbols [DIR]...

The files of modules are looked for in each DIR, then asked of the kernel.  Say it again
after modules were loaded or removed."""

    def __init__(self):
        super().__init__("kpfs-symbols", gdb.COMMAND_FILES, gdb.COMPLETE_FILENAME)
        self.known = set()  # name and address of the text of modules

    def invoke(self, argument, _from_tty):
        found = {}
        for line in gdb.execute("monitor modules", to_string=True).splitlines():
            name, place, *words = line.split()
            sections = dict(word.split("=") for word in words)
            found[name, sections.get(".text")] = place, sections
        for name, text in self.known - found.keys():
            gdb.execute(f"remove-symbol-file -a {text}", to_string=True)
            self.known.discard((name, text))
        for key in found.keys() - self.known:
            self.add(key, gdb.string_to_argv(argument), *found[key])

    def add(self, key, folders, place, sections):
        name, text = key
        for folder in folders:
            for entry in (name, name.replace("_", "-")):
                path = os.path.join(os.path.expanduser(folder), f"{entry}.ko")
                if os.path.exists(path):
                    place = path
        if place == "-" or text is None:
            print(f"{name}: no file; name its folder: kpfs-symbols DIR")
            return
        others = " ".join(f"-s {n} {a}" for n, a in sections.items() if n != ".text")
        gdb.execute(f'add-symbol-file "{place}" {text} {others}', to_string=True)
        self.known.add(key)
        print(f"{name}: symbols of {place}")


KpfsSymbols()
end
