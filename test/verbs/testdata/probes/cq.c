/* Probes of completion queues, channels, and shared receive queues. */
#include "probe.h"

static void create(void)
{
	struct ibv_cq *c;
	static const int sizes[] = {0, -1, 1, 2, 3, 4, 63, 64, 100, 32767, 1 << 30};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		MADE(text("%d", sizes[i]), c = ibv_create_cq(context, sizes[i], NULL, NULL, 0));
		if (c) {
			say(text("%d.cqe", sizes[i]), "%d", c->cqe);
			ERROR(text("%d.destroy", sizes[i]), ibv_destroy_cq(c));
		}
	}
	MADE("vector.negative", ibv_create_cq(context, 1, NULL, NULL, -1));
	MADE("vector.last", ibv_create_cq(context, 1, NULL, NULL, context->num_comp_vectors - 1));
	MADE("vector.beyond", ibv_create_cq(context, 1, NULL, NULL, context->num_comp_vectors));
	struct ibv_comp_channel fake = {.context = context, .fd = 0}, none = {.context = context, .fd = 12345};
	MADE("channel.fake", ibv_create_cq(context, 1, NULL, &fake, 0));
	MADE("channel.none", ibv_create_cq(context, 1, NULL, &none, 0));
	fake.fd = context->async_fd;
	MADE("channel.async", ibv_create_cq(context, 1, NULL, &fake, 0));
	fake.fd = context->cmd_fd;
	MADE("channel.cmd", ibv_create_cq(context, 1, NULL, &fake, 0));
	for (int bit = 0; bit < 14; bit++) {
		struct ibv_cq_init_attr_ex a = {.cqe = 4, .wc_flags = 1ull << bit};
		MADE(text("wc_flags.%d", bit), ibv_create_cq_ex(context, &a));
	}
	for (int bit = 0; bit < 4; bit++) {
		struct ibv_cq_init_attr_ex a = {.cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = 1 << bit};
		MADE(text("flags.%d", bit), ibv_create_cq_ex(context, &a));
		a = (struct ibv_cq_init_attr_ex){.cqe = 4, .comp_mask = 1 << bit};
		MADE(text("comp_mask.%d", bit), ibv_create_cq_ex(context, &a));
	}
}

static void resize(void)
{
	struct ibv_cq *c = ibv_create_cq(context, 10, NULL, NULL, 0);
	MUST(c);
	static const int sizes[] = {20, 10, 1, 0, -1, 5, 1 << 30, 1000};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		ERROR(text("%d", sizes[i]), ibv_resize_cq(c, sizes[i]));
		say(text("%d.cqe", sizes[i]), "%d", c->cqe);
	}
	struct ibv_modify_cq_attr m = {.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {4, 100}};
	ERROR("modify", ibv_modify_cq(c, &m));
	m.attr_mask = 0;
	ERROR("modify.none", ibv_modify_cq(c, &m));
	m.attr_mask = 6;
	ERROR("modify.unknown", ibv_modify_cq(c, &m));
	ERROR("notify.no_channel", ibv_req_notify_cq(c, 0));
	/* Smaller than what is in it. */
	struct ibv_qp *qp = new_qp(IBV_QPT_RC);
	struct ibv_recv_wr wr = {0}, *bad;
	MUST(!to_init(qp));
	for (int i = 0; i < 8; i++)
		MUST(!ibv_post_recv(qp, &wr, &bad));
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
	MUST(!ibv_modify_qp(qp, &a, IBV_QP_STATE));
	struct ibv_wc wc;
	MUST(wait_wc(&wc) == 1);
	ERROR("in_use", ibv_destroy_cq(cq));
	MUST(!ibv_destroy_qp(qp));
}

/* few waits for completions, and reduces a CQ that has more than the new size. */
static void few(void)
{
	struct ibv_qp *qp = new_qp(IBV_QPT_RC);
	join(qp, qp);
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad;
	for (int i = 0; i < 8; i++)
		MUST(!ibv_post_send(qp, &wr, &bad));
	struct ibv_wc wc;
	MUST(wait_wc(&wc) == 1);
	settle();
	ERROR("below", ibv_resize_cq(cq, 2));
	say("below.cqe", "%d", cq->cqe);
	int n = 0;
	while (n < 7 && wait_wc(&wc) == 1)
		n++;
	say("rest", "%d", n);
}

