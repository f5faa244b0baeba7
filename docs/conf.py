# SPDX-License-Identifier: GPL-2.0-or-later
"""The configuration with which scripts/docs has Sphinx make a site of docs/."""

import sys
from pathlib import Path

from docutils.nodes import Node, literal_block, paragraph, section, title
from docutils.parsers.rst import Directive
from pygments.lexers import TextLexer
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent.parent))

from kpfs.cli import VERSION
from kpfs.engine.trace.errlog import Err, SynthErr
from kpfs.manual.description import walk
from kpfs.share import description

project = "kpfs"
release = version = VERSION
copyright = "The kpfs authors"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = f"kpfs {VERSION}"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
suppress_warnings = ["myst.xref_missing"]


class Errors(Directive):
    """The texts of error_log, from the tables that write it."""

    def run(self) -> list[Node]:
        """One block."""
        text = "\n".join(error.value for table in (Err, SynthErr) for error in table)
        return [literal_block(text, text, language="text")]


class Commands(Directive):
    """Each command, from the one description of the arguments."""

    def run(self) -> list[Node]:
        """A section for each."""
        made: list[Node] = []
        for command in walk(description()):
            part = section(ids=["-".join(command.path)])
            part += title(command.name, command.name)
            part += paragraph(command.help, command.help)
            options = [
                (
                    ", ".join(o.names) + (f" {o.value.metavar}" if o.value else ""),
                    o.help,
                )
                for o in command.options
            ]
            width = max(len(words) for words, _ in options)
            rows = [f"  {words:{width}}  {meaning}" for words, meaning in options]
            parts = (command.usage, command.description.strip(), "\n".join(rows))
            text = "\n\n".join(part for part in (*parts, command.epilog) if part)
            part += literal_block(text, text, language="text")
            made.append(part)
        return made


def setup(app: Sphinx) -> None:
    """Register the directives above, and gdb's language, which Pygments lacks."""
    app.add_lexer("gdb", TextLexer)
    app.add_directive("errors", Errors)
    app.add_directive("commands", Commands)
