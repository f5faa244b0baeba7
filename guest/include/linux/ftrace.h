/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/kallsyms.h>
#include <linux/ptrace.h>
#include <linux/trace_events.h>

/* Without frame pointers only the nearest caller is known. */
#define CALLER_ADDR0 _RET_IP_
#define CALLER_ADDR1 0UL
#define CALLER_ADDR2 0UL
#define CALLER_ADDR3 0UL
