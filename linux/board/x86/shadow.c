// SPDX-License-Identifier: GPL-2.0-or-later
#include "looks.h"
bool look_at_memory(struct board *b, struct look *l)
{
	(void)b, (void)l;
	return false;
}
void behind_memory(struct board *b, const struct behind *call)
{
	(void)b, (void)call;
}
void enter_memory(struct board *b, struct look *l)
{
	(void)b, (void)l;
}
