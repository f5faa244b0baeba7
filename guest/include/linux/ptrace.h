/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <asm/ptrace.h>
#include <linux/sched.h>
