/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include "engines.h"

#pragma GCC visibility push(hidden)
void branches_look(struct engine *e, uintptr_t caller);
#pragma GCC visibility pop
