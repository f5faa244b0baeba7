# Lines written into trace_marker, and the option that refuses them.
w $TRACING/trace_marker 'hello world'; wr $TRACING/trace_marker 'no newline'
w $TRACING/trace_marker 'a\nb'; w $TRACING/trace_marker ''; trc; w $TRACING/options/markers 0
w $TRACING/trace_marker x; w $TRACING/trace_options markers; trc | wc -l
