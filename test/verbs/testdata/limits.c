/*
 * A verbs program that uses the limits that the device reports, all in one process: the depths of queues, multicast
 * groups and their members, outstanding READs, and completion channels. With the name of a kind, it creates all objects
 * of that kind instead.
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

static struct ibv_device_attr most;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static struct ibv_qp *create(enum ibv_qp_type type, int depth, int sge)
{
	struct ibv_qp_init_attr a = {
		.send_cq = cq, .recv_cq = cq, .cap = {depth, depth, sge, sge, 0}, .qp_type = type};
	struct ibv_qp *qp = ibv_create_qp(pd, &a);
	CHECK(qp);
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	CHECK(!ibv_modify_qp(qp, &init,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				     (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
	return qp;
}

static void depths(void)
{
	CHECK(cq = ibv_create_cq(context, most.max_cqe, NULL, NULL, 0));
	CHECK(!ibv_create_cq(context, most.max_cqe + 1, NULL, NULL, 0));
	create(IBV_QPT_RC, most.max_qp_wr, most.max_sge);
	struct ibv_srq_init_attr init = {.attr = {1, most.max_srq_sge}};
	struct ibv_srq_attr large = {.max_wr = most.max_srq_wr};
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	CHECK(srq && !ibv_modify_srq(srq, &large, IBV_SRQ_MAX_WR));
	init.attr.max_wr = most.max_srq_wr;
	CHECK(ibv_create_srq(pd, &init));
}

/* groups joins all groups by one QP, and then has as many members in groups as there may be. */
static void groups(void)
{
	int members = most.max_mcast_qp_attach, total = 0;
	struct ibv_qp **qp = calloc(members, sizeof *qp);
	union ibv_gid g = {.raw = {[10] = 0xff, 0xff, 239, 13}};
	for (int i = 0; i < members; i++)
		qp[i] = create(IBV_QPT_UD, 1, 1);
	for (int i = 0; i < members; i++)
		for (int k = 0; k < most.max_mcast_grp && total < most.max_total_mcast_qp_attach; k++, total++) {
			g.raw[14] = k >> 8;
			g.raw[15] = k;
			CHECK(!(errno = ibv_attach_mcast(qp[i], &g, 0)));
		}
	CHECK(total == most.max_total_mcast_qp_attach || total == members * most.max_mcast_grp);
	g.raw[13]++;
	CHECK(ibv_attach_mcast(qp[0], &g, 0));
}

static void reads(void)
{
	struct ibv_qp *qp = create(IBV_QPT_RC, 1, 1);
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR,
				.path_mtu = IBV_MTU_1024,
				.dest_qp_num = qp->qp_num,
				.max_dest_rd_atomic = most.max_qp_rd_atom,
				.min_rnr_timer = 1,
				.ah_attr = {.is_global = 1, .port_num = 1}};
	CHECK(!ibv_query_gid(context, 1, 0, &a.ah_attr.grh.dgid));
	CHECK(!ibv_modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a.qp_state = IBV_QPS_RTS;
	a.max_rd_atomic = most.max_qp_init_rd_atom;
	a.timeout = 14;
	CHECK(!ibv_modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_MAX_QP_RD_ATOMIC));
}

/* channels has a completion channel for each of many connections, as servers do. */
static void channels(void)
{
	for (int i = 0; i < 600; i++) {
		struct ibv_comp_channel *c = ibv_create_comp_channel(context);
		CHECK(c && ibv_create_cq(context, 1, NULL, c, 0));
	}
}

/* count creates as many objects of a kind as there may be, beside the PD and the CQ, and one more. */
static void count(const char *kind)
{
	static char bytes[64];
	struct ibv_qp_init_attr q = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_srq_init_attr s = {.attr = {1, 1}};
	struct ibv_ah_attr a = {.is_global = 1, .port_num = 1};
	CHECK(!ibv_query_gid(context, 1, 0, &a.grh.dgid));
	CHECK(q.send_cq = q.recv_cq = ibv_create_cq(context, 1, NULL, NULL, 0));
	for (int i = 0;; i++) {
		void *o;
		int n;
		if (!strcmp(kind, "qp"))
			n = most.max_qp, o = ibv_create_qp(pd, &q);
		else if (!strcmp(kind, "cq"))
			n = most.max_cq - 1, o = ibv_create_cq(context, 1, NULL, NULL, 0);
		else if (!strcmp(kind, "srq"))
			n = most.max_srq, o = ibv_create_srq(pd, &s);
		else if (!strcmp(kind, "mr"))
			n = most.max_mr, o = ibv_reg_mr(pd, bytes, sizeof bytes, 0);
		else if (!strcmp(kind, "ah"))
			n = most.max_ah, o = ibv_create_ah(pd, &a);
		else if (!strcmp(kind, "mw"))
			n = most.max_mw, o = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
		else
			n = most.max_pd - 1, o = ibv_alloc_pd(context);
		if (!o) {
			printf("%s: %d of %d\n", kind, i, n);
			CHECK(i == n);
			return;
		}
	}
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	CHECK(list && list[0] && (context = ibv_open_device(list[0])));
	CHECK(!ibv_query_device(context, &most));
	CHECK(pd = ibv_alloc_pd(context));
	if (argc > 1) {
		count(argv[1]);
		return 0;
	}
	depths();
	groups();
	reads();
	channels();
	puts("success");
	return 0;
}
