// SPDX-License-Identifier: GPL-2.0-or-later
/* The kernel's name and version. */
#include <linux/utsname.h>

struct new_utsname init_uts_ns = {
	.sysname = "Linux",
	.nodename = "kpfs",
	.release = UTS_RELEASE,
	.version = UTS_VERSION,
	.machine = "x86_64",
	.domainname = "(none)",
};
const char linux_banner[] = "Linux version " UTS_RELEASE " " LINUX_COMPILE " " UTS_VERSION "\n";
const char linux_proc_banner[] = "%s version %s " LINUX_COMPILE " %s\n";
