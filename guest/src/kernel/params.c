// SPDX-License-Identifier: GPL-2.0-or-later
/* Parameters of modules: cutting "name=value ..." up and setting variables. */
#include <linux/ctype.h>
#include <linux/err.h>
#include <linux/list.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/string.h>

static char dash2underscore(char c)
{
	return c == '-' ? '_' : c;
}

noinline bool parameq(const char *a, const char *b)
{
	while (dash2underscore(*a) == dash2underscore(*b)) {
		if (!*a)
			return true;
		a++;
		b++;
	}
	return false;
}

/* Cut off the first word of args: its name and value (NULL: no "="). Return what follows it. */
static noinline char *next_arg(char *args, char **param, char **val)
{
	bool in_quote = false, quoted = false;
	char *p, *equals = NULL;

	if (*args == '"') {
		args++;
		in_quote = quoted = true;
	}
	for (p = args; *p; p++) {
		if (isspace(*p) && !in_quote)
			break;
		if (!equals && *p == '=')
			equals = p;
		if (*p == '"')
			in_quote = !in_quote;
	}
	*param = args;
	*val = NULL;
	if (equals) {
		*equals = 0;
		*val = equals + 1;
		if (**val == '"') {
			(*val)++;
			if (p[-1] == '"')
				p[-1] = 0;
		}
	}
	if (quoted && p > args && p[-1] == '"')
		p[-1] = 0;
	if (*p)
		*p++ = 0;
	return skip_spaces(p);
}

static noinline int parse_one(char *param, char *val, const char *doing,
			      const struct kernel_param *params, unsigned int num, void *arg,
			      int (*unknown)(char *param, char *val, const char *doing, void *arg))
{
	for (unsigned int i = 0; i < num; i++) {
		if (!parameq(param, params[i].name))
			continue;
		if (!val && !(params[i].ops->flags & KERNEL_PARAM_OPS_FL_NOARG))
			return -EINVAL;
		return params[i].ops->set ? params[i].ops->set(val, &params[i]) : -EPERM;
	}
	return unknown ? unknown(param, val, doing, arg) : -ENOENT;
}

/* Return the text behind "--" or NULL, or an error. */
char *parse_args(const char *doing, char *args, const struct kernel_param *params, unsigned int num,
		 int (*unknown)(char *param, char *val, const char *doing, void *arg), void *arg)
{
	char *param, *val;
	int ret;

	args = skip_spaces(args);
	while (*args) {
		args = next_arg(args, &param, &val);
		if (!val && !strcmp(param, "--"))
			return *args ? args : NULL;
		ret = parse_one(param, val, doing, params, num, arg, unknown);
		switch (ret) {
		case 0:       continue;
		case -ENOENT: pr_err("%s: Unknown parameter `%s'\n", doing, param); break;
		case -ENOSPC:
			pr_err("%s: `%s' too large for parameter `%s'\n", doing, val ?: "", param);
			break;
		default: pr_err("%s: `%s' invalid for parameter `%s'\n", doing, val ?: "", param);
		}
		return ERR_PTR(ret);
	}
	return NULL;
}

void destroy_params(const struct kernel_param *params, unsigned int num)
{
	for (unsigned int i = 0; i < num; i++)
		if (params[i].ops->free)
			params[i].ops->free(params[i].arg);
}

/* Define a type of number: how it is read, how it is printed. */
#define PARAM_OPS(name, type, wide, strtox, format) \
	int param_set_##name(const char *val, const struct kernel_param *kp) \
	{ \
		wide v; \
		int ret = strtox(val, 0, &v); \
		if (ret) \
			return ret; \
		if ((wide)(type)v != v) \
			return -ERANGE; \
		*(type *)kp->arg = v; \
		return 0; \
	} \
	int param_get_##name(char *buffer, const struct kernel_param *kp) \
	{ \
		return scnprintf(buffer, PAGE_SIZE, format "\n", *(type *)kp->arg); \
	} \
	const struct kernel_param_ops param_ops_##name = { \
		.set = param_set_##name, .get = param_get_##name, \
	}
PARAM_OPS(byte, unsigned char, unsigned long, kstrtoul, "%hhu");
PARAM_OPS(short, short, long, kstrtol, "%hi");
PARAM_OPS(ushort, unsigned short, unsigned long, kstrtoul, "%hu");
PARAM_OPS(int, int, long, kstrtol, "%i");
PARAM_OPS(uint, unsigned int, unsigned long, kstrtoul, "%u");
PARAM_OPS(long, long, long, kstrtol, "%li");
PARAM_OPS(ulong, unsigned long, unsigned long, kstrtoul, "%lu");
PARAM_OPS(ullong, unsigned long long, unsigned long long, kstrtoull, "%llu");
PARAM_OPS(hexint, unsigned int, unsigned long, kstrtoul, "%#08x");

