// SPDX-License-Identifier: GPL-2.0-or-later
/* The numbers of x86-64's system calls. */
#include <linux/syscalls.h>
#include <linux/unistd.h>

#define SYSCALLS \
	__S(0, read) __S(1, write) __S(2, open) __S(3, close) __S(4, newstat) __S(5, newfstat) \
	__S(6, newlstat) __S(8, lseek) __S(12, brk) __S(17, pread64) __S(18, pwrite64) __S(19, readv) \
	__S(20, writev) __S(21, access) __S(22, pipe) __S(24, sched_yield) __S(32, dup) __S(33, dup2) \
	__S(35, nanosleep) __S(39, getpid) __S(40, sendfile64) __S(56, clone) __S(57, fork) __S(59, execve) __S(60, exit) __S(61, wait4) \
	__S(62, kill) __S(63, newuname) __S(72, fcntl) __S(74, fsync) __S(75, fdatasync) \
	__S(76, truncate) __S(77, ftruncate) __S(78, getdents) __S(79, getcwd) __S(80, chdir) __S(81, fchdir) __S(82, rename) __S(83, mkdir) \
	__S(84, rmdir) __S(85, creat) __S(86, link) __S(87, unlink) __S(88, symlink) __S(89, readlink) \
	__S(90, chmod) __S(91, fchmod) __S(92, chown) __S(93, fchown) __S(94, lchown) __S(95, umask) __S(96, gettimeofday) __S(100, times) \
	__S(102, getuid) __S(104, getgid) __S(105, setuid) __S(106, setgid) __S(107, geteuid) \
	__S(108, getegid) __S(110, getppid) __S(137, statfs) __S(138, fstatfs) __S(157, prctl) __S(162, sync) __S(170, sethostname) \
	__S(175, init_module) __S(176, delete_module) \
	__S(186, gettid) __S(201, time) __S(217, getdents64) __S(228, clock_gettime) __S(231, exit_group) \
	__S(257, openat) __S(258, mkdirat) __S(260, fchownat) __S(262, newfstatat) __S(263, unlinkat) __S(264, renameat) \
	__S(265, linkat) __S(266, symlinkat) __S(267, readlinkat) __S(268, fchmodat) __S(269, faccessat) __S(280, utimensat) __S(292, dup3) __S(293, pipe2) \
	__S(316, renameat2) __S(322, execveat) __S(332, statx) __S(435, clone3) __S(437, openat2) __S(439, faccessat2)

#define __S(nr, name) long __x64_sys_##name(const struct pt_regs *regs);
SYSCALLS
#undef __S
#define __S(nr, name) [nr] = __x64_sys_##name,
/* clang-format off */
const sys_call_ptr_t sys_call_table[NR_syscalls] = {
	[0 ... NR_syscalls - 1] = __x64_sys_ni_syscall,
	SYSCALLS
};
/* clang-format on */
