/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/atomic.h>
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

struct net_device;
struct sock;

struct sk_buff {
	struct sk_buff *next, *prev; /* first, as in sk_buff_head */
	struct net_device *dev;
	struct sock *sk;
	unsigned char *head, *data;
	unsigned int len, tail, end;
	unsigned short network_header, transport_header;
	__be16 protocol;
	unsigned char pkt_type, ip_summed, cloned;
	refcount_t users;
	atomic_t *dataref;
	u32 seq, end_seq;
	u64 tstamp;
	void (*destructor)(struct sk_buff *skb);
	unsigned int truesize;
};

struct sk_buff_head {
	struct sk_buff *next, *prev;
	u32 qlen;
	spinlock_t lock;
};

struct sk_buff *__alloc_skb(unsigned int size, gfp_t gfp, int flags, int node);
#define alloc_skb(size, gfp) __alloc_skb(size, gfp, 0, -1)
void kfree_skb_reason(struct sk_buff *skb, int reason);
#define SKB_DROP_REASON_NOT_SPECIFIED 2
static inline void kfree_skb(struct sk_buff *skb)
{
	kfree_skb_reason(skb, SKB_DROP_REASON_NOT_SPECIFIED);
}
void consume_skb(struct sk_buff *skb);
struct sk_buff *skb_clone(struct sk_buff *skb, gfp_t gfp);
void *skb_put(struct sk_buff *skb, unsigned int len);
void *skb_push(struct sk_buff *skb, unsigned int len);
void *skb_pull(struct sk_buff *skb, unsigned int len);
void skb_trim(struct sk_buff *skb, unsigned int len);
int skb_copy_bits(const struct sk_buff *skb, int offset, void *to, int len);
void skb_queue_tail(struct sk_buff_head *list, struct sk_buff *skb);
struct sk_buff *skb_dequeue(struct sk_buff_head *list);
void skb_queue_purge(struct sk_buff_head *list);
void skb_queue_head_init(struct sk_buff_head *list);
u32 csum_partial(const void *buf, int len, u32 sum);
u16 ip_fast_csum(const void *iph, unsigned int ihl);

static inline void skb_reserve(struct sk_buff *skb, unsigned int len)
{
	skb->data += len;
	skb->tail += len;
}
static inline struct sk_buff *skb_peek(struct sk_buff_head *list)
{
	return list->next == (struct sk_buff *)list ? NULL : list->next;
}
static inline u16 csum_fold(u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}
static inline u16 htons(u16 x) { return __builtin_bswap16(x); }
static inline u32 htonl(u32 x) { return __builtin_bswap32(x); }
#define ntohs htons
#define ntohl htonl
