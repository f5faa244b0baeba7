/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))
#define LINUX_VERSION_MAJOR 6
#define LINUX_VERSION_PATCHLEVEL 1
#define LINUX_VERSION_SUBLEVEL 0
#define LINUX_VERSION_CODE KERNEL_VERSION(6, 1, 0)
