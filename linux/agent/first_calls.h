/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Numbers of calls that i386 had first, and armhf, s390x and ppc64 took over. */

#define SYS_exit 1
#define SYS_read 3
#define SYS_write 4
#define SYS_open 5
#define SYS_close 6
#define SYS_chmod 15
#define SYS_mount 21
#define SYS_mkdir 39
#define SYS_ioctl 54
#define SYS_dup2 63
#define SYS_munmap 91
#define SYS_sched_setscheduler 156
#define SYS_sched_yield 158
#ifndef SYS_prctl /* ppc64 has these elsewhere */
#define SYS_prctl 172
#define SYS_rt_sigaction 174
#define SYS_capset 185
#define SYS_setresuid 208
#define SYS_setresgid 210
#endif
