# Files that a module makes in debugfs: tests/modules/debugfs_calls.c, of each kind one.
# shellcheck shell=sh disable=SC2086,SC2012,SC2059
# SPDX-License-Identifier: GPL-2.0-or-later
# $KMODULES/debugfs_calls.ko is built for the kernel that runs this.
cd "${DEBUGFS:-/sys/kernel/debug}" || exit
[ -e calls ] && echo "there before"
insmod $KMODULES/debugfs_calls.ko
dmesg | sed -n 's/.*[]; ]calls: //p; s/.*debugfs: //p'
ls -d calls calls_left
ls calls calls/sub
echo "## modes"
for f in calls calls/sub calls/u32 calls/x8 calls/x32 calls/wonly calls/twice; do echo "$(ls -ld $f | cut -c 1-10) $f"; done
echo "## read"
for f in u8 u16 u32 u64 ulong x8 x16 x32 x64 size_t atomic_t bool blob array text lines twice plain; do echo "$f: $(cat calls/$f)"; done
cat calls/bare; cat calls/busy; cat calls/wonly; cat calls/nothing; cat calls/sub
echo "## in pieces"
dd if=calls/lines bs=5 2>/dev/null; dd if=calls/lines bs=1 skip=14 count=6 2>/dev/null; echo; dd if=calls/u32 bs=1 2>/dev/null; dd if=calls/blob bs=1 skip=2 2>/dev/null
cat <calls/text; echo
echo "## write"
w() { printf "$2" 2>/dev/null >calls/$1 || echo "$1 refuses $2"; cat calls/$1 2>/dev/null; }
w u32 12; w u32 0x10; w u32 '017\n'; w u32 -1; w u32 4294967296; w u32 18446744073709551616; w u32 x; w u32 ''; w u32 '1 2'
w u8 255; w u8 256; w u8 -1; w u16 65536; w u64 18446744073709551615; w ulong 99
w atomic_t -7; w atomic_t 7; w atomic_t 2147483648; w atomic_t x
w bool 0; w bool Y; w bool n; w bool on; w bool off; w bool 2; w bool x
w x32 12; w x8 1; w size_t 1; w hits 5; w blob x; w array 1
w twice 10; w twice 11; w twice -2; w plain 4; w bare 1; w wonly 21; w lines 1; cat calls/u32
w text hello; w text 'longer than it may be'; printf AB 1<>calls/text; cat calls/text; echo; printf CD >>calls/text; cat calls/text; echo
{ printf E; printf F; } >calls/text; cat calls/text; echo
{ printf 3; printf 4; } >calls/u32; cat calls/u32
echo 5 >calls/sub/lines; cat calls/lines
echo "## what a directory refuses"
mkdir calls/d 2>/dev/null || echo mkdir; rmdir calls/sub 2>/dev/null || echo rmdir; rm calls/u32 2>/dev/null || echo rm; (: >calls/new) 2>/dev/null || echo create; mv calls/u32 calls/u33 2>/dev/null || echo mv
echo "## the probe counts"
a=$(cat calls/hits); $HIT 3; b=$(cat calls/hits); echo $((b - a))
echo "## open while it goes"
exec 3<calls/u32 4<calls/text
rmmod debugfs_calls 2>/dev/null || echo in use
exec 4<&-
rmmod debugfs_calls || echo in use
cat <&3 || true
exec 3<&-
[ -e calls ] || [ -e calls_left ] || echo gone
insmod $KMODULES/debugfs_calls.ko; cat calls/u32; rmmod debugfs_calls
