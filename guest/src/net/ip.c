// SPDX-License-Identifier: GPL-2.0-or-later
/* IPv4 over the loopback device: in, out, ICMP echo. */
#include <linux/errno.h>
#include <linux/netdevice.h>
#include <linux/string.h>
#include <net/sock.h>

static u16 ip_ident;
unsigned long icmp_echo_replies;

struct icmphdr {
	u8 type, code;
	__sum16 checksum;
	__be16 id, sequence;
} __packed;
#define ICMP_ECHOREPLY 0
#define ICMP_ECHO 8
#define MAX_HEADER 64

static noinline struct iphdr *ip_hdr(const struct sk_buff *skb)
{
	return (struct iphdr *)(skb->head + skb->network_header);
}

static struct sk_buff *ip_rcv_core(struct sk_buff *skb)
{
	const struct iphdr *iph = ip_hdr(skb);

	if (skb->len < sizeof(*iph) || iph->version_ihl != 0x45)
		goto drop;
	if (ip_fast_csum(iph, 5) || ntohs(iph->tot_len) > skb->len)
		goto drop;
	skb_trim(skb, ntohs(iph->tot_len));
	return skb;
drop:
	kfree_skb(skb);
	return NULL;
}

/* The handler by protocol: a switch that the compiler turns into a jump table. */
static noinline int ip_protocol_deliver_rcu(struct sk_buff *skb, int protocol)
{
	switch (protocol) {
	case IPPROTO_ICMP: return icmp_rcv(skb);
	case IPPROTO_TCP:  return tcp_v4_rcv(skb);
	case IPPROTO_UDP:  return udp_rcv(skb);
	default:           kfree_skb(skb); return 0;
	}
}

static noinline int ip_local_deliver_finish(struct sk_buff *skb)
{
	u8 protocol = ip_hdr(skb)->protocol;

	skb_pull(skb, sizeof(struct iphdr));
	skb->transport_header = skb->data - skb->head;
	return ip_protocol_deliver_rcu(skb, protocol);
}

noinline int ip_local_deliver(struct sk_buff *skb)
{
	if (ip_hdr(skb)->frag_off & htons(0x3fff)) {
		kfree_skb(skb); /* no reassembly: nothing here fragments */
		return 0;
	}
	return ip_local_deliver_finish(skb);
}

static noinline bool ip_route_input_noref(u32 daddr)
{
	return (ntohl(daddr) >> 24) == 127;
}

static noinline int ip_rcv_finish(struct sk_buff *skb)
{
	if (!ip_route_input_noref(ip_hdr(skb)->daddr)) {
		kfree_skb(skb);
		return NET_RX_DROP;
	}
	return ip_local_deliver(skb);
}

int ip_rcv(struct sk_buff *skb, struct net_device *dev, struct packet_type *pt)
{
	skb = ip_rcv_core(skb);
	return skb ? ip_rcv_finish(skb) : NET_RX_DROP;
}

static noinline int ip_finish_output2(struct sk_buff *skb)
{
	return dev_queue_xmit(skb);
}

static noinline int ip_finish_output(struct sk_buff *skb)
{
	if (skb->len > skb->dev->mtu) {
		kfree_skb(skb);
		return -EMSGSIZE;
	}
	return ip_finish_output2(skb);
}

noinline int ip_output(struct sk_buff *skb)
{
	skb->protocol = htons(ETH_P_IP);
	return ip_finish_output(skb);
}

static noinline void ip_send_check(struct iphdr *iph)
{
	iph->check = 0;
	iph->check = ip_fast_csum(iph, 5);
}

noinline int __ip_local_out(struct sk_buff *skb)
{
	struct iphdr *iph = (struct iphdr *)skb->data;

	iph->tot_len = htons(skb->len);
	ip_send_check(iph);
	return 1;
}

noinline int ip_local_out(struct sk_buff *skb)
{
	return __ip_local_out(skb) == 1 ? ip_output(skb) : 0;
}

static noinline struct net_device *ip_route_output_ports(u32 daddr)
{
	return ip_route_input_noref(daddr) ? dev_get_by_name("lo") : NULL;
}

static int ip_build_and_send(struct sk_buff *skb, u32 saddr, u32 daddr, u8 protocol)
{
	struct net_device *dev = ip_route_output_ports(daddr);
	struct iphdr *iph;

	if (!dev) {
		kfree_skb(skb);
		return -ENETUNREACH;
	}
	iph = skb_push(skb, sizeof(*iph));
	memset(iph, 0, sizeof(*iph));
	iph->version_ihl = 0x45;
	iph->ttl = 64;
	iph->id = htons(++ip_ident);
	iph->protocol = protocol;
	iph->saddr = saddr;
	iph->daddr = daddr;
	skb->dev = dev;
	return ip_local_out(skb);
}

noinline int __ip_queue_xmit(struct sock *sk, struct sk_buff *skb, u8 protocol)
{
	return ip_build_and_send(skb, sk->sk_rcvaddr, sk->sk_daddr, protocol);
}

int ip_queue_xmit(struct sock *sk, struct sk_buff *skb)
{
	return __ip_queue_xmit(sk, skb, IPPROTO_TCP);
}

static noinline bool icmp_echo(struct sk_buff *skb, u32 from, u32 to)
{
	struct icmphdr *icmph = (struct icmphdr *)skb->data;
	struct sk_buff *reply = alloc_skb(MAX_HEADER + skb->len, GFP_ATOMIC);
	void *data;

	if (!reply)
		return false;
	skb_reserve(reply, MAX_HEADER);
	data = skb_put(reply, skb->len);
	skb_copy_bits(skb, 0, data, skb->len);
	icmph = data;
	icmph->type = ICMP_ECHOREPLY;
	icmph->checksum = 0;
	icmph->checksum = csum_fold(csum_partial(icmph, reply->len, 0));
	return ip_build_and_send(reply, to, from, IPPROTO_ICMP) == 0;
}

static noinline bool ping_rcv(struct sk_buff *skb)
{
	icmp_echo_replies++;
	return true;
}

int icmp_rcv(struct sk_buff *skb)
{
	struct icmphdr *icmph = (struct icmphdr *)skb->data;

	if (skb->len < sizeof(*icmph) || csum_fold(csum_partial(icmph, skb->len, 0))) {
		kfree_skb(skb);
		return 0;
	}
	if (icmph->type == ICMP_ECHO)
		icmp_echo(skb, ip_hdr(skb)->saddr, ip_hdr(skb)->daddr);
	else if (icmph->type == ICMP_ECHOREPLY)
		ping_rcv(skb);
	consume_skb(skb);
	return 0;
}

int ping_v4_sendmsg(u32 daddr, u16 sequence)
{
	struct sk_buff *skb = alloc_skb(MAX_HEADER + 64, GFP_KERNEL);
	struct icmphdr *icmph;

	if (!skb)
		return -ENOMEM;
	skb_reserve(skb, MAX_HEADER);
	icmph = skb_put(skb, sizeof(*icmph) + 56);
	memset(icmph, 0, sizeof(*icmph) + 56);
	icmph->type = ICMP_ECHO;
	icmph->sequence = htons(sequence);
	icmph->checksum = csum_fold(csum_partial(icmph, skb->len, 0));
	return ip_build_and_send(skb, htonl(INADDR_LOOPBACK), daddr, IPPROTO_ICMP);
}
