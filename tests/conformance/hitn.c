// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdlib.h>
#include <unistd.h>
#include <sys/syscall.h>
int main(int c, char **v)
{
	for (long n = atol(v[1]); n-- > 0;)
		syscall(SYS_getppid);
	return 0;
}
