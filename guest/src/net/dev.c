// SPDX-License-Identifier: GPL-2.0-or-later
/* Network devices: transmit, the per-CPU backlog, the receive softirq, the loopback device. */
#include <linux/errno.h>
#include <linux/interrupt.h>
#include <linux/netdevice.h>
#include <linux/sched.h>
#include <linux/string.h>

#define NETDEV_MAX_BACKLOG 1000

struct softnet_data {
	struct sk_buff_head input_pkt_queue;
	struct sk_buff_head process_queue;
	unsigned int processed, time_squeeze, dropped;
};
static DEFINE_PER_CPU(struct softnet_data, softnet_data);
static LIST_HEAD(dev_base_head);
static LIST_HEAD(ptype_base);
static DEFINE_SPINLOCK(ptype_lock);

static inline struct net_device *alloc_netdev(const char *name, void (*setup)(struct net_device *))
{
	struct net_device *dev = kzalloc(sizeof(*dev), GFP_KERNEL);

	if (!dev)
		return NULL;
	strscpy(dev->name, name, sizeof(dev->name));
	setup(dev);
	return dev;
}

static int dev_new_index(void)
{
	static int ifindex;

	return ++ifindex;
}

noinline int register_netdevice(struct net_device *dev)
{
	if (dev_get_by_name(dev->name))
		return -EEXIST;
	dev->ifindex = dev_new_index();
	list_add_tail(&dev->dev_list, &dev_base_head);
	return 0;
}

noinline struct net_device *dev_get_by_name(const char *name)
{
	struct net_device *dev;

	list_for_each_entry(dev, &dev_base_head, dev_list)
		if (!strcmp(dev->name, name))
			return dev;
	return NULL;
}

static noinline int __dev_open(struct net_device *dev)
{
	int ret = dev->netdev_ops->ndo_open ? dev->netdev_ops->ndo_open(dev) : 0;

	if (!ret)
		dev->flags |= IFF_UP;
	return ret;
}

noinline int dev_open(struct net_device *dev)
{
	return dev->flags & IFF_UP ? 0 : __dev_open(dev);
}

void dev_add_pack(struct packet_type *pt)
{
	guard(spinlock)(&ptype_lock);
	list_add(&pt->list, &ptype_base);
}

static noinline int xmit_one(struct sk_buff *skb, struct net_device *dev)
{
	dev->tx_packets++;
	dev->tx_bytes += skb->len;
	return dev->netdev_ops->ndo_start_xmit(skb, dev);
}

noinline struct sk_buff *dev_hard_start_xmit(struct sk_buff *first, struct net_device *dev,
					     int *ret)
{
	struct sk_buff *skb = first;

	while (skb) {
		struct sk_buff *next = skb->next;

		skb->next = NULL;
		*ret = xmit_one(skb, dev);
		if (unlikely(*ret != NETDEV_TX_OK)) {
			skb->next = next;
			break;
		}
		skb = next;
	}
	return skb;
}

static noinline struct sk_buff *validate_xmit_skb(struct sk_buff *skb, struct net_device *dev)
{
	if (skb->len > dev->mtu || !(dev->flags & IFF_UP)) {
		kfree_skb(skb);
		return NULL;
	}
	return skb;
}

int __dev_queue_xmit(struct sk_buff *skb, struct net_device *sb_dev)
{
	struct net_device *dev = sb_dev ?: skb->dev;
	int ret = -ENETDOWN;

	local_bh_disable();
	skb = validate_xmit_skb(skb, dev);
	if (skb) {
		skb = dev_hard_start_xmit(skb, dev, &ret);
		if (skb)
			kfree_skb(skb);
	}
	local_bh_enable();
	return ret;
}

