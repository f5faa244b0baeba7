/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests within the kernel: what a suite of simple cases needs. */
#pragma once
#include <linux/err.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/stacktrace.h>
#include <linux/string.h>

#define KUNIT_SUBTEST_INDENT "    "
#define KUNIT_SUBSUBTEST_INDENT "        "
enum kunit_status { KUNIT_SUCCESS, KUNIT_FAILURE, KUNIT_SKIPPED };

struct completion;
struct kunit {
	void *priv;
	const char *name;
	enum kunit_status status;
	char status_comment[64];
	struct completion *done; /* of the thread that runs the case */
	struct kunit_allocation *allocations;
};

struct kunit_case {
	void (*run_case)(struct kunit *test);
	const char *name;
	const void *(*generate_params)(const void *prev, char *desc);
};

struct kunit_suite {
	const char name[256];
	int (*suite_init)(struct kunit_suite *suite);
	void (*suite_exit)(struct kunit_suite *suite);
	int (*init)(struct kunit *test);
	void (*exit)(struct kunit *test);
	struct kunit_case *test_cases;
};
#define KUNIT_CASE(test_name) { .run_case = test_name, .name = #test_name }

int kunit_run_tests(struct kunit_suite *suite);
int __kunit_test_suites_init(struct kunit_suite *const *suites, int num);
void __kunit_test_suites_exit(struct kunit_suite *const *suites, int num);
void kunit_do_failed(struct kunit *test, bool assertion, const char *file, int line,
		     const char *fmt, ...) __printf(5, 6);
void kunit_binary_failed(struct kunit *test, bool assertion, const char *file, int line,
			 const char *left_text, const char *op, const char *right_text,
			 long long left, long long right, const char *fmt, ...) __printf(10, 11);
void *kunit_kmalloc_array(struct kunit *test, size_t n, size_t size, gfp_t gfp);
void kunit_try_catch_throw(struct kunit *test) __noreturn;
#define kunit_kmalloc(test, size, gfp) kunit_kmalloc_array(test, 1, size, gfp)
#define kunit_kzalloc(test, size, gfp) kunit_kmalloc_array(test, 1, size, (gfp) | __GFP_ZERO)
#define kunit_kcalloc(test, n, size, gfp) kunit_kmalloc_array(test, n, size, (gfp) | __GFP_ZERO)

#define kunit_test_suites(suites...) \
	static struct kunit_suite *__kunit_suites[] = { suites }; \
	static int __init kunit_test_suites_init(void) \
	{ \
		return __kunit_test_suites_init(__kunit_suites, ARRAY_SIZE(__kunit_suites)); \
	} \
	module_init(kunit_test_suites_init); \
	static void __exit kunit_test_suites_exit(void) \
	{ \
		__kunit_test_suites_exit(__kunit_suites, ARRAY_SIZE(__kunit_suites)); \
	} \
	module_exit(kunit_test_suites_exit); \
	MODULE_INFO(test, "Y")
#define kunit_test_suite(suite) kunit_test_suites(&suite)

