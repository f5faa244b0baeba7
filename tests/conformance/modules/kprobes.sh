# What a module finds in the headers beside linux/kprobes.h: tests/modules/kprobe_calls.c says it.
# shellcheck shell=sh disable=SC2086
# SPDX-License-Identifier: GPL-2.0-or-later
# $KMODULES/kprobe_calls.ko is built for the kernel that runs this.
insmod $KMODULES/kprobe_calls.ko
rmmod kprobe_calls
dmesg | sed -n 's/.*said: //p'
