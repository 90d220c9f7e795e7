/*
 * A verbs program that uses the extended interfaces of libibverbs: GID tables, extended CQs with a channel, QPs with
 * the ibv_wr_* functions, memory windows of type 2, and asynchronous events. It connects two QPs of one port.
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(x)                                                                                                       \
	do {                                                                                                           \
		if (!(x)) {                                                                                            \
			printf("line %d: %s: %s\n", __LINE__, #x, strerror(errno));                                    \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

enum { SIZE = 4096, HALF = SIZE / 2 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq_ex *cq;
static struct ibv_comp_channel *channel;
static struct ibv_mr *mr;
static union ibv_gid gid;
static char *buffer;

static void query(void)
{
	struct ibv_gid_entry entry, table[1024];
	ssize_t n = ibv_query_gid_table(context, table, 1024, 0);
	CHECK(n > 0);
	CHECK(ibv_query_gid_ex(context, 1, 0, &entry, 0) == 0);
	CHECK(memcmp(&entry, &table[0], sizeof entry) == 0);
	CHECK(entry.gid_type == IBV_GID_TYPE_ROCE_V2 && entry.port_num == 1);
	CHECK(ibv_query_gid(context, 1, 0, &gid) == 0);
	CHECK(memcmp(&gid, &entry.gid, sizeof gid) == 0);
	CHECK(ibv_query_gid_ex(context, 2, 0, &entry, 0) == EINVAL);
	CHECK(ibv_query_gid_ex(context, 1, 1 << 20, &entry, 0) == EINVAL);
}

static void create_cq(void)
{
	struct ibv_cq_init_attr_ex a = {.cqe = 16, .cq_context = &cq, .comp_vector = 0};
	CHECK(channel = ibv_create_comp_channel(context));
	a.channel = channel;
	a.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
	errno = 0;
	CHECK(!ibv_create_cq_ex(context, &a) && errno == EOPNOTSUPP);
	a.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_SRC_QP;
	a.comp_vector = context->num_comp_vectors;
	CHECK(!ibv_create_cq_ex(context, &a));
	a.comp_vector = context->num_comp_vectors - 1;
	CHECK(cq = ibv_create_cq_ex(context, &a));
}

static struct ibv_qp *create_qp(void)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_context = &pd,
		.send_cq = ibv_cq_ex_to_cq(cq),
		.recv_cq = ibv_cq_ex_to_cq(cq),
		.cap = {8, 8, 2, 2, 64},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
				  IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(context, &a);
	CHECK(qp && ibv_qp_to_qp_ex(qp));
	return qp;
}

static void connect_qp(struct ibv_qp *qp, struct ibv_qp *to)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
				.port_num = 1,
				.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
				 .path_mtu = IBV_MTU_1024,
				 .dest_qp_num = to->qp_num,
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
}

/* expect waits for a completion, by the channel, and checks it. */
static void expect(uint64_t id, enum ibv_wc_status status)
{
	struct ibv_poll_cq_attr a = {0};
	int r;
	while ((r = ibv_start_poll(cq, &a)) == ENOENT) {
		struct ibv_cq *from;
		void *with;
		CHECK(!ibv_req_notify_cq(ibv_cq_ex_to_cq(cq), 0));
		if ((r = ibv_start_poll(cq, &a)) != ENOENT)
			break; /* and the event is acknowledged when the CQ is destroyed */
		CHECK(!ibv_get_cq_event(channel, &from, &with) && from == ibv_cq_ex_to_cq(cq) && with == &cq);
		ibv_ack_cq_events(from, 1);
	}
	CHECK(r == 0);
	if (cq->wr_id != id || cq->status != status) {
		printf("completion %d with %s, want %d with %s\n", (int)cq->wr_id, ibv_wc_status_str(cq->status), (int)id,
		       ibv_wc_status_str(status));
		exit(1);
	}
	if (cq->status == IBV_WC_SUCCESS && ibv_wc_read_opcode(cq) == IBV_WC_RECV_RDMA_WITH_IMM)
		CHECK(ibv_wc_read_imm_data(cq) == 4711 && ibv_wc_read_byte_len(cq) == 100);
	ibv_end_poll(cq);
}

