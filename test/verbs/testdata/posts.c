/*
 * A verbs program that posts where posts are refused or flushed: requests in states without sends never run, invalid
 * ones end a list at bad_wr, unknown handles are reported, queues in Error flush what is posted later, and a verb finds
 * what was posted before it executed.
 */
#include <errno.h>
#include <infiniband/verbs.h>
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

enum { SIZE = 4096, DEPTH = 15, ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE };
static int depth = DEPTH; /* of new QPs */

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static union ibv_gid gid;
static char *buffer; /* of two pages: what is read or received, and what peers read */

static struct ibv_qp *create(enum ibv_qp_type type, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.cap = {depth, srq ? 0 : depth, 1, srq ? 0 : 1, 0},
		.qp_type = type,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	if (type == IBV_QPT_RC)
		a.send_ops_flags |= IBV_QP_EX_WITH_RDMA_READ;
	struct ibv_qp *qp = ibv_create_qp_ex(context, &a);
	CHECK(qp);
	return qp;
}

static void set_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = {.qp_state = state};
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE));
}

/* advance takes a QP from the state before to the next one of Init, RTR and RTS. */
static void advance(struct ibv_qp *qp, enum ibv_qp_state state, struct ibv_qp *to)
{
	struct ibv_qp_attr a = {.qp_state = state, .port_num = 1, .qp_access_flags = ALL};
	int isRC = qp->qp_type == IBV_QPT_RC, mask = IBV_QP_STATE;
	if (state == IBV_QPS_INIT) {
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | (isRC ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY);
	} else if (state == IBV_QPS_RTR && isRC) {
		a.path_mtu = IBV_MTU_1024;
		a.dest_qp_num = to->qp_num;
		a.max_dest_rd_atomic = 4;
		a.min_rnr_timer = 1;
		a.ah_attr = (struct ibv_ah_attr){.grh = {.dgid = gid, .hop_limit = 64}, .is_global = 1, .port_num = 1};
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			IBV_QP_MIN_RNR_TIMER;
	} else if (state == IBV_QPS_RTS) {
		a.timeout = 14;
		a.retry_cnt = a.rnr_retry = 7;
		a.max_rd_atomic = 4;
		mask |= IBV_QP_SQ_PSN;
		if (isRC)
			mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	}
	CHECK(!ibv_modify_qp(qp, &a, mask));
}

static void start(struct ibv_qp *qp, struct ibv_qp *to)
{
	for (int s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++)
		advance(qp, s, to);
}

/* expect waits for the next completion. */
static void expect(uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc;
	int n;
	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	CHECK(n == 1);
	if (wc.wr_id != id || wc.status != status) {
		printf("completion %d with %s, want %d with %s\n", (int)wc.wr_id, ibv_wc_status_str(wc.status), (int)id,
		       ibv_wc_status_str(status));
		exit(1);
	}
}

/* nothing checks that no completion waits. What could be one was posted before a request that has completed. */
static void nothing(void)
{
	struct ibv_wc wc;
	CHECK(ibv_poll_cq(cq, 1, &wc) == 0);
}

static struct ibv_sge sge(void) { return (struct ibv_sge){(uintptr_t)buffer, 8, mr->lkey}; }

/* post_read posts a READ of the second page into the first one, as one of the list or by ibv_wr_rdma_read. */
static int post_read(struct ibv_qp *qp, uint64_t id, int is_extended)
{
	struct ibv_sge s = sge();
	uintptr_t from = (uintptr_t)buffer + SIZE;
	if (is_extended) {
		struct ibv_qp_ex *x = ibv_qp_to_qp_ex(qp);
		ibv_wr_start(x);
		x->wr_id = id;
		x->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_read(x, mr->rkey, from);
		ibv_wr_set_sge(x, s.lkey, s.addr, s.length);
		return ibv_wr_complete(x);
	}
	struct ibv_send_wr *bad, w = {.wr_id = id,
				      .sg_list = &s,
				      .num_sge = 1,
				      .opcode = IBV_WR_RDMA_READ,
				      .send_flags = IBV_SEND_SIGNALED,
				      .wr.rdma = {from, mr->rkey}};
	return ibv_post_send(qp, &w, &bad);
}

