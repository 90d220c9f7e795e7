/* Probes of queue pairs: creation, transitions, attributes, and posts in every state. */
#include "probe.h"

static void create(void)
{
	struct ibv_qp *qp;
	for (int t = 0; t < 16; t++) {
		struct ibv_qp_init_attr a = {.send_cq = cq, .recv_cq = cq, .cap = {1, 1, 1, 1, 0}, .qp_type = t};
		if (t == IBV_QPT_RAW_PACKET)
			continue; /* it depends on the user */
		MADE(text("type.%d", t), ibv_create_qp(pd, &a));
	}
	static const struct ibv_qp_cap caps[] = {
		{0, 0, 0, 0, 0},       {0, 1, 1, 1, 0},	      {1, 0, 1, 0, 0},	   {1, 1, 0, 0, 0},
		{5, 6, 3, 4, 100},     {1 << 24, 1, 1, 1, 0}, {1, 1 << 24, 1, 1, 0}, {1, 1, 200, 1, 0},
		{1, 1, 1, 200, 0},     {1, 1, 1, 1, 100000},  {1, 1, 32, 32, 0},
	};
	for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
		struct ibv_qp_init_attr a = {.send_cq = cq, .recv_cq = cq, .cap = caps[i], .qp_type = IBV_QPT_RC};
		const struct ibv_qp_cap *c = &a.cap;
		MADE(text("cap.%d", (int)i), qp = ibv_create_qp(pd, &a));
		if (qp)
			say(text("cap.%d.got", (int)i), "%u %u %u %u %u", c->max_send_wr, c->max_recv_wr,
			    c->max_send_sge, c->max_recv_sge, c->max_inline_data);
	}
	struct ibv_qp_init_attr a = {.send_cq = NULL, .recv_cq = cq, .cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	(void)a; /* the library reads through the pointers of CQs */
	for (int bit = 0; bit < 8; bit++) {
		struct ibv_qp_init_attr_ex x = {.send_cq = cq, .recv_cq = cq, .cap = {1, 1, 1, 1, 0},
						.qp_type = IBV_QPT_RC,
						.comp_mask = IBV_QP_INIT_ATTR_PD | 1 << bit,
						.pd = pd};
		if (1 << bit == IBV_QP_INIT_ATTR_XRCD || 1 << bit == IBV_QP_INIT_ATTR_IND_TABLE)
			continue;
		MADE(text("comp_mask.%d", bit), ibv_create_qp_ex(context, &x));
	}
	for (int bit = 0; bit < 13; bit++) {
		struct ibv_qp_init_attr_ex x = {.send_cq = cq, .recv_cq = cq, .cap = {1, 1, 1, 1, 0},
						.qp_type = IBV_QPT_RC,
						.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
						.create_flags = 1 << bit,
						.pd = pd};
		MADE(text("flags.rc.%d", bit), ibv_create_qp_ex(context, &x));
		x.qp_type = IBV_QPT_UD;
		MADE(text("flags.ud.%d", bit), ibv_create_qp_ex(context, &x));
	}
	for (int t = 2; t < 5; t++)
		for (int bit = 0; bit < 12; bit++) {
			struct ibv_qp_init_attr_ex x = {.send_cq = cq, .recv_cq = cq, .cap = {1, 1, 1, 1, 0},
							.qp_type = t,
							.comp_mask = IBV_QP_INIT_ATTR_PD |
								     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
							.send_ops_flags = 1ull << bit,
							.pd = pd};
			MADE(text("ops.%d.%d", t, bit), ibv_create_qp_ex(context, &x));
		}
}

/* in_state makes a QP in a state. SQE cannot be reached by request. */
static struct ibv_qp *in_state(enum ibv_qp_type type, enum ibv_qp_state s)
{
	struct ibv_qp *qp = new_qp(type);
	if (s == IBV_QPS_RESET)
		return qp;
	if (s == IBV_QPS_ERR) {
		MUST(!to_init(qp));
		struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
		MUST(!ibv_modify_qp(qp, &a, IBV_QP_STATE));
		return qp;
	}
	MUST(!to_init(qp));
	if (s == IBV_QPS_INIT)
		return qp;
	MUST(!to_rtr(qp, qp->qp_num));
	if (s == IBV_QPS_RTR)
		return qp;
	MUST(!to_rts(qp));
	if (s == IBV_QPS_SQD) {
		struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD};
		MUST(!ibv_modify_qp(qp, &a, IBV_QP_STATE));
		while (1) { /* until it is drained */
			struct ibv_qp_init_attr init;
			MUST(!ibv_query_qp(qp, &a, IBV_QP_STATE, &init));
			if (!a.sq_draining)
				break;
		}
	}
	return qp;
}

