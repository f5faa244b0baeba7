/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The symbols that modules may use: an entry as EXPORT_SYMBOL() makes it, in
 * include/linux/export.h.
 */
	.macro EXPORT gpl, names:vararg
	.irp name, \names
	.pushsection ___ksymtab+\name, "a"
	.balign	8
	.quad	\name, 1f, \gpl
	.popsection
	.pushsection __ksymtab_strings, "aMS", @progbits, 1
1:	.asciz	"\name"
	.popsection
	.endr
	.endm

	/* EXPORT_SYMBOL; in order, as if no name began with an underscore */
	EXPORT	0, add_timer, add_timer_on, add_wait_queue, __alloc_pages, __alloc_skb
	EXPORT	0, autoremove_wake_function, call_rcu, cancel_delayed_work, cancel_delayed_work_sync
	EXPORT	0, cancel_work_sync, delayed_work_timer_fn, destroy_workqueue, clear_page_erms
	EXPORT	0, clear_user, __clear_user, complete, complete_all, completion_done, __cond_resched
	EXPORT	0, console_printk, _copy_from_user, copy_from_user_nofault, _copy_to_user
	EXPORT	0, copy_user_generic, __cpu_active_mask, cpu_bit_bitmap, __cpu_online_mask, __cpu_possible_mask
	EXPORT	0, __cpu_present_mask, csum_partial, default_llseek, default_wake_function
	EXPORT	0, down, down_interruptible, down_killable, down_timeout
	EXPORT	0, down_trylock, dput, dump_stack, fget, filp_close, filp_open, find_vpid
	EXPORT	0, finish_wait, flush_work, __flush_workqueue, fput, free_irq, __free_pages
	EXPORT	0, free_pages, free_percpu, generic_file_llseek, __get_free_pages, get_jiffies_64
	EXPORT	0, get_option, get_random_bytes, get_random_u32, get_random_u64, __get_task_comm
	EXPORT	0, get_zeroed_page, hex_to_bin, hrtimer_cancel, hrtimer_forward
	EXPORT	0, hrtimer_init, hrtimer_start_range_ns, hrtimer_try_to_cancel, igrab, init_task
	EXPORT	0, init_timer_key, iput, jiffies, jiffies_64
	EXPORT	0, jiffies_to_msecs, kasprintf, kbasename, kernel_read, kernel_write, kfree
	EXPORT	0, kfree_skb_reason, __kfree_skb, __kmalloc, kmem_cache_alloc, kmem_cache_create
	EXPORT	0, kmem_cache_free, kmemdup, krealloc, ksize, kstrdup, kstrndup
	EXPORT	0, kstrtobool, kstrtobool_from_user, kstrtoint, kstrtoint_from_user
	EXPORT	0, kstrtol_from_user, kstrtoll, kstrtoll_from_user, kstrtouint, kstrtouint_from_user
	EXPORT	0, kstrtoul_from_user, kstrtoull, kstrtoull_from_user, kthread_bind
	EXPORT	0, kthread_complete_and_exit, kthread_create_on_node, kthread_should_stop, kthread_stop
	EXPORT	0, ktime_get_real_seconds, ktime_get_real_ts64, ktime_get_seconds, ktime_get_ts64
	EXPORT	0, kunit_run_tests, kvasprintf, kvfree_call_rcu, __local_bh_disable_ip
	EXPORT	0, __local_bh_enable_ip
	EXPORT	0, match_string, memchr, memchr_inv, memcmp, memcpy, memdup_user, memmove, memset
	EXPORT	0, might_fault, mod_timer, __module_get, module_put, module_refcount
	EXPORT	0, msecs_to_jiffies, msleep, msleep_interruptible, __mutex_init, mutex_is_locked
	EXPORT	0, mutex_lock, mutex_trylock, mutex_unlock, no_llseek, nonseekable_open, noop_llseek
	EXPORT	0, nr_cpu_ids, ns_to_timespec64, nsecs_to_jiffies, panic, param_array_ops
	EXPORT	0, param_get_bool, param_get_byte, param_get_charp, param_get_hexint, param_get_int
	EXPORT	0, param_get_invbool, param_get_long, param_get_short, param_get_string
	EXPORT	0, param_get_uint, param_get_ullong, param_get_ulong, param_get_ushort
	EXPORT	0, param_ops_bool, param_ops_byte, param_ops_charp, param_ops_hexint, param_ops_int
	EXPORT	0, param_ops_invbool, param_ops_long, param_ops_short, param_ops_string
	EXPORT	0, param_ops_uint, param_ops_ullong, param_ops_ulong, param_ops_ushort
	EXPORT	0, param_set_bool, param_set_byte, param_set_charp, param_set_copystring
	EXPORT	0, param_set_hexint, param_set_int, param_set_invbool, param_set_long
	EXPORT	0, param_set_short, param_set_uint, param_set_ullong, param_set_ulong
	EXPORT	0, param_set_ushort, path_get, path_put, pcpu_hot, __per_cpu_offset
	EXPORT	0, preempt_schedule, prepare_to_wait, prepare_to_wait_exclusive, _printk
	EXPORT	0, proc_create_seq, proc_create_single_data, put_page, __put_task_struct
	EXPORT	0, put_task_struct, queue_delayed_work_on, queue_work_on, _raw_spin_lock
	EXPORT	0, _raw_spin_lock_bh, _raw_spin_lock_irq, _raw_spin_lock_irqsave, _raw_spin_trylock
	EXPORT	0, _raw_spin_unlock, _raw_spin_unlock_bh, _raw_spin_unlock_irq
	EXPORT	0, _raw_spin_unlock_irqrestore, rb_erase, rb_first, rb_insert_color, rb_last
	EXPORT	0, rb_next, rb_prev, __rcu_read_lock, __rcu_read_unlock, read_lock, read_unlock
	EXPORT	0, register_filesystem, register_module_notifier
	EXPORT	0, remove_wait_queue, request_irq, schedule, schedule_timeout
	EXPORT	0, schedule_delayed_work, schedule_work, schedule_timeout_interruptible, schedule_timeout_uninterruptible
	EXPORT	0, __SCK__cond_resched, scnprintf, __SCT__cond_resched, send_sig
	EXPORT	0, seq_lseek, seq_open, seq_printf, seq_putc, seq_puts, seq_read, seq_release
	EXPORT	0, seq_write, simple_open, simple_read_from_buffer, simple_strtol, simple_strtoll
	EXPORT	0, simple_strtoul, simple_strtoull, simple_write_to_buffer, single_open, single_release, skb_clone
	EXPORT	0, skb_copy_bits, skb_pull, skb_push, skb_put, skb_trim, skip_spaces, snprintf
	EXPORT	0, sprint_symbol, sprint_symbol_no_offset, sprintf, strcasecmp, strcat, strchr
	EXPORT	0, strcmp, strcpy, strcspn, strim, strlcat, strlcpy, strlen, strncmp, strncpy
	EXPORT	0, strncpy_from_user, strndup_user, strnlen, strnlen_user, strrchr, strscpy, strsep
	EXPORT	0, strspn, strstr, synchronize_rcu, sysfs_streq, system_wq, __tasklet_schedule
	EXPORT	0, tasklet_setup, tasklist_lock, timer_delete, timer_delete_sync, try_module_get
	EXPORT	0, try_wait_for_completion, unregister_module_notifier, up, usleep_range_state
	EXPORT	0, vfs_fsync, vfs_getattr, vfs_llseek
	EXPORT	0, vfs_open, vprintk, vscnprintf, vsnprintf, vsprintf, wait_for_completion
	EXPORT	0, wait_for_completion_timeout, __wake_up, wake_up_process, wake_up_state
	EXPORT	0, __warn_printk, write_lock_irq, write_unlock_irq, yield

	/* EXPORT_SYMBOL_GPL: for modules with a licence compatible with it */
	EXPORT	1, __alloc_percpu, alloc_workqueue, atomic_notifier_call_chain
	EXPORT	1, atomic_notifier_chain_register, atomic_notifier_chain_unregister
	EXPORT	1, blocking_notifier_call_chain, blocking_notifier_chain_register
	EXPORT	1, blocking_notifier_chain_unregister, copy_from_kernel_nofault
	EXPORT	1, copy_to_kernel_nofault, __current_kprobe, debugfs_attr_read, debugfs_attr_write
	EXPORT	1, debugfs_create_atomic_t, debugfs_create_blob, debugfs_create_bool
	EXPORT	1, debugfs_create_dir, debugfs_create_file, debugfs_create_file_unsafe
	EXPORT	1, debugfs_create_size_t, debugfs_create_u16, debugfs_create_u32
	EXPORT	1, debugfs_create_u32_array, debugfs_create_u64, debugfs_create_u8
	EXPORT	1, debugfs_create_ulong, debugfs_create_x16, debugfs_create_x32, debugfs_create_x64
	EXPORT	1, debugfs_create_x8, debugfs_lookup, debugfs_remove, disable_kprobe
	EXPORT	1, dynevent_create, enable_kprobe, find_get_task_by_vpid, find_module
	EXPORT	1, for_each_kernel_tracepoint, get_kprobe, get_kprobe_ctlblk, init_uts_ns, is_module_address
	EXPORT	1, is_module_text_address, jprobe_return, kallsyms_lookup_name, kpfs_yield
	EXPORT	1, kprobe_running, ktime_get, ktime_get_boottime, ktime_get_real
	EXPORT	1, kunit_binary_failed, kunit_do_failed, kunit_kmalloc_array
	EXPORT	1, __kunit_test_suites_exit, __kunit_test_suites_init
	EXPORT	1, kunit_try_catch_throw, local_clock, __module_address
	EXPORT	1, __module_text_address, perf_event_create_kernel_counter, perf_event_disable
	EXPORT	1, perf_event_enable, perf_event_release_kernel, pid_task
	EXPORT	1, register_die_notifier, register_jprobe, register_jprobes, register_kprobe
	EXPORT	1, register_kprobes, register_kretprobe, register_kretprobes
	EXPORT	1, register_wide_hw_breakpoint, sched_clock, schedule_hrtimeout_range, simple_attr_open, simple_attr_read
	EXPORT	1, simple_attr_release, simple_attr_write, sprint_backtrace, stack_trace_print
	EXPORT	1, stack_trace_save, stack_trace_save_regs, strncpy_from_kernel_nofault
	EXPORT	1, __symbol_get, __symbol_put, synth_event_add_field, synth_event_add_field_str
	EXPORT	1, synth_event_add_fields, synth_event_add_next_val, synth_event_add_val
	EXPORT	1, synth_event_cmd_init, synth_event_create, synth_event_delete
	EXPORT	1, synth_event_gen_cmd_array_start, __synth_event_gen_cmd_start, synth_event_trace
	EXPORT	1, synth_event_trace_array, synth_event_trace_end, synth_event_trace_start
	EXPORT	1, trace_array_set_clr_event, trace_event_commit, trace_get_event_file
	EXPORT	1, trace_put_event_file, tracepoint_probe_register
	EXPORT	1, tracepoint_probe_register_prio, tracepoint_probe_unregister
	EXPORT	1, unregister_die_notifier, unregister_hw_breakpoint, unregister_jprobe
	EXPORT	1, unregister_jprobes, unregister_kprobe, unregister_kprobes, unregister_kretprobe
	EXPORT	1, unregister_kretprobes, unregister_wide_hw_breakpoint, usecs_to_jiffies
	EXPORT	1, wake_up_new_task

	.section .note.GNU-stack, "", @progbits
