// SPDX-License-Identifier: GPL-2.0-or-later
/* Sockets of the inet family: creation, ports, look-up, the calls of struct socket. */
#include <linux/errno.h>
#include <linux/netdevice.h>
#include <linux/sched.h>
#include <net/sock.h>

#define INET_EHTABLE 64
static struct hlist_head inet_hashinfo[INET_EHTABLE];
static DEFINE_SPINLOCK(inet_lock);
static u16 ip_local_port = 32768;

static noinline u32 inet_ehashfn(u16 port)
{
	return (port * 0x9e3779b1u) >> 26;
}

noinline void inet_hash(struct sock *sk)
{
	if (sk->sk_node.pprev)
		return;
	guard(spinlock_bh)(&inet_lock);
	sock_hold(sk);
	hlist_add_head(&sk->sk_node, &inet_hashinfo[inet_ehashfn(sk->sk_num)]);
}

void inet_unhash(struct sock *sk)
{
	if (!sk->sk_node.pprev)
		return;
	spin_lock_bh(&inet_lock);
	hlist_del_init(&sk->sk_node);
	spin_unlock_bh(&inet_lock);
	sock_put(sk);
}

static noinline int compute_score(const struct sock *sk, u32 saddr, u16 sport, u16 dport)
{
	if (sk->sk_num != dport)
		return -1;
	if (sk->sk_dport && (sk->sk_dport != sport || sk->sk_daddr != saddr))
		return -1;
	return sk->sk_dport ? 2 : 1;
}

/* Return a connected socket before a listening one, held for the caller, or NULL. */
struct sock *__inet_lookup(u32 saddr, u16 sport, u32 daddr, u16 dport)
{
	struct sock *sk, *best = NULL;
	int score = 0;

	guard(spinlock_bh)(&inet_lock);
	hlist_for_each_entry(sk, &inet_hashinfo[inet_ehashfn(dport)], sk_node) {
		int s = compute_score(sk, saddr, sport, dport);

		if (s > score) {
			score = s;
			best = sk;
		}
	}
	if (best)
		sock_hold(best);
	return best;
}

static noinline bool inet_port_in_use(u16 port)
{
	struct sock *sk;

	hlist_for_each_entry(sk, &inet_hashinfo[inet_ehashfn(port)], sk_node)
		if (sk->sk_num == port)
			return true;
	return false;
}

int inet_bind_port(struct sock *sk, u16 port)
{
	int tries = 28232;

	if (port) {
		if (inet_port_in_use(port))
			return -EADDRINUSE;
		sk->sk_num = port;
		return 0;
	}
	while (tries--) {
		if (++ip_local_port > 60999)
			ip_local_port = 32768;
		if (!inet_port_in_use(ip_local_port)) {
			sk->sk_num = ip_local_port;
			return 0;
		}
	}
	return -EADDRINUSE;
}

static int inet_create(struct socket *sock, int protocol)
{
	const struct proto *prot = sock->type == SOCK_STREAM ? &tcp_prot : &udp_prot;
	struct sock *sk = sk_alloc(AF_INET, GFP_KERNEL, prot);

	if (!sk)
		return -ENOMEM;
	sock_init_data(sock, sk);
	sk->sk_protocol = protocol;
	return 0;
}

static noinline struct socket *sock_alloc(void)
{
	return kzalloc(sizeof(struct socket), GFP_KERNEL);
}

static noinline int __sock_create(int family, int type, int protocol, struct socket **res)
{
	struct socket *sock;
	int err;

	if (family != AF_INET)
		return -EAFNOSUPPORT;
	if (type != SOCK_STREAM && type != SOCK_DGRAM)
		return -ESOCKTNOSUPPORT;
	sock = sock_alloc();
	if (!sock)
		return -ENOMEM;
	sock->type = type;
	err = inet_create(sock, protocol);
	if (err) {
		kfree(sock);
		return err;
	}
	*res = sock;
	return 0;
}

int sock_create_kern(int family, int type, int protocol, struct socket **res)
{
	return __sock_create(family, type, protocol, res);
}

static noinline int inet_bind(struct sock *sk, struct sockaddr_in *addr)
{
	int err;

	guard(sock)(sk);
	err = sk->sk_num ? -EINVAL : inet_bind_port(sk, ntohs(addr->sin_port));
	sk->sk_rcvaddr = addr->sin_addr;
	return err;
}