enum { ATTRS = IBV_QP_DEST_QPN << 1 };

/* fill sets every attribute to a valid value. */
static struct ibv_qp_attr fill(struct ibv_qp *qp, enum ibv_qp_state to)
{
	struct ibv_ah_attr path = {.grh = {.dgid = gid, .sgid_index = gid_index, .hop_limit = 64},
				   .is_global = 1,
				   .port_num = 1};
	return (struct ibv_qp_attr){.qp_state = to,
				    .cur_qp_state = qp->state,
				    .path_mtu = IBV_MTU_1024,
				    .qkey = 0x11,
				    .dest_qp_num = qp->qp_num,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
				    .cap = {8, 8, 1, 1, 0},
				    .ah_attr = path,
				    .alt_ah_attr = path,
				    .max_rd_atomic = 1,
				    .max_dest_rd_atomic = 1,
				    .min_rnr_timer = 12,
				    .port_num = 1,
				    .timeout = 10,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .alt_port_num = 1,
				    .alt_timeout = 10};
}

static int try_modify(enum ibv_qp_type type, int from, int to, int mask)
{
	struct ibv_qp *qp = in_state(type, from);
	struct ibv_qp_attr a = fill(qp, to);
	a.cur_qp_state = from;
	int r = ibv_modify_qp(qp, &a, mask);
	MUST(!ibv_destroy_qp(qp));
	return r == -1 ? errno : r;
}

/* needed are the attributes of a transition that has a chance. */
static int needed(enum ibv_qp_type type, int from, int to)
{
	if (from == IBV_QPS_RESET && to == IBV_QPS_INIT)
		return IBV_QP_PKEY_INDEX | IBV_QP_PORT | (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	if (from == IBV_QPS_INIT && to == IBV_QPS_RTR && type != IBV_QPT_UD)
		return IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       (type == IBV_QPT_RC ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
	if (from == IBV_QPS_RTR && to == IBV_QPS_RTS)
		return IBV_QP_SQ_PSN | (type == IBV_QPT_RC ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
								      IBV_QP_MAX_QP_RD_ATOMIC :
							      0);
	return 0;
}

static const char *names[] = {"reset", "init", "rtr", "rts", "sqd", "sqe", "err"};

static void transitions(void)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
	for (int t = 0; t < 3; t++)
		for (int from = 0; from < 7; from++) {
			if (from == IBV_QPS_SQE)
				continue;
			for (int to = 0; to < 9; to++) {
				const char *name = text("%d.%s.%s", types[t], names[from], to < 7 ? names[to] : text("%d", to));
				int need = IBV_QP_STATE | needed(types[t], from, to);
				int r = try_modify(types[t], from, to, need);
				say(name, "%s", r ? strerrorname_np(r) : "ok");
				/* which of the needed ones may be missing, and which further ones are possible */
				int missing = 0, more = 0;
				for (int bit = 2; bit < ATTRS; bit <<= 1) {
					if (bit == IBV_QP_CAP)
						continue;
					if (need & bit && !try_modify(types[t], from, to, need & ~bit))
						missing |= bit;
					if (!r && !(need & bit) && !try_modify(types[t], from, to, need | bit))
						more |= bit;
				}
				if (!r)
					say(text("%s.masks", name), "%#x may be missing, %#x is possible", missing, more);
			}
			int none = 0;
			for (int bit = 2; bit < ATTRS; bit <<= 1)
				if (bit != IBV_QP_CAP && !try_modify(types[t], from, from, bit))
					none |= bit;
			say(text("%d.%s.none", types[t], names[from]), "%#x without a state", none);
		}
	/* the state that the program believes */
	for (int from = 0; from < 4; from++)
		for (int believed = 0; believed < 8; believed++) {
			struct ibv_qp *qp = in_state(IBV_QPT_RC, from);
			struct ibv_qp_attr a = fill(qp, IBV_QPS_ERR);
			a.cur_qp_state = believed;
			ERROR(text("believed.%s.%d", names[from], believed),
			      ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_CUR_STATE));
			MUST(!ibv_destroy_qp(qp));
		}
}

