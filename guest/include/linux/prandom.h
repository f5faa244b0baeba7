/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef _LINUX_PRANDOM_H
#define _LINUX_PRANDOM_H
#include <linux/random.h>
#endif