/* Strings that were allocated here, to be freed with the module. */
struct kmalloced_param {
	struct list_head list;
	char val[];
};
static LIST_HEAD(kmalloced_params);

static void param_free_charp(void *arg)
{
	struct kmalloced_param *p, *next;

	list_for_each_entry_safe(p, next, &kmalloced_params, list) {
		if (p->val != *(char **)arg)
			continue;
		list_del(&p->list);
		kfree(p);
	}
}

int param_set_charp(const char *val, const struct kernel_param *kp)
{
	struct kmalloced_param *p;

	if (strlen(val) > 1024) {
		pr_err("%s: string parameter too long\n", kp->name);
		return -ENOSPC;
	}
	p = kmalloc(sizeof(*p) + strlen(val) + 1, GFP_KERNEL);
	if (!p)
		return -ENOMEM;
	strcpy(p->val, val);
	param_free_charp(kp->arg);
	list_add(&p->list, &kmalloced_params);
	*(char **)kp->arg = p->val;
	return 0;
}

int param_get_charp(char *buffer, const struct kernel_param *kp)
{
	return scnprintf(buffer, PAGE_SIZE, "%s\n", *(char **)kp->arg);
}
const struct kernel_param_ops param_ops_charp = {
	.set = param_set_charp,
	.get = param_get_charp,
	.free = param_free_charp,
};

int param_set_bool(const char *val, const struct kernel_param *kp)
{
	return kstrtobool(val ?: "1", kp->arg);
}

int param_get_bool(char *buffer, const struct kernel_param *kp)
{
	return sprintf(buffer, "%c\n", *(bool *)kp->arg ? 'Y' : 'N');
}
const struct kernel_param_ops param_ops_bool = {
	.flags = KERNEL_PARAM_OPS_FL_NOARG,
	.set = param_set_bool,
	.get = param_get_bool,
};

int param_set_invbool(const char *val, const struct kernel_param *kp)
{
	bool v;
	int ret = kstrtobool(val, &v);

	if (!ret)
		*(bool *)kp->arg = !v;
	return ret;
}

int param_get_invbool(char *buffer, const struct kernel_param *kp)
{
	return sprintf(buffer, "%c\n", *(bool *)kp->arg ? 'N' : 'Y');
}
const struct kernel_param_ops param_ops_invbool = {
	.set = param_set_invbool,
	.get = param_get_invbool,
};

int param_set_copystring(const char *val, const struct kernel_param *kp)
{
	const struct kparam_string *kps = kp->str;

	if (strnlen(val, kps->maxlen) == kps->maxlen) {
		pr_err("%s: string doesn't fit in %u chars.\n", kp->name, kps->maxlen - 1);
		return -ENOSPC;
	}
	strcpy(kps->string, val);
	return 0;
}

int param_get_string(char *buffer, const struct kernel_param *kp)
{
	return scnprintf(buffer, PAGE_SIZE, "%s\n", kp->str->string);
}
const struct kernel_param_ops param_ops_string = {
	.set = param_set_copystring,
	.get = param_get_string,
};

/* Set values with commas between them; as many as there is room for. */
static int param_array_set(const char *val, const struct kernel_param *kp)
{
	const struct kparam_array *arr = kp->arr;
	struct kernel_param one = *kp;
	unsigned int dummy, *num = arr->num ?: &dummy;
	char *copy, *rest, *word;
	int ret = 0;

	copy = kstrdup(val, GFP_KERNEL);
	if (!copy)
		return -ENOMEM;
	one.arg = arr->elem;
	rest = copy;
	*num = 0;
	while (!ret && (word = strsep(&rest, ","))) {
		if (*num == arr->max) {
			pr_err("%s: can only take %i arguments\n", kp->name, arr->max);
			ret = -EINVAL;
			break;
		}
		ret = arr->ops->set(word, &one);
		one.arg = (char *)one.arg + arr->elemsize;
		(*num)++;
	}
	kfree(copy);
	return ret;
}

static int param_array_get(char *buffer, const struct kernel_param *kp)
{
	const struct kparam_array *arr = kp->arr;
	struct kernel_param one = *kp;
	unsigned int i, n = arr->num ? *arr->num : arr->max;
	int off = 0, len;

	for (i = 0; i < n; i++) {
		if (i)
			buffer[off - 1] = ',';
		one.arg = (char *)arr->elem + arr->elemsize * i;
		len = arr->ops->get(buffer + off, &one);
		if (len < 0)
			return len;
		off += len;
	}
	buffer[off] = 0;
	return off;
}
const struct kernel_param_ops param_array_ops = { .set = param_array_set, .get = param_array_get };
