// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Undo a block of LZ4: literals and copies of earlier bytes in turn, a million in a kernel. The package
 * of that name has no wheel for musl, and does not know the form that kernels have (lz4 -l).
 */
#include "engines.h"

#define MANY 15 /* in half a token: more of the number follows */
#define SHORTEST 4
#define DAMAGED (-1)
#define ENDS_TOO_EARLY (-2)

struct input { const uint8_t *at, *end; };

/* Return the number that begins with half a token; DAMAGED: it goes on behind the end. */
static int64_t number(struct input *in, int half)
{
	int64_t found = half;
	uint8_t more = half == MANY ? 255 : 0;

	while (more == 255) {
		if (in->at == in->end)
			return DAMAGED;
		more = *in->at++;
		found += more;
	}
	return found;
}

/* Return the number of bytes that a block becomes, at most room, or what is wrong with it. */
API int64_t unpack_lz4(const uint8_t *block, int64_t size, uint8_t *found, int64_t room)
{
	struct input in = { block, block + size };
	int64_t at = 0;

	while (in.at < in.end) {
		uint8_t token = *in.at++;
		int64_t count = number(&in, token >> 4), distance;

		if (count < 0 || count > in.end - in.at)
			return ENDS_TOO_EARLY;
		if (count > room - at)
			return DAMAGED;
		__builtin_memcpy(found + at, in.at, count);
		at += count;
		in.at += count;
		if (in.at == in.end)
			break;
		if (in.end - in.at < 2)
			return ENDS_TOO_EARLY;
		distance = in.at[0] | in.at[1] << 8;
		in.at += 2;
		count = number(&in, token & MANY);
		if (count < 0)
			return ENDS_TOO_EARLY;
		count += SHORTEST;
		if (!distance || distance > at || count > room - at)
			return DAMAGED;
		for (; count; count--, at++) /* it may copy what it writes */
			found[at] = found[at - distance];
	}
	return at;
}
