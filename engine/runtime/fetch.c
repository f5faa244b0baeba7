// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The interpreter of the programs of fetch.h. It does not know where a record goes: record.c and
 * trace.c pass the bytes of one.
 */
#include "fetch.h"

#define THREAD_SIZE 16384UL
#define TASK_SIZE 0x7ffffffff000UL
#define MAX_STRING_SIZE 4096
#define KSYM_SYMBOL_LEN 512
#define TASK_COMM_LEN 16

/* nofault.S */
long kp_read(void *dst, u64 src, u32 size);
long kp_strnlen(u64 src, u64 max);
long kp_strncpy(void *dst, u64 src, u64 max);

/* Return a string's place in a record: length << 16 | offset. */
static u32 data_loc(long length, u32 offset)
{
	return (u32)length << 16 | (offset & 0xffff);
}

/*
 * Return true if a read at addr may be tried: at an address of user space, and, if user is 0, at one
 * of the kernel that is canonical and not in the guard page.
 */
static int allowed(u64 addr, int user)
{
	return addr < TASK_SIZE || (!user && addr >> 47 == 0x1ffff);
}

/* Return true if some of user memory is yet to be brought in. */
static int is_untouched(u64 addr, u64 size)
{
	const u64 *untouched = (const u64 *)(kp_current() + kp_const32(task_untouched));

	return addr < untouched[1] && addr + size > untouched[0];
}

static long read_mem(void *dst, u64 addr, u32 size, int user)
{
	return allowed(addr, user) && !is_untouched(addr, size) ? kp_read(dst, addr, size) : -1;
}

/* Return true if the read of a string may be tried. */
static int allowed_string(u64 addr, int user)
{
	long n;

	if (!allowed(addr, user) || !is_untouched(addr, MAX_STRING_SIZE))
		return allowed(addr, user);
	n = kp_strnlen(addr, MAX_STRING_SIZE);
	return n > 0 && !is_untouched(addr, n);
}

static inline long symbol_name(u64 addr, void *dst, u64 size)
{
	return kp_ask(HC_SYMBOL, addr, (u64)dst, size);
}

/* Return the bytes that a string will take, its NUL included; below 0 if it cannot be read. */
static long string_size(const struct kp_insn *i, u64 addr)
{
	if (i->op == OP_ST_SYMSTR)
		return symbol_name(addr, 0, 0) + 1;
	return allowed_string(addr, i->op == OP_ST_USTRING) ? kp_strnlen(addr, MAX_STRING_SIZE) :
							      -1;
}

/*
 * Put a string into the record. Return the bytes that it takes, or below 0 if it cannot be read.
 * Kernel: fetch_store_string(), fetch_store_symstring()
 */
static long store_string(const struct kp_insn *i, u64 addr, u32 *loc, u8 *record)
{
	u32 max = *loc >> 16, offset = *loc & 0xffff;
	long n = -1;

	if (!max)
		return -1;
	/* its length stays that of the whole room, and the NUL is not counted, as in Linux */
	if (i->op == OP_ST_SYMSTR)
		return symbol_name(addr, record + offset, max);
	if (allowed_string(addr, i->op == OP_ST_USTRING))
		n = kp_strncpy(record + offset, addr, max);
	if (n == 1 && addr < TASK_SIZE)
		n = 0; /* an empty one of user space counts as a fault, as in Linux */
	*loc = data_loc(n < 0 ? 0 : n, offset);
	return n;
}

static void store_raw(u64 val, u32 size, void *dst)
{
	switch (size) {
	case 1:  *(u8 *)dst = val; break;
	case 2:  *(u16 *)dst = val; break;
	case 4:  *(u32 *)dst = val; break;
	default: *(u64 *)dst = val;
	}
}

static void bitfield(const struct kp_insn *i, void *field)
{
	switch (i->size) {
	case 1:  *(u8 *)field = (u8)(*(u8 *)field << i->lshift) >> i->rshift; break;
	case 2:  *(u16 *)field = (u16)(*(u16 *)field << i->lshift) >> i->rshift; break;
	case 4:  *(u32 *)field = *(u32 *)field << i->lshift >> i->rshift; break;
	default: *(u64 *)field = *(u64 *)field << i->lshift >> i->rshift;
	}
}

static u64 load(const struct kp_insn *i, struct pt_regs *regs)
{
	u64 val = 0, addr;

	switch (i->op) {
	case OP_REG: return *(u64 *)((u8 *)regs + i->value);
	case OP_STACK:
		addr = regs->sp + 8 * i->value;
		if ((addr ^ regs->sp) < THREAD_SIZE && kp_read(&val, addr, 8))
			val = 0;
		return val;
	case OP_IMM: return i->value;
	default:     return kp_current() + kp_const32(task_comm);
	}
}