static int post_recv(struct ibv_qp *qp, uint64_t id)
{
	struct ibv_sge s = sge();
	struct ibv_recv_wr *bad, w = {.wr_id = id, .sg_list = &s, .num_sge = 1};
	return ibv_post_recv(qp, &w, &bad);
}

/* refused posts more READs than the queue has room for before the QP can send, and one afterwards. */
static void refused(enum ibv_qp_state last, int is_extended)
{
	struct ibv_qp *a = create(IBV_QPT_RC, NULL), *b = create(IBV_QPT_RC, NULL);
	start(b, a);
	for (int again = 0; again < 2; again++) {
		memset(buffer, 0, SIZE);
		memset(buffer + SIZE, 'x', SIZE);
		for (int s = IBV_QPS_RESET; s <= IBV_QPS_RTS; s++) {
			if (s > IBV_QPS_RESET)
				advance(a, s, b);
			for (int i = 0; s == last && i < 3 * DEPTH; i++)
				CHECK(post_read(a, 100, is_extended) == EINVAL);
		}
		CHECK(buffer[0] == 0);
		for (int i = 0; i < DEPTH; i++)
			CHECK(!post_read(a, i, is_extended));
		for (int i = 0; i < DEPTH; i++)
			expect(i, IBV_WC_SUCCESS);
		nothing();
		CHECK(buffer[0] == 'x');
		set_state(a, IBV_QPS_RESET);
		set_state(b, IBV_QPS_RESET);
		start(b, a);
	}
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b));
}

/* invalid posts lists in which one request has too many segments. */
static void invalid(void)
{
	struct ibv_qp *a = create(IBV_QPT_RC, NULL), *b = create(IBV_QPT_RC, NULL);
	struct ibv_sge two[2] = {sge(), sge()};
	struct ibv_send_wr w[3], *bad;
	start(a, b);
	start(b, a);
	for (int at = 0; at < 3; at++) {
		for (int i = 0; i < 3; i++)
			w[i] = (struct ibv_send_wr){.wr_id = i,
						    .next = i < 2 ? &w[i + 1] : NULL,
						    .sg_list = two,
						    .num_sge = i == at ? 2 : 1,
						    .opcode = IBV_WR_RDMA_READ,
						    .send_flags = IBV_SEND_SIGNALED,
						    .wr.rdma = {(uintptr_t)buffer + SIZE, mr->rkey}};
		CHECK(ibv_post_send(a, w, &bad) == EINVAL && bad == &w[at]);
		for (int i = 0; i < at; i++)
			expect(i, IBV_WC_SUCCESS);
		CHECK(!post_read(a, 7, 0));
		expect(7, IBV_WC_SUCCESS);
	}
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(a);
	for (int abort = 0; abort < 2; abort++) {
		ibv_wr_start(x);
		x->wr_id = 8;
		x->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_read(x, mr->rkey, (uintptr_t)buffer + SIZE);
		ibv_wr_set_sge_list(x, 1, two);
		ibv_wr_rdma_read(x, mr->rkey, (uintptr_t)buffer + SIZE);
		ibv_wr_set_sge_list(x, abort ? 1 : 2, two);
		if (abort)
			ibv_wr_abort(x);
		else
			CHECK(ibv_wr_complete(x));
		CHECK(!post_read(a, 9, 1));
		expect(9, IBV_WC_SUCCESS);
	}
	/* An operation that no adapter has is refused or fails, and ends the connection. */
	w[0].opcode = 77;
	w[0].num_sge = 1;
	w[0].next = NULL;
	CHECK(!ibv_post_send(a, w, &bad));
	expect(0, IBV_WC_LOC_QP_OP_ERR);
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b));
}