static struct ibv_qp_ex *start(struct ibv_qp *qp, uint64_t id)
{
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(qp);
	ibv_wr_start(x);
	x->wr_id = id;
	x->wr_flags = IBV_SEND_SIGNALED;
	return x;
}

/* transfer sends inline data, writes with immediate data, and adds to a counter. */
static void transfer(struct ibv_qp *a, struct ibv_qp *b)
{
	struct ibv_sge to = {(uintptr_t)buffer + HALF, 64, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &to, .num_sge = 1}, *bad;
	CHECK(!ibv_post_recv(b, &wr, &bad));
	struct ibv_qp_ex *x = start(a, 2);
	ibv_wr_send(x);
	const struct ibv_data_buf pieces[] = {{"hello", 5}, {NULL, 0}, {", ", 2}, {"world", 6}};
	ibv_wr_set_inline_data_list(x, 4, pieces);
	CHECK(!ibv_wr_complete(x));
	expect(1, IBV_WC_SUCCESS);
	expect(2, IBV_WC_SUCCESS);
	CHECK(!strcmp(buffer + HALF, "hello, world"));

	wr = (struct ibv_recv_wr){.wr_id = 3};
	CHECK(!ibv_post_recv(b, &wr, &bad));
	memset(buffer, 7, 100);
	x = start(a, 4);
	ibv_wr_rdma_write_imm(x, mr->rkey, (uintptr_t)buffer + HALF, 4711);
	ibv_wr_set_sge(x, mr->lkey, (uintptr_t)buffer, 100);
	CHECK(!ibv_wr_complete(x));
	expect(3, IBV_WC_SUCCESS);
	expect(4, IBV_WC_SUCCESS);
	CHECK(!memcmp(buffer, buffer + HALF, 100));

	uint64_t *counter = (uint64_t *)(buffer + HALF);
	*counter = 40;
	x = start(a, 5);
	ibv_wr_atomic_fetch_add(x, mr->rkey, (uintptr_t)counter, 2);
	ibv_wr_set_sge(x, mr->lkey, (uintptr_t)buffer, 8);
	CHECK(!ibv_wr_complete(x));
	expect(5, IBV_WC_SUCCESS);
	CHECK(*counter == 42 && *(uint64_t *)buffer == 40);
}

/* too_long sends more inline data than the queue takes. */
static void too_long(struct ibv_qp *a)
{
	const struct ibv_data_buf pieces[] = {{buffer, 600}, {buffer, 600}, {buffer, SIZE_MAX - 100}, {buffer, 101}};
	for (int n = 2; n <= 4; n++) {
		struct ibv_qp_ex *x = start(a, 20);
		x->wr_flags |= IBV_SEND_INLINE;
		ibv_wr_send(x);
		ibv_wr_set_inline_data_list(x, n, pieces);
		CHECK(ibv_wr_complete(x));
	}
}

/* send posts a write. */
static void send(struct ibv_qp *a, uint64_t id)
{
	struct ibv_qp_ex *x = start(a, id);
	ibv_wr_rdma_write(x, mr->rkey, (uintptr_t)buffer + HALF);
	ibv_wr_set_sge(x, mr->lkey, (uintptr_t)buffer, 8);
	CHECK(!ibv_wr_complete(x));
}

