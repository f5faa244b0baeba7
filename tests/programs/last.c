// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Write two lines, then end the kernel: by a letter for sysrq, or by a command of reboot(2).
 * An endless sleep follows, for those that end it a moment later.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/reboot.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int fd = open("/proc/sysrq-trigger", O_WRONLY);

	if (argc < 2 || write(1, "one\n", 4) != 4 || write(1, "two\n", 4) != 4)
		return 1;
	if (!strcmp(argv[1], "restart"))
		reboot(RB_AUTOBOOT);
	else if (!strcmp(argv[1], "halt"))
		reboot(RB_HALT_SYSTEM);
	else if (write(fd, argv[1], 1) != 1)
		return 1;
	for (;;)
		pause();
}