/* receives posts lists of receives, of a QP and of an SRQ, in which one has too many segments. */
static void receives(int is_shared)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = DEPTH, .max_sge = 1}};
	struct ibv_srq *srq = is_shared ? ibv_create_srq(pd, &init) : NULL;
	struct ibv_qp *a = create(IBV_QPT_RC, NULL), *b = create(IBV_QPT_RC, srq);
	struct ibv_sge two[2] = {sge(), sge()};
	struct ibv_recv_wr w[3], *bad;
	CHECK(!is_shared || srq);
	CHECK(post_recv(b, 50) == EINVAL); /* in Reset, or beside the SRQ */
	start(a, b);
	start(b, a);
	for (int i = 0; i < 3; i++)
		w[i] = (struct ibv_recv_wr){
			.wr_id = i, .next = i < 2 ? &w[i + 1] : NULL, .sg_list = two, .num_sge = i == 1 ? 2 : 1};
	CHECK((is_shared ? ibv_post_srq_recv(srq, w, &bad) : ibv_post_recv(b, w, &bad)) == EINVAL && bad == &w[1]);
	w[0].wr_id = 60;
	w[0].next = NULL;
	CHECK(!(is_shared ? ibv_post_srq_recv(srq, w, &bad) : ibv_post_recv(b, w, &bad)));
	struct ibv_sge s = sge();
	struct ibv_send_wr *bad_send, send = {.sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND};
	for (int i = 0; i < 2; i++) {
		CHECK(!ibv_post_send(a, &send, &bad_send));
		expect(i ? 60 : 0, IBV_WC_SUCCESS);
	}
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && (!is_shared || !ibv_destroy_srq(srq)));
}

/* handles uses objects whose handles are unknown, or are those of other objects. */
static void handles(void)
{
	struct ibv_qp *a = create(IBV_QPT_RC, NULL);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	struct ibv_ah_attr address = {.grh = {.dgid = gid, .hop_limit = 64}, .is_global = 1, .port_num = 1};
	start(a, a);
	CHECK(mw);
	for (int is_other = 0; is_other < 2; is_other++) {
		int want = is_other ? EINVAL : ENOENT;
		uint32_t handle = a->handle, wrong = is_other ? cq->handle : 0xdeadbeef;
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
		struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
		struct ibv_mw_bind bind = {.bind_info = {.mr = mr, .addr = (uintptr_t)buffer, .length = 8}};
		a->handle = wrong;
		CHECK(post_read(a, 1, 0) == want);
		CHECK(post_read(a, 1, 1) == want);
		uint32_t rkey = mw->rkey;
		CHECK(ibv_bind_mw(a, mw, &bind) == want);
		CHECK(mw->rkey == rkey);
		CHECK(ibv_query_qp(a, &attr, IBV_QP_STATE, &init) == want);
		attr.qp_state = IBV_QPS_ERR;
		CHECK(ibv_modify_qp(a, &attr, IBV_QP_STATE) == want);
		CHECK(ibv_attach_mcast(a, &gid, 0) == want && ibv_detach_mcast(a, &gid, 0) == want);
		CHECK(ibv_destroy_qp(a) == want);
		a->handle = handle;

		handle = pd->handle;
		pd->handle = wrong;
		CHECK(!ibv_reg_mr(pd, buffer, SIZE, 0) && errno == want);
		CHECK(!ibv_alloc_mw(pd, IBV_MW_TYPE_1) && errno == want);
		CHECK(!ibv_create_ah(pd, &address) && errno == want);
		CHECK(!ibv_create_qp(pd, &init) && errno == want);
		CHECK(ibv_dealloc_pd(pd) == want);
		pd->handle = handle;

		handle = cq->handle;
		cq->handle = is_other ? pd->handle : wrong;
		CHECK(!ibv_create_qp(pd, &init) && errno == want);
		CHECK(ibv_resize_cq(cq, 100) == want && ibv_req_notify_cq(cq, 0) == want);
		cq->handle = handle;
	}
	CHECK(!ibv_dealloc_mw(mw) && !ibv_destroy_qp(a));
}

/* flushed_by_event waits for a receive that was posted in Error by the channel. */
static void flushed_by_event(struct ibv_qp *qp, uint64_t id)
{
	struct ibv_cq *from;
	void *with;
	CHECK(!ibv_req_notify_cq(cq, 0));
	CHECK(!post_recv(qp, id));
	CHECK(!ibv_get_cq_event(channel, &from, &with) && from == cq);
	ibv_ack_cq_events(cq, 1);
	expect(id, IBV_WC_WR_FLUSH_ERR);
}

