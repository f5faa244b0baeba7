/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/types.h>
static inline bool isdigit(int c) { return c >= '0' && c <= '9'; }
static inline bool isupper(int c) { return c >= 'A' && c <= 'Z'; }
static inline bool islower(int c) { return c >= 'a' && c <= 'z'; }
static inline bool isalpha(int c) { return isupper(c) || islower(c); }
static inline bool isalnum(int c) { return isalpha(c) || isdigit(c); }
static inline bool isspace(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static inline bool isprint(int c) { return c >= ' ' && c < 127; }
static inline bool isxdigit(int c) { return isdigit(c) || ((c | 32) >= 'a' && (c | 32) <= 'f'); }
static inline int tolower(int c) { return isupper(c) ? c + 32 : c; }
static inline int toupper(int c) { return islower(c) ? c - 32 : c; }