static void channel(void)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(context);
	MUST(ch);
	int tag;
	struct ibv_cq *c = ibv_create_cq(context, 16, &tag, ch, 0);
	MUST(c);
	ERROR("destroy.used", ibv_destroy_comp_channel(ch));
	struct ibv_qp_init_attr init = {.send_cq = c, .recv_cq = c, .cap = {8, 8, 1, 1, 0}, .qp_type = IBV_QPT_RC,
					.sq_sig_all = 1};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	MUST(qp);
	join(qp, qp);
	char b[64];
	int events = 0;
	MUST(!fcntl(ch->fd, F_SETFL, O_NONBLOCK));
	ERROR("read.none", read(ch->fd, b, 8) < 0 ? -1 : 0);
	ERROR("read.short", read(ch->fd, b, 4) < 0 ? -1 : 0);
	ERROR("seek", lseek(ch->fd, 0, SEEK_SET) < 0 ? -1 : 0);
	MUST(!ibv_req_notify_cq(c, 0));
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE}, *bad;
	MUST(!ibv_post_send(qp, &wr, &bad));
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};
	say("poll", "%d", poll(&p, 1, 30000));
	say("read.64", "%d", (int)read(ch->fd, b, 64));
	say("token", "%d", !memcmp(b, &c, sizeof c));
	ERROR("read.again", read(ch->fd, b, 8) < 0 ? -1 : 0);
	/* armed with completions in the queue: no event before a further completion */
	MUST(!ibv_req_notify_cq(c, 0));
	say("armed", "%d", poll(&p, 1, 100));
	struct ibv_wc wc;
	say("polled", "%d", ibv_poll_cq(c, 1, &wc));
	MUST(!ibv_post_send(qp, &wr, &bad));
	say("second", "%d", poll(&p, 1, 30000));
	settle();
	while (read(ch->fd, b, 8) == 8)
		events++;
	say("events", "%d", events);
	/* solicited only: not by a send's completion */
	MUST(!ibv_req_notify_cq(c, 1));
	MUST(!ibv_post_send(qp, &wr, &bad));
	say("solicited", "%d", poll(&p, 1, 300));
	ibv_ack_cq_events(c, 1 + events);
	MUST(!ibv_destroy_qp(qp));
	ERROR("destroy.cq", ibv_destroy_cq(c));
	ERROR("destroy", ibv_destroy_comp_channel(ch));
}

