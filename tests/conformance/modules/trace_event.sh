# Events that a module defines by TRACE_EVENT(): tests/modules/goods_calls.c, with each kind of field and of text.
# shellcheck shell=sh disable=SC2086,SC2010,SC2012,SC2162
# SPDX-License-Identifier: GPL-2.0-or-later
# $KMODULES/goods_calls.ko is built for the kernel that runs this.
cd "${TRACING:-/sys/kernel/tracing}" || exit
G=events/goods
sell() { echo 1 >${DEBUGFS:-/sys/kernel/debug}/goods; }
trace() { grep -v '^#' trace | sed -E 's/^.*-[0-9]+ +\[[0-9]+\] [^ ]+ +[0-9.]+: //'; echo >trace; }
insmod $KMODULES/goods_calls.ko
echo "## files"
for f in $G $G/goods_in; do ls $f | grep -vx hist; done
cat $G/*/format | sed 's/^ID: .*/ID/'
grep -c goods: available_events
echo "## records"
sell; trace
echo 1 >$G/enable; cat $G/enable set_event
sell; sell; sell; trace
echo "## filters"
for f in 'name ~ "a long*" && count > 5' 'label == "a long name"' 'flags & 2' 'kind == 5' 'name == "goods"' 'list == 1' 'pair == 1'; do
    echo "# $f"; echo "$f" >$G/goods_in/filter || cat $G/goods_in/filter
    sell; trace | cut -c1-50
done 2>/dev/null
echo 0 >$G/goods_in/filter
echo "## triggers"
echo 0 >$G/enable
echo 'enable_event:goods:goods_back if a > 0' >$G/goods_lost/trigger; cat $G/goods_lost/trigger $G/goods_back/enable
echo 1 >$G/goods_out/enable
sell; trace
echo "## rmmod"
rmmod goods_calls 2>/dev/null || echo "rmmod: refused"
echo '!enable_event:goods:goods_back' >$G/goods_lost/trigger; sell
rmmod goods_calls 2>/dev/null || echo "rmmod: refused"
ls -d $G 2>/dev/null; cat set_event; trace; grep goods available_events
echo "## again"
insmod $KMODULES/goods_calls.ko
cat $G/enable set_event; grep -v "^#" $G/goods_lost/trigger
echo goods:goods_in >set_event; sell; trace
echo "## an instance"
mkdir instances/shop; echo 1 >instances/shop/$G/goods_out/enable
sell; trace; sed -n 's/.*: goods/goods/p' instances/shop/trace
rmmod goods_calls 2>/dev/null || echo "rmmod: refused"
ls -d instances/shop/$G 2>/dev/null; rmdir instances/shop
