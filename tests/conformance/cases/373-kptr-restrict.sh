# kernel.kptr_restrict: what it takes, and that 2 hides the addresses of the lists, whose open file began before, too.
k=${SYSCTL%/debug/*}/kernel/kptr_restrict; cat $k
for v in 1 2 3 -1 x '' '1 2' ' 0 ' 0x1; do w $k "$v"; cat $k; done; wr $k ''; cat $k
first() { head -n 1 | sed -E 's/[1-9a-f][0-9a-f]{15}|[0-9a-f]{15}[1-9a-f]/ADDR/g; s/\+0x[0-9a-f]+/+OFF/; s/\t.*/ NAME/'; }
add "p:a $HITSYM"; on a
for v in 0 1 2; do echo $v >$k; for f in list blacklist; do first <$KPROBES/$f; done; done
$HIT 1; trc | first; cat $KE
echo 0 >$k; exec 4<$KPROBES/list; echo 2 >$k; first <&4; exec 4<&-
echo 0 >$k; off a; clr