static void srq(void)
{
	static const struct {
		uint32_t wr, sge, limit;
	} sizes[] = {{0, 1, 0}, {1, 0, 0}, {1, 1, 0}, {5, 3, 2}, {4, 1, 5}, {1 << 30, 1, 0}, {1, 1000, 0}};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct ibv_srq_init_attr a = {.attr = {sizes[i].wr, sizes[i].sge, sizes[i].limit}};
		struct ibv_srq *s;
		MADE(text("%u.%u.%u", sizes[i].wr, sizes[i].sge, sizes[i].limit), s = ibv_create_srq(pd, &a));
		if (!s)
			continue;
		struct ibv_srq_attr q;
		ERROR(text("%u.%u.%u.query", sizes[i].wr, sizes[i].sge, sizes[i].limit), ibv_query_srq(s, &q));
		say(text("%u.%u.%u.attr", sizes[i].wr, sizes[i].sge, sizes[i].limit), "%u %u %u, made %u %u", q.max_wr,
		    q.max_sge, q.srq_limit, a.attr.max_wr, a.attr.max_sge);
		MUST(!ibv_destroy_srq(s));
	}
	struct ibv_srq_init_attr a = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_srq *s = ibv_create_srq(pd, &a);
	MUST(s);
	struct ibv_recv_wr wr = {0}, *bad;
	int n = 0;
	while (n < 1000 && !ibv_post_srq_recv(s, &wr, &bad))
		n++;
	say("room", "%d", n);
	struct ibv_sge sge[2] = {0};
	wr.sg_list = sge, wr.num_sge = 2;
	ERROR("post.full", ibv_post_srq_recv(s, &wr, &bad));
	struct ibv_srq_attr m = {.max_wr = 8, .srq_limit = 4};
	ERROR("modify.0", ibv_modify_srq(s, &m, 0));
	ERROR("modify.limit", ibv_modify_srq(s, &m, IBV_SRQ_LIMIT));
	m.srq_limit = 1000;
	ERROR("modify.limit.big", ibv_modify_srq(s, &m, IBV_SRQ_LIMIT));
	m.max_wr = 2;
	ERROR("modify.small", ibv_modify_srq(s, &m, IBV_SRQ_MAX_WR));
	m.max_wr = 100;
	ERROR("modify.more", ibv_modify_srq(s, &m, IBV_SRQ_MAX_WR));
	m.max_wr = 1 << 30;
	ERROR("modify.huge", ibv_modify_srq(s, &m, IBV_SRQ_MAX_WR));
	m.max_wr = 0;
	ERROR("modify.none", ibv_modify_srq(s, &m, IBV_SRQ_MAX_WR));
	ERROR("modify.unknown", ibv_modify_srq(s, &m, 4));
	struct ibv_srq_attr q;
	MUST(!ibv_query_srq(s, &q));
	say("attr", "%u %u", q.max_sge, q.srq_limit);
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .srq = s, .cap = {1, 5, 1, 3, 0},
					.qp_type = IBV_QPT_RC};
	struct ibv_qp *qp = MADE("qp", ibv_create_qp(pd, &init));
	MUST(qp);
	say("qp.cap", "%u %u", init.cap.max_recv_wr, init.cap.max_recv_sge);
	ERROR("qp.post_recv", ibv_post_recv(qp, &(struct ibv_recv_wr){0}, &bad));
	ERROR("destroy.used", ibv_destroy_srq(s));
	MUST(!ibv_destroy_qp(qp));
	ERROR("destroy", ibv_destroy_srq(s));
	struct ibv_srq_init_attr_ex x = {.attr = {4, 1, 0},
					 .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
					 .pd = pd};
	for (int t = 0; t < 3; t++) {
		x.srq_type = t;
		MADE(text("type.%d", t), ibv_create_srq_ex(context, &x));
	}
}

/* srq_limit receives until the limit is reached. */
static void srq_limit(void)
{
	struct ibv_srq_init_attr a = {.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 3}};
	struct ibv_srq *s = ibv_create_srq(pd, &a);
	MUST(s);
	struct ibv_srq_attr q;
	MUST(!ibv_query_srq(s, &q));
	say("created", "%u", q.srq_limit);
	struct ibv_recv_wr wr = {0}, *bad;
	for (int i = 0; i < 4; i++)
		MUST(!ibv_post_srq_recv(s, &wr, &bad));
	q.srq_limit = 3;
	ERROR("modify", ibv_modify_srq(s, &q, IBV_SRQ_LIMIT));
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .srq = s, .cap = {4, 0, 1, 0, 0},
					.qp_type = IBV_QPT_RC};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	MUST(qp);
	join(qp, qp);
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send;
	for (int i = 0; i < 2; i++) {
		MUST(!ibv_post_send(qp, &send, &bad_send));
		say_wc(text("%d", i));
	}
	say_event("event");
	MUST(!ibv_query_srq(s, &q));
	say("after", "%u", q.srq_limit);
	struct ibv_qp_attr e = {.qp_state = IBV_QPS_ERR};
	MUST(!ibv_modify_qp(qp, &e, IBV_QP_STATE));
	say_event("last_wqe");
	MUST(!ibv_destroy_qp(qp));
	ERROR("destroy", ibv_destroy_srq(s));
}

const struct probe cq_probes[] = {{"cq_create", create}, {"cq_resize", resize}, {"cq_few", few}, {"channel", channel},
				  {"srq", srq},		 {"srq_limit", srq_limit}, {0}};
