/*
 * A verbs program that uses what the device reports that it has, and tries what it does not report.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <net/ethernet.h>
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
/* FAILS checks that a call that returns NULL fails, for the reason that the machine cannot do it. */
#define FAILS(x)                                                                                                       \
	do {                                                                                                           \
		errno = 0;                                                                                             \
		CHECK(!(x) && (errno == EOPNOTSUPP || errno == EINVAL || errno == EPROTONOSUPPORT));                   \
	} while (0)

enum { SIZE = 4096, ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE };

static struct ibv_context *context;
static struct ibv_device_attr_ex attr;
static struct ibv_port_attr port;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static union ibv_gid gid;
static char *buffer;

static struct ibv_qp *create(enum ibv_qp_type type, struct ibv_srq *srq, struct ibv_qp_cap cap)
{
	struct ibv_qp_init_attr a = {.send_cq = cq, .recv_cq = cq, .srq = srq, .cap = cap, .qp_type = type};
	return ibv_create_qp(pd, &a);
}

static int modify(struct ibv_qp *qp, int state, int more, struct ibv_qp_attr a)
{
	a.qp_state = state;
	return ibv_modify_qp(qp, &a, IBV_QP_STATE | more);
}

static struct ibv_ah_attr address(void)
{
	return (struct ibv_ah_attr){.grh = {.dgid = gid, .hop_limit = 64}, .is_global = 1, .port_num = 1};
}

/* start connects a QP with itself. */
static void start(struct ibv_qp *qp)
{
	CHECK(!modify(qp, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		      (struct ibv_qp_attr){.port_num = 1, .qp_access_flags = ALL | IBV_ACCESS_REMOTE_ATOMIC}));
	CHECK(!modify(qp, IBV_QPS_RTR,
		      IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			      IBV_QP_MIN_RNR_TIMER,
		      (struct ibv_qp_attr){.path_mtu = port.active_mtu,
					   .dest_qp_num = qp->qp_num,
					   .max_dest_rd_atomic = attr.orig_attr.max_qp_rd_atom,
					   .min_rnr_timer = 1,
					   .ah_attr = address()}));
	CHECK(!modify(qp, IBV_QPS_RTS,
		      IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC |
			      IBV_QP_CUR_STATE,
		      (struct ibv_qp_attr){.cur_qp_state = IBV_QPS_RTR,
					   .timeout = 14,
					   .retry_cnt = 7,
					   .rnr_retry = 7,
					   .max_rd_atomic = attr.orig_attr.max_qp_init_rd_atom}));
}

static void expect(uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc;
	int n;
	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	CHECK(n == 1 && wc.wr_id == id);
	CHECK(wc.status == status);
}

/* flags checks that each flag is known here, and is used below or by another program of these tests. */
static void flags(void)
{
	const unsigned int known = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR | IBV_DEVICE_AUTO_PATH_MIG |
				   IBV_DEVICE_UD_AV_PORT_ENFORCE | IBV_DEVICE_CURR_QP_STATE_MOD |
				   IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
				   IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	/* of Linux's ib_user_verbs.h; rdma-core's own tests use them */
	const uint64_t flush_global = 1ULL << 38, atomic_write = 1ULL << 40;
	CHECK(attr.orig_attr.device_cap_flags == known);
	CHECK(attr.device_cap_flags_ex == (known | flush_global | atomic_write));
	CHECK(attr.orig_attr.sys_image_guid && attr.orig_attr.atomic_cap == IBV_ATOMIC_HCA);
}

/* sizes creates objects of the sizes that the device reports, and of one more. */
static void sizes(void)
{
	const struct ibv_device_attr *d = &attr.orig_attr;
	struct ibv_qp_cap cap = {d->max_qp_wr, d->max_qp_wr, 1, 1, 0}, wide = {1, 1, d->max_sge, d->max_sge, 0};
	struct ibv_qp *qp;
	struct ibv_cq *c;
	CHECK((qp = create(IBV_QPT_RC, NULL, cap)) && !ibv_destroy_qp(qp));
	cap.max_send_wr++;
	FAILS(create(IBV_QPT_RC, NULL, cap));
	CHECK((qp = create(IBV_QPT_UD, NULL, wide)) && !ibv_destroy_qp(qp));
	wide.max_recv_sge++;
	FAILS(create(IBV_QPT_UD, NULL, wide));
	CHECK((c = ibv_create_cq(context, d->max_cqe, NULL, NULL, 0)) && !ibv_destroy_cq(c));
	FAILS(ibv_create_cq(context, d->max_cqe + 1, NULL, NULL, 0));
	for (int v = 0; v < context->num_comp_vectors; v++)
		CHECK((c = ibv_create_cq(context, 1, NULL, NULL, v)) && !ibv_destroy_cq(c));
	FAILS(ibv_create_cq(context, 1, NULL, NULL, context->num_comp_vectors));

	struct ibv_srq_init_attr s = {.attr = {.max_wr = d->max_srq_wr, .max_sge = d->max_srq_sge}};
	struct ibv_srq *srq = ibv_create_srq(pd, &s);
	CHECK(srq && !ibv_destroy_srq(srq));
	s.attr.max_sge++;
	FAILS(ibv_create_srq(pd, &s));
	CHECK(port.gid_tbl_len > 0 && !ibv_query_gid(context, 1, port.gid_tbl_len - 1, &gid));
	__be16 pkey;
	CHECK(!ibv_query_pkey(context, 1, port.pkey_tbl_len - 1, &pkey) && pkey);
}

