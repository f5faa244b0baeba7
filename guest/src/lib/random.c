// SPDX-License-Identifier: GPL-2.0-or-later
/* Numbers that look random: the same ones in each boot of a quiet machine. */
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/random.h>
#include <linux/string.h>

static u64 state;

/* Return a step, multiplied and mixed (splitmix64). */
noinline u64 get_random_u64(void)
{
	u64 z = __atomic_add_fetch(&state, 0x9e3779b97f4a7c15UL + ktime_get_ns(), __ATOMIC_RELAXED);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9UL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebUL;
	return z ^ (z >> 31);
}

u32 get_random_u32(void)
{
	return get_random_u64() >> 32;
}

void get_random_bytes(void *buf, size_t len)
{
	while (len) {
		u64 v = get_random_u64();
		size_t n = min_t(size_t, len, sizeof(v));

		memcpy(buf, &v, n);
		buf = (char *)buf + n;
		len -= n;
	}
}
