// SPDX-License-Identifier: GPL-2.0-or-later
/* Runs suites of tests and says in the log, as KTAP, how they went. */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/kthread.h>

struct kunit_allocation { struct kunit_allocation *next; };
struct kunit_result_stats { unsigned long passed, failed, skipped, total; };
struct kunit_run {
	struct kunit *test;
	struct kunit_suite *suite;
	struct kunit_case *test_case;
};
static unsigned int suites_run;

void kunit_do_failed(struct kunit *test, bool assertion, const char *file, int line,
		     const char *fmt, ...)
{
	char text[512];

	WRITE_ONCE(test->status, KUNIT_FAILURE);
	with_va_list(args, fmt, vscnprintf(text, sizeof(text), fmt, args));
	printk(KERN_ERR KUNIT_SUBTEST_INDENT "# %s: %s FAILED at %s:%d\n%s", test->name,
	       assertion ? "ASSERTION" : "EXPECTATION", file, line, text);
	if (assertion)
		kunit_try_catch_throw(test);
}

/* Print the value of an operand, unless it is a literal. */
static int kunit_operand(char *buf, size_t size, const char *text, long long value)
{
	char literal[24];

	snprintf(literal, sizeof(literal), "%lld", value);
	return strcmp(text, literal) ?
		       scnprintf(buf, size, KUNIT_SUBSUBTEST_INDENT "%s == %lld\n", text, value) :
		       0;
}

void kunit_binary_failed(struct kunit *test, bool assertion, const char *file, int line,
			 const char *left_text, const char *op, const char *right_text,
			 long long left, long long right, const char *fmt, ...)
{
	char text[384];
	int n = 0;

	n += kunit_operand(text + n, sizeof(text) - n, left_text, left);
	n += kunit_operand(text + n, sizeof(text) - n, right_text, right);
	with_va_list(args, fmt, vscnprintf(text + n, sizeof(text) - n, fmt, args));
	kunit_do_failed(test, assertion, file, line,
			KUNIT_SUBTEST_INDENT "Expected %s %s %s, but\n%s", left_text, op,
			right_text, text);
}

/* End a case: each has a thread of its own, so that it can be ended anywhere. */
void kunit_try_catch_throw(struct kunit *test)
{
	complete(test->done);
	do_exit(0);
}

void *kunit_kmalloc_array(struct kunit *test, size_t n, size_t size, gfp_t gfp)
{
	struct kunit_allocation *a = __kmalloc(sizeof(*a) * 2 + n * size, gfp);

	if (!a)
		return NULL;
	a->next = test->allocations;
	test->allocations = a;
	return a + 2;
}

static void kunit_cleanup(struct kunit *test)
{
	struct kunit_allocation *a, *next;

	for (a = test->allocations; a; a = next) {
		next = a->next;
		kfree(a);
	}
	test->allocations = NULL;
}

static int kunit_try_run_case(void *data)
{
	struct kunit_run *run = data;
	struct kunit *test = run->test;
	int ret = run->suite->init ? run->suite->init(test) : 0;

	if (ret) {
		kunit_err(test, "failed to initialize: %d", ret);
		test->status = KUNIT_FAILURE;
	} else {
		run->test_case->run_case(test);
	}
	kunit_try_catch_throw(test);
	return 0;
}

static noinline void kunit_run_case(struct kunit *test, struct kunit_suite *suite,
				    struct kunit_case *test_case)
{
	struct kunit_run run = { .test = test, .suite = suite, .test_case = test_case };
	DECLARE_COMPLETION_ONSTACK(done);
	struct task_struct *task;

	test->done = &done;
	task = kthread_run(kunit_try_run_case, &run, "kunit_try_catch");
	if (IS_ERR(task)) {
		kunit_err(test, "internal error occurred preventing test case from running: %ld",
			  PTR_ERR(task));
		test->status = KUNIT_FAILURE;
		return;
	}
	wait_for_completion(&done);
	if (suite->exit)
		suite->exit(test);
	kunit_cleanup(test);
}

static const char *kunit_ok(enum kunit_status status)
{
	return status == KUNIT_FAILURE ? "not ok" : "ok";
}

static void kunit_print_stats(const char *name, const struct kunit_result_stats *s)
{
	if (s->total > 1)
		pr_info("# %s: pass:%lu fail:%lu skip:%lu total:%lu\n", name, s->passed, s->failed,
			s->skipped, s->total);
}

int kunit_run_tests(struct kunit_suite *suite)
{
	struct kunit_result_stats stats = { 0 };
	struct kunit_case *c;
	unsigned long n = 0;

	for (c = suite->test_cases; c->run_case; c++)
		n++;
	pr_info(KUNIT_SUBTEST_INDENT "KTAP version 1\n");
	pr_info(KUNIT_SUBTEST_INDENT "# Subtest: %s\n", suite->name);
	pr_info(KUNIT_SUBTEST_INDENT "1..%lu\n", n);
	for (c = suite->test_cases; c->run_case; c++) {
		struct kunit test = { .name = c->name };

		kunit_run_case(&test, suite, c);
		stats.total++;
		stats.failed += test.status == KUNIT_FAILURE;
		stats.skipped += test.status == KUNIT_SKIPPED;
		stats.passed += test.status == KUNIT_SUCCESS;
		pr_info(KUNIT_SUBTEST_INDENT "%s %lu %s%s%s\n", kunit_ok(test.status), stats.total,
			c->name, test.status == KUNIT_SKIPPED ? " # SKIP " : "",
			test.status_comment);
	}
	kunit_print_stats(suite->name, &stats);
	kunit_print_stats("Totals", &stats);
	pr_info("%s %u %s\n", kunit_ok(stats.failed ? KUNIT_FAILURE : KUNIT_SUCCESS), ++suites_run,
		suite->name);
	return 0;
}

int __kunit_test_suites_init(struct kunit_suite *const *suites, int num)
{
	int i, ret;

	for (i = 0; i < num; i++) {
		ret = suites[i]->suite_init ? suites[i]->suite_init(suites[i]) : 0;
		if (ret)
			return ret;
		kunit_run_tests(suites[i]);
	}
	return 0;
}

void __kunit_test_suites_exit(struct kunit_suite *const *suites, int num)
{
	for (int i = 0; i < num; i++)
		if (suites[i]->suite_exit)
			suites[i]->suite_exit(suites[i]);
	suites_run = 0;
}