#define kunit_printk(lvl, test, fmt, ...) \
	printk(lvl KUNIT_SUBTEST_INDENT "# %s: " fmt "\n", (test)->name, ##__VA_ARGS__)
#define kunit_info(test, fmt, ...) kunit_printk(KERN_INFO, test, fmt, ##__VA_ARGS__)
#define kunit_warn(test, fmt, ...) kunit_printk(KERN_WARNING, test, fmt, ##__VA_ARGS__)
#define kunit_err(test, fmt, ...) kunit_printk(KERN_ERR, test, fmt, ##__VA_ARGS__)
#define kunit_mark_skipped(test, fmt, ...) do { \
	(test)->status = KUNIT_SKIPPED; \
	scnprintf((test)->status_comment, sizeof((test)->status_comment), fmt, ##__VA_ARGS__); \
} while (0)
#define kunit_skip(test, fmt, ...) do { \
	kunit_mark_skipped(test, fmt, ##__VA_ARGS__); \
	kunit_try_catch_throw(test); \
} while (0)

#define __KUNIT_FAIL(test, assertion, fmt, ...) \
	kunit_do_failed(test, assertion, __FILE__, __LINE__, fmt, ##__VA_ARGS__)
#define __KUNIT_UNARY(test, assertion, cond, expected, fmt, ...) do { \
	if ((!!(cond)) != (expected)) \
		__KUNIT_FAIL(test, assertion, KUNIT_SUBTEST_INDENT "Expected %s to be %s, but is %s\n" fmt, \
			     #cond, (expected) ? "true" : "false", (expected) ? "false" : "true", \
			     ##__VA_ARGS__); \
} while (0)
#define __KUNIT_BINARY(test, assertion, left, op, right, fmt, ...) do { \
	const __typeof__(left) __left = (left); \
	const __typeof__(right) __right = (right); \
	if (!(__left op __right)) \
		kunit_binary_failed(test, assertion, __FILE__, __LINE__, #left, #op, #right, \
				    (long long)__left, (long long)__right, fmt, ##__VA_ARGS__); \
} while (0)
#define __KUNIT_STR(test, assertion, left, op, right) do { \
	const char *__left = (left), *__right = (right); \
	if (!(strcmp(__left, __right) op 0)) \
		__KUNIT_FAIL(test, assertion, KUNIT_SUBTEST_INDENT "Expected %s %s %s, but\n" \
			     KUNIT_SUBSUBTEST_INDENT "%s == \"%s\"\n" \
			     KUNIT_SUBSUBTEST_INDENT "%s == \"%s\"\n", #left, #op, #right, \
			     #left, __left, #right, __right); \
} while (0)
#define __KUNIT_NOT_ERR(test, assertion, ptr) do { \
	const void *__ptr = (ptr); \
	if (IS_ERR_OR_NULL(__ptr)) \
		__KUNIT_FAIL(test, assertion, KUNIT_SUBTEST_INDENT \
			     "Expected %s is not error, but is: %ld\n", #ptr, PTR_ERR(__ptr)); \
} while (0)

#define KUNIT_FAIL(test, fmt, ...) __KUNIT_FAIL(test, false, KUNIT_SUBTEST_INDENT fmt "\n", ##__VA_ARGS__)
#define KUNIT_SUCCEED(test) do { (void)(test); } while (0)
#define KUNIT_EXPECT_TRUE(test, c) __KUNIT_UNARY(test, false, c, true, "")
#define KUNIT_EXPECT_FALSE(test, c) __KUNIT_UNARY(test, false, c, false, "")
#define KUNIT_EXPECT_EQ(test, l, r) __KUNIT_BINARY(test, false, l, ==, r, "")
#define KUNIT_EXPECT_NE(test, l, r) __KUNIT_BINARY(test, false, l, !=, r, "")
#define KUNIT_EXPECT_LT(test, l, r) __KUNIT_BINARY(test, false, l, <, r, "")
#define KUNIT_EXPECT_LE(test, l, r) __KUNIT_BINARY(test, false, l, <=, r, "")
#define KUNIT_EXPECT_GT(test, l, r) __KUNIT_BINARY(test, false, l, >, r, "")
#define KUNIT_EXPECT_GE(test, l, r) __KUNIT_BINARY(test, false, l, >=, r, "")
#define KUNIT_EXPECT_PTR_EQ(test, l, r) KUNIT_EXPECT_EQ(test, (unsigned long)(l), (unsigned long)(r))
#define KUNIT_EXPECT_PTR_NE(test, l, r) KUNIT_EXPECT_NE(test, (unsigned long)(l), (unsigned long)(r))
#define KUNIT_EXPECT_NULL(test, p) KUNIT_EXPECT_EQ(test, (unsigned long)(p), 0UL)
#define KUNIT_EXPECT_NOT_NULL(test, p) KUNIT_EXPECT_NE(test, (unsigned long)(p), 0UL)
#define KUNIT_EXPECT_STREQ(test, l, r) __KUNIT_STR(test, false, l, ==, r)
#define KUNIT_EXPECT_STRNEQ(test, l, r) __KUNIT_STR(test, false, l, !=, r)
#define KUNIT_EXPECT_NOT_ERR_OR_NULL(test, p) __KUNIT_NOT_ERR(test, false, p)
#define KUNIT_EXPECT_TRUE_MSG(test, c, fmt, ...) __KUNIT_UNARY(test, false, c, true, fmt "\n", ##__VA_ARGS__)
#define KUNIT_EXPECT_FALSE_MSG(test, c, fmt, ...) __KUNIT_UNARY(test, false, c, false, fmt "\n", ##__VA_ARGS__)
#define KUNIT_EXPECT_EQ_MSG(test, l, r, fmt, ...) __KUNIT_BINARY(test, false, l, ==, r, fmt "\n", ##__VA_ARGS__)
#define KUNIT_EXPECT_NE_MSG(test, l, r, fmt, ...) __KUNIT_BINARY(test, false, l, !=, r, fmt "\n", ##__VA_ARGS__)
#define KUNIT_ASSERT_TRUE(test, c) __KUNIT_UNARY(test, true, c, true, "")
#define KUNIT_ASSERT_FALSE(test, c) __KUNIT_UNARY(test, true, c, false, "")
#define KUNIT_ASSERT_EQ(test, l, r) __KUNIT_BINARY(test, true, l, ==, r, "")
#define KUNIT_ASSERT_NE(test, l, r) __KUNIT_BINARY(test, true, l, !=, r, "")
#define KUNIT_ASSERT_LT(test, l, r) __KUNIT_BINARY(test, true, l, <, r, "")
#define KUNIT_ASSERT_LE(test, l, r) __KUNIT_BINARY(test, true, l, <=, r, "")
#define KUNIT_ASSERT_GT(test, l, r) __KUNIT_BINARY(test, true, l, >, r, "")
#define KUNIT_ASSERT_GE(test, l, r) __KUNIT_BINARY(test, true, l, >=, r, "")
#define KUNIT_ASSERT_PTR_EQ(test, l, r) KUNIT_ASSERT_EQ(test, (unsigned long)(l), (unsigned long)(r))
#define KUNIT_ASSERT_PTR_NE(test, l, r) KUNIT_ASSERT_NE(test, (unsigned long)(l), (unsigned long)(r))
#define KUNIT_ASSERT_NULL(test, p) KUNIT_ASSERT_EQ(test, (unsigned long)(p), 0UL)
#define KUNIT_ASSERT_NOT_NULL(test, p) KUNIT_ASSERT_NE(test, (unsigned long)(p), 0UL)
#define KUNIT_ASSERT_STREQ(test, l, r) __KUNIT_STR(test, true, l, ==, r)
#define KUNIT_ASSERT_NOT_ERR_OR_NULL(test, p) __KUNIT_NOT_ERR(test, true, p)
