/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A function that is called by its address, without endbr64. With MENDED it has one. */
#include "kernel.h"

void target(void);
void good_target(void);
#ifdef MENDED
#define LANDING "endbr64;"
#else
#define LANDING
#endif
asm(".pushsection .text; .type target, @function; target: " LANDING
    " ret; int3; .size target, . - target;"
    ".type good_target, @function; good_target: endbr64; ret; int3; .size good_target, . - good_target; .popsection");

static noinline void call_by_address(void (*function)(void))
{
	HIDE(function);
	function();
}

static int begin(void)
{
	call_by_address(target);
	call_by_address(good_target);
	return 0;
}

static void finish(void) {}
