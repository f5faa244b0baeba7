/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
struct new_utsname {
	char sysname[65], nodename[65], release[65], version[65], machine[65], domainname[65];
};
extern struct new_utsname init_uts_ns;
#define init_utsname() (&init_uts_ns)
#define utsname() (&init_uts_ns)
#define UTS_RELEASE "6.1.0-kpfs"
#define UTS_VERSION "#1 SMP PREEMPT kpfs 1 (2024-01-01)"
#define UTS_VERSION_NO_PREEMPT "#1 SMP kpfs 1 (2024-01-01)"
#define LINUX_COMPILE "(kpfs@kpfs) (gcc, GNU ld)"
extern const char linux_banner[], linux_proc_banner[];
