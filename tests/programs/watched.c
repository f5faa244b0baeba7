// SPDX-License-Identifier: GPL-2.0-or-later
/* Counts how often its data are accessed, by the processor's debug registers. */
#include <fcntl.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile unsigned long words[4096];

static int watch(volatile void *at, int type, int length)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.bp_type = type,
		.bp_addr = (unsigned long)at,
		.bp_len = length,
	};

	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

static long hits(int fd)
{
	long count;

	return read(fd, &count, sizeof(count)) == sizeof(count) ? count : -1;
}

/* Return whether the flags outlive a store that is repeated. */
static int flags_stay(void)
{
	static unsigned long stored[8];

	for (unsigned int i = 0; i < 2000; i++) {
		void *at = stored;
		unsigned long count = 8;
		unsigned char above, below;

		asm volatile("cmpl $0x400, %4\n\trep stosq\n\tseta %2\n\tsetb %3"
			     : "+D"(at), "+c"(count), "=r"(above), "=r"(below)
			     : "m"(i), "a"(0)
			     : "cc", "memory");
		if (above != (i > 0x400) || below != (i < 0x400))
			return 0;
	}
	return 1;
}

int main(void)
{
	volatile unsigned char *bytes = (volatile unsigned char *)&words[2003];
	int writes = watch(&words[2000], HW_BREAKPOINT_W, 8);
	int both = watch(&words[2001], HW_BREAKPOINT_RW, 4);
	int byte = watch(bytes + 1, HW_BREAKPOINT_W, 1);

	for (int i = 0; i < 100; i++) {
		words[2000] = i;
		(void)words[2000];
		words[2001] = i;
		(void)words[2001];
		words[2002] = i;
		bytes[0] = bytes[1] = bytes[2] = i;
	}
	printf("%ld %ld %ld\n", hits(writes), hits(both), hits(byte));
	/* by the kernel, which writes to a page that is not there yet, too */
	writes = watch(&words[4000], HW_BREAKPOINT_W, 8);
	if (read(open("/dev/zero", O_RDONLY), (void *)&words[3990], 800) != 800)
		return 1;
	printf("%ld %d\n", hits(writes), flags_stay());
	return 0;
}
