# SPDX-License-Identifier: GPL-2.0-or-later
"""Kinds of errors that are looked for in modules, by checks and by searches."""

RACE, FAULT, MEMORY = "race", "fault", "memory"
SCHEDULE, LOCK, IBT = "schedule", "lock", "ibt"
KINDS = RACE, FAULT, MEMORY, SCHEDULE, LOCK, IBT
CHECKS = MEMORY, LOCK, IBT  # any run may watch them, whatever else is done to it
RUN_CHECKS = RACE, *CHECKS  # those of one run: for races, each access waits
