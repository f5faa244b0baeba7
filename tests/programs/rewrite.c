// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Code that is not what ran at the same place before. A processor that keeps translated code must
 * notice all of this:
 *
 *   files     a program is overwritten in place, and executed anew
 *   mappings  code is written by one mapping of its memory, and called by another
 *   pages     other pages, with other code, take the place of those that it ran in
 *   processes two have other code at one address, and take turns
 *   debugger  a tracer writes a breakpoint, and, once that is hit, what was there
 *
 * Each time the code returns another number. Prints how often that was right.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIMES 59
#define PAGE 4096

/* PC: number of the word in the registers that has the address where a tracee goes on */
#if defined(__x86_64__)
#define PC 16
#define BREAKPOINT "\xcc"
#elif defined(__aarch64__)
#define PC 32
#define BREAKPOINT "\x00\x00\x20\xd4"
#elif defined(__riscv)
#define PC 0
#define BREAKPOINT "\x73\x00\x10\x00"
#elif defined(__powerpc64__)
#define PC 32
#define BREAKPOINT "\x08\x00\xe0\x7f"
#elif defined(__mips__)
#define PC 34
#define BREAKPOINT "\x0d\x00\x00\x00"
#elif defined(__s390x__)
#define PC 1
#define BREAKPOINT "\x00\x01"
#elif defined(__i386__)
#define PC 12
#define BREAKPOINT "\xcc"
#elif defined(__arm__)
#define PC 15
#define BREAKPOINT "\xf0\x01\xf0\xe7"
#endif

/* A page of code, which make() replaces by code that returns a number. */
__attribute__((aligned(PAGE), noinline)) static int answer(void)
{
	asm volatile(".space 64, 0");
	return 0;
}

static size_t make(uint8_t *code, unsigned int number)
{
#if defined(__x86_64__) || defined(__i386__)
	const uint8_t words[] = { 0xb8, number, 0, 0, 0, 0xc3 }; /* mov $number, %eax; ret */
#elif defined(__aarch64__)
	const uint32_t words[] = { 0x52800000 | number << 5,
				   0xd65f03c0 }; /* mov w0, #number; ret */
#elif defined(__riscv)
	const uint32_t words[] = { 0x513 | number << 20, 0x8067 }; /* li a0, number; ret */
#elif defined(__powerpc64__)
	const uint32_t words[] = { 0x38600000 | number, 0x4e800020 }; /* li r3, number; blr */
#elif defined(__s390x__)
	const uint8_t words[] = {
		0xa7, 0x29, 0, number, 0x07, 0xfe
	}; /* lghi %r2, number; br %r14 */
#elif defined(__mips__)
	const uint32_t words[] = { 0x24020000 | number, 0x03e00008, 0 }; /* li v0, number; jr ra */
#elif defined(__arm__)
	const uint32_t words[] = { 0xe3a00000 | number, 0xe12fff1e }; /* mov r0, #number; bx lr */
#endif
	memcpy(code, words, sizeof(words));
	return sizeof(words);
}

/* Return where an address of this program lies in its file. */
static off_t place(const void *address)
{
	const ElfW(Phdr) *row = (void *)getauxval(AT_PHDR);

	for (; row->p_type != PT_LOAD || !(row->p_flags & PF_X); row++)
		;
	return (uintptr_t)address - row->p_vaddr + row->p_offset;
}

static int copy(const char *from, const char *to)
{
	char data[65536];
	int in = open(from, O_RDONLY), out = open(to, O_RDWR | O_CREAT | O_TRUNC, 0755);
	ssize_t size;

	while ((size = read(in, data, sizeof(data))) > 0)
		if (write(out, data, size) != size)
			return -1;
	close(in);
	return close(out);
}

static int files(void)
{
	const char *path = "/tmp/rewritten";
	int right = 0;

	if (copy("/proc/self/exe", path))
		return -1;
	for (int i = 1; i <= TIMES; i++) {
		uint8_t code[64];
		size_t size = make(code, i);
		int status, fd = open(path, O_WRONLY);

		if (pwrite(fd, code, size, place(answer)) != (ssize_t)size)
			return -1;
		close(fd);
		if (!fork()) {
			execl(path, path, "answer", (char *)NULL);
			_exit(255);
		}
		wait(&status);
		right += WIFEXITED(status) && WEXITSTATUS(status) == i;
	}
	return right;
}

