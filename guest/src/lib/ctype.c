// SPDX-License-Identifier: GPL-2.0-or-later
#include <linux/ctype.h>

bool isident(int c)
{
	return isalnum(c) || c == '_';
}
