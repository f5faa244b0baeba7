// SPDX-License-Identifier: GPL-2.0-or-later
/* Numbers by chance: the same ones for a seed, on every processor (SplitMix64). */
#include <stdint.h>

static uint64_t state; /* the seed, at first */

static uint64_t draw(void)
{
	uint64_t x = state += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}
