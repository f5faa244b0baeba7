// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Uprobes at functions of this program, each of which begins with another instruction. The kernel
 * copies it to one place, and the program runs it there. Prints how often a function returned what
 * it should, and how often the probes were hit.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRACING "/sys/kernel/tracing/"
#define TIMES 59
#define COUNT(list) (sizeof(list) / sizeof(*list))
#define FUNCTION(name, value)                            \
	__attribute__((noinline)) static long name(long a) \
	{                                                \
		asm volatile("");                        \
		return value;                            \
	}

FUNCTION(triple, a * 3)
FUNCTION(next, a + 1)
FUNCTION(flip, a ^ 85)
FUNCTION(shift, a << 5)

static long (*const functions[])(long) = { triple, next, flip, shift };
extern char __executable_start[];

static void put(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY | O_APPEND);

	if (write(fd, text, strlen(text)) < 0) {
		perror(file);
		exit(1);
	}
	close(fd);
}

int main(void)
{
	char path[256] = "", event[400];
	unsigned long hits, sum = 0, right = 0;
	FILE *profile;

	if (readlink("/proc/self/exe", path, sizeof(path) - 1) < 0)
		return 1;
	for (unsigned int i = 0; i < COUNT(functions); i++) {
		snprintf(event, sizeof(event), "p:f%u %s:%#lx\n", i, path,
			 (long)((char *)functions[i] - __executable_start));
		put(TRACING "uprobe_events", event);
	}
	put(TRACING "events/uprobes/enable", "1");
	for (long i = 0; i < TIMES; i++) {
		right += functions[0](i) == 3 * i;
		right += functions[1](i) == i + 1;
		right += functions[2](i) == (i ^ 85);
		right += functions[3](i) == 32 * i;
	}
	put(TRACING "events/uprobes/enable", "0");
	profile = fopen(TRACING "uprobe_profile", "r");
	while (profile && fscanf(profile, "%*s %*s %lu", &hits) == 1)
		sum += hits;
	printf("right %lu\nhits %lu\n", right, sum);
	return 0;
}
