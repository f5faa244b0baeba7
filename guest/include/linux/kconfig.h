/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The configuration of this kernel; scripts/build-module includes it first. */
#pragma once
#include <generated/autoconf.h>

/* 1 if an option is defined as 1, else 0; usable in #if. */
#define __KCONFIG_ARG_1 0,
#define __kconfig_second(_ignored, val, ...) val
#define __is_defined(x) ___is_defined(x)
#define ___is_defined(val) ____is_defined(__KCONFIG_ARG_##val)
#define ____is_defined(arg_or_junk) __kconfig_second(arg_or_junk 1, 0)
#define IS_BUILTIN(option) __is_defined(option)
#define IS_MODULE(option) __is_defined(option##_MODULE)
#define IS_ENABLED(option) (IS_BUILTIN(option) || IS_MODULE(option))
#define IS_REACHABLE(option) IS_ENABLED(option)