/* errors posts to QPs in Error, which the program or a failed request has taken there. */
static void errors(int is_failure)
{
	struct ibv_qp *a = create(IBV_QPT_RC, NULL), *b = create(IBV_QPT_RC, NULL);
	start(a, b);
	start(b, a);
	CHECK(!post_recv(b, 1) && !post_recv(b, 2));
	if (is_failure) {
		struct ibv_sge s = {(uintptr_t)buffer, 8, mr->lkey + 1};
		struct ibv_send_wr *bad, w = {.wr_id = 3, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND};
		CHECK(!ibv_post_send(b, &w, &bad));
		expect(3, IBV_WC_LOC_PROT_ERR);
	} else {
		set_state(b, IBV_QPS_ERR);
	}
	expect(1, IBV_WC_WR_FLUSH_ERR);
	expect(2, IBV_WC_WR_FLUSH_ERR);
	for (int i = 10; i < 20; i++) {
		CHECK(!post_recv(b, i));
		expect(i, IBV_WC_WR_FLUSH_ERR);
		CHECK(!post_read(b, 100 + i, i % 2));
		expect(100 + i, IBV_WC_WR_FLUSH_ERR);
		flushed_by_event(b, 200 + i);
	}
	for (int i = 0; i < DEPTH; i++)
		CHECK(!post_recv(b, i));
	for (int i = 0; i < DEPTH; i++)
		expect(i, IBV_WC_WR_FLUSH_ERR);
	set_state(b, IBV_QPS_RESET);
	advance(b, IBV_QPS_INIT, a);
	CHECK(!post_recv(b, 30)); /* in Init, it waits */
	set_state(b, IBV_QPS_ERR);
	expect(30, IBV_WC_WR_FLUSH_ERR);
	nothing();
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b));
}

/* shared checks that receives of an SRQ are not flushed with a QP, which flushes its sends. */
static void shared(void)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = DEPTH, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	struct ibv_qp *b = create(IBV_QPT_RC, srq);
	struct ibv_sge s = sge();
	struct ibv_recv_wr *bad, w = {.wr_id = 5, .sg_list = &s, .num_sge = 1};
	start(b, b);
	set_state(b, IBV_QPS_ERR);
	CHECK(!ibv_post_srq_recv(srq, &w, &bad));
	CHECK(!post_read(b, 6, 0));
	expect(6, IBV_WC_WR_FLUSH_ERR);
	nothing();
	CHECK(!ibv_destroy_qp(b) && !ibv_destroy_srq(srq));
}

/* drained posts to a QP in SQD, which sends in RTS what was posted, and to one whose send queue is in error. */
static void drained(void)
{
	struct ibv_qp *a = create(IBV_QPT_RC, NULL), *b = create(IBV_QPT_RC, NULL), *d = create(IBV_QPT_UD, NULL);
	start(a, b);
	start(b, a);
	set_state(a, IBV_QPS_SQD);
	CHECK(!post_read(a, 1, 0) && !post_read(a, 2, 1));
	CHECK(!post_read(b, 3, 0));
	expect(3, IBV_WC_SUCCESS);
	nothing();
	set_state(a, IBV_QPS_RTS);
	expect(1, IBV_WC_SUCCESS);
	expect(2, IBV_WC_SUCCESS);

	start(d, d);
	struct ibv_ah_attr address = {.grh = {.dgid = gid, .hop_limit = 64}, .is_global = 1, .port_num = 1};
	struct ibv_ah *ah = ibv_create_ah(pd, &address);
	struct ibv_sge s = {(uintptr_t)buffer, 8, mr->lkey + 1};
	struct ibv_send_wr *bad, w = {.wr_id = 4,
				      .sg_list = &s,
				      .num_sge = 1,
				      .opcode = IBV_WR_SEND,
				      .wr.ud = {ah, d->qp_num, 0}};
	CHECK(ah && !post_recv(d, 9));
	CHECK(!ibv_post_send(d, &w, &bad));
	expect(4, IBV_WC_LOC_PROT_ERR);
	w.wr_id = 5;
	CHECK(!ibv_post_send(d, &w, &bad));
	expect(5, IBV_WC_WR_FLUSH_ERR);
	nothing();
	set_state(d, IBV_QPS_ERR);
	expect(9, IBV_WC_WR_FLUSH_ERR);
	CHECK(!ibv_destroy_ah(ah) && !ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_qp(d));
}

