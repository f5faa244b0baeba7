/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
void tick_setup_sched_timer(void);
void tick_nohz_idle_enter(void);
void tick_nohz_idle_stop_tick(void);
void tick_nohz_idle_exit(void);
void tick_irq_enter(void);
void cpu_startup_entry(void);
