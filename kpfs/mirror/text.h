/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Write text to a buffer, up to its end. Each function returns where the next text goes. */
#include <stdint.h>

static char *append(char *to, const char *end, const char *text)
{
	while (to < end - 1 && *text)
		*to++ = *text++;
	*to = 0;
	return to;
}

static char *append_number(char *to, const char *end, uint32_t value)
{
	char digits[11], *at = digits + sizeof(digits) - 1;

	*at = 0;
	do
		*--at = '0' + value % 10;
	while (value /= 10);
	return append(to, end, at);
}
