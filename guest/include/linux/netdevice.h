/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/list.h>
#include <linux/skbuff.h>

#define ETH_P_IP 0x0800
#define NET_RX_SUCCESS 0
#define NET_RX_DROP 1
#define NETDEV_TX_OK 0
#define NETDEV_TX_BUSY 0x10
#define IFF_UP 1
#define IFF_LOOPBACK 8

struct net_device;
struct net_device_ops {
	int (*ndo_open)(struct net_device *dev);
	int (*ndo_start_xmit)(struct sk_buff *skb, struct net_device *dev);
};
struct net_device {
	char name[16];
	unsigned int flags, mtu;
	int ifindex;
	const struct net_device_ops *netdev_ops;
	struct list_head dev_list;
	unsigned long rx_packets, tx_packets, rx_bytes, tx_bytes, rx_dropped;
};
struct packet_type {
	__be16 type;
	int (*func)(struct sk_buff *skb, struct net_device *dev, struct packet_type *pt);
	struct list_head list;
};

struct net_device *dev_get_by_name(const char *name);
void dev_add_pack(struct packet_type *pt);
int __dev_queue_xmit(struct sk_buff *skb, struct net_device *sb_dev);
#define dev_queue_xmit(skb) __dev_queue_xmit(skb, NULL)
void net_dev_init(void);
int loopback_net_init(void);