/* values are attributes with values out of range, in the transitions that set them. */
static void values(void)
{
	struct ibv_qp *qp;
	struct ibv_qp_attr a;
#define TRY(key, from, to, mask, ...)                                                                                  \
	do {                                                                                                           \
		qp = in_state(IBV_QPT_RC, from);                                                                       \
		a = fill(qp, to);                                                                                      \
		__VA_ARGS__;                                                                                           \
		ERROR(key, ibv_modify_qp(qp, &a, IBV_QP_STATE | needed(IBV_QPT_RC, from, to) | (mask)));               \
		MUST(!ibv_destroy_qp(qp));                                                                             \
	} while (0)
	TRY("port0", 0, 1, 0, a.port_num = 0);
	TRY("port2", 0, 1, 0, a.port_num = 2);
	TRY("port255", 0, 1, 0, a.port_num = 255);
	TRY("pkey1", 0, 1, 0, a.pkey_index = 1);
	TRY("pkey63", 0, 1, 0, a.pkey_index = 63);
	TRY("pkey64", 0, 1, 0, a.pkey_index = 64);
	TRY("pkey65535", 0, 1, 0, a.pkey_index = 65535);
	TRY("access.all", 0, 1, 0, a.qp_access_flags = 0xff);
	TRY("access.unknown", 0, 1, 0, a.qp_access_flags = 1 << 30);
	for (int m = 0; m < 9; m++)
		TRY(text("mtu.%d", m), 1, 2, 0, a.path_mtu = m);
	TRY("mtu.255", 1, 2, 0, a.path_mtu = 255);
	TRY("dest.big", 1, 2, 0, a.dest_qp_num = 0xffffffff);
	TRY("psn.big", 1, 2, 0, a.rq_psn = 0xffffffff);
	TRY("rd.16", 1, 2, 0, a.max_dest_rd_atomic = 16);
	TRY("rd.128", 1, 2, 0, a.max_dest_rd_atomic = 128);
	TRY("rd.129", 1, 2, 0, a.max_dest_rd_atomic = 129);
	TRY("rd.255", 1, 2, 0, a.max_dest_rd_atomic = 255);
	TRY("rnr.31", 1, 2, 0, a.min_rnr_timer = 31);
	TRY("rnr.32", 1, 2, 0, a.min_rnr_timer = 32);
	TRY("rnr.255", 1, 2, 0, a.min_rnr_timer = 255);
	TRY("av.port0", 1, 2, 0, a.ah_attr.port_num = 0);
	TRY("av.port2", 1, 2, 0, a.ah_attr.port_num = 2);
	TRY("av.no_grh", 1, 2, 0, a.ah_attr.is_global = 0);
	TRY("av.gid200", 1, 2, 0, a.ah_attr.grh.sgid_index = 200);
	TRY("av.gid255", 1, 2, 0, a.ah_attr.grh.sgid_index = 255);
	TRY("av.sl", 1, 2, 0, a.ah_attr.sl = 16);
	TRY("av.rate", 1, 2, 0, a.ah_attr.static_rate = 255);
	TRY("av.zero", 1, 2, 0, memset(&a.ah_attr.grh.dgid, 0, 16));
	TRY("av.flow", 1, 2, 0, a.ah_attr.grh.flow_label = 0xffffffff);
	TRY("alt.port0", 1, 2, IBV_QP_ALT_PATH, a.alt_ah_attr.port_num = 0);
	TRY("alt.port_num0", 1, 2, IBV_QP_ALT_PATH, a.alt_port_num = 0);
	TRY("alt.port_num2", 1, 2, IBV_QP_ALT_PATH, a.alt_port_num = 2);
	TRY("alt.timeout", 1, 2, IBV_QP_ALT_PATH, a.alt_timeout = 32);
	TRY("alt.pkey", 1, 2, IBV_QP_ALT_PATH, a.alt_pkey_index = 64);
	TRY("timeout.31", 2, 3, 0, a.timeout = 31);
	TRY("timeout.32", 2, 3, 0, a.timeout = 32);
	TRY("timeout.255", 2, 3, 0, a.timeout = 255);
	TRY("retry.8", 2, 3, 0, a.retry_cnt = 8);
	TRY("retry.255", 2, 3, 0, a.retry_cnt = 255);
	TRY("rnr_retry.8", 2, 3, 0, a.rnr_retry = 8);
	TRY("init_rd.128", 2, 3, 0, a.max_rd_atomic = 128);
	TRY("init_rd.129", 2, 3, 0, a.max_rd_atomic = 129);
	TRY("init_rd.255", 2, 3, 0, a.max_rd_atomic = 255);
	TRY("sq_psn", 2, 3, 0, a.sq_psn = 0xffffffff);
	TRY("mig.rearm", 2, 3, IBV_QP_PATH_MIG_STATE, a.path_mig_state = IBV_MIG_REARM);
	TRY("mig.armed", 2, 3, IBV_QP_PATH_MIG_STATE, a.path_mig_state = IBV_MIG_ARMED);
	TRY("mig.3", 2, 3, IBV_QP_PATH_MIG_STATE, a.path_mig_state = 3);
	TRY("cap", 0, 1, IBV_QP_CAP, (void)0);
	TRY("rate_limit", 2, 3, IBV_QP_RATE_LIMIT, a.rate_limit = 1);
	TRY("unknown", 2, 3, 1 << 28, (void)0);
}

