// SPDX-License-Identifier: GPL-2.0-or-later
/* UDP over the loopback device. */
#include <linux/errno.h>
#include <linux/string.h>
#include <net/sock.h>

static noinline int udp_send_skb(struct sock *sk, struct sk_buff *skb)
{
	struct udphdr *uh = skb_push(skb, sizeof(*uh));

	uh->source = htons(sk->sk_num);
	uh->dest = htons(sk->sk_dport);
	uh->len = htons(skb->len);
	uh->check = 0;
	sk->segs_out++;
	return __ip_queue_xmit(sk, skb, IPPROTO_UDP);
}

int udp_sendmsg(struct sock *sk, struct msghdr *msg, size_t size)
{
	struct sk_buff *skb;

	if (size > 65000)
		return -EMSGSIZE;
	if (!sk->sk_dport)
		return -EDESTADDRREQ;
	skb = alloc_skb(64 + size, GFP_KERNEL);
	if (!skb)
		return -ENOMEM;
	skb_reserve(skb, 64);
	memcpy(skb_put(skb, size), msg->data, size);
	return udp_send_skb(sk, skb) ?: (int)size;
}

static noinline int udp_queue_rcv_skb(struct sock *sk, struct sk_buff *skb)
{
	int err = sock_queue_rcv_skb(sk, skb);

	if (err)
		kfree_skb(skb);
	return err;
}

int udp_rcv(struct sk_buff *skb)
{
	const struct iphdr *iph = (struct iphdr *)(skb->head + skb->network_header);
	const struct udphdr *uh = (struct udphdr *)skb->data;
	struct sock *sk;

	if (skb->len < sizeof(*uh) || ntohs(uh->len) > skb->len)
		goto drop;
	sk = __inet_lookup(iph->saddr, ntohs(uh->source), iph->daddr, ntohs(uh->dest));
	if (!sk)
		goto drop;
	skb_pull(skb, sizeof(*uh));
	sk->segs_in++;
	udp_queue_rcv_skb(sk, skb);
	sock_put(sk);
	return 0;
drop:
	kfree_skb(skb);
	return 0;
}

int udp_recvmsg(struct sock *sk, struct msghdr *msg, size_t len, int flags)
{
	struct sk_buff *skb = skb_dequeue(&sk->sk_receive_queue);
	int copied;

	if (!skb)
		return -EAGAIN;
	copied = min_t(size_t, len, skb->len);
	skb_copy_bits(skb, 0, msg->data, copied);
	consume_skb(skb);
	return copied;
}

static int udp_connect(struct sock *sk, struct sockaddr_in *addr)
{
	int err = sk->sk_num ? 0 : inet_bind_port(sk, 0);

	if (err)
		return err;
	sk->sk_rcvaddr = htonl(INADDR_LOOPBACK);
	sk->sk_daddr = addr->sin_addr;
	sk->sk_dport = ntohs(addr->sin_port);
	inet_hash(sk);
	return 0;
}

static void udp_close(struct sock *sk)
{
	inet_unhash(sk);
	skb_queue_purge(&sk->sk_receive_queue);
	sock_put(sk);
}

const struct proto udp_prot = {
	.name = "UDP",
	.connect = udp_connect,
	.sendmsg = udp_sendmsg,
	.recvmsg = udp_recvmsg,
	.close = udp_close,
};