/* resizes changes the sizes of queues that are in use. */
static void resizes(void)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 10, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	struct ibv_qp *qp = create(IBV_QPT_RC, srq, (struct ibv_qp_cap){10, 0, 1, 0, 0});
	struct ibv_sge s = {(uintptr_t)buffer, 8, mr->lkey};
	struct ibv_recv_wr *bad_recv, recv = {.wr_id = 1, .sg_list = &s, .num_sge = 1};
	struct ibv_send_wr *bad, send = {.wr_id = 9, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND};
	CHECK(srq && qp);
	start(qp);
	CHECK(!ibv_post_srq_recv(srq, &recv, &bad_recv));
	struct ibv_srq_attr a = {.max_wr = 100};
	CHECK(!ibv_modify_srq(srq, &a, IBV_SRQ_MAX_WR) && !ibv_query_srq(srq, &a) && a.max_wr >= 100);
	for (int i = 2; i <= 100; i++) {
		recv.wr_id = i;
		CHECK(!ibv_post_srq_recv(srq, &recv, &bad_recv));
	}
	CHECK(!ibv_resize_cq(cq, 500) && cq->cqe >= 500);
	for (int i = 1; i <= 100; i++) {
		CHECK(!ibv_post_send(qp, &send, &bad));
		expect(i, IBV_WC_SUCCESS);
	}
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_srq(srq));
}

/* windows binds a window of each type. */
static void windows(struct ibv_qp *qp)
{
	struct ibv_mw *one = ibv_alloc_mw(pd, IBV_MW_TYPE_1), *two = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	CHECK(one && two);
	struct ibv_mw_bind_info info = {mr, (uintptr_t)buffer, 64, IBV_ACCESS_REMOTE_READ};
	struct ibv_mw_bind bind = {.wr_id = 1, .send_flags = IBV_SEND_SIGNALED, .bind_info = info};
	CHECK(!ibv_bind_mw(qp, one, &bind));
	expect(1, IBV_WC_SUCCESS);
	struct ibv_send_wr *bad, w = {.wr_id = 2,
				      .opcode = IBV_WR_BIND_MW,
				      .send_flags = IBV_SEND_SIGNALED,
				      .bind_mw = {two, ibv_inc_rkey(two->rkey), info}};
	CHECK(!ibv_post_send(qp, &w, &bad));
	expect(2, IBV_WC_SUCCESS);
	CHECK(!ibv_dealloc_mw(one) && !ibv_dealloc_mw(two));
}

/* atomics executes an atomic, which is atomic for all that the adapter does. */
static void atomics(struct ibv_qp *qp)
{
	uint64_t *counter = (uint64_t *)buffer + 8;
	struct ibv_sge s = {(uintptr_t)buffer, 8, mr->lkey};
	struct ibv_send_wr *bad, w = {.wr_id = 3,
				      .sg_list = &s,
				      .num_sge = 1,
				      .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				      .send_flags = IBV_SEND_SIGNALED,
				      .wr.atomic = {(uintptr_t)counter, 5, 0, mr->rkey}};
	*counter = 37;
	CHECK(!ibv_post_send(qp, &w, &bad));
	expect(3, IBV_WC_SUCCESS);
	CHECK(*counter == 42 && *(uint64_t *)buffer == 37);
}

