// SPDX-License-Identifier: GPL-2.0-or-later
/* Background traffic: a server and a client on the loopback device. */
#include <linux/errno.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <net/packet_loop.h>
#include <net/sock.h>

#define PACKET_LOOP_PORT 7
#define ROUNDS_PER_CONNECTION 25

static noinline long until_next_burst(void)
{
	return BURST_JIFFIES - (jiffies - INITIAL_JIFFIES) % BURST_JIFFIES;
}

static struct sockaddr_in loop_addr(u16 port)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };

	addr.sin_port = htons(port);
	addr.sin_addr = htonl(INADDR_LOOPBACK);
	return addr;
}

static noinline int packet_loop_echo(struct socket *sock)
{
	char buf[128];
	int len;

	while ((len = kernel_recvmsg(sock, buf, 64)) > 0)
		if (kernel_sendmsg(sock, buf, len) != len)
			return -EPIPE;
	return len;
}

static int packet_loop_server(void *unused)
{
	struct sockaddr_in addr = loop_addr(PACKET_LOOP_PORT);
	struct socket *listener, *sock;

	if (sock_create_kern(AF_INET, SOCK_STREAM, IPPROTO_TCP, &listener))
		return -ENOMEM;
	if (kernel_bind(listener, &addr) || kernel_listen(listener, 8))
		return -EADDRINUSE;
	while (!kthread_should_stop()) {
		if (kernel_accept(listener, &sock, 0))
			continue;
		packet_loop_echo(sock);
		sock_release(sock);
	}
	sock_release(listener);
	return 0;
}

static noinline int packet_loop_round(struct socket *sock, int n)
{
	char out[64], in[64];
	int len = sizeof(out);

	memset(out, 'a' + n % 26, len);
	if (kernel_sendmsg(sock, out, len) != len)
		return -EPIPE;
	if (kernel_recvmsg(sock, in, len) != len || memcmp(in, out, len))
		return -EIO;
	return ping_v4_sendmsg(htonl(INADDR_LOOPBACK), n);
}

static noinline void packet_loop_connection(void)
{
	struct sockaddr_in addr = loop_addr(PACKET_LOOP_PORT);
	struct socket *sock;

	if (sock_create_kern(AF_INET, SOCK_STREAM, IPPROTO_TCP, &sock))
		return;
	if (!kernel_connect(sock, &addr))
		for (int n = 0; n < ROUNDS_PER_CONNECTION; n++) {
			if (packet_loop_round(sock, n))
				break;
			if (n % BURST_ROUNDS)
				schedule_timeout_interruptible(until_next_burst());
		}
	sock_release(sock);
}

static int packet_loop_client(void *unused)
{
	while (!kthread_should_stop()) {
		schedule_timeout_interruptible(until_next_burst());
		packet_loop_connection();
	}
	return 0;
}

void packet_loop_init(void)
{
	kthread_run(packet_loop_server, NULL, "netserver");
	kthread_run(packet_loop_client, NULL, "netclient");
}
