# Which values saved_cmdlines_size takes, and to what it rounds them.
F=$TRACING/saved_cmdlines_size; cat $F; for n in 1 128 2000 6552 6553 20000 32768 0 32769 -1 x 128; do w $F $n; cat $F; done
