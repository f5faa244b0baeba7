/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef _INIT_WORKLOAD_H
#define _INIT_WORKLOAD_H
void run_init_workload(void);
#endif
