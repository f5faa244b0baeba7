/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Use the device of tests/checked/races.c by two threads, or three, once or N times each:
 * races ERROR [N], or all for one error after the other. The status is 3 if the result is wrong.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const char *const names[] = { "lost",  "torn",  "check", "publish", "elsewhere",
				     "ticks", "timer", "two",   "three",   "sleep",
				     "hoist", "late",  "fails", "lands",   "spins" };
#define NR_ERRORS (sizeof(names) / sizeof(*names))
static int fd, times = 1;
static unsigned int error;
static int bad, ready, threads = 2;

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void session(long id)
{
	int own = open("/dev/races", O_RDWR);

	ioctl(own, 111, 0);
	usleep(7000);
	pin(!id);
	close(own);
	pin(id & 1);
}

static void *thread(void *p)
{
	long id = (long)p;

	pin(id & 1);
	__atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&ready, __ATOMIC_SEQ_CST) < threads)
		sched_yield();
	for (int i = 0; i < times; i++) {
		unsigned long words[] = { id, 0 }, value = i + 1;

		words[1] = (unsigned long)&value;
		if (error == 11)
			session(id);
		else if (ioctl(fd, 100 + error,
			       error == 4 ? (unsigned long)words : (unsigned long)id))
			__atomic_store_n(&bad, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

static void use(void)
{
	pthread_t all[3];

	ready = 0;
	threads = error == 8 ? 3 : 2;
	for (long i = 0; i < threads; i++)
		pthread_create(&all[i], NULL, thread, (void *)i);
	for (int i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	if (error < 2 && ioctl(fd, 200 + error, 0) != 2 * times)
		bad = 1;
	if (error == 2 && (ioctl(fd, 202, 0) != 1 || ioctl(fd, 202, 1) != 1))
		bad = 1;
	if (error == 5) {
		usleep(12000);
		bad |= ioctl(fd, 205, 0);
	}
	if (error == 11)
		bad |= ioctl(fd, 211, 0);
}

int main(int count, char **words)
{
	fd = open("/dev/races", O_RDWR);
	if (fd < 0)
		return 9;
	if (count > 2)
		times = atoi(words[2]);
	for (error = 0; error < NR_ERRORS; error++)
		if (!strcmp(words[1], names[error]) || !strcmp(words[1], "all"))
			use();
	puts(bad ? "wrong" : "right");
	return bad ? 3 : 0;
}
