// SPDX-License-Identifier: GPL-2.0-or-later
/* The log: a ring of records that Python reads (struct kpfs_log in kpfs/abi.h). */
#include <linux/kernel.h>
#include <linux/sched.h>
#include <linux/string.h>

#define LOG_BUF_LEN 0x10000
#define LOG_LINE_MAX 1000
static char __log_buf[LOG_BUF_LEN] __aligned(8);
struct kpfs_log kpfs_log = { .buf = (unsigned long)__log_buf, .size = LOG_BUF_LEN };
static DEFINE_RAW_SPINLOCK(logbuf_lock);
static int logbuf_cpu = -1; /* that holds it */
static char printk_text[LOG_LINE_MAX + 24];
/* A line whose end has not been printed yet; no reader sees it so far. */
static struct {
	struct task_struct *owner; /* NULL: there is none */
	u64 ts_nsec;
	int facility, level;
	unsigned int len;
	char text[LOG_LINE_MAX];
} cont;
int console_printk[4] = { 7, DEFAULT_MESSAGE_LOGLEVEL, 1, 7 };

static inline struct kpfs_log_record *log_from_idx(unsigned long idx)
{
	return (struct kpfs_log_record *)(__log_buf + idx);
}

static noinline unsigned long log_next(unsigned long idx)
{
	struct kpfs_log_record *r = log_from_idx(idx);

	return r->len ? idx + r->len : log_from_idx(0)->len;
}

/*
 * Return true if there is room for len bytes and for the record of length 0 that says "go on at
 * 0".
 */
static noinline bool logbuf_has_space(unsigned long len)
{
	unsigned long next = kpfs_log.next_idx, first = kpfs_log.first_idx, room;

	if (kpfs_log.first_seq == kpfs_log.next_seq)
		return true;
	if (next > first)
		room = max(LOG_BUF_LEN - next, first);
	else
		room = first - next;
	return room >= len + sizeof(struct kpfs_log_record);
}

static noinline void log_make_free_space(unsigned long len)
{
	while (!logbuf_has_space(len)) {
		kpfs_log.first_idx = log_next(kpfs_log.first_idx);
		kpfs_log.first_seq++;
	}
	if (kpfs_log.first_seq == kpfs_log.next_seq && kpfs_log.next_seq)
		kpfs_log.first_idx = kpfs_log.next_idx;
}

static noinline int log_store(int facility, int level, u64 ts_nsec, const char *text,
			      unsigned int text_len)
{
	unsigned long len = ALIGN(sizeof(struct kpfs_log_record) + text_len, 8);
	struct kpfs_log_record *r;

	log_make_free_space(len);
	if (kpfs_log.next_idx + len + sizeof(*r) > LOG_BUF_LEN) {
		log_from_idx(kpfs_log.next_idx)->len = 0;
		if (kpfs_log.first_seq == kpfs_log.next_seq)
			kpfs_log.first_idx = 0;
		kpfs_log.next_idx = 0;
	}
	r = log_from_idx(kpfs_log.next_idx);
	r->ts_nsec = ts_nsec;
	r->seq = kpfs_log.next_seq;
	r->len = len;
	r->text_len = text_len;
	r->facility = facility;
	r->level = level;
	memcpy(r->text, text, text_len);
	kpfs_log.next_idx += len;
	kpfs_log.next_seq++;
	return text_len;
}

/* Read the level of a message, "\0016text"; return the length of the prefix. */
static noinline unsigned int printk_parse_prefix(const char *text, int *level)
{
	if (text[0] != KERN_SOH[0] || !text[1])
		return 0;
	if (text[1] >= '0' && text[1] <= '7' && *level < 0)
		*level = text[1] - '0';
	return 2;
}

static noinline void cont_flush(void)
{
	if (cont.owner)
		log_store(cont.facility, cont.level, cont.ts_nsec, cont.text, cont.len);
	cont.owner = NULL;
}

/* Add to the line that is begun; return true if that fits. */
static noinline bool cont_add(const char *text, unsigned int len)
{
	if (cont.len + len > sizeof(cont.text))
		return false;
	memcpy(cont.text + cont.len, text, len);
	cont.len += len;
	return true;
}

static noinline unsigned int printk_sprint(char *text, const char *fmt, va_list args)
{
	return vscnprintf(text, sizeof(printk_text), fmt, args);
}

/* Store a record for each line; KERN_CONT goes on with what the same task has begun. */
int vprintk_store(int facility, int level, const char *fmt, va_list args)
{
	unsigned int len = printk_sprint(printk_text, fmt, args), total = len;
	char *text = printk_text, *end, *line;
	bool goes_on;

	len -= printk_parse_prefix(text, &level);
	goes_on = text[0] == KERN_CONT[0] && text[1] == KERN_CONT[1] && cont.owner == current;
	text += total - len;
	if (!goes_on)
		cont_flush();
	if (level < 0)
		level = default_message_loglevel;
	for (end = text + len; text < end; text = line + 1, goes_on = false) {
		line = memchr(text, '\n', end - text);
		if (!line)
			line = end;
		if (goes_on && !cont_add(text, line - text)) {
			cont_flush();
			goes_on = false;
		}
		if (!goes_on) {
			cont.owner = current;
			cont.ts_nsec = local_clock();
			cont.facility = facility;
			cont.level = level;
			cont.len = 0;
			cont_add(text, min(line - text, LOG_LINE_MAX));
		}
		if (line != end)
			cont_flush();
	}
	return total;
}

noinline int vprintk_emit(int facility, int level, const char *fmt, va_list args)
{
	int printed;

	guard(raw_spinlock_irqsave)(&logbuf_lock);
	logbuf_cpu = smp_processor_id();
	printed = vprintk_store(facility, level, fmt, args);
	logbuf_cpu = -1;
	return printed;
}

/*
 * Release the lock of printk() if this CPU's task, which is about to die, was in the middle of it,
 * as no other task would; the record that it was writing is not in the log yet.
 */
void bust_spinlocks(void)
{
	if (logbuf_cpu == smp_processor_id()) {
		logbuf_cpu = -1;
		raw_spin_unlock(&logbuf_lock);
	}
}

noinline int vprintk_default(const char *fmt, va_list args)
{
	return vprintk_emit(0, -1, fmt, args);
}

noinline int vprintk(const char *fmt, va_list args)
{
	return vprintk_default(fmt, args);
}

int _printk(const char *fmt, ...)
{
	return with_va_list(args, fmt, vprintk(fmt, args));
}

/* Print a line as it is, for Python. */
int kpfs_printk(int level, const char *text)
{
	char prefix[] = { KERN_SOH[0], '0' + (level & 7), 0 };

	return _printk("%s%s\n", prefix, text);
}