/*
 * Run the instructions of one argument. If dst is 0, it is a string, and only its size is wanted.
 * Return the bytes that it takes of the record's dynamic part, or below 0 after a fault. Kernel:
 * process_fetch_insn()
 */
static long fetch(const struct kp_insn *i, struct pt_regs *regs, u8 *dst, u8 *record)
{
	const struct kp_insn *store;
	u64 val = load(i++, regs), from = 0;
	long n = 0, total = 0;
	u32 element = 0, loc = 0;

deref:
	for (; i->op == OP_DEREF || i->op == OP_UDEREF; i++) {
		from = val;
		if (read_mem(&val, val + i->value, 8, i->op == OP_UDEREF))
			return -1;
	}
	store = i++;
again:
	if (!dst) {
		n = string_size(store, val + store->value);
	} else {
		switch (store->op) {
		case OP_ST_RAW: store_raw(val, store->size, dst); break;
		case OP_ST_MEM:
		case OP_ST_UMEM:
			read_mem(dst, val + store->value, store->size, store->op == OP_ST_UMEM);
			break;
		default:
			loc = *(u32 *)dst;
			n = store_string(store, val + store->value, (u32 *)dst, record);
		}
		if (i->op == OP_MOD_BF)
			bitfield(i++, dst);
	}
	if (i->op != OP_LP_ARRAY)
		return n;
	if (n < 0)
		n = 0;
	total += n;
	if (++element == i->count)
		return total;
	i = store + 1;
	if (store->op == OP_ST_MEM || store->op == OP_ST_UMEM) {
		dst += store->size;
		val += store->size;
		goto again;
	}
	/* an array of pointers to strings: fetch the next pointer */
	val = from + 8;
	if (dst) {
		dst += 4;
		*(u32 *)dst = data_loc((loc >> 16) - n, (loc & 0xffff) + n);
	}
	i = store - 1;
	goto deref;
}

static const struct kp_arg *next_arg(const struct kp_arg *a)
{
	return (const struct kp_arg *)(a->insns + a->nr_insns);
}

/* Return the bytes that all strings of a record will take. Kernel: __get_data_size() */
u64 kp_dynamic_size(const struct kp_prog *p, struct pt_regs *regs)
{
	const struct kp_arg *a = (const struct kp_arg *)(p + 1);
	u64 size = 0;

	if (!p->dynamic)
		return 0;
	for (u32 i = 0; i < p->nr_args; i++, a = next_arg(a)) {
		if (a->dynamic) {
			long n = fetch(a->insns, regs, 0, 0);

			if (n > 0)
				size += n;
		}
	}
	return size;
}

/* Put all arguments into a record; room is kp_dynamic_size(). Kernel: store_trace_args() */
void kp_store_args(const struct kp_prog *p, struct pt_regs *regs, u8 *record, u64 room)
{
	const struct kp_arg *a = (const struct kp_arg *)(p + 1);
	u32 i, at = p->start + p->size;

	for (i = 0; i < p->nr_args; i++, a = next_arg(a)) {
		u8 *dst = record + a->offset;
		long n;

		if (a->dynamic)
			*(u32 *)dst = data_loc(room, at);
		n = fetch(a->insns, regs, dst, record);
		if (a->dynamic && n > 0) {
			at += n;
			room -= n;
		}
	}
}

/* ---- filters */

#define USTRING_BUF_SIZE 512 /* on the stack; what is longer is cut */

/*
 * Return true if a pattern matches a string. An inverted class matches the end of the string, too.
 * Kernel: glob_match_len()
 */
static int glob(const u8 *pat, const u8 *str, const u8 *end)
{
	const u8 *back_pat = 0, *back_str = 0;

	for (;;) {
		u8 c = str < end ? *str : 0, d = *pat++;

		str++;
		switch (d) {
		case '?':
			if (!c)
				return 0;
			continue;
		case '*':
			if (!*pat)
				return 1;
			back_pat = pat;
			back_str = --str;
			continue;
		case '[': {
			int match = 0, inverted = *pat == '!';
			const u8 *class = pat + inverted;
			u8 a = *class++, b;

			do {
				b = a;
				if (!a)
					goto literal;
				if (*class == '-' && class[1] != ']') {
					b = class[1];
					if (!b)
						goto literal;
					class += 2;
				}
				match |= a <= c && c <= b;
			} while ((a = *class++) != ']');
			if (match == inverted)
				goto backtrack;
			pat = class;
			continue;
		}
		case '\\':
			d = *pat++;
			/* fall through */
		default:
literal:
			if (c == d) {
				if (!d)
					return 1;
				continue;
			}
backtrack:
			if (!c || !back_pat)
				return 0;
			pat = back_pat;
			str = ++back_str;
		}
	}
}