/* migration gives a connection an alternate path, and migrates to it. */
static void migration(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {.alt_ah_attr = address(), .alt_port_num = 1, .path_mig_state = IBV_MIG_REARM};
	struct ibv_qp_init_attr init;
	a.alt_ah_attr.grh.hop_limit = 3;
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE));
	a.path_mig_state = IBV_MIG_MIGRATED;
	do { /* it is armed when the peer, which is the same QP, has sent a packet */
		atomics(qp);
		CHECK(!ibv_query_qp(qp, &a, IBV_QP_PATH_MIG_STATE, &init));
	} while (a.path_mig_state != IBV_MIG_ARMED);
	a.path_mig_state = IBV_MIG_MIGRATED;
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_PATH_MIG_STATE));
	CHECK(!ibv_query_qp(qp, &a, IBV_QP_AV, &init) && a.ah_attr.grh.hop_limit == 3);
	atomics(qp);
}

/* missing tries what the device does not report. */
static void missing(struct ibv_qp *qp)
{
	CHECK(!attr.odp_caps.general_caps && !attr.odp_caps.per_transport_caps.rc_odp_caps);
	FAILS(ibv_reg_mr(pd, buffer, SIZE, ALL | IBV_ACCESS_ON_DEMAND));
	CHECK(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 0));

	CHECK(!attr.completion_timestamp_mask && !attr.hca_core_clock);
	struct ibv_cq_init_attr_ex c = {.cqe = 1, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
	FAILS(ibv_create_cq_ex(context, &c));

	CHECK(!attr.rss_caps.max_rwq_indirection_tables && !attr.max_wq_type_rq && !attr.tso_caps.max_tso);
	struct ibv_wq_init_attr wq = {.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = pd, .cq = cq};
	FAILS(ibv_create_wq(context, &wq));

	CHECK(!attr.raw_packet_caps && !attr.orig_attr.max_raw_ethy_qp && !attr.orig_attr.max_raw_ipv6_qp);
	struct ibv_qp *raw = create(IBV_QPT_RAW_PACKET, NULL, (struct ibv_qp_cap){1, 1, 1, 1, 0});
	CHECK(!raw);

	CHECK(!attr.tm_caps.max_num_tags && !attr.tm_caps.flags && !attr.packet_pacing_caps.qp_rate_limit_max);
	CHECK(!(attr.orig_attr.device_cap_flags & IBV_DEVICE_XRC));
	struct ibv_xrcd_init_attr x = {IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, -1, 0};
	FAILS(ibv_open_xrcd(context, &x));

	CHECK(!attr.max_dm_size);
	struct ibv_alloc_dm_attr dm = {.length = SIZE};
	FAILS(ibv_alloc_dm(context, &dm));

	CHECK(!attr.cq_mod_caps.max_cq_count && !attr.cq_mod_caps.max_cq_period);
	struct ibv_modify_cq_attr m = {IBV_CQ_ATTR_MODERATE, {1, 1}};
	CHECK(ibv_modify_cq(cq, &m) == EOPNOTSUPP);

	CHECK(!(attr.orig_attr.device_cap_flags & IBV_DEVICE_MANAGED_FLOW_STEERING));
	struct ibv_flow_attr flow = {.size = sizeof flow, .port = 1};
	FAILS(ibv_create_flow(qp, &flow));

	/* Soft-RoCE's library has no other registration of a region. Here, an errno says so, and the region is as it was. */
	errno = 0;
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL) == IBV_REREG_MR_ERR_CMD);
	CHECK(errno == EOPNOTSUPP);
	atomics(qp);
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	CHECK(list && list[0] && (context = ibv_open_device(list[0])));
	CHECK(!ibv_query_device_ex(context, NULL, &attr) && !ibv_query_port(context, 1, &port));
	CHECK((pd = ibv_alloc_pd(context)) && (cq = ibv_create_cq(context, 100, NULL, NULL, 0)));
	CHECK(!ibv_query_gid(context, 1, 0, &gid));
	CHECK(!posix_memalign((void **)&buffer, SIZE, SIZE));
	CHECK(mr = ibv_reg_mr(pd, buffer, SIZE, ALL | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND));
	flags();
	sizes();
	CHECK(!ibv_query_gid(context, 1, 0, &gid));
	resizes();
	struct ibv_qp *qp = create(IBV_QPT_RC, NULL, (struct ibv_qp_cap){4, 4, 1, 1, 0});
	CHECK(qp);
	start(qp);
	windows(qp);
	atomics(qp);
	migration(qp);
	missing(qp);
	struct ibv_ah_attr other = address();
	other.port_num = attr.orig_attr.phys_port_cnt + 1;
	FAILS(ibv_create_ah(pd, &other)); /* as UD_AV_PORT_ENFORCE says */
	puts("success");
	return 0;
}
