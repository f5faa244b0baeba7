/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/netdevice.h>
#include <linux/wait.h>

#define AF_INET 2
#define SOCK_STREAM 1
#define SOCK_DGRAM 2
#define IPPROTO_ICMP 1
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define INADDR_LOOPBACK 0x7f000001U

enum {
	TCP_ESTABLISHED = 1,
	TCP_SYN_SENT,
	TCP_SYN_RECV,
	TCP_CLOSE = 7,
	TCP_CLOSE_WAIT,
	TCP_LISTEN = 10
};

struct iphdr {
	u8 version_ihl, tos;
	__be16 tot_len, id, frag_off;
	u8 ttl, protocol;
	__sum16 check;
	__be32 saddr, daddr;
} __packed;
struct tcphdr {
	__be16 source, dest;
	__be32 seq, ack_seq;
	u8 doff, flags;
	__be16 window;
	__sum16 check;
	__be16 urg_ptr;
} __packed;
struct udphdr {
	__be16 source, dest, len;
	__sum16 check;
} __packed;
#define TCP_FLAG_FIN 1
#define TCP_FLAG_SYN 2
#define TCP_FLAG_PSH 8
#define TCP_FLAG_ACK 16

struct msghdr {
	void *data; /* kernel memory */
	size_t len;
	unsigned int flags;
};
struct sockaddr_in {
	u16 sin_family;
	__be16 sin_port;
	__be32 sin_addr;
	u8 pad[8];
};

struct sock;
struct proto {
	const char *name;
	int (*connect)(struct sock *sk, struct sockaddr_in *addr);
	struct sock *(*accept)(struct sock *sk, int flags, int *err);
	int (*sendmsg)(struct sock *sk, struct msghdr *msg, size_t size);
	int (*recvmsg)(struct sock *sk, struct msghdr *msg, size_t len, int flags);
	void (*close)(struct sock *sk);
};
struct sock {
	struct hlist_node sk_node;
	int sk_state, sk_err, sk_family, sk_type, sk_protocol;
	const struct proto *sk_prot;
	refcount_t sk_refcnt;
	struct {
		spinlock_t slock;
		int owned;
	} sk_lock;
	struct sk_buff_head sk_receive_queue, sk_write_queue, sk_backlog;
	wait_queue_head_t sk_wq;
	void (*sk_data_ready)(struct sock *sk);
	void (*sk_state_change)(struct sock *sk);
	u32 sk_rcvaddr, sk_daddr;
	u16 sk_num, sk_dport;
	u32 snd_nxt, snd_una, write_seq, rcv_nxt, copied_seq;
	u32 retransmits, segs_in, segs_out;
	struct sock *accept_head, *accept_next, *listener;
	int sk_ack_backlog, sk_max_ack_backlog;
};
struct socket {
	int state, type;
	struct sock *sk;
};

struct sock *sk_alloc(int family, gfp_t gfp, const struct proto *prot);
void sock_init_data(struct socket *sock, struct sock *sk);
void lock_sock_nested(struct sock *sk, int subclass);
#define lock_sock(sk) lock_sock_nested(sk, 0)
void release_sock(struct sock *sk);
DEFINE_GUARD(sock, struct sock, lock_sock(it), release_sock(it))
int sock_queue_rcv_skb(struct sock *sk, struct sk_buff *skb);
int sk_wait_data(struct sock *sk, long *timeo);
static inline void sock_hold(struct sock *sk) { refcount_inc(&sk->sk_refcnt); }
void sock_put(struct sock *sk);

int sock_create_kern(int family, int type, int protocol, struct socket **res);
int kernel_bind(struct socket *sock, struct sockaddr_in *addr);
int kernel_listen(struct socket *sock, int backlog);
int kernel_accept(struct socket *sock, struct socket **newsock, int flags);
int kernel_connect(struct socket *sock, struct sockaddr_in *addr);
int kernel_sendmsg(struct socket *sock, void *data, size_t len);
int kernel_recvmsg(struct socket *sock, void *data, size_t len);
void sock_release(struct socket *sock);

int ip_rcv(struct sk_buff *skb, struct net_device *dev, struct packet_type *pt);
int __ip_queue_xmit(struct sock *sk, struct sk_buff *skb, u8 protocol);
int ip_queue_xmit(struct sock *sk, struct sk_buff *skb);
int icmp_rcv(struct sk_buff *skb);
int udp_rcv(struct sk_buff *skb);
int tcp_v4_rcv(struct sk_buff *skb);
struct sock *inet_csk_accept(struct sock *sk, int flags, int *err);
int inet_bind_port(struct sock *sk, u16 port);
struct sock *__inet_lookup(u32 saddr, u16 sport, u32 daddr, u16 dport);
void inet_hash(struct sock *sk);
void inet_unhash(struct sock *sk);
int ping_v4_sendmsg(u32 daddr, u16 sequence);
extern const struct proto tcp_prot, udp_prot;
extern unsigned long icmp_echo_replies;
void inet_init(void);
