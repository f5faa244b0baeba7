/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
void run_init_workload(void);
