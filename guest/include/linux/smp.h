/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The CPUs. There are no calls to other CPUs (smp_call_function...) here. */
#pragma once
#include <linux/cpumask.h>
#include <linux/errno.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
