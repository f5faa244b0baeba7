/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/cpumask.h>
#include <linux/smp.h>
