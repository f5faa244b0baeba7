// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The part that all sockets share: allocation, the socket lock with its backlog, queues, waiting.
 */
#include <linux/errno.h>
#include <linux/sched.h>
#include <net/sock.h>

static noinline void sk_prot_free(struct sock *sk)
{
	kfree(sk);
}

static noinline struct sock *sk_prot_alloc(const struct proto *prot, gfp_t gfp)
{
	struct sock *sk = kzalloc(sizeof(*sk), gfp);

	if (sk)
		sk->sk_prot = prot;
	return sk;
}

struct sock *sk_alloc(int family, gfp_t gfp, const struct proto *prot)
{
	struct sock *sk = sk_prot_alloc(prot, gfp);

	if (sk) {
		sk->sk_family = family;
		refcount_set(&sk->sk_refcnt, 1);
	}
	return sk;
}

static noinline void __sk_destruct(struct sock *sk)
{
	skb_queue_purge(&sk->sk_receive_queue);
	skb_queue_purge(&sk->sk_write_queue);
	skb_queue_purge(&sk->sk_backlog);
	sk_prot_free(sk);
}

noinline void sk_free(struct sock *sk)
{
	__sk_destruct(sk);
}

noinline void sock_put(struct sock *sk)
{
	if (refcount_dec_and_test(&sk->sk_refcnt))
		sk_free(sk);
}

static void sock_def_readable(struct sock *sk)
{
	wake_up_interruptible(&sk->sk_wq);
}

static void sock_def_wakeup(struct sock *sk)
{
	wake_up_interruptible(&sk->sk_wq);
}

void sock_init_data(struct socket *sock, struct sock *sk)
{
	skb_queue_head_init(&sk->sk_receive_queue);
	skb_queue_head_init(&sk->sk_write_queue);
	skb_queue_head_init(&sk->sk_backlog);
	init_waitqueue_head(&sk->sk_wq);
	spin_lock_init(&sk->sk_lock.slock);
	sk->sk_state = TCP_CLOSE;
	sk->sk_data_ready = sock_def_readable;
	sk->sk_state_change = sock_def_wakeup;
	if (sock) {
		sk->sk_type = sock->type;
		sock->sk = sk;
	}
}

static noinline __cold void __lock_sock(struct sock *sk)
{
	while (sk->sk_lock.owned) {
		spin_unlock_bh(&sk->sk_lock.slock);
		schedule_timeout_uninterruptible(1);
		spin_lock_bh(&sk->sk_lock.slock);
	}
}

noinline void lock_sock_nested(struct sock *sk, int subclass)
{
	guard(spinlock_bh)(&sk->sk_lock.slock);
	if (sk->sk_lock.owned)
		__lock_sock(sk);
	sk->sk_lock.owned = 1;
}

int tcp_v4_do_rcv(struct sock *sk, struct sk_buff *skb);

static noinline void __release_sock(struct sock *sk)
{
	struct sk_buff *skb;

	while ((skb = skb_dequeue(&sk->sk_backlog)))
		tcp_v4_do_rcv(sk, skb);
}

noinline void release_sock(struct sock *sk)
{
	guard(spinlock_bh)(&sk->sk_lock.slock);
	if (skb_peek(&sk->sk_backlog))
		__release_sock(sk);
	sk->sk_lock.owned = 0;
}

static void sock_rfree(struct sk_buff *skb)
{
	sock_put(skb->sk);
}

static noinline void skb_set_owner_r(struct sk_buff *skb, struct sock *sk)
{
	sock_hold(sk);
	skb->sk = sk;
	skb->destructor = sock_rfree;
}

int sock_queue_rcv_skb(struct sock *sk, struct sk_buff *skb)
{
	if (sk->sk_receive_queue.qlen >= 128)
		return -ENOMEM;
	skb_set_owner_r(skb, sk);
	skb_queue_tail(&sk->sk_receive_queue, skb);
	sk->sk_data_ready(sk);
	return 0;
}

/* With the socket locked; it is unlocked while waiting. */
int sk_wait_data(struct sock *sk, long *timeo)
{
	DEFINE_WAIT(wait);

	prepare_to_wait(&sk->sk_wq, &wait, TASK_INTERRUPTIBLE);
	release_sock(sk);
	if (!skb_peek(&sk->sk_receive_queue) && sk->sk_state == TCP_ESTABLISHED)
		*timeo = schedule_timeout(*timeo);
	lock_sock(sk);
	finish_wait(&sk->sk_wq, &wait);
	return skb_peek(&sk->sk_receive_queue) != NULL;
}
