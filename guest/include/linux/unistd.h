/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef _LINUX_UNISTD_H
#define _LINUX_UNISTD_H
#define NR_syscalls 451
#endif
