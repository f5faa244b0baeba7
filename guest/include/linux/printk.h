/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/types.h>

#define KERN_SOH "\001"
#define KERN_EMERG KERN_SOH "0"
#define KERN_ALERT KERN_SOH "1"
#define KERN_CRIT KERN_SOH "2"
#define KERN_ERR KERN_SOH "3"
#define KERN_WARNING KERN_SOH "4"
#define KERN_NOTICE KERN_SOH "5"
#define KERN_INFO KERN_SOH "6"
#define KERN_DEBUG KERN_SOH "7"
#define KERN_DEFAULT ""
#define KERN_CONT KERN_SOH "c"
#define DEFAULT_MESSAGE_LOGLEVEL 4

/* What /proc/sys/kernel/printk shows; kpfs reads it where it shows or takes messages. */
extern int console_printk[];
#define console_loglevel (console_printk[0])
#define default_message_loglevel (console_printk[1])
#define minimum_console_loglevel (console_printk[2])
#define default_console_loglevel (console_printk[3])

#ifndef pr_fmt
#define pr_fmt(fmt) fmt
#endif
int _printk(const char *fmt, ...) __printf(1, 2);
int vprintk(const char *fmt, va_list args);
int vprintk_emit(int facility, int level, const char *fmt, va_list args);
void bust_spinlocks(void);
#define printk _printk
#define pr_emerg(f, a...) _printk(KERN_EMERG pr_fmt(f), ##a)
#define pr_alert(f, a...) _printk(KERN_ALERT pr_fmt(f), ##a)
#define pr_crit(f, a...) _printk(KERN_CRIT pr_fmt(f), ##a)
#define pr_err(f, a...) _printk(KERN_ERR pr_fmt(f), ##a)
#define pr_warn(f, a...) _printk(KERN_WARNING pr_fmt(f), ##a)
#define pr_notice(f, a...) _printk(KERN_NOTICE pr_fmt(f), ##a)
#define pr_info(f, a...) _printk(KERN_INFO pr_fmt(f), ##a)
#define pr_cont(f, a...) _printk(KERN_CONT f, ##a)
#define pr_debug(f, a...) do { if (0) _printk(KERN_DEBUG pr_fmt(f), ##a); } while (0)
void panic(const char *fmt, ...) __noreturn __cold __printf(1, 2);
void dump_stack(void);
