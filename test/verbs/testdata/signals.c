/*
 * Threads wait for events while signals arrive. A wait goes on after a signal whose handler has SA_RESTART, and fails with
 * EINTR after one whose handler has not, as in Linux, where ucma_get_event and others return ERESTARTSYS.
 *
 * usage: signals ADDRESS, of the adapter
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHECK(c)                                                                                                       \
	do {                                                                                                           \
		if (!(c)) {                                                                                            \
			printf("line %d: %s: %s\n", __LINE__, #c, strerror(errno));                                    \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

static atomic_int handled;
static void handle(int s) { handled += s == SIGUSR1; }

static void set_handler(int flags)
{
	struct sigaction a = {.sa_handler = handle, .sa_flags = flags};
	CHECK(!sigaction(SIGUSR1, &a, NULL));
}

/* A waiter is a thread that waits for one event. */
struct waiter {
	pthread_t thread;
	atomic_int tid, is_done;
	int error; /* errno, or 0 */

	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *completions;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static void *wait_for_event(void *arg)
{
	struct waiter *w = arg;
	struct rdma_cm_event *e;
	struct ibv_cq *cq;
	void *context;
	w->tid = syscall(SYS_gettid);
	int r = w->channel ? rdma_get_cm_event(w->channel, &e) : ibv_get_cq_event(w->completions, &cq, &context);
	w->error = r ? errno : 0;
	w->is_done = 1;
	return NULL;
}

static void start(struct waiter *w)
{
	w->tid = w->is_done = 0;
	CHECK(!pthread_create(&w->thread, NULL, wait_for_event, w));
}

/* await_sleep returns when a thread sleeps, or is done. */
static void await_sleep(struct waiter *w)
{
	char path[64], text[256], state = 0;
	while (!w->is_done && state != 'S' && state != 'D') {
		sched_yield();
		snprintf(path, sizeof path, "/proc/self/task/%d/stat", w->tid);
		FILE *f = w->tid ? fopen(path, "r") : NULL;
		if (f && fgets(text, sizeof text, f))
			state = strrchr(text, ')')[2];
		if (f)
			fclose(f);
	}
}

static void await_handled(int n)
{
	while (handled < n)
		sched_yield();
}

static const char *address;

/* cause makes the event of a waiter happen. */
static void cause(struct waiter *w)
{
	struct sockaddr_in to = {.sin_family = AF_INET};
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	if (w->channel) {
		CHECK(inet_pton(AF_INET, address, &to.sin_addr) == 1);
		CHECK(!rdma_resolve_addr(w->id, NULL, (struct sockaddr *)&to, 1000));
	} else {
		CHECK(!ibv_modify_qp(w->qp, &error, IBV_QP_STATE)); /* the receive is flushed */
	}
}

static void end(struct waiter *w)
{
	CHECK(!pthread_join(w->thread, NULL));
	errno = w->error;
}

static struct waiter new_channel(void)
{
	struct waiter w = {.channel = rdma_create_event_channel()};
	CHECK(w.channel && !rdma_create_id(w.channel, &w.id, NULL, RDMA_PS_TCP));
	return w;
}

static struct waiter new_completions(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	CHECK(list && list[0]);
	struct ibv_context *c = ibv_open_device(list[0]);
	CHECK(c);
	struct waiter w = {.completions = ibv_create_comp_channel(c)};
	CHECK(w.completions && (w.cq = ibv_create_cq(c, 4, NULL, w.completions, 0)));
	struct ibv_qp_init_attr a = {.send_cq = w.cq, .recv_cq = w.cq, .cap = {1, 1, 1, 1}, .qp_type = IBV_QPT_RC};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_recv_wr empty = {.num_sge = 0}, *bad;
	CHECK((w.qp = ibv_create_qp(ibv_alloc_pd(c), &a)));
	CHECK(!ibv_modify_qp(w.qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	CHECK(!ibv_post_recv(w.qp, &empty, &bad) && !ibv_req_notify_cq(w.cq, 0));
	return w;
}

/* waits_on sends signals to a thread, which gets its event nevertheless. */
static void waits_on(struct waiter w)
{
	set_handler(SA_RESTART);
	start(&w);
	for (int i = 0; i < 3; i++) {
		await_sleep(&w);
		int before = handled;
		CHECK(!pthread_kill(w.thread, SIGUSR1));
		await_handled(before + 1);
	}
	cause(&w);
	end(&w);
	CHECK(w.error == 0);
}

/* is_interrupted sends signals to a thread until its wait ends. */
static void is_interrupted(struct waiter w)
{
	set_handler(0);
	start(&w);
	while (!w.is_done) {
		await_sleep(&w);
		int before = handled;
		if (!w.is_done)
			CHECK(!pthread_kill(w.thread, SIGUSR1));
		while (!w.is_done && handled == before)
			sched_yield();
	}
	end(&w);
	CHECK(w.error == EINTR);
}

/* of_process sends signals to the process, of which any thread that does not block them takes one. */
static void of_process(void)
{
	struct waiter w[3];
	sigset_t set;
	set_handler(SA_RESTART);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	for (int i = 0; i < 3; i++) {
		w[i] = new_channel();
		start(&w[i]);
		await_sleep(&w[i]);
	}
	CHECK(!pthread_sigmask(SIG_BLOCK, &set, NULL));
	for (int i = 0; i < 3; i++) {
		int before = handled;
		CHECK(!kill(getpid(), SIGUSR1));
		await_handled(before + 1);
		for (int k = 0; k < 3; k++)
			await_sleep(&w[k]);
	}
	for (int i = 0; i < 3; i++) {
		cause(&w[i]);
		end(&w[i]);
		CHECK(w[i].error == 0);
	}
	CHECK(!pthread_sigmask(SIG_UNBLOCK, &set, NULL));
}

/* ends_one sends signals to the process without SA_RESTART until all waits have ended, each by one signal. */
static void ends_one(void)
{
	struct waiter w[3];
	sigset_t set;
	int ended = 0, sent = 0;
	set_handler(0);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	for (int i = 0; i < 3; i++) {
		w[i] = new_channel();
		start(&w[i]);
		await_sleep(&w[i]);
	}
	CHECK(!pthread_sigmask(SIG_BLOCK, &set, NULL));
	for (; ended < 3; sent++) {
		int before = handled;
		CHECK(!kill(getpid(), SIGUSR1));
		await_handled(before + 1);
		for (int i = 0; i < 3; i++)
			await_sleep(&w[i]);
		ended = w[0].is_done + w[1].is_done + w[2].is_done; /* one that is about to end may count later */
		CHECK(ended <= sent + 1);
	}
	for (int i = 0; i < 3; i++) {
		end(&w[i]);
		CHECK(w[i].error == EINTR);
	}
	CHECK(!pthread_sigmask(SIG_UNBLOCK, &set, NULL));
}

/* is_cancelled cancels a thread that waits; read and write are cancellation points. */
static void is_cancelled(struct waiter w)
{
	void *result;
	start(&w);
	await_sleep(&w);
	CHECK(!pthread_cancel(w.thread));
	CHECK(!pthread_join(w.thread, &result) && result == PTHREAD_CANCELED);
	start(&w); /* another one waits on the same channel */
	await_sleep(&w);
	cause(&w);
	end(&w);
	CHECK(w.error == 0);
}

int main(int argc, char **argv)
{
	address = argc > 1 ? argv[1] : "";
	waits_on(new_channel());
	waits_on(new_completions());
	is_interrupted(new_channel());
	is_interrupted(new_completions());
	of_process();
	ends_one();
	is_cancelled(new_channel());
	is_cancelled(new_completions());
	puts("success");
	return 0;
}
