/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#define CUT_HERE "------------[ cut here ]------------\n"

#define TAINT_PROPRIETARY_MODULE 0
#define TAINT_DIE 7
#define TAINT_WARN 9
#define TAINT_OOT_MODULE 12
enum lockdep_ok { LOCKDEP_STILL_OK, LOCKDEP_NOW_UNRELIABLE };
void add_taint(unsigned int flag, enum lockdep_ok);
void oops_exit(void);

struct pt_regs;
void __show_regs(struct pt_regs *regs, const char *log_lvl);
