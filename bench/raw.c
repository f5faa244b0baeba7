// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * raw [REPEATS [KIND]]: works in rounds of several kinds. After each measurement it prints the
 * kind, the number of rounds, and how many nanoseconds a round took.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MEGABYTE (1 << 20)
#define TABLE (1 << 16) /* words */
#define PAGES 1024
#define PAGE 4096

static uint32_t table[TABLE];
static char from[MEGABYTE], to[MEGABYTE];
static volatile uint64_t sink;

static void integers(long n)
{
	uint64_t x = 88172645463325252ull, sum = 0;

	while (n--) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		sum += x;
	}
	sink = sum;
}

/* the compiler may not turn them into conditional moves */
static void branches(long n)
{
	uint64_t x = 1, odd = 0, other = 0;

	while (n--) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		if (x >> 63) {
			__asm__ volatile("");
			odd += x;
		} else {
			__asm__ volatile("");
			other ^= x;
		}
		if (x >> 62 & 1)
			__asm__ volatile("" : "+r"(odd));
	}
	sink = odd + other;
}

static void lookups(long n)
{
	uint32_t at = 1;

	while (n--)
		at = table[(at * 1664525u + 1013904223u) >> 16] + n;
	sink = at;
}

static void calls(long n)
{
	while (n--)
		syscall(SYS_getppid);
}

static void copies(long n)
{
	while (n--) {
		memcpy(to, from, sizeof(to));
		__asm__ volatile("" : : "r"(to) : "memory");
	}
}

static void faults(long n)
{
	while (n--) {
		char *area = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		for (int i = 0; i < PAGES; i++)
			area[i * PAGE] = 1;
		munmap(area, PAGES * PAGE);
	}
}

static void forks(long n)
{
	while (n--) {
		pid_t pid = fork();

		if (!pid)
			_exit(0);
		waitpid(pid, NULL, 0);
	}
}

static const struct {
	const char *name;
	void (*work)(long rounds);
	long rounds;
} kinds[] = {
	{ "integers", integers, 40000000 },
	{ "branches", branches, 20000000 },
	{ "table", lookups, 10000000 },
	{ "getppid", calls, 100000 },
	{ "memcpy", copies, 200 },
	{ "page_faults", faults, 10 },
	{ "fork", forks, 100 },
};

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(int argc, char **argv)
{
	int repeats = argc > 1 ? atoi(argv[1]) : 5;

	for (int i = 0; i < TABLE; i++)
		table[i] = i * 2654435761u;
	memset(from, 1, sizeof(from));
	for (size_t kind = 0; kind < sizeof(kinds) / sizeof(*kinds); kind++) {
		if (argc > 2 && strcmp(argv[2], kinds[kind].name))
			continue;
		puts("begin 1 0");
		fflush(stdout);
		for (int i = 0; i < repeats; i++) {
			double begin = now();

			kinds[kind].work(kinds[kind].rounds);
			printf("%s %ld %.3f\n", kinds[kind].name, kinds[kind].rounds,
			       (now() - begin) / kinds[kind].rounds);
			fflush(stdout);
		}
	}
	return 0;
}
