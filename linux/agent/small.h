/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* What armhf and i386 have in common: numbers of calls, and what compilers need for 32 bits. */

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
#define SYS_prctl 172
#define SYS_rt_sigaction 174
#define SYS_capset 185
#define SYS_mmap 192 /* mmap2: the offset in pages */
#define SYS_setresuid 208
#define SYS_setresgid 210
#define SYS_futex 240
#define SYS_sched_setaffinity 241
#define SYS_sched_getaffinity 242
#define SYS_clone3 435

#define OPEN(path, flags) CALL(SYS_open, path, flags, 0)
#define MKDIR(path, mode) CALL(SYS_mkdir, path, mode, 0)
#define CHMOD(path, mode) CALL(SYS_chmod, path, mode, 0)
#define DUP2(from, to) CALL(SYS_dup2, from, to, 0)
#define MMAP(at, size, prot, flags, fd, offset) \
	call(SYS_mmap, at, size, prot, flags, fd, (offset) / PAGE)

#include "generic.h"
#include "memcpy.h"

/* The compiler calls it. */
__attribute__((used)) int __ctzdi2(u64 bits)
{
	return (u32)bits ? __builtin_ctz(bits) : 32 + __builtin_ctz(bits >> 32);
}

#define SA_RESTORER 0x04000000
extern void restorer(void);
