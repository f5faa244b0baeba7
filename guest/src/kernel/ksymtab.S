/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The symbols that modules may use: an entry as EXPORT_SYMBOL() makes it, in
 * include/linux/export.h. A name that no object file defines has the address 0.
 */
	.macro EXPORT gpl, names:vararg
	.irp name, \names
	.weak	\name
	.pushsection ___ksymtab+\name, "a"
	.balign	8
	.quad	\name, 1f, \gpl
	.popsection
	.pushsection __ksymtab_strings, "aMS", @progbits, 1
1:	.asciz	"\name"
	.popsection
	.endr
	.endm

	/* EXPORT_SYMBOL */
	EXPORT	0, __SCK__cond_resched, __SCT__cond_resched, __alloc_pages, __alloc_skb
	EXPORT	0, __cpu_active_mask, __cpu_online_mask, __cpu_possible_mask, __cpu_present_mask
	EXPORT	0, __clear_user, __cond_resched, __free_pages, __get_free_pages
	EXPORT	0, __get_task_comm, __init_waitqueue_head, __kfree_skb, __kmalloc
	EXPORT	0, __local_bh_disable_ip, __local_bh_enable_ip, __module_get, __mutex_init
	EXPORT	0, __per_cpu_offset, __put_task_struct, __rcu_read_lock, __rcu_read_unlock
	EXPORT	0, __tasklet_schedule, __udelay, __wake_up, _copy_from_user, _copy_to_user
	EXPORT	0, __warn_printk, _printk, _raw_spin_lock, _raw_spin_lock_bh, _raw_spin_lock_irq
	EXPORT	0, _raw_spin_lock_irqsave, _raw_spin_trylock, _raw_spin_unlock
	EXPORT	0, _raw_spin_unlock_bh, _raw_spin_unlock_irq, _raw_spin_unlock_irqrestore
	EXPORT	0, add_timer, add_timer_on, add_wait_queue, autoremove_wake_function, call_rcu
	EXPORT	0, cancel_delayed_work, clear_page_erms, clear_user, complete, complete_all
	EXPORT	0, completion_done, console_loglevel, copy_from_user_nofault, copy_user_generic
	EXPORT	0, csum_partial, down, down_interruptible, down_killable, down_timeout
	EXPORT	0, down_trylock, up, default_wake_function, del_timer, del_timer_sync, dput
	EXPORT	0, dump_stack, fget, filp_close, filp_open, find_vpid, finish_wait, flush_work
	EXPORT	0, flush_workqueue, fput, free_irq, free_pages, get_jiffies_64, get_option
	EXPORT	0, get_random_bytes, get_random_u32, get_random_u64, get_task_pid
	EXPORT	0, get_zeroed_page, hex_to_bin, hrtimer_cancel, hrtimer_forward, hrtimer_init
	EXPORT	0, hrtimer_start_range_ns, hrtimer_try_to_cancel, igrab, init_task
	EXPORT	0, free_percpu, init_timer_key, init_wait_entry, iput, jiffies, jiffies_64
	EXPORT	0, jiffies_to_msecs, kasprintf, kbasename, kernel_read, kernel_write, kfree
	EXPORT	0, kfree_skb, kmem_cache_alloc, kmem_cache_create, kmem_cache_destroy
	EXPORT	0, kmem_cache_free, kmemdup, krealloc, ksize, kstrdup, kstrndup, kstrtobool
	EXPORT	0, kstrtoint, kstrtol, kstrtoll, kstrtouint, kstrtoul, kstrtoull, kthread_bind
	EXPORT	0, kthread_create_on_node, kthread_park, kthread_should_stop, kthread_stop
	EXPORT	0, ktime_get_real_seconds, ktime_get_real_ts64, ktime_get_seconds
	EXPORT	0, ktime_get_ts64, kunit_run_tests, kvasprintf, match_string, memchr
	EXPORT	0, memchr_inv, memcmp, memcpy, memdup_user, memmove, memset, might_fault
	EXPORT	0, mod_timer, module_put, module_refcount, msecs_to_jiffies, msleep
	EXPORT	0, msleep_interruptible, mutex_is_locked, mutex_lock, mutex_trylock
	EXPORT	0, mutex_unlock, nr_cpu_ids, ns_to_timespec64, nsecs_to_jiffies, panic
	EXPORT	0, param_array_ops, param_get_bool, param_get_byte, param_get_charp
	EXPORT	0, param_get_hexint, param_get_int, param_get_invbool, param_get_long
	EXPORT	0, param_get_short, param_get_string, param_get_uint, param_get_ullong
	EXPORT	0, param_get_ulong, param_get_ushort, param_ops_bool, param_ops_byte
	EXPORT	0, param_ops_charp, param_ops_hexint, param_ops_int, param_ops_invbool
	EXPORT	0, param_ops_long, param_ops_short, param_ops_string, param_ops_uint
	EXPORT	0, param_ops_ullong, param_ops_ulong, param_ops_ushort, param_set_bool
	EXPORT	0, param_set_byte, param_set_charp, param_set_copystring, param_set_hexint
	EXPORT	0, param_set_int, param_set_invbool, param_set_long, param_set_short
	EXPORT	0, param_set_uint, param_set_ullong, param_set_ulong, param_set_ushort
	EXPORT	0, path_get, path_put, pcpu_hot, preempt_schedule, prepare_to_wait
	EXPORT	0, prepare_to_wait_exclusive, proc_create_seq, proc_create_single_data
	EXPORT	0, put_page, put_task_struct, queue_delayed_work_on, queue_work_on, rb_erase
	EXPORT	0, rb_first, rb_insert_color, rb_last, rb_next, rb_prev, read_lock, read_unlock
	EXPORT	0, register_filesystem, register_module_notifier, remove_proc_entry
	EXPORT	0, remove_wait_queue, request_irq, schedule, schedule_timeout
	EXPORT	0, schedule_timeout_interruptible, schedule_timeout_uninterruptible, scnprintf
	EXPORT	0, send_sig, send_sig_info, seq_lseek, seq_open, seq_printf, seq_putc, seq_puts
	EXPORT	0, seq_read, seq_release, seq_write, simple_read_from_buffer, simple_strtol
	EXPORT	0, simple_strtoul, simple_strtoull, single_open, single_release, skb_clone
	EXPORT	0, skb_copy_bits, skb_pull, skb_push, skb_put, skb_trim, skip_spaces, snprintf
	EXPORT	0, sprint_symbol, sprint_symbol_no_offset, sprintf, strcasecmp, strcat, strchr
	EXPORT	0, strcmp, strcpy, strcspn, strim, strlcat, strlcpy, strlen, strncmp, strncpy
	EXPORT	0, strncpy_from_user, strndup_user, strnlen, strnlen_user, strrchr, strscpy
	EXPORT	0, strsep, strspn, strstr, synchronize_rcu, sysfs_streq, system_wq
	EXPORT	0, tasklet_setup, tasklist_lock, try_module_get, try_wait_for_completion
	EXPORT	0, unregister_module_notifier, usleep_range, vfs_fsync, vfs_getattr, vfs_llseek
	EXPORT	0, vfs_open, vprintk, vscnprintf, vsnprintf, vsprintf, wait_for_completion
	EXPORT	0, wait_for_completion_timeout, wake_up_process, wake_up_state, write_lock_irq
	EXPORT	0, write_unlock_irq, yield

	/* EXPORT_SYMBOL_GPL: for modules with a licence compatible with it */
	EXPORT	1, __current_kprobe, get_kprobe_ctlblk
	EXPORT	1, __kunit_test_suites_exit, __kunit_test_suites_init, __module_address
	EXPORT	1, __module_text_address, alloc_workqueue, atomic_notifier_call_chain
	EXPORT	1, atomic_notifier_chain_register, atomic_notifier_chain_unregister
	EXPORT	1, blocking_notifier_call_chain, blocking_notifier_chain_register
	EXPORT	1, blocking_notifier_chain_unregister, copy_from_kernel_nofault
	EXPORT	1, __synth_event_gen_cmd_start, copy_to_kernel_nofault, debugfs_create_dir
	EXPORT	1, debugfs_remove, disable_kprobe, dynevent_create
	EXPORT	1, enable_kprobe, find_get_pid, find_get_task_by_vpid, find_module, get_kprobe
	EXPORT	1, is_module_address, is_module_text_address, jprobe_return
	EXPORT	1, kallsyms_lookup_name, kill_pid, kpfs_yield, kprobe_running, ktime_get
	EXPORT	1, ktime_get_boottime, ktime_get_ns, ktime_get_real, ktime_get_with_offset
	EXPORT	1, kunit_binary_failed, kunit_do_failed, kunit_kmalloc_array
	EXPORT	1, kunit_log_append, kunit_try_catch_throw, kunit_unary_assert_failed
	EXPORT	1, local_clock, pid_task, rcu_read_unlock_strict, register_die_notifier
	EXPORT	1, register_jprobe, register_jprobes, register_kprobe, register_kprobes
	EXPORT	1, register_kretprobe, register_kretprobes, sched_clock, sprint_backtrace
	EXPORT	1, stack_trace_print, stack_trace_save, stack_trace_save_regs
	EXPORT	1, strncpy_from_kernel_nofault, unregister_die_notifier, unregister_jprobe
	EXPORT	1, unregister_jprobes, unregister_kprobe, unregister_kprobes
	EXPORT	1, synth_event_add_field, synth_event_add_field_str, synth_event_add_fields
	EXPORT	1, synth_event_add_next_val, synth_event_add_val, synth_event_cmd_init
	EXPORT	1, synth_event_create, synth_event_delete, synth_event_gen_cmd_array_start
	EXPORT	1, synth_event_trace, synth_event_trace_array, synth_event_trace_end
	EXPORT	1, synth_event_trace_start, trace_array_set_clr_event
	EXPORT	1, trace_get_event_file, trace_put_event_file
	EXPORT	1, unregister_kretprobe, unregister_kretprobes, usecs_to_jiffies
	EXPORT	1, wake_up_new_task
	EXPORT	1, __alloc_percpu, __symbol_get, __symbol_put, init_uts_ns
	EXPORT	1, perf_event_create_kernel_counter, perf_event_disable, perf_event_enable
	EXPORT	1, perf_event_release_kernel, register_wide_hw_breakpoint
	EXPORT	1, unregister_hw_breakpoint, unregister_wide_hw_breakpoint

	.section .note.GNU-stack, "", @progbits
