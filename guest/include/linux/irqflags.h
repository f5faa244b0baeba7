/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <asm/irqflags.h>
#define raw_local_irq_disable() local_irq_disable()
#define raw_local_irq_enable() local_irq_enable()
#define raw_local_save_flags(f) local_save_flags(f)
#define raw_local_irq_save(f) local_irq_save(f)
#define raw_local_irq_restore(f) local_irq_restore(f)
#define raw_irqs_disabled() irqs_disabled()
#define raw_irqs_disabled_flags(f) irqs_disabled_flags(f)