static int enqueue_to_backlog(struct sk_buff *skb)
{
	struct softnet_data *sd;
	unsigned long flags;
	int ret = NET_RX_DROP;

	local_irq_save(flags);
	sd = this_cpu_ptr(&softnet_data);
	if (sd->input_pkt_queue.qlen < NETDEV_MAX_BACKLOG) {
		skb_queue_tail(&sd->input_pkt_queue, skb);
		raise_softirq_irqoff(NET_RX_SOFTIRQ);
		ret = NET_RX_SUCCESS;
	} else {
		sd->dropped++;
	}
	local_irq_restore(flags);
	if (ret == NET_RX_DROP)
		kfree_skb(skb);
	return ret;
}

static noinline int netif_rx_internal(struct sk_buff *skb)
{
	skb->tstamp = local_clock();
	return enqueue_to_backlog(skb);
}

noinline int netif_rx(struct sk_buff *skb)
{
	int ret;

	local_bh_disable();
	ret = netif_rx_internal(skb);
	local_bh_enable();
	return ret;
}

static noinline int deliver_skb(struct sk_buff *skb, struct packet_type *pt)
{
	refcount_inc(&skb->users);
	return pt->func(skb, skb->dev, pt);
}

static int __netif_receive_skb_core(struct sk_buff *skb)
{
	struct packet_type *pt, *last = NULL;
	int ret = NET_RX_DROP;

	skb->network_header = skb->data - skb->head;
	skb->dev->rx_packets++;
	skb->dev->rx_bytes += skb->len;
	list_for_each_entry(pt, &ptype_base, list) {
		if (pt->type != skb->protocol)
			continue;
		if (last)
			ret = deliver_skb(skb, last);
		last = pt;
	}
	if (last)
		return last->func(skb, skb->dev, last);
	kfree_skb(skb);
	return ret;
}

static noinline int __netif_receive_skb(struct sk_buff *skb)
{
	return __netif_receive_skb_core(skb);
}

int netif_receive_skb(struct sk_buff *skb)
{
	return __netif_receive_skb(skb);
}

static noinline int process_backlog(struct softnet_data *sd, int quota)
{
	struct sk_buff *skb;
	int work = 0;

	while (work < quota && (skb = skb_dequeue(&sd->input_pkt_queue))) {
		__netif_receive_skb(skb);
		work++;
	}
	return work;
}

static void net_rx_action(struct softirq_action *h)
{
	struct softnet_data *sd = this_cpu_ptr(&softnet_data);
	int budget = 300;

	while (budget > 0) {
		int work = process_backlog(sd, min(budget, 64));

		if (!work)
			return;
		sd->processed += work;
		budget -= work;
	}
	sd->time_squeeze++;
	raise_softirq(NET_RX_SOFTIRQ);
}

static int loopback_xmit(struct sk_buff *skb, struct net_device *dev)
{
	if (skb->sk) {
		skb->destructor = NULL;
		skb->sk = NULL;
	}
	skb->dev = dev;
	return netif_rx(skb) == NET_RX_SUCCESS ? NETDEV_TX_OK : NETDEV_TX_BUSY;
}

static int loopback_dev_init(struct net_device *dev)
{
	dev->rx_packets = dev->tx_packets = 0;
	return 0;
}

static const struct net_device_ops loopback_ops = {
	.ndo_open = loopback_dev_init,
	.ndo_start_xmit = loopback_xmit,
};

static void loopback_setup(struct net_device *dev)
{
	dev->mtu = 65536;
	dev->flags = IFF_LOOPBACK;
	dev->netdev_ops = &loopback_ops;
}

int loopback_net_init(void)
{
	struct net_device *dev = alloc_netdev("lo", loopback_setup);

	return dev ? register_netdevice(dev) ?: dev_open(dev) : -ENOMEM;
}

void net_dev_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct softnet_data *sd = per_cpu_ptr(&softnet_data, cpu);

		skb_queue_head_init(&sd->input_pkt_queue);
		skb_queue_head_init(&sd->process_queue);
	}
	open_softirq(NET_RX_SOFTIRQ, net_rx_action);
}
