/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/fs.h>
int security_file_permission(struct file *file, int mask);
int security_file_open(struct file *file);
bool capable(int cap);
#define CAP_SYS_ADMIN 21
#define CAP_SYSLOG 34
#define CAP_KILL 5
#define CAP_SETUID 7