/* query says all attributes of a QP in its states. */
static void query(void)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
	for (int t = 0; t < 3; t++)
		for (int s = 0; s < 7; s++) {
			if (s == IBV_QPS_SQE)
				continue;
			struct ibv_qp *qp = in_state(types[t], s);
			struct ibv_qp_attr a = {0};
			struct ibv_qp_init_attr i = {0};
			const char *name = text("%d.%s", types[t], names[s]);
			ERROR(text("%s.query", name), ibv_query_qp(qp, &a, 0, &i));
			say(text("%s.state", name), "%d %d, library %d", a.qp_state, a.cur_qp_state, qp->state);
			say(text("%s.path", name), "mtu %d, mig %d, port %d, pkey %d", a.path_mtu, a.path_mig_state,
			    a.port_num, a.pkey_index);
			say(text("%s.numbers", name), "qkey %#x, rq %d, sq %d, dest %s", a.qkey, a.rq_psn, a.sq_psn,
			    a.dest_qp_num == 0 ? "0" : a.dest_qp_num == qp->qp_num ? "own" : "other");
			say(text("%s.access", name), "%#x", a.qp_access_flags);
			say(text("%s.cap", name), "%u %u %u %u %u", a.cap.max_send_wr, a.cap.max_recv_wr,
			    a.cap.max_send_sge, a.cap.max_recv_sge, a.cap.max_inline_data);
			say(text("%s.depth", name), "%d %d", a.max_rd_atomic, a.max_dest_rd_atomic);
			say(text("%s.retry", name), "%d %d %d %d", a.min_rnr_timer, a.timeout, a.retry_cnt, a.rnr_retry);
			say(text("%s.av", name), "global %d, port %d, hop %d, dlid %d, sl %d, gid %d", a.ah_attr.is_global,
			    a.ah_attr.port_num, a.ah_attr.grh.hop_limit, a.ah_attr.dlid, a.ah_attr.sl,
			    !memcmp(&a.ah_attr.grh.dgid, &gid, 16));
			say(text("%s.alt", name), "global %d, port %d %d, timeout %d", a.alt_ah_attr.is_global,
			    a.alt_ah_attr.port_num, a.alt_port_num, a.alt_timeout);
			say(text("%s.sqd", name), "%d %d", a.sq_draining, a.en_sqd_async_notify);
			say(text("%s.init", name), "%d %d %d", i.sq_sig_all, i.qp_type == types[t],
			    i.send_cq == cq && i.recv_cq == cq && !i.srq);
			MUST(!ibv_destroy_qp(qp));
		}
}