/* polls reads completions behind the end of the queue in every order of calls: each is read once. */
static void polls(struct ibv_qp *a)
{
	struct ibv_poll_cq_attr attr = {0};
	uint64_t sent = 30, read = 30;
	for (int way = 0; way < 6; way++) {
		send(a, sent++);
		while (ibv_start_poll(cq, &attr))
			;
		CHECK(cq->wr_id == read++);
		CHECK(ibv_next_poll(cq) == ENOENT);
		if (way & 1)
			CHECK(ibv_next_poll(cq) == ENOENT);
		if (way < 2)
			ibv_end_poll(cq); /* else the poll goes on */
		send(a, sent++);
		send(a, sent++);
		if (way < 2)
			while (ibv_start_poll(cq, &attr))
				;
		else
			while (ibv_next_poll(cq))
				;
		for (;;) {
			CHECK(cq->wr_id == read++ && cq->status == IBV_WC_SUCCESS);
			if (read == sent)
				break;
			while (ibv_next_poll(cq))
				;
		}
		if (way >= 4)
			CHECK(ibv_next_poll(cq) == ENOENT);
		ibv_end_poll(cq);
		CHECK(ibv_start_poll(cq, &attr) == ENOENT);
	}
}

/* window writes by a memory window, by addresses and by offsets, and by the last key after it is invalid, which fails
 * both QPs. */
static void window(struct ibv_qp *a, struct ibv_qp *b)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	CHECK(mw);
	struct ibv_qp_ex *x;
	struct ibv_mw_bind_info info = {
		.mr = mr, .addr = (uintptr_t)buffer + HALF, .length = 256,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE}; // as rdma-core's tests
	for (int based = 0; based < 2; based++) {
		mw->rkey = ibv_inc_rkey(mw->rkey);
		x = start(b, 10);
		ibv_wr_bind_mw(x, mw, mw->rkey, &info);
		CHECK(!ibv_wr_complete(x));
		expect(10, IBV_WC_SUCCESS);
		memset(buffer, 9 - based, 64);
		x = start(a, 11);
		ibv_wr_rdma_write(x, mw->rkey, based ? 0 : info.addr);
		ibv_wr_set_sge(x, mr->lkey, (uintptr_t)buffer, 64);
		CHECK(!ibv_wr_complete(x));
		expect(11, IBV_WC_SUCCESS);
		CHECK(!memcmp(buffer, buffer + HALF, 64));
		x = start(b, 12);
		ibv_wr_local_inv(x, mw->rkey);
		CHECK(!ibv_wr_complete(x));
		expect(12, IBV_WC_SUCCESS);
		info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
	}
	x = start(a, 13);
	ibv_wr_rdma_write(x, mw->rkey, 0);
	ibv_wr_set_sge(x, mr->lkey, (uintptr_t)buffer, 64);
	CHECK(!ibv_wr_complete(x));
	expect(13, IBV_WC_REM_ACCESS_ERR);

	struct ibv_async_event event;
	CHECK(!ibv_get_async_event(context, &event));
	CHECK(event.event_type == IBV_EVENT_QP_ACCESS_ERR && event.element.qp == b);
	ibv_ack_async_event(&event);
	CHECK(!ibv_dealloc_mw(mw));
}

int main(void)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);
	CHECK(list && n == 1);
	CHECK(context = ibv_open_device(list[0]));
	ibv_free_device_list(list);
	query();
	CHECK(pd = ibv_alloc_pd(context));
	CHECK(buffer = aligned_alloc(SIZE, SIZE));
	memset(buffer, 0, SIZE);
	CHECK(mr = ibv_reg_mr(pd, buffer, SIZE,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC |
				      IBV_ACCESS_MW_BIND | IBV_ACCESS_RELAXED_ORDERING));
	struct ibv_sge sge = {(uintptr_t)buffer, SIZE, mr->lkey};
	CHECK(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1) == EOPNOTSUPP);
	create_cq();
	struct ibv_qp *a = create_qp(), *b = create_qp();
	connect_qp(a, b);
	connect_qp(b, a);
	transfer(a, b);
	too_long(a);
	polls(a);
	window(a, b);
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	CHECK(!ibv_destroy_comp_channel(channel) && !ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd));
	CHECK(!ibv_close_device(context));
	puts("success");
	return 0;
}
