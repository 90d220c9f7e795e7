/*
 * What verbs programs of the tests have in common: a QP that is connected to itself, and transfers by it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(x)                                                                                                       \
	do {                                                                                                           \
		if (!(x)) {                                                                                            \
			printf("line %d: %s: %s\n", __LINE__, #x, strerror(errno));                                    \
			fflush(stdout);                                                                                \
			_exit(1);                                                                                      \
		}                                                                                                      \
	} while (0)

enum { PAGE = 4096 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static char *source, *target; /* for transfers, not shared */
static struct ibv_mr *source_mr, *target_mr;

static char *map(size_t size)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED);
	return p;
}

static struct ibv_mr *reg(void *p, size_t size)
{
	return ibv_reg_mr(pd, p, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
}

static void fill(char *p, size_t size, int seed)
{
	for (size_t i = 0; i < size; i++)
		p[i] = i * 7 + i / 251 + seed;
}

static int has(const char *p, size_t size, int seed)
{
	for (size_t i = 0; i < size; i++)
		if (p[i] != (char)(i * 7 + i / 251 + seed))
			return 0;
	return 1;
}

static enum ibv_wc_status transfer(enum ibv_wr_opcode opcode, char *own, struct ibv_mr *m, struct ibv_mr *to,
				   size_t size)
{
	struct ibv_sge sge = {(uintptr_t)own, size, m->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED}, *bad;
	wr.wr.rdma.remote_addr = (uintptr_t)to->addr;
	wr.wr.rdma.rkey = to->rkey;
	CHECK(!ibv_post_send(qp, &wr, &bad));
	struct ibv_wc wc;
	int n;
	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		sched_yield();
	CHECK(n == 1);
	return wc.status;
}

/* works checks that the region is the memory: RDMA WRITEs and READs of at most a page. It changes the memory. */
static void works(char *p, struct ibv_mr *m, size_t size, int seed)
{
	size = size < PAGE ? size : PAGE;
	fill(source, size, seed + 1);
	CHECK(transfer(IBV_WR_RDMA_WRITE, source, source_mr, m, size) == IBV_WC_SUCCESS);
	CHECK(has(p, size, seed + 1));
	fill(p, size, seed + 2);
	CHECK(transfer(IBV_WR_RDMA_READ, target, target_mr, m, size) == IBV_WC_SUCCESS);
	CHECK(has(target, size, seed + 2));
}

/* open_device opens the first device. */
static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	CHECK(list && list[0] && (context = ibv_open_device(list[0])));
	ibv_free_device_list(list);
	CHECK(pd = ibv_alloc_pd(context));
}

/* connect_loop connects a QP to itself, and registers memory for transfers. */
static void connect_loop(void)
{
	CHECK(cq = ibv_create_cq(context, 16, NULL, NULL, 0));
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	CHECK(qp = ibv_create_qp(pd, &init));
	union ibv_gid gid;
	CHECK(!ibv_query_gid(context, 1, 0, &gid));
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
				.port_num = 1,
				.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
				 .path_mtu = IBV_MTU_1024,
				 .dest_qp_num = qp->qp_num,
				 .max_dest_rd_atomic = 1,
				 .min_rnr_timer = 12,
				 .ah_attr = {.grh = {.dgid = gid, .hop_limit = 64}, .is_global = 1, .port_num = 1}};
	CHECK(!ibv_modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	CHECK(!ibv_modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				     IBV_QP_MAX_QP_RD_ATOMIC));
	source = map(2 * PAGE) + 8; /* not whole pages */
	target = map(2 * PAGE) + 8;
	CHECK(source_mr = reg(source, PAGE));
	CHECK(target_mr = reg(target, PAGE));
}
