// SPDX-License-Identifier: GPL-2.0-or-later
/* Packet buffers, their queues and their checksums. */
#include <linux/errno.h>
#include <linux/netdevice.h>
#include <linux/string.h>

static void skb_release_data(struct sk_buff *skb)
{
	if (atomic_dec_and_test(skb->dataref)) {
		kfree(skb->dataref);
		kfree(skb->head);
	}
}

static void skb_release_head_state(struct sk_buff *skb)
{
	if (skb->destructor)
		skb->destructor(skb);
	skb->sk = NULL;
}

static void kfree_skbmem(struct sk_buff *skb)
{
	kfree(skb);
}

void __kfree_skb(struct sk_buff *skb)
{
	skb_release_head_state(skb);
	skb_release_data(skb);
	kfree_skbmem(skb);
}

static noinline bool skb_unref(struct sk_buff *skb)
{
	return skb && refcount_dec_and_test(&skb->users);
}

noinline void kfree_skb_reason(struct sk_buff *skb, int reason)
{
	if (!skb_unref(skb))
		return;
	if (skb->dev)
		skb->dev->rx_dropped++;
	__kfree_skb(skb);
}

void consume_skb(struct sk_buff *skb)
{
	if (skb_unref(skb))
		__kfree_skb(skb);
}

struct sk_buff *__alloc_skb(unsigned int size, gfp_t gfp, int flags, int node)
{
	struct sk_buff *skb = kzalloc(sizeof(*skb), gfp);

	if (!skb)
		return NULL;
	size = ALIGN(size, 64u);
	skb->head = kmalloc(size, gfp);
	skb->dataref = kmalloc(sizeof(*skb->dataref), gfp);
	if (!skb->head || !skb->dataref) {
		kfree(skb->head);
		kfree(skb->dataref);
		kfree(skb);
		return NULL;
	}
	atomic_set(skb->dataref, 1);
	refcount_set(&skb->users, 1);
	skb->data = skb->head;
	skb->end = size;
	skb->truesize = size + sizeof(*skb);
	return skb;
}

struct sk_buff *skb_clone(struct sk_buff *skb, gfp_t gfp)
{
	struct sk_buff *n = kmalloc(sizeof(*n), gfp);

	if (!n)
		return NULL;
	*n = *skb;
	n->next = n->prev = NULL;
	n->sk = NULL;
	n->destructor = NULL;
	n->cloned = skb->cloned = 1;
	refcount_set(&n->users, 1);
	atomic_inc(skb->dataref);
	return n;
}

static noinline __cold void skb_over_panic(struct sk_buff *skb, unsigned int len)
{
	panic("skb_over_panic: len %u put %u end %u", skb->len, len, skb->end);
}

void *skb_put(struct sk_buff *skb, unsigned int len)
{
	void *p = skb->head + skb->tail;

	if (unlikely(skb->tail + len > skb->end))
		skb_over_panic(skb, len);
	skb->tail += len;
	skb->len += len;
	return p;
}

void *skb_push(struct sk_buff *skb, unsigned int len)
{
	if (unlikely(skb->data - skb->head < len))
		skb_over_panic(skb, len);
	skb->data -= len;
	skb->len += len;
	return skb->data;
}

void *skb_pull(struct sk_buff *skb, unsigned int len)
{
	if (unlikely(len > skb->len))
		return NULL;
	skb->len -= len;
	return skb->data += len;
}

void skb_trim(struct sk_buff *skb, unsigned int len)
{
	if (skb->len > len) {
		skb->tail -= skb->len - len;
		skb->len = len;
	}
}

int skb_copy_bits(const struct sk_buff *skb, int offset, void *to, int len)
{
	if (offset < 0 || offset + len > (int)skb->len)
		return -EFAULT;
	memcpy(to, skb->data + offset, len);
	return 0;
}

void skb_queue_head_init(struct sk_buff_head *list)
{
	list->next = list->prev = (struct sk_buff *)list;
	list->qlen = 0;
	spin_lock_init(&list->lock);
}

static void __skb_queue_tail(struct sk_buff_head *list, struct sk_buff *skb)
{
	skb->next = (struct sk_buff *)list;
	skb->prev = list->prev;
	list->prev->next = skb;
	list->prev = skb;
	list->qlen++;
}

static noinline void __skb_unlink(struct sk_buff *skb, struct sk_buff_head *list)
{
	list->qlen--;
	skb->next->prev = skb->prev;
	skb->prev->next = skb->next;
	skb->next = skb->prev = NULL;
}

void skb_queue_tail(struct sk_buff_head *list, struct sk_buff *skb)
{
	guard(spinlock_irqsave)(&list->lock);
	__skb_queue_tail(list, skb);
}

noinline struct sk_buff *skb_dequeue(struct sk_buff_head *list)
{
	struct sk_buff *skb;

	guard(spinlock_irqsave)(&list->lock);
	skb = skb_peek(list);
	if (skb)
		__skb_unlink(skb, list);
	return skb;
}

void skb_queue_purge(struct sk_buff_head *list)
{
	struct sk_buff *skb;

	while ((skb = skb_dequeue(list)))
		kfree_skb(skb);
}

noinline u32 csum_partial(const void *buf, int len, u32 sum)
{
	const u16 *p = buf;
	u64 s = sum;

	for (; len > 1; len -= 2)
		s += *p++;
	if (len)
		s += *(const u8 *)p;
	s = (s & 0xffffffff) + (s >> 32);
	return (u32)(s + (s >> 32));
}

u16 ip_fast_csum(const void *iph, unsigned int ihl)
{
	return csum_fold(csum_partial(iph, ihl * 4, 0));
}
