/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Forgets how trace/define_trace.h last defined the kinds of fields, and says which of them are
 * made of others. Read once before each reading of a header of events.
 */
#undef __field_ext
#undef __field_struct_ext
#undef __array
#undef __dynamic_array
#undef __get_dynamic_array
#undef __get_dynamic_array_len
#undef __get_str
#undef __get_bitmask
#undef __get_cpumask
#undef TP_printk

#define TRACE_EVENT_MAX 4048UL /* bytes of a record that fits into a page of the ring */
#define __field(type, item) __field_ext(type, item, 0)
#define __field_struct(type, item) __field_struct_ext(type, item, 0)
#define __string(item, src) \
	__dynamic_array(char, item, strlen((src) ? (const char *)(src) : "(null)") + 1)
#define __string_len(item, src, len) __dynamic_array(char, item, (len) + 1)
#define __bitmask(item, nr_bits) __dynamic_array(unsigned long, item, BITS_TO_LONGS(nr_bits))
#define __cpumask(item) __dynamic_array(unsigned long, item, BITS_TO_LONGS(nr_cpu_ids))
