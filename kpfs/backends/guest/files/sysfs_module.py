# SPDX-License-Identifier: GPL-2.0-or-later
"""module/: what Linux shows of each module in /sys/module."""

from __future__ import annotations

import errno
import stat
from collections.abc import Callable, Iterable
from functools import partial

from kpfs.backends.guest.files.addresses import AddressValueHandle
from kpfs.backends.guest.files.guest_file import GuestDir, GuestFile
from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.base.errors import KernelError
from kpfs.base.units import PAGE_SIZE
from kpfs.fs.node import Dir, File, Node
from kpfs.fs.seqfile import ValueFile
from kpfs.guest.loader.modules import Module, Parameter

DIR_MODE = stat.S_IFDIR | 0o755


class Attribute(GuestFile, ValueFile):
    """A value of a module.  Kernel: struct module_attribute"""

    splices_from = splices_into = True

    def __init__(
        self, kernel: GuestKernel, mode: int, value: Callable[[], str]
    ) -> None:
        super().__init__(kernel)
        self.mode = stat.S_IFREG | mode
        self.size = PAGE_SIZE
        self.value = value

    def truncate(self, size: int) -> None:
        """Ignore it: the size stays a page, as in sysfs."""

    def show(self) -> str:
        return self.value()


class SectionFile(Attribute):
    """sections/NAME: where a section lies.  Kernel: module_sect_read()"""

    handle_type = AddressValueHandle


class ParameterFile(Attribute):
    """parameters/NAME: the module's own functions read and set it.

    Kernel: param_attr_show(), param_attr_store()
    """

    def __init__(self, kernel: GuestKernel, parameter: Parameter) -> None:
        mode = parameter.mode & 0o777
        super().__init__(kernel, mode, partial(self.get, kernel, parameter))
        self.parameter = parameter

    @staticmethod
    def get(kernel: GuestKernel, parameter: Parameter) -> str:
        if not parameter.mode & 0o444:
            raise KernelError(errno.EIO, "not for reading")
        return kernel.syscalls.get_parameter(parameter).decode("latin-1")

    def store(self, data: bytes) -> None:
        if not self.parameter.mode & 0o222:
            raise KernelError(errno.EIO, "not for writing")
        self.kernel.syscalls.set_parameter(self.parameter, data)


class ModuleDir(Dir):
    """module/NAME/."""

    def __init__(self, kernel: GuestKernel, module: Module) -> None:
        super().__init__(DIR_MODE)
        modules = kernel.guest.modules
        layout, info = module.layout, module.file.modinfo()
        values: dict[str, Callable[[], object]] = {
            "coresize": lambda: layout.core.size,
            "initsize": lambda: layout.init.size,
            "initstate": lambda: modules.state(module).lower(),
            "taint": lambda: modules.taint_letters(module),
        }
        if kernel.config.on("MODULE_UNLOAD"):
            values["refcnt"] = lambda: modules.refcount(module)
        for name in ("version", "srcversion"):
            if name in info:
                values[name] = partial(info.get, name)
        for name, value in values.items():
            self.put(name, Attribute(kernel, 0o444, partial(_line, value)))
        self.put("holders", Holders(kernel, module))
        sections = Dir(DIR_MODE)
        for name, addr in modules.section_addresses(module):
            text = f"0x{addr:016x}\n"
            node = SectionFile(kernel, 0o400, partial(str, text))
            sections.add(name, node.mode, node)
        self.put("sections", sections)
        parameters = [p for p in modules.parameters(module) if p.mode & 0o777]
        if parameters:
            folder = Dir(DIR_MODE)
            for parameter in parameters:
                file: File = ParameterFile(kernel, parameter)
                folder.add(parameter.name, file.mode, file)
            self.put("parameters", folder)

    def put(self, name: str, node: Node) -> None:
        self.add(name, node.mode, node)


def _line(value: Callable[[], object]) -> str:
    return f"{value()}\n"


class Holders(GuestDir):
    """module/NAME/holders/: the modules that use this one.

    They are directories here, where Linux has links to them.
    """

    def __init__(self, kernel: GuestKernel, module: Module) -> None:
        super().__init__(kernel, DIR_MODE)
        self.module = module

    def entry(self, name: str) -> Node | None:
        user = next((m for m in self.module.users if m.name == name), None)
        return self.keep(name, user, partial(ModuleDir, self.kernel))

    def entries(self) -> Iterable[str]:
        return [user.name for user in self.module.users]


class ModulesDir(GuestDir):
    """module/."""

    def entry(self, name: str) -> Node | None:
        with self.kernel.lock:
            module = self.kernel.guest.modules.find(name)
            return self.keep(name, module, partial(ModuleDir, self.kernel))

    def entries(self) -> Iterable[str]:
        with self.kernel.lock:
            return sorted(m.name for m in self.kernel.guest.modules)
