// SPDX-License-Identifier: GPL-2.0-or-later
/* As much of TCP as a lossless loopback asks for: handshake, data, acknowledgement, end. */
#include <linux/errno.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <net/sock.h>

#define MAX_TCP_HEADER 128
#define TCP_MSS 1460U

int tcp_v4_do_rcv(struct sock *sk, struct sk_buff *skb);

static noinline struct tcphdr *tcp_hdr(const struct sk_buff *skb)
{
	return (struct tcphdr *)(skb->head + skb->transport_header);
}

static noinline u16 tcp_v4_check(const struct sk_buff *skb)
{
	return csum_fold(csum_partial(skb->data, skb->len, 0));
}

static noinline u16 tcp_select_window(const struct sock *sk)
{
	return 65535 - min(sk->sk_receive_queue.qlen, 15u) * 4096;
}

static int __tcp_transmit_skb(struct sock *sk, struct sk_buff *skb, u8 flags, u32 seq)
{
	struct tcphdr *th = skb_push(skb, sizeof(*th));

	memset(th, 0, sizeof(*th));
	th->source = htons(sk->sk_num);
	th->dest = htons(sk->sk_dport);
	th->seq = htonl(seq);
	th->ack_seq = htonl(sk->rcv_nxt);
	th->doff = sizeof(*th) / 4 << 4;
	th->flags = flags;
	th->window = htons(tcp_select_window(sk));
	th->check = tcp_v4_check(skb);
	sk->segs_out++;
	return ip_queue_xmit(sk, skb);
}

static noinline int tcp_transmit_skb(struct sock *sk, struct sk_buff *skb, u8 flags)
{
	u32 seq = sk->snd_nxt;

	sk->snd_nxt += skb->len + !!(flags & (TCP_FLAG_SYN | TCP_FLAG_FIN));
	return __tcp_transmit_skb(sk, skb, flags, seq);
}

static noinline struct sk_buff *tcp_stream_alloc_skb(struct sock *sk, unsigned int size)
{
	struct sk_buff *skb = alloc_skb(MAX_TCP_HEADER + size, GFP_ATOMIC);

	if (skb)
		skb_reserve(skb, MAX_TCP_HEADER);
	return skb;
}

static noinline int tcp_send_control(struct sock *sk, u8 flags)
{
	struct sk_buff *skb = tcp_stream_alloc_skb(sk, 0);

	return skb ? tcp_transmit_skb(sk, skb, flags) : -ENOMEM;
}

static noinline void tcp_send_ack(struct sock *sk)
{
	tcp_send_control(sk, TCP_FLAG_ACK);
}

static noinline int tcp_send_fin(struct sock *sk)
{
	return tcp_send_control(sk, TCP_FLAG_FIN | TCP_FLAG_ACK);
}

static noinline void tcp_send_synack(struct sock *sk)
{
	tcp_send_control(sk, TCP_FLAG_SYN | TCP_FLAG_ACK);
}

static bool tcp_write_xmit(struct sock *sk)
{
	struct sk_buff *skb;
	bool sent = false;

	while ((skb = skb_dequeue(&sk->sk_write_queue))) {
		tcp_transmit_skb(sk, skb, TCP_FLAG_ACK | TCP_FLAG_PSH);
		sent = true;
	}
	return sent;
}

static noinline void __tcp_push_pending_frames(struct sock *sk)
{
	if (sk->sk_state == TCP_ESTABLISHED || sk->sk_state == TCP_CLOSE_WAIT)
		tcp_write_xmit(sk);
}

static noinline void tcp_push(struct sock *sk)
{
	if (skb_peek(&sk->sk_write_queue))
		__tcp_push_pending_frames(sk);
}

noinline int tcp_sendmsg_locked(struct sock *sk, struct msghdr *msg, size_t size)
{
	size_t copied = 0;

	if (sk->sk_state != TCP_ESTABLISHED)
		return -EPIPE;
	while (copied < size) {
		unsigned int part = min_t(size_t, size - copied, TCP_MSS);
		struct sk_buff *skb = tcp_stream_alloc_skb(sk, part);

		if (!skb)
			return copied ? (int)copied : -ENOMEM;
		memcpy(skb_put(skb, part), (char *)msg->data + copied, part);
		skb_queue_tail(&sk->sk_write_queue, skb);
		sk->write_seq += part;
		copied += part;
	}
	tcp_push(sk);
	return copied;
}

int tcp_sendmsg(struct sock *sk, struct msghdr *msg, size_t size)
{
	guard(sock)(sk);
	return tcp_sendmsg_locked(sk, msg, size);
}

static noinline void tcp_eat_recv_skb(struct sock *sk, struct sk_buff *skb)
{
	skb_dequeue(&sk->sk_receive_queue);
	consume_skb(skb);
}

