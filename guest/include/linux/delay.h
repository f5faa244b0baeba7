/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef _LINUX_DELAY_H
#define _LINUX_DELAY_H
#include <linux/timer.h>
#endif
