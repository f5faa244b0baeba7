/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Parameters of modules, set from "name=value" words when one is loaded. */
#pragma once
#include <linux/kernel.h>

#define __MODULE_INFO(tag, name, info) \
	static const char __UNIQUE_ID(name)[] __used __section(".modinfo") __aligned(1) \
	= __stringify(tag) "=" info
#define __MODULE_PARM_TYPE(name, type) __MODULE_INFO(parmtype, name, #name ":" type)
#define MODULE_PARM_DESC(param, desc) __MODULE_INFO(parm, param, #param ":" desc)

struct kernel_param;
#define KERNEL_PARAM_OPS_FL_NOARG 1 /* "name" alone will do */
struct kernel_param_ops {
	unsigned int flags;
	int (*set)(const char *val, const struct kernel_param *kp);
	int (*get)(char *buffer, const struct kernel_param *kp);
	void (*free)(void *arg);
};

struct module;
struct kparam_string;
struct kparam_array;
struct kernel_param {
	const char *name;
	struct module *mod;
	const struct kernel_param_ops *ops;
	const u16 perm;
	s8 level;
	u8 flags;
	union {
		void *arg;
		const struct kparam_string *str;
		const struct kparam_array *arr;
	};
};

struct kparam_string {
	unsigned int maxlen;
	char *string;
};
struct kparam_array {
	unsigned int max, elemsize;
	unsigned int *num;
	const struct kernel_param_ops *ops;
	void *elem;
};

#define __module_param_call(prefix, name, ops, arg, perm, level, flags) \
	static const char __param_str_##name[] = prefix #name; \
	static struct kernel_param __used __section("__param") __aligned(sizeof(void *)) \
	__param_##name = { __param_str_##name, THIS_MODULE, ops, (u16)(perm), level, flags, { arg } }
#define module_param_cb(name, ops, arg, perm) \
	__module_param_call("", name, ops, arg, perm, -1, 0)
#define module_param(name, type, perm) module_param_named(name, name, type, perm)
#define module_param_unsafe(name, type, perm) module_param(name, type, perm)
#define module_param_named(name, value, type, perm) \
	static inline __typeof__(value) *__maybe_unused __check_##name(void) { return &(value); } \
	module_param_cb(name, &param_ops_##type, (void *)&(value), perm); \
	__MODULE_PARM_TYPE(name, #type)
#define module_param_string(name, string, len, perm) \
	static const struct kparam_string __param_string_##name = { len, string }; \
	__module_param_call("", name, &param_ops_string, (void *)&__param_string_##name, perm, -1, 0); \
	__MODULE_PARM_TYPE(name, "string")
#define module_param_array(name, type, nump, perm) \
	module_param_array_named(name, name, type, nump, perm)
#define module_param_array_named(name, array, type, nump, perm) \
	static const struct kparam_array __param_arr_##name = { \
		.max = ARRAY_SIZE(array), .num = nump, .ops = &param_ops_##type, \
		.elemsize = sizeof((array)[0]), .elem = array }; \
	__module_param_call("", name, &param_array_ops, (void *)&__param_arr_##name, perm, -1, 0); \
	__MODULE_PARM_TYPE(name, "array of " #type)

#define __PARAM_OPS(name) \
	extern const struct kernel_param_ops param_ops_##name; \
	int param_set_##name(const char *val, const struct kernel_param *kp); \
	int param_get_##name(char *buffer, const struct kernel_param *kp)
__PARAM_OPS(byte);
__PARAM_OPS(short);
__PARAM_OPS(ushort);
__PARAM_OPS(int);
__PARAM_OPS(uint);
__PARAM_OPS(long);
__PARAM_OPS(ulong);
__PARAM_OPS(ullong);
__PARAM_OPS(hexint);
__PARAM_OPS(charp);
__PARAM_OPS(bool);
__PARAM_OPS(invbool);
extern const struct kernel_param_ops param_ops_string, param_array_ops;
int param_set_copystring(const char *val, const struct kernel_param *kp);
int param_get_string(char *buffer, const struct kernel_param *kp);

char *parse_args(const char *name, char *args, const struct kernel_param *params, unsigned int num,
		 int (*unknown)(char *param, char *val, const char *doing, void *arg), void *arg);
void destroy_params(const struct kernel_param *params, unsigned int num);
