/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Errors of mips, by the numbers that they have elsewhere. Kernel: include/uapi/asm/errno.h there */

#define FIRST_ERROR 35 /* those below are the same */
#define EIO 5
#define MIPS_EDQUOT 1133
#define EDQUOT 122

static const u8 known_errors[] = {
	42,  43,  44,  45,  46,  47,  48,  49,  50,  51,  35,  37,  0,   0,   0,   52,  53,
	54,  55,  56,  57,  35,  0,   0,   59,  60,  61,  62,  63,  64,  65,  66,  67,  68,
	69,  70,  71,  0,   73,  72,  0,   0,   74,  36,  75,  76,  77,  78,  79,  80,  81,
	82,  83,  84,  38,  40,  85,  86,  39,  87,  88,  89,  90,  91,  92,  0,   0,   0,
	0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,
	93,  94,  95,  96,  97,  98,  99,  100, 101, 102, 103, 104, 105, 106, 107, 117, 0,
	118, 119, 120, 121, 5,   5,   108, 109, 110, 111, 112, 113, 114, 115, 116, 0,   0,
	0,   0,   0,   0,   125, 123, 124, 126, 127, 128, 129, 130, 131, 132, 133,
};

static long known_error(long error)
{
	if (error < FIRST_ERROR)
		return error;
	if (error == MIPS_EDQUOT)
		return EDQUOT;
	if (error - FIRST_ERROR < (long)sizeof(known_errors) && known_errors[error - FIRST_ERROR])
		return known_errors[error - FIRST_ERROR];
	return error < 512 ? EIO : error;
}