int kernel_bind(struct socket *sock, struct sockaddr_in *addr)
{
	int err = inet_bind(sock->sk, addr);

	if (!err && sock->type == SOCK_DGRAM)
		inet_hash(sock->sk);
	return err;
}

static noinline int inet_listen(struct sock *sk, int backlog)
{
	guard(sock)(sk);
	sk->sk_max_ack_backlog = backlog;
	sk->sk_state = TCP_LISTEN;
	inet_hash(sk);
	return 0;
}

int kernel_listen(struct socket *sock, int backlog)
{
	return sock->type == SOCK_STREAM ? inet_listen(sock->sk, backlog) : -EOPNOTSUPP;
}

static noinline int inet_accept(struct socket *sock, struct socket *newsock, int flags)
{
	int err;
	struct sock *sk = sock->sk->sk_prot->accept(sock->sk, flags, &err);

	if (!sk)
		return err;
	newsock->sk = sk;
	newsock->type = sock->type;
	return 0;
}

int kernel_accept(struct socket *sock, struct socket **newsock, int flags)
{
	int err;

	*newsock = sock_alloc();
	if (!*newsock)
		return -ENOMEM;
	err = inet_accept(sock, *newsock, flags);
	if (err) {
		kfree(*newsock);
		*newsock = NULL;
	}
	return err;
}

static noinline int inet_wait_for_connect(struct sock *sk, long timeo)
{
	DEFINE_WAIT(wait);

	while (sk->sk_state == TCP_SYN_SENT && timeo) {
		prepare_to_wait(&sk->sk_wq, &wait, TASK_INTERRUPTIBLE);
		release_sock(sk);
		if (sk->sk_state == TCP_SYN_SENT)
			timeo = schedule_timeout(timeo);
		lock_sock(sk);
	}
	finish_wait(&sk->sk_wq, &wait);
	return sk->sk_state == TCP_ESTABLISHED ? 0 : -ETIMEDOUT;
}

static noinline int inet_stream_connect(struct sock *sk, struct sockaddr_in *addr)
{
	guard(sock)(sk);
	return sk->sk_prot->connect(sk, addr) ?: inet_wait_for_connect(sk, HZ);
}

int kernel_connect(struct socket *sock, struct sockaddr_in *addr)
{
	if (addr->sin_family != AF_INET)
		return -EAFNOSUPPORT;
	if (sock->type == SOCK_STREAM)
		return inet_stream_connect(sock->sk, addr);
	return sock->sk->sk_prot->connect(sock->sk, addr);
}

static noinline int inet_sendmsg(struct socket *sock, struct msghdr *msg, size_t size)
{
	return sock->sk->sk_prot->sendmsg(sock->sk, msg, size);
}

static noinline int sock_sendmsg(struct socket *sock, struct msghdr *msg)
{
	return inet_sendmsg(sock, msg, msg->len);
}

int kernel_sendmsg(struct socket *sock, void *data, size_t len)
{
	struct msghdr msg = { .data = data, .len = len };

	return sock_sendmsg(sock, &msg);
}

static noinline int inet_recvmsg(struct socket *sock, struct msghdr *msg, size_t size)
{
	return sock->sk->sk_prot->recvmsg(sock->sk, msg, size, 0);
}

static noinline int sock_recvmsg(struct socket *sock, struct msghdr *msg)
{
	return inet_recvmsg(sock, msg, msg->len);
}

int kernel_recvmsg(struct socket *sock, void *data, size_t len)
{
	struct msghdr msg = { .data = data, .len = len };

	return sock_recvmsg(sock, &msg);
}

static noinline int inet_release(struct socket *sock)
{
	struct sock *sk = sock->sk;

	sock->sk = NULL;
	if (sk)
		sk->sk_prot->close(sk);
	return 0;
}

void sock_release(struct socket *sock)
{
	inet_release(sock);
	kfree(sock);
}

static struct packet_type ip_packet_type = { .func = ip_rcv };

void inet_init(void)
{
	net_dev_init();
	loopback_net_init();
	ip_packet_type.type = htons(ETH_P_IP);
	dev_add_pack(&ip_packet_type);
}
