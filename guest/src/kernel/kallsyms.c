// SPDX-License-Identifier: GPL-2.0-or-later
/* Names of addresses, from the table that the build appends (.kallsyms). */
#include <linux/kallsyms.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/string.h>

/* By address; name: offset into kallsyms_names. */
struct kallsyms_entry { u32 offset, name; };
extern const struct kallsyms_entry kallsyms_table[] __weak;
extern const char kallsyms_names[] __weak;
extern const unsigned int kallsyms_num_syms __weak;
extern char _text[], _stext[], _etext[], _sinittext[], _einittext[];

/* Return the last entry at or before addr; of several at one address the first. */
static noinline unsigned int get_symbol_pos(unsigned long addr, unsigned long *size)
{
	unsigned int low = 0, high = kallsyms_num_syms, mid, n;
	u32 off = addr - (unsigned long)_text;

	while (high - low > 1) {
		mid = low + (high - low) / 2;
		if (kallsyms_table[mid].offset <= off)
			low = mid;
		else
			high = mid;
	}
	for (n = low + 1;
	     n < kallsyms_num_syms && kallsyms_table[n].offset == kallsyms_table[low].offset;)
		n++;
	*size = n < kallsyms_num_syms ? kallsyms_table[n].offset - kallsyms_table[low].offset : 0;
	while (low && kallsyms_table[low - 1].offset == kallsyms_table[low].offset)
		low--;
	return low;
}

static bool is_ksym_addr(unsigned long addr)
{
	return &kallsyms_num_syms && addr >= (unsigned long)_stext &&
	       addr < (unsigned long)_einittext;
}

const char *kallsyms_lookup(unsigned long addr, unsigned long *size, unsigned long *offset,
			    char **modname, char *namebuf)
{
	unsigned int pos;

	if (modname)
		*modname = NULL;
	if (!is_ksym_addr(addr))
		return module_address_lookup(addr, size, offset, modname, namebuf);
	pos = get_symbol_pos(addr, size);
	*offset = addr - (unsigned long)_text - kallsyms_table[pos].offset;
	strscpy(namebuf, kallsyms_names + kallsyms_table[pos].name, KSYM_NAME_LEN);
	return namebuf;
}

unsigned long kallsyms_lookup_name(const char *name)
{
	for (unsigned int i = 0; &kallsyms_num_syms && i < kallsyms_num_syms; i++)
		if (!strcmp(kallsyms_names + kallsyms_table[i].name, name))
			return (unsigned long)_text + kallsyms_table[i].offset;
	return 0;
}

static noinline int __sprint_symbol(char *buf, unsigned long addr, int sub, bool add_offset)
{
	unsigned long size, offset;
	char name[KSYM_NAME_LEN], *modname = NULL;
	int len;

	if (!kallsyms_lookup(addr - sub, &size, &offset, &modname, name))
		return sprintf(buf, "0x%lx", addr);
	len = sprintf(buf, "%s", name);
	if (add_offset)
		len += sprintf(buf + len, "+0x%lx/0x%lx", offset + sub, size);
	if (modname)
		len += sprintf(buf + len, " [%s]", modname);
	return len;
}

int sprint_symbol(char *buf, unsigned long addr)
{
	return __sprint_symbol(buf, addr, 0, true);
}

int sprint_symbol_no_offset(char *buf, unsigned long addr)
{
	return __sprint_symbol(buf, addr, 0, false);
}

/* Print the function of a return address: the call before it tells it. */
int sprint_backtrace(char *buf, unsigned long addr)
{
	return __sprint_symbol(buf, addr, 1, true);
}

noinline int core_kernel_text(unsigned long addr)
{
	return addr >= (unsigned long)_stext && addr < (unsigned long)_etext;
}

noinline int __kernel_text_address(unsigned long addr)
{
	return core_kernel_text(addr) || is_module_text_address(addr);
}

int kernel_text_address(unsigned long addr)
{
	return __kernel_text_address(addr);
}
