/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/cpumask.h>
#include <kpfs/abi.h>
#include <kpfs/hypercall.h>
#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>

#define TASK_RUNNING 0
#define TASK_INTERRUPTIBLE 1
#define TASK_UNINTERRUPTIBLE 2
#define TASK_DEAD 0x80
#define TASK_NEW 0x800
#define TASK_WAKEKILL 0x100
#define TASK_KILLABLE (TASK_WAKEKILL | TASK_UNINTERRUPTIBLE)
#define TASK_NORMAL (TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE)
#define EXIT_DEAD 0x10
#define EXIT_ZOMBIE 0x20
#define TASK_COMM_LEN 16
#define THREAD_SIZE KPFS_STACK_SIZE
#define STACK_SLOT(n) ((void *)(KPFS_STACK_BASE + (n) * KPFS_STACK_STRIDE + KPFS_STACK_STRIDE - KPFS_STACK_SIZE))
#define MAX_SCHEDULE_TIMEOUT ((long)(~0UL >> 1))

#define PF_IDLE 0x00000002
#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000
#define PF_FORKNOEXEC 0x00000040
#define PF_HOST 0x01000000 /* stands for a process of the host */

#define SIGHUP 1
#define SIGINT 2
#define SIGKILL 9
#define SIGUSR1 10
#define SIGSEGV 11
#define SIGPIPE 13
#define SIGALRM 14
#define SIGTERM 15
#define SIGCHLD 17

#define CLONE_FS 0x200UL
#define CLONE_FILES 0x400UL
#define CLONE_SIGHAND 0x800UL
#define CLONE_NEWNS 0x20000UL
#define CLONE_PARENT 0x8000UL
#define CLONE_THREAD 0x10000UL
#define CLONE_VFORK 0x4000UL
#define CLONE_VM 0x100UL

struct cred {
	kuid_t uid, euid, suid, fsuid;
	kgid_t gid, egid, sgid, fsgid;
};
struct sched_entity {
	struct rb_node run_node;
	unsigned int on_rq;
	u64 exec_start, sum_exec_runtime, vruntime, prev_sum_exec_runtime;
};
struct thread_struct {
	unsigned long sp;
	unsigned long trap_nr, error_code, cr2;
	struct pt_regs *regs; /* of the system call that the task is in, or NULL */
};
struct files_struct;
struct fs_struct;
struct completion;
struct mm_struct { void *pgd; };
extern struct mm_struct init_mm;
struct pid;
struct sched_class;

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	void *stack;
	refcount_t usage;
	int on_cpu;
	int on_rq;
	unsigned int cpu;
	const struct cpumask *cpus_ptr;
	int prio, static_prio;
	const struct sched_class *sched_class;
	struct sched_entity se;
	struct list_head tasks;
	int exit_state, exit_code, exit_signal;
	pid_t pid, tgid;
	struct pid *thread_pid;
	struct hlist_node pid_links;
	struct task_struct *real_parent, *parent;
	struct list_head children, sibling;
	struct task_struct *group_leader;
	struct completion *vfork_done;
	u64 utime, stime, start_time;
	unsigned long nvcsw, nivcsw;
	struct cred cred[1];
	char comm[TASK_COMM_LEN];
	struct fs_struct *fs;
	struct files_struct *files;
	unsigned long pending; /* signals */
	struct {
		spinlock_t lock;
		struct list_head head;
	} wait_chldexit; /* wait_queue_head_t */
	int link_count, total_link_count;
	struct mm_struct *mm; /* NULL for kernel threads */
	void *journal_info;
	void *kthread;
	int rcu_read_lock_nesting, rcu_idx;
	unsigned long nr_quiescent; /* see note_quiescent() */
	unsigned long user_base;
	unsigned long user_brk;
	unsigned long rethooks;
	struct {
		unsigned long from, to;
	} untouched; /* user memory that its process has not touched: the first access brings it in */
	struct rescue *rescue;
	bool sched_atomic;
	struct callback_head rcu;
	struct kpfs_request req;
	struct kpfs_request nested;
	struct kpfs_host_op host_op;
	struct thread_struct thread;
};

extern struct task_struct init_task;

#define set_current_state(s) do { WRITE_ONCE(current->__state, (s)); smp_mb(); } while (0)
#define __set_current_state(s) WRITE_ONCE(current->__state, (s))
#define task_pt_regs(t) ((struct pt_regs *)((char *)(t)->stack + THREAD_SIZE) - 1)
#define task_stack_page(t) ((t)->stack)
static inline unsigned int task_cpu(const struct task_struct *p) { return READ_ONCE(p->cpu); }
static inline pid_t task_pid_nr(struct task_struct *t) { return t->pid; }
static inline pid_t task_tgid_nr(struct task_struct *t) { return t->tgid; }
static inline int is_idle_task(const struct task_struct *p) { return !!(p->flags & PF_IDLE); }
static inline void get_task_struct(struct task_struct *t) { refcount_inc(&t->usage); }
static inline bool need_resched(void) { return tif_need_resched(); }

void schedule(void);
void schedule_idle(void);
void schedule_preempt_disabled(void);
long schedule_timeout(long timeout);
long schedule_timeout_interruptible(long timeout);
long schedule_timeout_uninterruptible(long timeout);
int wake_up_process(struct task_struct *p);
void sched_pull_task(struct task_struct *p);
int wake_up_state(struct task_struct *p, unsigned int state);
void yield(void);
void sched_init(void);
int sched_fork(unsigned long clone_flags, struct task_struct *p);
void wake_up_new_task(struct task_struct *p);
void init_idle(struct task_struct *idle, int cpu);
void scheduler_tick(void);
void put_task_struct(struct task_struct *t);
void __put_task_struct(struct task_struct *t);
void __set_task_comm(struct task_struct *t, const char *from, bool exec);
#define set_task_comm(t, c) __set_task_comm(t, c, false)
char *__get_task_comm(char *buf, size_t size, struct task_struct *t);
#define get_task_comm(b, t) __get_task_comm(b, sizeof(b), t)
struct task_struct *find_task_by_vpid(pid_t nr);
struct task_struct *find_get_task_by_vpid(pid_t nr);
void do_task_dead(void) __noreturn;
void do_exit(long code) __noreturn;
void do_group_exit(int code) __noreturn;
void release_task(struct task_struct *p);
void exit_files(struct task_struct *t);
void exit_fs(struct task_struct *t);
u64 sched_clock(void);
u64 local_clock(void);

struct kernel_clone_args {
	u64 flags;
	int exit_signal;
	pid_t set_tid;
	int kthread;
	int (*fn)(void *);
	void *fn_arg;
	char comm[TASK_COMM_LEN];
	bool set_comm, set_cred;
	uid_t uid;
	gid_t gid;
};
pid_t kernel_clone(struct kernel_clone_args *args);
pid_t kernel_thread(int (*fn)(void *), void *arg, unsigned long flags);
struct task_struct *fork_idle(int cpu);

/* For loops that wait for another CPU, which gets its turn by this. */
#define cpu_relax() poll_credit()

/* A static call as with dynamic preemption: "call __SCT__cond_resched". */
int __cond_resched(void);
#include <linux/static_call.h>
DECLARE_STATIC_CALL(cond_resched, __cond_resched);
#define cond_resched() static_call_cond_resched()

extern rwlock_t tasklist_lock;
void read_lock(rwlock_t *l);
void read_unlock(rwlock_t *l);
void write_lock_irq(rwlock_t *l);
void write_unlock_irq(rwlock_t *l);
#include <linux/sched/signal.h>
