# Data breakpoints: which accesses count, what handlers see, what is refused: tests/modules/watch_calls.c.
# shellcheck shell=sh disable=SC2086
# SPDX-License-Identifier: GPL-2.0-or-later
# $KMODULES/watch_calls.ko is built for the kernel that runs this.
insmod $KMODULES/watch_calls.ko || echo "insmod: refused"
rmmod watch_calls || echo "rmmod: refused"
dmesg | sed -n 's/.*watch: //p'
