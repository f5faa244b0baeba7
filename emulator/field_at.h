/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <stdint.h>

/*
 * A field at an offset, as a member of a union of all that is known of a structure. What lies
 * between them is unknown. scripts/asm-offsets finds fields by this form.
 */
#define FIELD_AT(offset, field) struct { uint8_t pad_##offset[offset]; field; }
