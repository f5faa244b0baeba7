# SPDX-License-Identifier: GPL-2.0-or-later
"""Modules of all kinds that never return: each is ended, and the files answer.

Each has a kernel in a process of its own.  Afterwards somebody else asks for the files:
they answer, or all say ESHUTDOWN and kmsg has the reason.
"""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
from typing import NamedTuple

from kpfs.backends.guest import tree
from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.backends.guest.vfs import Vfs
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import Caller
from tests import modbox

NR_MODULES = 300
TIME_MAX = 15.0  # s, with the usual limit
KILLED = b"BUG: soft lockup", b"stack guard page was hit"
BUSY = 2.5  # limits after which a request that goes on is one that may
TICKS = 20
HANG = 300  # s after which a case is given up, on a machine that others use too
HEADERS = """
completion delay hrtimer interrupt jiffies kthread mutex notifier sched slab spinlock
timer workqueue
""".split()
HEAD = (
    "".join(f"#include <linux/{name}.h>\n" for name in HEADERS)
    + modbox.HEAD
    + """
static volatile int depth, turns, never;
static struct timer_list again;
static struct kprobe other;
static DEFINE_SPINLOCK(lock);
static DEFINE_MUTEX(mutex);
static DECLARE_COMPLETION(done);
static struct work_struct work;
#define schedule_work(w) queue_work_on(0, system_wq, w)
static TARGET int target(int x) { return x + 1; }
static TARGET int deeper(int x)
{ volatile char pad[64]; pad[x & 63] = 1; return deeper(x + 1) + pad[x & 31]; }
static TARGET int talks(int x) { printk("deeper %d\\n", x); return talks(x + 1) + 1; }
static void fires_again(struct timer_list *t) { mod_timer(t, jiffies); }
static void works(struct work_struct *w) { schedule_work(w); }
"""
)
# What is done once by a body that goes on for ever with something else.
BEFORE = (
    "",
    "local_irq_disable();",
    "preempt_disable();",
    "local_irq_disable(); preempt_disable();",
    "for (int i = 0; i < 1000; i++) cond_resched();",
    'for (int i = 0; i < 1000; i++) printk("before %d\\n", i);',
    "spin_lock(&lock);",
)
# What a loop does all the time; what does not loop stands alone.
LOOPS = {
    "spin": "barrier();",
    "relax": "cpu_relax();",
    "resched": "cond_resched();",
    "schedule": "schedule();",
    "yield": "yield();",
    "printk": 'printk("line %d\\n", turns++);',
    "printk-resched": 'printk("line %d\\n", turns++); cond_resched();',
    "cli-sti": "local_irq_disable(); local_irq_enable();",
    "preempt": "preempt_disable(); preempt_enable();",
    "probe": "if (register_kprobe(&other) == 0) unregister_kprobe(&other);",
    "target": "target(turns);",
    "kmalloc": "kfree(kmalloc(100, GFP_KERNEL));",
    "leak": "kmalloc(100, GFP_ATOMIC);",
    "timer": "mod_timer(&again, jiffies);",
    "work": "schedule_work(&work);",
    "sleep": "msleep(10);",
    "warn": "WARN_ON(1);",
}
ENDS = {
    "recursion": "deeper(0);",
    "printing-recursion": "talks(0);",
    "deadlock": "spin_lock(&lock); spin_lock(&lock);",
    "mutex": "mutex_lock(&mutex); mutex_lock(&mutex);",
    "completion": "wait_for_completion(&done);",
}
PRE = "PRE(pre, body(); return 0;)\nstatic struct kprobe kp = {{ {} }};\n"
KPROBE = "register_kprobe(&kp);", "unregister_kprobe(&kp);"
FIRES = (
    "static void fires(struct timer_list *t) {{ {} }}\nstatic struct timer_list tl;\n"
)
FLUSH = "flush_work(&mine);"
WORKS = (
    "static void runs(struct work_struct *w) { body(); }\n"
    "static struct work_struct mine;\n"
)
THREAD = "static int runs(void *d) { body(); return 0; }\n"
TOLD = (
    "static int told(struct notifier_block *n, unsigned long v, void *d) {{ {} }}\n"
    "static struct notifier_block nb = {{ .notifier_call = told }};\n"
)
# Where it happens: definitions, what init does, what exit does.
PLACES = {
    "init": ("", "body();", ""),
    "exit": ("", "", "body();"),
    "kprobe": (PRE.format(".symbol_name = SYMBOL, .pre_handler = pre"), *KPROBE),
    "kprobe-inside": (
        PRE.format(".symbol_name = SYMBOL, .offset = 5, .pre_handler = pre"),
        *KPROBE,
    ),
    "post": (
        "static void post(struct kprobe *p, struct pt_regs *r, unsigned long f)\n"
        "{ body(); }\n"
        "static struct kprobe kp = { .symbol_name = SYMBOL, .post_handler = post };\n",
        *KPROBE,
    ),
    "kretprobe": (
        "KRET(ret, body(); return 0;)\nstatic struct kretprobe rp =\n"
        "{ .kp.symbol_name = SYMBOL, .handler = ret, .maxactive = 4 };\n",
        "register_kretprobe(&rp);",
        "unregister_kretprobe(&rp);",
    ),
    "timer": (
        FIRES.format("body();"),
        "timer_setup(&tl, fires, 0); mod_timer(&tl, jiffies + 1);",
        "",
    ),
    "rearmed": (
        FIRES.format("if (turns++ > 3) body(); mod_timer(t, jiffies);"),
        "timer_setup(&tl, fires, 0); mod_timer(&tl, jiffies);",
        "",
    ),
    "tasklet": (
        "static void runs(struct tasklet_struct *t)"
        " { if (turns++ > 3) body(); tasklet_schedule(t); }\n"
        "static struct tasklet_struct tasklet;\n",
        "tasklet_setup(&tasklet, runs); tasklet_schedule(&tasklet);",
        "",
    ),
    "work": (WORKS, "INIT_WORK(&mine, runs); schedule_work(&mine);", FLUSH),
    "flushed": (WORKS, f"INIT_WORK(&mine, runs); schedule_work(&mine); {FLUSH}", ""),
    "kthread": (THREAD, 'kthread_run(runs, NULL, "spinner");', ""),
    "kthreads": (
        THREAD,
        'for (int i = 0; i < 4; i++) kthread_run(runs, NULL, "spinner%d", i);',
        "",
    ),
    "die-notifier": (
        TOLD.format("body(); return NOTIFY_DONE;"),
        "register_die_notifier(&nb); BUG();",
        "",
    ),
    "die-stops": (
        TOLD.format("return v == DIE_OOPS ? NOTIFY_STOP : NOTIFY_DONE;"),
        "register_die_notifier(&nb); body();",
        "",
    ),
    "module-notifier": (
        TOLD.format("if (v == MODULE_STATE_LIVE) body(); return NOTIFY_DONE;"),
        "register_module_notifier(&nb);",
        "",
    ),
}
SYMBOLS = ("__x64_sys_getppid", "target", "schedule", "vprintk_emit", "_printk", "read")


