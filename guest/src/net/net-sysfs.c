// SPDX-License-Identifier: GPL-2.0-or-later
/* /sys/class/net: what a network device is. */
#include <linux/init.h>
#include <linux/netdevice.h>
#include <linux/sysfs.h>

static ssize_t name_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct net_device *dev = kobj->data;

	return sysfs_emit(buf, "%s\n", dev->name);
}

static ssize_t ifindex_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct net_device *dev = kobj->data;

	return sysfs_emit(buf, "%d\n", dev->ifindex);
}

static struct kobj_attribute dev_attr_name = __ATTR_RO(name), dev_attr_ifindex = __ATTR_RO(ifindex);
static struct kobj_attribute *const net_class_attrs[] = { &dev_attr_name, &dev_attr_ifindex, NULL };

static int __init netdev_kobject_init(void)
{
	struct net_device *dev = dev_get_by_name("lo");
	struct kobject *kobj;

	kobject_create_and_add("net", "/sys/class", NULL);
	kobj = dev ? kobject_create_and_add("lo", "/sys/class/net", dev) : NULL;
	return kobj ? sysfs_create_files(kobj, net_class_attrs) : -ENODEV;
}
device_initcall(netdev_kobject_init);