static int tcp_recvmsg_locked(struct sock *sk, struct msghdr *msg, size_t len)
{
	long timeo = 2 * HZ;
	size_t copied = 0;
	struct sk_buff *skb;

	while (copied < len) {
		unsigned int part;

		skb = skb_peek(&sk->sk_receive_queue);
		if (!skb) {
			if (copied || sk->sk_state != TCP_ESTABLISHED)
				break;
			if (!sk_wait_data(sk, &timeo) && !timeo)
				return -EAGAIN;
			continue;
		}
		part = min_t(size_t, skb->len, len - copied);
		skb_copy_bits(skb, 0, (char *)msg->data + copied, part);
		skb_pull(skb, part);
		copied += part;
		sk->copied_seq += part;
		if (!skb->len)
			tcp_eat_recv_skb(sk, skb);
	}
	return copied;
}

int tcp_recvmsg(struct sock *sk, struct msghdr *msg, size_t len, int flags)
{
	guard(sock)(sk);
	return tcp_recvmsg_locked(sk, msg, len);
}

static noinline void tcp_set_state(struct sock *sk, int state)
{
	sk->sk_state = state;
	if (state == TCP_CLOSE)
		inet_unhash(sk);
	sk->sk_state_change(sk);
}

static noinline void tcp_ack(struct sock *sk, const struct tcphdr *th)
{
	u32 ack = ntohl(th->ack_seq);

	if ((s32)(ack - sk->snd_una) > 0)
		sk->snd_una = ack;
}

static noinline void tcp_fin(struct sock *sk)
{
	tcp_set_state(sk, TCP_CLOSE_WAIT);
	sk->sk_data_ready(sk);
}

static void tcp_data_queue(struct sock *sk, struct sk_buff *skb)
{
	if (skb->seq != sk->rcv_nxt || !skb->len) {
		kfree_skb(skb);
		return;
	}
	sk->rcv_nxt = skb->end_seq;
	if (sock_queue_rcv_skb(sk, skb))
		kfree_skb(skb);
}

void tcp_rcv_established(struct sock *sk, struct sk_buff *skb)
{
	const struct tcphdr *th = tcp_hdr(skb);
	u8 flags = th->flags;
	bool data;

	tcp_ack(sk, th);
	data = skb->len != 0;
	if (data)
		tcp_data_queue(sk, skb);
	if (flags & TCP_FLAG_FIN) {
		sk->rcv_nxt++;
		tcp_fin(sk);
	}
	if (!data)
		consume_skb(skb);
	else
		tcp_send_ack(sk);
}

static struct sock *tcp_v4_syn_recv_sock(struct sock *listener, struct sk_buff *skb)
{
	const struct iphdr *iph = (struct iphdr *)(skb->head + skb->network_header);
	const struct tcphdr *th = tcp_hdr(skb);
	struct sock *sk = sk_alloc(AF_INET, GFP_ATOMIC, listener->sk_prot);

	if (!sk)
		return NULL;
	sock_init_data(NULL, sk);
	sk->sk_type = SOCK_STREAM;
	sk->sk_num = listener->sk_num;
	sk->sk_dport = ntohs(th->source);
	sk->sk_rcvaddr = iph->daddr;
	sk->sk_daddr = iph->saddr;
	sk->rcv_nxt = sk->copied_seq = ntohl(th->seq) + 1;
	sk->snd_nxt = sk->snd_una = sk->write_seq = 0x1000 + sk->sk_dport;
	sk->listener = listener;
	return sk;
}

static int tcp_v4_conn_request(struct sock *listener, struct sk_buff *skb)
{
	struct sock *sk;

	if (listener->sk_ack_backlog >= listener->sk_max_ack_backlog)
		return -ENOBUFS;
	sk = tcp_v4_syn_recv_sock(listener, skb);
	if (!sk)
		return -ENOMEM;
	listener->sk_ack_backlog++;
	sk->sk_state = TCP_SYN_RECV;
	inet_hash(sk);
	tcp_send_synack(sk);
	return 0;
}

static noinline void inet_csk_reqsk_queue_add(struct sock *listener, struct sock *sk)
{
	struct sock **p = &listener->accept_head;

	while (*p)
		p = &(*p)->accept_next;
	*p = sk;
	listener->sk_data_ready(listener);
}