/*
 * settled calls a verb right after posts: datagrams that were posted before have left, and their completions count. In
 * Linux, ibv_post_send executes them (rxe_post_send), until 6.3 all of them.
 */
static void settled(int rounds, unsigned int posts)
{
	enum { RESIZE, NO_ADDRESS, NO_MEMORY, RESET, FAILED, NO_QP, NUM_VERBS };
	struct ibv_ah_attr address = {.grh = {.dgid = gid, .hop_limit = 64}, .is_global = 1, .port_num = 1};
	depth = posts;
	struct ibv_qp *to = create(IBV_QPT_UD, NULL);
	struct ibv_cq *common = cq;
	start(to, to);
	for (int i = 0; i < rounds * NUM_VERBS; i++) {
		int verb = i % NUM_VERBS, is_kept = verb == RESIZE || verb == NO_ADDRESS || verb == NO_MEMORY;
		struct ibv_cq *own = cq = ibv_create_cq(context, posts, NULL, NULL, 0);
		CHECK(own);
		struct ibv_qp *from = create(IBV_QPT_UD, NULL);
		struct ibv_ah *ah = ibv_create_ah(pd, &address);
		struct ibv_mr *source = ibv_reg_mr(pd, buffer + SIZE, 8, 0);
		CHECK(ah && source);
		start(from, to);
		struct ibv_sge in = {(uintptr_t)buffer, 64, mr->lkey}, out = {(uintptr_t)buffer + SIZE, 8, source->lkey};
		struct ibv_recv_wr *bad_recv, r = {.sg_list = &in, .num_sge = 1};
		struct ibv_send_wr *bad, w = {.sg_list = &out,
					      .num_sge = 1,
					      .opcode = IBV_WR_SEND,
					      .send_flags = IBV_SEND_SIGNALED,
					      .wr.ud = {ah, to->qp_num, 0}};
		for (r.wr_id = 0; r.wr_id < posts; r.wr_id++)
			CHECK(!ibv_post_recv(to, &r, &bad_recv));
		for (w.wr_id = 0; w.wr_id < posts; w.wr_id++)
			CHECK(!ibv_post_send(from, &w, &bad));
		switch (verb) {
		case RESIZE:
			CHECK(ibv_resize_cq(own, posts - 1) == EINVAL);
			CHECK(!ibv_resize_cq(own, posts));
			break;
		case NO_ADDRESS: CHECK(!ibv_destroy_ah(ah)); break;
		case NO_MEMORY: CHECK(!ibv_dereg_mr(source)); break;
		case RESET: set_state(from, IBV_QPS_RESET); break;
		case FAILED: set_state(from, IBV_QPS_ERR); break;
		case NO_QP: CHECK(!ibv_destroy_qp(from)); break;
		}
		for (unsigned int k = 0; k < posts && is_kept; k++)
			expect(k, IBV_WC_SUCCESS);
		cq = common;
		for (unsigned int k = 0; k < posts; k++)
			expect(k, IBV_WC_SUCCESS);
		CHECK(verb == NO_QP || !ibv_destroy_qp(from));
		CHECK(verb == NO_ADDRESS || !ibv_destroy_ah(ah));
		CHECK(verb == NO_MEMORY || !ibv_dereg_mr(source));
		CHECK(!ibv_destroy_cq(own));
	}
	CHECK(!ibv_destroy_qp(to));
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	CHECK(list && list[0] && (context = ibv_open_device(list[0])));
	CHECK((pd = ibv_alloc_pd(context)) && (channel = ibv_create_comp_channel(context)));
	CHECK(cq = ibv_create_cq(context, 1000, NULL, channel, 0));
	CHECK(!ibv_query_gid(context, 1, 0, &gid));
	CHECK(!posix_memalign((void **)&buffer, SIZE, 2 * SIZE));
	CHECK(mr = ibv_reg_mr(pd, buffer, 2 * SIZE, ALL));
	for (int s = IBV_QPS_RESET; s <= IBV_QPS_RTR; s++) {
		refused(s, 0);
		refused(s, 1);
	}
	invalid();
	receives(0);
	receives(1);
	handles();
	errors(0);
	errors(1);
	shared();
	drained();
	settled(10, 8);
	settled(2, 1000);
	puts("success");
	return 0;
}
