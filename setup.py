# SPDX-License-Identifier: GPL-2.0-or-later
"""Have the build make man pages and completions, which pyproject.toml cannot say."""

import os
import sys

from setuptools import setup

# isort: split
from distutils.command.install_data import install_data  # setuptools brings it

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


class InstallData(install_data):
    """Installs what kpfs.share makes, below share/."""

    def run(self) -> None:
        """Make the files where they are installed."""
        from kpfs.share import write

        names = write(self.install_dir)
        self.outfiles += [os.path.join(self.install_dir, name) for name in names]


# a wheel has data only if some are named
setup(cmdclass={"install_data": InstallData}, data_files=[("share", [])])