int tcp_rcv_state_process(struct sock *sk, struct sk_buff *skb)
{
	const struct tcphdr *th = tcp_hdr(skb);
	int err = 0;

	switch (sk->sk_state) {
	case TCP_LISTEN:
		if (th->flags & TCP_FLAG_SYN)
			err = tcp_v4_conn_request(sk, skb);
		break;
	case TCP_SYN_SENT:
		if ((th->flags & (TCP_FLAG_SYN | TCP_FLAG_ACK)) != (TCP_FLAG_SYN | TCP_FLAG_ACK))
			break;
		sk->rcv_nxt = sk->copied_seq = ntohl(th->seq) + 1;
		tcp_ack(sk, th);
		tcp_send_ack(sk);
		tcp_set_state(sk, TCP_ESTABLISHED);
		break;
	case TCP_SYN_RECV:
		tcp_ack(sk, th);
		tcp_set_state(sk, TCP_ESTABLISHED);
		inet_csk_reqsk_queue_add(sk->listener, sk);
		break;
	case TCP_CLOSE_WAIT: tcp_ack(sk, th); break;
	default:             break;
	}
	consume_skb(skb);
	return err;
}

noinline int tcp_v4_do_rcv(struct sock *sk, struct sk_buff *skb)
{
	if (sk->sk_state == TCP_ESTABLISHED) {
		tcp_rcv_established(sk, skb);
		return 0;
	}
	return tcp_rcv_state_process(sk, skb);
}

static noinline bool tcp_add_backlog(struct sock *sk, struct sk_buff *skb)
{
	if (sk->sk_backlog.qlen >= 64) {
		kfree_skb(skb);
		return true;
	}
	skb_queue_tail(&sk->sk_backlog, skb);
	return false;
}

int tcp_v4_rcv(struct sk_buff *skb)
{
	const struct iphdr *iph = (struct iphdr *)(skb->head + skb->network_header);
	const struct tcphdr *th = (struct tcphdr *)skb->data;
	struct sock *sk;
	int ret = 0;

	if (skb->len < sizeof(*th) || tcp_v4_check(skb))
		goto discard_it;
	sk = __inet_lookup(iph->saddr, ntohs(th->source), iph->daddr, ntohs(th->dest));
	if (!sk)
		goto discard_it;
	skb_pull(skb, sizeof(*th));
	skb->seq = ntohl(th->seq);
	skb->end_seq = skb->seq + skb->len;
	sk->segs_in++;
	spin_lock_bh(&sk->sk_lock.slock);
	if (!sk->sk_lock.owned)
		ret = tcp_v4_do_rcv(sk, skb);
	else
		tcp_add_backlog(sk, skb);
	spin_unlock_bh(&sk->sk_lock.slock);
	sock_put(sk);
	return ret;
discard_it:
	kfree_skb(skb);
	return 0;
}

static noinline int tcp_v4_connect(struct sock *sk, struct sockaddr_in *addr)
{
	int err;

	if (sk->sk_state != TCP_CLOSE)
		return -EISCONN;
	sk->sk_rcvaddr = htonl(INADDR_LOOPBACK);
	sk->sk_daddr = addr->sin_addr;
	sk->sk_dport = ntohs(addr->sin_port);
	err = inet_bind_port(sk, 0);
	if (err)
		return err;
	sk->snd_nxt = sk->snd_una = sk->write_seq = 0x2000 + sk->sk_num;
	sk->sk_state = TCP_SYN_SENT;
	inet_hash(sk);
	return tcp_send_control(sk, TCP_FLAG_SYN);
}

static noinline int inet_csk_wait_for_connect(struct sock *sk, long timeo)
{
	DEFINE_WAIT(wait);
	int err = 0;

	prepare_to_wait(&sk->sk_wq, &wait, TASK_INTERRUPTIBLE);
	release_sock(sk);
	if (!sk->accept_head)
		timeo = schedule_timeout(timeo);
	lock_sock(sk);
	if (!sk->accept_head)
		err = -EAGAIN;
	finish_wait(&sk->sk_wq, &wait);
	return err;
}

struct sock *inet_csk_accept(struct sock *sk, int flags, int *err)
{
	struct sock *newsk;

	guard(sock)(sk);
	*err = sk->sk_state == TCP_LISTEN ? 0 : -EINVAL;
	if (!*err && !sk->accept_head)
		*err = inet_csk_wait_for_connect(sk, MAX_SCHEDULE_TIMEOUT);
	if (*err)
		return NULL;
	newsk = sk->accept_head;
	sk->accept_head = newsk->accept_next;
	newsk->accept_next = NULL;
	sk->sk_ack_backlog--;
	return newsk;
}

static void tcp_close(struct sock *sk)
{
	lock_sock(sk);
	if (sk->sk_state == TCP_ESTABLISHED || sk->sk_state == TCP_CLOSE_WAIT)
		tcp_send_fin(sk);
	tcp_set_state(sk, TCP_CLOSE);
	skb_queue_purge(&sk->sk_receive_queue); /* its packets hold the socket */
	release_sock(sk);
	sock_put(sk);
}

const struct proto tcp_prot = {
	.name = "TCP",
	.connect = tcp_v4_connect,
	.accept = inet_csk_accept,
	.sendmsg = tcp_sendmsg,
	.recvmsg = tcp_recvmsg,
	.close = tcp_close,
};