static int mappings(void)
{
	int right = 0, fd = memfd_create("code", 0);
	uint8_t *writable, *code;

	if (ftruncate(fd, PAGE))
		return -1;
	writable = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	code = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	for (int i = 1; i <= TIMES; i++) {
		size_t size = make(writable, i);

		__builtin___clear_cache((char *)code, (char *)code + size);
		right += ((int (*)(void))code)() == i;
	}
	return right;
}

/* Each page has functions in all its parts, as a processor may take pages for smaller ones. */
static int pages(void)
{
	int right = 0, fds[2];
	uint8_t *code = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (int k = 0; k < 2; k++) {
		uint8_t made[64];
		size_t size = make(made, k);

		fds[k] = memfd_create("code", 0);
		for (int at = 0; at < PAGE; at += PAGE / 16)
			if (ftruncate(fds[k], PAGE) ||
			    pwrite(fds[k], made, size, at) != (ssize_t)size)
				return -1;
	}
	for (int i = 0; i < TIMES; i++) {
		int answers = 0;

		mmap(code, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED, fds[i & 1], 0);
		for (int at = 0; at < PAGE; at += PAGE / 16)
			answers += ((int (*)(void))(code + at))();
		right += answers == (i & 1 ? 16 : 0);
	}
	return right;
}

static int processes(void)
{
	const int access = PROT_READ | PROT_WRITE | PROT_EXEC;
	uint8_t *code = mmap(NULL, PAGE, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int right = 0, to[2], back[2];
	pid_t child;

	if (pipe(to) || pipe(back))
		return -1;
	child = fork();
	__builtin___clear_cache((char *)code, (char *)code + make(code, !child));
	for (int i = 0; i < TIMES; i++) {
		int answer = ((int (*)(void))code)(), others;

		if (!child && (read(to[0], &others, sizeof(others)) <= 0 ||
			       write(back[1], &answer, sizeof(answer)) <= 0))
			break;
		if (child && (write(to[1], &answer, sizeof(answer)) <= 0 ||
			      read(back[0], &others, sizeof(others)) <= 0))
			break;
		right += answer == 0 && others == 1;
	}
	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
	return right;
}

__attribute__((noinline)) static int next(int number)
{
	asm volatile("");
	return number + 1;
}

/* Have a tracee go on at an address until it stops or ends; return its status. */
static int go_on(pid_t pid, void *address)
{
	uintptr_t regs[64];
	struct iovec all = { regs, sizeof(regs) };
	int status = -1;

	if (address) {
		ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &all);
		regs[PC] = (uintptr_t)address;
		ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &all);
	}
	ptrace(PTRACE_CONT, pid, NULL, NULL);
	waitpid(pid, &status, 0);
	return status;
}

/* Pages of the tracees, copies of this program's, take the places of those that have ended. */
static int debugger(void)
{
	int right = 0;

	for (int i = 1; i <= TIMES; i++) {
		int status;
		long code, stop;
		pid_t pid = fork();

		if (!pid) {
			ptrace(PTRACE_TRACEME, 0, NULL, NULL);
			raise(SIGSTOP);
			_exit(next(i));
		}
		waitpid(pid, &status, 0);
		stop = code = ptrace(PTRACE_PEEKTEXT, pid, next, NULL);
		memcpy(&stop, BREAKPOINT, sizeof(BREAKPOINT) - 1);
		ptrace(PTRACE_POKETEXT, pid, next, stop);
		status = go_on(pid, NULL);
		if (WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP) {
			ptrace(PTRACE_POKETEXT, pid, next, code);
			status = go_on(pid, next);
			right += WIFEXITED(status) && WEXITSTATUS(status) == i + 1;
		}
		if (WIFSTOPPED(status)) {
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
		}
	}
	return right;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "answer"))
		return answer();
	printf("files %d\n", files());
	printf("mappings %d\n", mappings());
	printf("pages %d\n", pages());
	printf("processes %d\n", processes());
	printf("debugger %d\n", debugger());
	return 0;
}
