# Which files a command opens: a probe with the path as an argument.
cd /sys/kernel/tracing || exit 1
mkdir /tmp/o && echo one >/tmp/o/one && echo two >/tmp/o/two
echo 'p:opens do_sys_openat2 dfd=%di:s32 path=+0(%si):ustring' >kprobe_events
echo 'r:opened do_sys_openat2 fd=$retval:s32' >>kprobe_events
cat kprobe_events
grep -A 99 '^print' events/kprobes/opens/format
echo 'comm == "cat" && path ~ "*/o/*"' >events/kprobes/opens/filter
echo 'comm == "cat" && fd < 0' >events/kprobes/opened/filter
cat events/kprobes/*/filter
echo 1 >events/kprobes/enable
cat /tmp/o/one /tmp/o/two
cat /tmp/o/three
ls /tmp/o >/dev/null
echo 0 >events/kprobes/enable
cat events/kprobes/enable
sed -n 's/.*: \(opens\|opened\): (\([^)]*\))/\1:/p' trace
# the same as strings of the kernel: they cannot be read there
echo >kprobe_events
echo 'p:opens do_sys_openat2 k=+0(%si):string u=+u0(%si):x8 s=$comm n=\77 c=+0(%si):ustring' >kprobe_events
echo 'comm == "cat" && c ~ "*/o/*"' >events/kprobes/opens/filter
echo 1 >events/kprobes/opens/enable
cat /tmp/o/one
echo 0 >events/kprobes/opens/enable
sed -n 's/.*: \(opens\): (\([^)]*\))/\1:/p' trace
echo >kprobe_events
ls events/kprobes
# the event of the system call has the pointer alone, but a filter can follow it
for field in filename filename.ustring; do
    echo >trace
    echo "$field ~ \"*/o/t*\"" >events/syscalls/sys_enter_openat/filter
    echo 1 >events/syscalls/sys_enter_openat/enable
    cat /tmp/o/one /tmp/o/two
    echo 0 >events/syscalls/sys_enter_openat/enable
    sed -n 's/.*: \(sys_openat(dfd: \)f*ff9c.*/\1-100/p' trace # 4 or 8 bytes, as libc has it
done
echo 0 >events/syscalls/sys_enter_openat/filter
rm -r /tmp/o
