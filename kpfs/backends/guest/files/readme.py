# SPDX-License-Identifier: GPL-2.0-or-later
"""tracing/README: what is here, with the words that scripts look for."""

from __future__ import annotations

from kpfs.backends.guest.files.guest_file import GuestFile
from kpfs.fs.seqfile import ValueFile

OVERVIEW = """\
tracing mini-HOWTO:

# echo 0 > tracing_on : stop recording, at once
# echo 1 > tracing_on : record again

 Files:
  trace                 - What has been recorded; > trace clears it
  trace_pipe            - The same, taken out as it is read; waits for more
  current_tracer        - The tracer, or nop for none
  available_tracers     - The tracers that there are
  error_log     - What was wrong with the last commands, and where
  buffer_size_kb        - Room for records, in kB for each CPU
  buffer_total_size_kb  - The same of all CPUs together

  trace_clock           - The clock of the records
       local:   Nanoseconds since boot, of which the guest has one clock,
      global:   also under these names
        perf:
     counter:   No time: each record counts one up
      uptime:   Hundredths of a second since boot
         tai:   Nanoseconds since 1970

  timestamp_mode        - How times are kept
       delta:   As distances from the record before

  trace_marker          - What is written here becomes a record
  trace_marker_raw              - The same of a number of four bytes and data
  tracing_cpumask       - The CPUs that record
  instances             - mkdir instances/foo makes a set of buffers of its own,
                          rmdir removes it
  trace_options         - What lines look like and how recording is done;
                          noOPTION switches one off
  saved_cmdlines_size   - How many tasks' names are kept for the trace

"""
FUNCTION_FILTERS = """\
  available_filter_functions - Functions that can be traced
  set_ftrace_filter     - Names of the functions to trace; none: all of them
             accepts: func_full_name or glob-matching-pattern
             modules: PATTERN:mod:MODULE takes those of a module only
             commands: PATTERN:COMMAND[:count] has a call obey one of
                  traceon, traceoff, stacktrace, snapshot,
                  enable_event:GROUP:EVENT, disable_event:GROUP:EVENT
                  !PATTERN:COMMAND takes it back, with :0 if it has a count
  set_ftrace_notrace    - Names of functions not to trace
  set_ftrace_pid        - The tasks whose functions are traced
                    (function)
  set_ftrace_notrace_pid        - The tasks whose functions are not
                    (function)

"""
SNAPSHOT = """\
  snapshot              - Like trace, of the buffers as they were set aside by
                          echo 1 > snapshot; reading it says more
"""
STACK_FILTER = """\
  stack_trace_filter    - Functions for the stack tracer, which is not here
"""
DYNAMIC_EVENTS = """\
  dynamic_events                - Create/append/remove/show the generic dynamic events
                          A line written here defines or removes one.
"""
KPROBE_EVENTS = """\
  kprobe_events         - Create/append/remove/show the kernel dynamic events
                          A line written here defines or removes one.
          accepts: event-definitions (one definition per line)
           Format: p[:[<group>/][<event>]] <place> [<args>]
                   r[maxactive][:[<group>/][<event>]] <place> [<args>]
                   -:[<group>/][<event>]
            place: [<module>:]<symbol>[+<offset>]|<memaddr>
place (kretprobe): [<module>:]<symbol>[+<offset>]%return|<memaddr>
             args: <name>=fetcharg[:type]
         fetcharg: (%<register>), @<address>, @<symbol>[+|-<offset>],
                   $stack<index>, $stack, $retval, $comm, $arg<N>,
                   +|-[u]<offset>(<fetcharg>), \\imm-value, \\"imm-string"
{fetch_types}
"""
EVENTS = """\
  synthetic_events      - Create/append/remove/show synthetic events
          accepts: event-definitions (one definition per line)
           Format: <event> <type> <field>[;<type> <field>] ...
                   !<event> removes it
           Example: echo 'myevent u64 lat; char name[]' >> synthetic_events
             type: s8/16/32/64, u8/16/32/64, [unsigned ]char/int/long,
                   bool, pid_t, gfp_t, char[<size>], char[], long[]
            In dynamic_events: s:[synthetic/]<event> <type> <field>[;...],
                   -:[synthetic/]<event>
  events/               - All events
      enable            - 1 or 0: all of them on or off
  events/<system>/      - The events of a group
      enable            - 1 or 0: all of the group on or off
      filter            - A condition for all of the group that have its fields
  events/<system>/<event>/      - One event
      enable            - 1 or 0: on or off
      filter            - Only records that meet this condition are kept
      trigger           - A command to carry out when the event is hit
            Format: <trigger>[:count][if <filter>]
           trigger: traceon, traceoff
                    enable_event:<system>:<event>
                    disable_event:<system>:<event>
                    stacktrace
                    snapshot
           With a count the command does its work so often and no more;
           !<trigger> removes it.
"""

# the option that each part is about, "" for none
PARTS = (
    ("", OVERVIEW),
    ("KPROBES_ON_FTRACE", FUNCTION_FILTERS),
    ("", SNAPSHOT),
    ("KPROBES_ON_FTRACE", STACK_FILTER),
    ("", DYNAMIC_EVENTS),
    ("KPROBE_EVENTS", KPROBE_EVENTS),
    ("", EVENTS),
)


def fetch_types() -> str:
    """Return the types of a fetch argument, as many to a line as there is room for."""
    import textwrap

    from kpfs.engine.trace.probe.fetch import type_names

    text = f"type: {', '.join(type_names())}"
    return textwrap.fill(
        text,
        width=76,
        initial_indent=" " * 13,
        subsequent_indent=" " * 19,
        break_on_hyphens=False,
    )


class Readme(GuestFile, ValueFile):
    """Kernel: tracing_readme_fops"""

    def show(self) -> str:
        config = self.kernel.config
        text = "".join(text for name, text in PARTS if not name or config.on(name))
        return text.replace("{fetch_types}", fetch_types())
