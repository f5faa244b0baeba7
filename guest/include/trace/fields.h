/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Forgets how trace/define_trace.h last defined the kinds of fields, and says which of them are
 * made of others. Read once before each reading of a header of events.
 */
#undef __field_ext
#undef __field_struct_ext
#undef __array
#undef __loc_array
#undef __loc_cpumask
#undef __get_loc
#undef __get_dynamic_array
#undef __get_dynamic_array_len
#undef __get_str
#undef __get_bitmask
#undef __get_cpumask
#undef __get_sockaddr
#undef __get_rel_dynamic_array
#undef __get_rel_dynamic_array_len
#undef __get_rel_str
#undef __get_rel_bitmask
#undef __get_rel_cpumask
#undef __get_rel_sockaddr
#undef TP_printk

#define TRACE_EVENT_MAX 4048UL /* bytes of a record that fits into a page of the ring */
#define __field(type, item) __field_ext(type, item, 0)
#define __field_struct(type, item) __field_struct_ext(type, item, 0)
/* Bytes elsewhere in the record. A word has their length, and their place: that in the record, or
 * (rel) how far behind the word they are. */
#define __data_loc_base(item) 0
#define __rel_loc_base(item) \
	(offsetof(__typeof__(*__entry), __rel_loc_##item) + sizeof(__entry->__rel_loc_##item))
#define __loc_cpumask(loc, item) \
	__loc_array(loc, unsigned long, item, BITS_TO_LONGS(nr_cpu_ids))
#define __string_size(src) (strlen((src) ? (const char *)(src) : "(null)") + 1)
#define __dynamic_array(type, item, len) __loc_array(data, type, item, len)
#define __string(item, src) __loc_array(data, char, item, __string_size(src))
#define __string_len(item, src, len) __loc_array(data, char, item, (len) + 1)
#define __vstring(item, fmt, args) __loc_array(data, char, item, __vstring_size(fmt, args))
#define __bitmask(item, nr_bits) __loc_array(data, unsigned long, item, BITS_TO_LONGS(nr_bits))
#define __cpumask(item) __loc_cpumask(data, item)
#define __sockaddr(item, len) __loc_array(data, u8, item, len)
#define __rel_dynamic_array(type, item, len) __loc_array(rel, type, item, len)
#define __rel_string(item, src) __loc_array(rel, char, item, __string_size(src))
#define __rel_string_len(item, src, len) __loc_array(rel, char, item, (len) + 1)
#define __rel_bitmask(item, nr_bits) __loc_array(rel, unsigned long, item, BITS_TO_LONGS(nr_bits))
#define __rel_cpumask(item) __loc_cpumask(rel, item)
#define __rel_sockaddr(item, len) __loc_array(rel, u8, item, len)
