# Strings of user memory: those that ln hands to symlink(2), by its struct pt_regs.
cd /sys/kernel/tracing || exit 1
long=$(printf %01500d 7)
mkdir /tmp/s
show() { sed -n 's/.*: links: ([^)]*)/links:/p' trace | sed 's/0\{1400,\}/<zeros>/g'; }
probe() {
    echo 0 >events/enable
    echo >trace
    echo "p:links __x64_sys_symlink $1" >kprobe_events
    echo "comm == \"ln\"${2:+ && $2}" >events/kprobes/links/filter
    echo 1 >events/kprobes/links/enable
}
try() {
    probe "$@"
    for text in a "" "two words" /tmp/s/target "$long"; do
        ln -s "$text" /tmp/s/link 2>/dev/null
        rm -f /tmp/s/link
    done
    show
}
try 'to=+0(+112(%di)):string link=+0(+104(%di)):ustring user=+u0(+112(%di)):string n=\3:u8'
try 'kernel=@linux_proc_banner:ustring to=+0(+112(%di)):x8[1] bits=+u0(+112(%di)):b4@4/8 s=+1(+104(%di)):string'
try 'both=+104(%di):ustring[2] n=\-1:s16'
try 'both=+104(%di):string[2] more=+112(%di):ustring[1] c=$comm' 'c == "ln" && more ~ "*t"'
for pattern in '*t' '*get' '*s/t*' '[!t]*' '?*' '*' '!*' 't*' '*[!x]' '**'; do
    echo "# $pattern"
    try 'to=+0(+112(%di)):ustring' "to ~ \"$pattern\" && comm ~ \"*n*\" && !(comm ~ \"*n\")"
done
# what has no place in a line, and what has none in a record
try 'to=+0(+112(%di)):string to2=+0(+112(%di)):string to3=+0(+112(%di)):string'
bytes=$(for name in a b c d e f; do printf ' %s=+0(+112(%%di)):u8[64]' $name; done)
try "to=+0(+112(%di)):string$bytes to2=+0(+112(%di)):string" 'to ~ "[0]*"'
echo 0 >events/enable
echo >kprobe_events
rmdir /tmp/s