class Case(NamedTuple):
    name: str
    text: str


class Outcome(NamedTuple):
    name: str
    seconds: float  # CPU time, the longest of the case's requests
    how: str  # "ok", "killed", "dead", or what went wrong
    why: str

    @property
    def bad(self) -> bool:
        return self.how not in ("ok", "killed", "asleep", "dead", "refused")


def case(number: int) -> Case:
    """Return the module of a number; the first have each place and each loop once."""
    rng = random.Random(number)
    bodies = [*LOOPS, *ENDS]
    places = list(PLACES)
    place = places[number % len(places)]
    what = bodies[number * 7 % len(bodies)]
    first = "" if number < len(places) * 2 else rng.choice(BEFORE)
    body = ENDS.get(what) or f"for (;;) {{ {LOOPS[what]} }}"
    if what in LOOPS and rng.random() < 0.25:  # two at once
        body = f"for (;;) {{ {LOOPS[what]} {LOOPS[rng.choice(list(LOOPS))]} }}"
    symbol = rng.choice(SYMBOLS[:2] if number < 200 else SYMBOLS)
    definitions, init, leave = PLACES[place]
    text = f"""{HEAD}
static TARGET void body(void) {{ {first} {body} }}
{definitions.replace("SYMBOL", f'"{symbol}"')}
INIT(
	other.symbol_name = "__x64_sys_getpid";
	timer_setup(&again, fires_again, 0); INIT_WORK(&work, works);
	if (never) {{ body(); deeper(0); talks(0); target(0); spin_lock(&lock);
		mutex_lock(&mutex); wait_for_completion(&done); }}
	{init}
	target(1);
	return 0;
)
EXIT({leave})
{modbox.LICENSE}"""
    flags = "+".join(x for x in (first.split("(")[0], what) if x)
    return Case(f"{number}:{place}:{flags}", text)