/* posts posts requests in every state, and says the completions. */
static void posts(void)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
	for (int t = 0; t < 3; t++)
		for (int s = 0; s < 7; s++) {
			if (s == IBV_QPS_SQE || (types[t] == IBV_QPT_UD && s == IBV_QPS_SQD))
				continue;
			struct ibv_qp *qp = in_state(types[t], s);
			const char *name = text("%d.%s", types[t], names[s]);
			struct ibv_ah_attr a = {.grh = {.dgid = gid, .sgid_index = gid_index, .hop_limit = 1},
						.is_global = 1, .port_num = 1};
			struct ibv_ah *ah = ibv_create_ah(pd, &a);
			struct ibv_sge sge = {(uintptr_t)buffer, 64, mr->lkey};
			struct ibv_recv_wr recv = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad_recv;
			struct ibv_send_wr send = {.wr_id = 2, .opcode = IBV_WR_SEND}, *bad_send;
			if (types[t] == IBV_QPT_UD)
				send.wr.ud.ah = ah, send.wr.ud.remote_qpn = qp->qp_num, send.wr.ud.remote_qkey = 0x11;
			int r = ibv_post_recv(qp, &recv, &bad_recv);
			ERROR(text("%s.recv", name), r);
			int n = !r;
			r = ibv_post_send(qp, &send, &bad_send);
			ERROR(text("%s.send", name), r);
			if (s == IBV_QPS_RTS || s == IBV_QPS_ERR)
				n += !r;
			else
				n = 0;
			char list[3][80] = {{0}};
			for (int i = 0; i < n; i++) {
				struct ibv_wc wc;
				if (wait_wc(&wc) != 1)
					break;
				snprintf(list[wc.wr_id == 2], sizeof list[0], "%d: %s", (int)wc.wr_id,
					 ibv_wc_status_str(wc.status));
			}
			say(text("%s.wc", name), "%s, %s", list[0], list[1]);
			settle();
			struct ibv_wc wc;
			say(text("%s.more", name), "%d", ibv_poll_cq(cq, 1, &wc));
			/* what happens to them when the QP fails */
			struct ibv_qp_attr e = {.qp_state = IBV_QPS_ERR};
			ERROR(text("%s.to_err", name), ibv_modify_qp(qp, &e, IBV_QP_STATE));
			char after[160] = "";
			settle();
			int got[3] = {0};
			while (ibv_poll_cq(cq, 1, &wc) == 1)
				got[wc.wr_id == 2] += wc.status == IBV_WC_WR_FLUSH_ERR ? 1 : 100;
			snprintf(after, sizeof after, "recv %d, send %d", got[0], got[1]);
			say(text("%s.flushed", name), "%s", after);
			MUST(!ibv_destroy_qp(qp));
			ibv_destroy_ah(ah);
		}
}

static void multicast(void)
{
	struct ibv_qp *ud = in_state(IBV_QPT_UD, IBV_QPS_RTS), *rc = new_qp(IBV_QPT_RC), *reset = new_qp(IBV_QPT_UD);
	union ibv_gid g;
	inet_pton(AF_INET6, "ff0e::1234", &g);
	struct ibv_qp *other = in_state(IBV_QPT_UD, IBV_QPS_RTS);
	ERROR("ipv6", ibv_attach_mcast(other, &g, 0));
	inet_pton(AF_INET6, "::ffff:239.1.2.3", &g);
	ERROR("attach", ibv_attach_mcast(ud, &g, 0));
	ERROR("again", ibv_attach_mcast(ud, &g, 0));
	ERROR("lid", ibv_attach_mcast(ud, &g, 0xc001));
	ERROR("reset", ibv_attach_mcast(reset, &g, 0));
	ERROR("rc", ibv_attach_mcast(rc, &g, 0));
	ERROR("unicast", ibv_attach_mcast(ud, &gid, 0));
	ERROR("detach.rc", ibv_detach_mcast(rc, &g, 0));
	ERROR("detach.unicast", ibv_detach_mcast(ud, &gid, 0));
	ERROR("attach.other", ibv_attach_mcast(other, &g, 0));
	ERROR("destroy.attached", ibv_destroy_qp(other));
	ERROR("detach", ibv_detach_mcast(ud, &g, 0));
	ERROR("detach.again", ibv_detach_mcast(ud, &g, 0));
}

const struct probe qp_probes[] = {{"qp_create", create}, {"transitions", transitions}, {"values", values},
				  {"query", query},	 {"posts", posts},	       {"multicast", multicast}, {0}};
