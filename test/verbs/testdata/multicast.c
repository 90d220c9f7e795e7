/*
 * Sends datagrams to a group to which two QPs are attached by libibverbs alone, and detaches one of them.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(x)                                                                                                       \
	do {                                                                                                           \
		if (!(x)) {                                                                                            \
			printf("line %d: %s\n", __LINE__, #x);                                                         \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

enum { GRH = 40, SIZE = 4096, QKEY = 0x1234, MULTICAST_QPN = 0xffffff };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static char *memory;

/* A member is a QP with a queue and memory of its own. */
struct member {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	char *memory;
};

static void post_receive(struct member *m)
{
	struct ibv_sge sge = {(uintptr_t)m->memory, SIZE, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	CHECK(ibv_post_recv(m->qp, &wr, &bad) == 0);
}

static void create(struct member *m, char *at)
{
	m->memory = at;
	CHECK(m->cq = ibv_create_cq(context, 16, NULL, NULL, 0));
	struct ibv_qp_init_attr init = {.send_cq = m->cq, .recv_cq = m->cq, .cap = {8, 8, 1, 1}, .qp_type = IBV_QPT_UD};
	CHECK(m->qp = ibv_create_qp(pd, &init));
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
	CHECK(ibv_modify_qp(m->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
	a.qp_state = IBV_QPS_RTR;
	CHECK(ibv_modify_qp(m->qp, &a, IBV_QP_STATE) == 0);
	a.qp_state = IBV_QPS_RTS;
	CHECK(ibv_modify_qp(m->qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
	post_receive(m);
}

/* await returns the next completion of a queue. */
static struct ibv_wc await(struct member *m)
{
	struct ibv_wc wc;
	int n;
	while ((n = ibv_poll_cq(m->cq, 1, &wc)) == 0)
		;
	CHECK(n == 1 && wc.status == IBV_WC_SUCCESS);
	return wc;
}

/* transmit sends a datagram and awaits its completion. */
static void transmit(struct member *from, struct ibv_ah *to, uint32_t qpn, const char *text)
{
	strcpy(from->memory, text);
	struct ibv_sge sge = {(uintptr_t)from->memory, strlen(text) + 1, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	wr.wr.ud.ah = to;
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = QKEY;
	CHECK(ibv_post_send(from->qp, &wr, &bad) == 0);
	CHECK(await(from).opcode == IBV_WC_SEND);
}

/* expect awaits a datagram and posts the next receive. */
static void expect(struct member *m, const char *text)
{
	struct ibv_wc wc = await(m);
	CHECK(wc.opcode == IBV_WC_RECV && wc.wc_flags & IBV_WC_GRH && wc.byte_len == GRH + strlen(text) + 1);
	CHECK(strcmp(m->memory + GRH, text) == 0);
	post_receive(m);
}

static struct ibv_ah *address(const union ibv_gid *to)
{
	struct ibv_ah_attr a = {.is_global = 1, .port_num = 1};
	a.grh.dgid = *to;
	a.grh.hop_limit = 4;
	struct ibv_ah *ah = ibv_create_ah(pd, &a);
	CHECK(ah);
	return ah;
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	CHECK(list && list[0] && (context = ibv_open_device(list[0])));
	CHECK(pd = ibv_alloc_pd(context));
	CHECK(posix_memalign((void **)&memory, SIZE, 3 * SIZE) == 0);
	CHECK(mr = ibv_reg_mr(pd, memory, 3 * SIZE, IBV_ACCESS_LOCAL_WRITE));
	struct member sender, first, second;
	create(&first, memory);
	create(&second, memory + SIZE);
	create(&sender, memory + 2 * SIZE);
	union ibv_gid own, group = {.raw = {[10] = 0xff, 0xff, 239, 1, 2, 3}};
	CHECK(ibv_query_gid(context, 1, 0, &own) == 0);
	struct ibv_ah *to_group = address(&group), *to_port = address(&own);
	CHECK(ibv_attach_mcast(first.qp, &group, 0xc001) == 0 && ibv_attach_mcast(second.qp, &group, 0xc001) == 0);
	transmit(&sender, to_group, MULTICAST_QPN, "for both");
	expect(&first, "for both");
	expect(&second, "for both");
	CHECK(ibv_detach_mcast(second.qp, &group, 0xc001) == 0);
	transmit(&sender, to_group, MULTICAST_QPN, "for the first");
	expect(&first, "for the first");
	transmit(&sender, to_port, second.qp->qp_num, "for the second"); /* after the one that it did not get */
	expect(&second, "for the second");
	CHECK(ibv_detach_mcast(first.qp, &group, 0xc001) == 0);
	puts("success");
	return 0;
}