static int bytes_same(const u8 *a, const u8 *b, u32 length)
{
	while (length && *a == *b)
		a++, b++, length--;
	return !length;
}

/* Return true if two strings are equal up to a NUL, or in their first length bytes. */
static int same(const u8 *a, const u8 *b, u32 length)
{
	while (length && *a == *b && *a)
		a++, b++, length--;
	return !length || *a == *b;
}

/*
 * Return true if part occurs in str. If size is given, what is behind a NUL counts as well; if it
 * is 0, str ends at its NUL.
 */
static int contains(const u8 *str, u32 size, const u8 *part, u32 length)
{
	u32 left = size;

	if (!length)
		return 1;
	for (; size ? left >= length : *str; str++, left--)
		if (bytes_same(str, part, length))
			return 1;
	return 0;
}

static int compare(const struct kp_pred *p, u64 left)
{
	u64 right = p->value, low = left - right;
	int less = p->flags & PRED_SIGNED ? (s64)left < (s64)right : left < right;

	switch (p->op) {
	case PRED_EQ: return !low;
	case PRED_NE: return !!low;
	case PRED_LT: return less;
	case PRED_LE: return less || !low;
	case PRED_GT: return !less && low;
	case PRED_GE: return !less;
	default:      return !!(left & right);
	}
}

static u64 number(const struct kp_pred *p, const u8 *field)
{
	int is_signed = p->flags & PRED_SIGNED;

	switch (p->size) {
	case 1:  return is_signed ? (u64)(s64)*(signed char *)field : *field;
	case 2:  return is_signed ? (u64)(s64)*(short *)field : *(u16 *)field;
	case 4:  return is_signed ? (u64)(s64)*(int *)field : *(u32 *)field;
	default: return *(u64 *)field;
	}
}

/* Return true if a string of size bytes, NUL included, fits; size is 0 if it could not be read. */
static int string_fits(const struct kp_pred *p, const u8 *str, u32 size)
{
	const u8 *pattern = (const u8 *)p->value;
	u32 length = p->length;
	int fits;

	switch (p->op) {
	case PRED_FULL:
		fits = size ? size >= length && same(str, pattern, size) : same(str, pattern, ~0U);
		break;
	case PRED_FRONT:  fits = (!size || size >= length) && same(str, pattern, length); break;
	case PRED_MIDDLE: fits = contains(str, size, pattern, length); break;
	case PRED_END:
		fits = size > length && bytes_same(str + size - 1 - length, pattern, length);
		break;
	default: fits = glob(pattern, str, str + size);
	}
	return fits ^ !!(p->flags & PRED_NOT);
}

/*
 * Return true if the string at addr fits; one that cannot be read does not. Kernel:
 * filter_pred_pchar()
 */
static __attribute__((noinline)) int pointed_fits(const struct kp_pred *p, u64 addr)
{
	u8 copy[USTRING_BUF_SIZE];
	int user = addr < TASK_SIZE;
	long size;

	if (user != (p->from == FROM_USER) || !allowed_string(addr, user))
		return 0;
	size = kp_strncpy(copy, addr, sizeof(copy));
	return size >= 0 && string_fits(p, copy, size);
}

static int predicate(const struct kp_pred *p, const u8 *record)
{
	const u8 *field = record + p->offset;

	if (p->op <= PRED_BAND)
		return compare(p, p->from == FROM_CPU ? kp_gs32(gs_cpu) : number(p, field));
	switch (p->from) {
	case FROM_KERNEL:
	case FROM_USER:   return pointed_fits(p, *(u64 *)field);
	case FROM_RELATIVE:
		return string_fits(p, field + 4 + (*(u32 *)field & 0xffff), *(u32 *)field >> 16);
	case FROM_DYNAMIC:
		return string_fits(p, record + (*(u32 *)field & 0xffff), *(u32 *)field >> 16);
	case FROM_COMM:
		return string_fits(p, (const u8 *)kp_current() + kp_const32(task_comm),
				   TASK_COMM_LEN);
	default: return string_fits(p, field, p->size);
	}
}

int kp_filter_match(const struct kp_pred *preds, const u8 *record)
{
	u32 i = 0;

	do
		i = predicate(preds + i, record) ? preds[i].yes : preds[i].no;
	while (i < FILTER_REJECT);
	return i == FILTER_ACCEPT;
}