class Runner:
    """Loads the module of a case into a kernel and looks if that still answers."""

    def __init__(self, limit: float, cpus: int, *, live: bool) -> None:
        self.box = modbox.Box(cpus)
        if live:
            self.box.close()
            kernel = GuestKernel(nr_cpus=cpus)
            self.box.kernel, self.box.vfs = kernel, Vfs(kernel, tree.build(kernel))
            kernel.background.start()
        dog = self.box.kernel.guest.cpus.watchdog
        dog.limit, dog.rewind_at = limit, 0.0
        self.seconds = 0.0
        self.errors: list[int] = []

    def ask(self, what: str, *args: str) -> None:
        """Have a thread make a request; leave it alone if it sleeps or is busy."""
        begin = time.process_time()
        asking = threading.Thread(target=self.request, args=(what, *args), daemon=True)
        asking.start()
        busy_at = begin + BUSY * self.box.kernel.guest.cpus.watchdog.limit
        while asking.is_alive() and not self.sleeps(asking):
            if time.process_time() > busy_at:
                break
            asking.join(0.01)
        self.seconds = max(self.seconds, time.process_time() - begin)

    def sleeps(self, asking: threading.Thread) -> bool:
        """Return True if a thread still waits for the guest after a signal."""
        for waiter in list(self.box.kernel.background._waiting):
            if waiter.ident == asking.ident:
                asking.join(0.1)
                waiter.interrupt()
                asking.join(0.1)
                return asking.is_alive()
        return False

    def request(self, what: str, *args: str) -> None:
        """Make a request, and keep the errno of a refusal."""
        try:
            if what == "syscall":
                with self.box.kernel.lock:
                    self.box.syscall(*args)
            elif what == "pass_time":
                self.pass_time()
            else:
                getattr(self.box, what)(*args)
        except KernelError as exc:
            self.errors.append(exc.errno)

    def pass_time(self) -> None:
        """Let the timers expire that a module has set: it is to loop in them.

        Without that it would be unloaded first, and they would be lost memory.
        """
        guest = self.box.kernel.guest
        for _ in range(TICKS):
            with self.box.kernel.lock:
                if guest.quiet and guest.next_deadline() is not None:
                    guest.tick()

    def run(self, name: str, module: str) -> Outcome:
        writer = subprocess.Popen(["sleep", str(HANG)])  # not the process that looks
        try:
            self.box.caller = Caller(writer.pid, 0, 0)
            self.ask("insmod", module)
            if {errno.ENOENT, errno.ENOEXEC} & set(self.errors):
                log = [r.text for r in self.box.kernel.guest.log.records()]
                return Outcome(name, 0.0, f"not loaded: {self.errors}", str(log[-2:]))
            return self.provoke(name)
        finally:
            writer.kill()
            writer.wait()

    def provoke(self, name: str) -> Outcome:
        """Go to where the module loops, now that its init has ended somehow."""
        self.ask("syscall", "getppid")
        self.ask("pass_time")
        self.ask("rmmod", "stuck")
        until = time.monotonic() + 1  # background work, if time passes
        self.ask("read", "/modules")
        if not self.box.kernel.guest.quiet:
            time.sleep(max(0.0, until - time.monotonic()))
        return self.look(name)

    def look(self, name: str) -> Outcome:
        """Read files as another process: they answer, or say that the guest is dead."""
        box = self.box
        box.caller = Caller(os.getpid(), 0, 0)
        before, self.errors = self.errors, []
        for path in ("/kprobes/list", "/modules", "/tracing/kprobe_events"):
            self.ask("read", path)
        dead = box.kernel.syscalls.dead
        log = [record.text for record in box.kernel.guest.log.records()]
        if dead:
            how = "dead"
            if set(self.errors) - {errno.ESHUTDOWN} or len(self.errors) != 3:
                how = f"dead, but answers {self.errors}"
            elif not any(b"anic" in line for line in log[-50:]):
                how = "dead, and kmsg does not say why"
            return Outcome(name, self.seconds, how, dead)
        if set(self.errors) == {errno.EBUSY}:  # pid 1 itself sleeps in a handler
            return Outcome(name, self.seconds, "asleep", "")
        if set(self.errors) - {errno.ENOMEM}:  # which is an answer, after a leak
            return Outcome(name, self.seconds, f"answers {self.errors}", "")
        killed = any(word in line for line in log for word in KILLED)
        how = "killed" if killed else "ok"
        return Outcome(name, self.seconds, how, str(before))


def run_case(number: int, limit: float, cpus: int, *, live: bool = False) -> Outcome:
    """Run a case in a process of its own, which is killed if it hangs."""
    with tempfile.TemporaryDirectory(prefix="kpfs-lockup-") as folder:
        it = case(number)
        return _in_child(it.name, _built(it, folder), limit, cpus, live)


def _built(it: Case, folder: str) -> str:
    """Build the module of a case; return its path."""
    source = f"{folder}/stuck.c"
    with open(source, "w", encoding="utf-8") as file:
        file.write(it.text)
    tool = [str(modbox.ROOT / "scripts" / "build-module"), source]
    quiet = {**os.environ, "CFLAGS": "-w"}  # recursion without end
    subprocess.run(tool, cwd=folder, env=quiet, check=True)
    return f"{folder}/stuck.ko"


def _in_child(name: str, module: str, limit: float, cpus: int, live: bool) -> Outcome:
    readable, writable = os.pipe()
    child = os.fork()
    if not child:
        os.close(readable)
        try:
            signal.alarm(HANG)
            outcome = Runner(limit, cpus, live=live).run(name, module)
        except BaseException as exc:
            outcome = Outcome(name, 0.0, f"{type(exc).__name__}: {exc}", "")
        os.write(writable, json.dumps(outcome).encode())
        os._exit(0)
    os.close(writable)
    with os.fdopen(readable, "rb") as pipe:
        raw = pipe.read()
    os.waitpid(child, 0)
    if not raw:
        return Outcome(name, HANG, "hangs, or the process is dead", "")
    return Outcome(*json.loads(raw))
