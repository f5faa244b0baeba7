/* SPDX-License-Identifier: GPL-2.0-or-later */
/* shows FILE: print a file's text, for kernels in which the host's cat(1) does not run. */
#include <stdio.h>

int main(int argc, char **argv)
{
	FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
	int c;

	if (!file)
		return 1;
	while ((c = getc(file)) != EOF)
		putchar(c);
	return 0;
}
