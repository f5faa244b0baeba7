/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tasks that stand for processes of the host: kernel/host.c. */
#pragma once
#include <linux/sched.h>

extern unsigned long kpfs_config; /* KPFS_CONFIG_... */
#define kpfs_configured(option) ((kpfs_config & (option)) != 0)
/* The text of functions that are there with LEGACY_SYMBOLS alone: guest/machine.py hides them. */
#define __legacy __section(".legacy.text")

int kpfs_host_task(void *unused);
void kpfs_host_restart(void) __noreturn;
long kpfs_host_op(struct kpfs_host_op *op);
long entry_SYSCALL_64(struct kpfs_request *req);
void kpfs_wake_requested(void);
int kpfs_interrupt(struct task_struct *tsk);
void kpfs_host_init(const struct kpfs_boot_params *params);
