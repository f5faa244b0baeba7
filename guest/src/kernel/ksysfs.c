// SPDX-License-Identifier: GPL-2.0-or-later
/* /sys/kernel: what the kernel says of itself, and its clock. */
#include <linux/init.h>
#include <linux/jump_label.h>
#include <linux/jiffies.h>
#include <linux/sysfs.h>
#include <linux/utsname.h>

static bool rcu_expedited;

static ssize_t name_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", init_utsname()->nodename);
}

static ssize_t uevent_seqnum_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", (unsigned long long)get_jiffies_64());
}

static ssize_t rcu_expedited_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", rcu_expedited);
}

static ssize_t rcu_expedited_store(struct kobject *kobj, struct kobj_attribute *attr,
				   const char *buf, size_t count)
{
	return kstrtobool(buf, &rcu_expedited) ?: (ssize_t)count;
}

DECLARE_STATIC_KEY_FALSE(sched_schedstats);

static ssize_t schedstats_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", static_key_enabled(&sched_schedstats.key));
}

static ssize_t schedstats_store(struct kobject *kobj, struct kobj_attribute *attr, const char *buf,
				size_t count)
{
	bool on;
	int err = kstrtobool(buf, &on);

	if (err)
		return err;
	if (on)
		static_branch_enable(&sched_schedstats);
	else
		static_branch_disable(&sched_schedstats);
	return count;
}

static struct kobj_attribute name_attr = __ATTR_RO(name),
			     uevent_seqnum_attr = __ATTR_RO(uevent_seqnum),
			     rcu_expedited_attr = __ATTR_RW(rcu_expedited),
			     schedstats_attr = __ATTR_RW(schedstats);
static struct kobj_attribute *const kernel_attrs[] = {
	&name_attr, &uevent_seqnum_attr, &rcu_expedited_attr, &schedstats_attr, NULL,
};

static int __init ksysfs_init(void)
{
	struct kobject *kobj = kobject_create_and_add("boot", "/sys/kernel", NULL);

	return kobj ? sysfs_create_files(kobj, kernel_attrs) : -ENOMEM;
}
device_initcall(ksysfs_init);
