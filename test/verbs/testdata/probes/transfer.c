/* Probes of transfers: errors of the requester and of the responder, and what completions contain. */
#include "probe.h"

static struct ibv_qp *a, *b;

static void pair(enum ibv_qp_type type)
{
	a = new_qp(type), b = new_qp(type);
	join(a, b);
}

static struct ibv_sge own;
static struct ibv_send_wr wr;
static struct ibv_recv_wr rwr;

/* reset prepares requests of a new pair: 64 bytes from the first page to the third one. */
static void reset(enum ibv_qp_type type, enum ibv_wr_opcode op)
{
	pair(type);
	own = (struct ibv_sge){(uintptr_t)buffer, 64, mr->lkey};
	wr = (struct ibv_send_wr){.wr_id = 2, .sg_list = &own, .num_sge = 1, .opcode = op};
	wr.wr.rdma.remote_addr = (uintptr_t)buffer + 2 * PAGE;
	wr.wr.rdma.rkey = mr->rkey;
	if (op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		own.length = 8;
		wr.wr.atomic.remote_addr = (uintptr_t)buffer + 2 * PAGE;
		wr.wr.atomic.rkey = mr->rkey;
		wr.wr.atomic.compare_add = 0, wr.wr.atomic.swap = 1;
	}
	static struct ibv_sge to;
	to = (struct ibv_sge){(uintptr_t)buffer + 2 * PAGE, 64, mr->lkey};
	rwr = (struct ibv_recv_wr){.wr_id = 1, .sg_list = &to, .num_sge = 1};
}

/* receive posts a receive request. */
static void receive(void)
{
	struct ibv_recv_wr *bad;
	MUST(!ibv_post_recv(b, &rwr, &bad));
}

/* go posts the send request and says its outcome: completions of both sides, if expected, and states. */
static void go(const char *key, int completions)
{
	struct ibv_send_wr *bad = NULL;
	int r = ibv_post_send(a, &wr, &bad);
	ERROR(text("%s.post", key), r);
	if (r) {
		say(text("%s.bad", key), "%d", bad == &wr);
		completions = 0;
	}
	char list[3][120] = {"-", "-", "-"};
	for (int i = 0; i < completions; i++) {
		struct ibv_wc wc = {0};
		if (wait_wc(&wc) != 1)
			break;
		char *to = list[wc.wr_id == 2];
		if (wc.status)
			snprintf(to, sizeof list[0], "%s, qp %d", ibv_wc_status_str(wc.status),
				 wc.qp_num == (wc.wr_id == 2 ? a : b)->qp_num);
		else if (wc.wr_id == 2)
			snprintf(to, sizeof list[0], "opcode %d", wc.opcode);
		else
			snprintf(to, sizeof list[0], "opcode %d, %d bytes, flags %d, imm %x", wc.opcode, wc.byte_len,
				 wc.wc_flags, wc.wc_flags & IBV_WC_WITH_IMM ? ntohl(wc.imm_data) : 0);
	}
	say(text("%s.send", key), "%s", list[1]);
	say(text("%s.recv", key), "%s", list[0]);
	settle(); /* for the state of the other side */
	say_qp(text("%s.a", key), a);
	say_qp(text("%s.b", key), b);
	MUST(!fcntl(context->async_fd, F_SETFL, O_NONBLOCK));
	struct ibv_async_event e;
	char events[400] = "";
	while (!ibv_get_async_event(context, &e)) {
		strcat(events, ibv_event_type_str(e.event_type));
		strcat(events, e.element.qp == a ? " a; " : e.element.qp == b ? " b; " : " ?; ");
		ibv_ack_async_event(&e);
	}
	say(text("%s.events", key), "%s", events);
	struct ibv_wc wc;
	int more = 0;
	while (ibv_poll_cq(cq, 1, &wc) == 1)
		more++;
	say(text("%s.more", key), "%d", more);
	MUST(!ibv_destroy_qp(a) && !ibv_destroy_qp(b));
}

static void opcodes(void)
{
	for (int op = 0; op < 16; op++) {
		if (op == IBV_WR_BIND_MW)
			continue; /* has a probe of its own */
		reset(IBV_QPT_RC, op);
		receive();
		wr.imm_data = htonl(0x1234);
		if (op == IBV_WR_SEND_WITH_INV || op == IBV_WR_LOCAL_INV)
			wr.invalidate_rkey = 0x7777700;
		int both = op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_RDMA_WRITE_WITH_IMM;
		go(text("rc.%d", op), 1 + both);
		if (op > IBV_WR_RDMA_READ)
			continue;
		reset(IBV_QPT_UC, op);
		receive();
		wr.imm_data = htonl(0x1234);
		go(text("uc.%d", op), 1 + both);
	}
}

static void requester(void)
{
	reset(IBV_QPT_RC, IBV_WR_RDMA_WRITE), own.lkey = 0x12345;
	go("lkey", 1);
	reset(IBV_QPT_RC, IBV_WR_RDMA_WRITE), own.addr -= PAGE;
	go("before", 1);
	reset(IBV_QPT_RC, IBV_WR_RDMA_WRITE), own.length = BUFFER + 1;
	go("long", 1);
	reset(IBV_QPT_RC, IBV_WR_RDMA_READ);
	struct ibv_mr *ro = ibv_reg_mr(pd, buffer, PAGE, 0);
	own.lkey = ro->lkey;
	go("read.readonly", 1);
	reset(IBV_QPT_RC, IBV_WR_RDMA_WRITE), own.lkey = ro->lkey;
	go("write.readonly", 1);
	struct ibv_pd *other = ibv_alloc_pd(context);
	struct ibv_mr *foreign = ibv_reg_mr(other, buffer, BUFFER, ALL_ACCESS);
	reset(IBV_QPT_RC, IBV_WR_RDMA_WRITE), own.lkey = foreign->lkey;
	go("other_pd", 1);
	reset(IBV_QPT_RC, IBV_WR_RDMA_WRITE), own.length = 0, own.lkey = 0;
	go("empty", 1);
	reset(IBV_QPT_RC, IBV_WR_RDMA_WRITE), wr.num_sge = 3;
	go("sges", 1);
	reset(IBV_QPT_RC, IBV_WR_RDMA_WRITE), wr.num_sge = -1;
	go("sges.negative", 1);
	reset(IBV_QPT_RC, IBV_WR_RDMA_WRITE), own.length = 65, wr.send_flags = IBV_SEND_INLINE;
	go("inline.65", 1);
	reset(IBV_QPT_RC, IBV_WR_RDMA_WRITE), own.length = 64, own.lkey = 0, wr.send_flags = IBV_SEND_INLINE;
	go("inline.64", 1);
	reset(IBV_QPT_RC, IBV_WR_RDMA_READ), wr.send_flags = IBV_SEND_INLINE;
	go("inline.read", 1);
	reset(IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD), own.length = 4;
	go("atomic.short", 1);
	reset(IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD), own.length = 16;
	go("atomic.long", 1);
	reset(IBV_QPT_RC, IBV_WR_RDMA_WRITE), wr.send_flags = 0xff << 8;
	go("flags", 1);
}

/* bind_type2 binds a window of type 2 to the first page, through a QP, and returns the status. */
static int bind_type2(struct ibv_qp *qp, struct ibv_mw *w, uint32_t key)
{
	struct ibv_send_wr r = {.wr_id = 3, .opcode = IBV_WR_BIND_MW}, *bad;
	r.bind_mw.mw = w, r.bind_mw.rkey = key;
	r.bind_mw.bind_info = (struct ibv_mw_bind_info){mr, (uintptr_t)buffer, PAGE, IBV_ACCESS_REMOTE_WRITE};
	MUST(!ibv_post_send(qp, &r, &bad));
	struct ibv_wc wc;
	MUST(wait_wc(&wc) == 1);
	return wc.status;
}

/* invalidate sends a message that invalidates a key at its receiver. */
static void invalidate(const char *key, uint32_t rkey)
{
	receive();
	wr.invalidate_rkey = rkey;
	go(key, 2);
}

/* keys uses keys that are invalid at the requester, at both ends, and in messages that use a receive. */
static void keys(void)
{
	static const int ops[] = {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD};
	uint64_t *word = (uint64_t *)(buffer + 2 * PAGE);
	for (int i = 0; i < 3; i++)
		for (int both = 0; both < 2; both++) {
			reset(IBV_QPT_RC, ops[i]), own.lkey = 0x12345;
			*word = 0;
			if (i)
				wr.wr.atomic.compare_add = i - 1;
			if (both)
				i ? (wr.wr.atomic.rkey = 0x12345) : (wr.wr.rdma.rkey = 0x12345);
			go(text("%s.%d", both ? "both" : "lkey", ops[i]), 1);
			say(text("%s.%d.word", both ? "both" : "lkey", ops[i]), "%ld", *word);
		}
	for (int several = 0; several < 2; several++) {
		reset(IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM), wr.wr.rdma.rkey = 0x12345;
		own.length = several ? 2 * PAGE : 64;
		receive();
		go(several ? "imm.several" : "imm", 2);
	}
	reset(IBV_QPT_UC, IBV_WR_RDMA_WRITE_WITH_IMM), wr.wr.rdma.rkey = 0x12345;
	receive();
	go("imm.uc", 1);

	struct ibv_mr *none = ibv_reg_mr(pd, buffer + 64, 0, ALL_ACCESS);
	MUST(none);
	for (int n = 0; n < 2; n++) {
		reset(IBV_QPT_RC, IBV_WR_RDMA_WRITE), wr.wr.rdma.rkey = none->rkey, own.length = n;
		wr.wr.rdma.remote_addr = (uintptr_t)buffer + 64;
		go(text("none.%d", n), 1);
		reset(IBV_QPT_RC, IBV_WR_RDMA_WRITE);
		own = (struct ibv_sge){(uintptr_t)buffer + 64, n, none->lkey};
		go(text("none.own.%d", n), 1);
	}

	reset(IBV_QPT_RC, IBV_WR_SEND_WITH_INV);
	invalidate("inv.region", mr->rkey);
	reset(IBV_QPT_RC, IBV_WR_SEND_WITH_INV);
	struct ibv_mw *w = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {.wr_id = 3, .bind_info = {mr, (uintptr_t)buffer, PAGE, IBV_ACCESS_REMOTE_WRITE}};
	struct ibv_wc wc;
	MUST(w && !ibv_bind_mw(b, w, &bind) && wait_wc(&wc) == 1 && !wc.status);
	invalidate("inv.type1", w->rkey);
	for (int variant = 0; variant < 2; variant++) {
		reset(IBV_QPT_RC, IBV_WR_SEND_WITH_INV);
		MUST(w = ibv_alloc_mw(pd, IBV_MW_TYPE_2));
		uint32_t key = ibv_inc_rkey(w->rkey);
		MUST(!bind_type2(b, w, key));
		invalidate(variant ? "inv.type2.variant" : "inv.type2", key ^ variant);
	}

	/* The low bits of a window's key count. A write to a zero-based window stops Linux 6.1. */
	for (int foreign = 0; foreign < 2; foreign++) {
		reset(IBV_QPT_RC, IBV_WR_RDMA_WRITE);
		MUST(w = ibv_alloc_mw(pd, IBV_MW_TYPE_2));
		uint32_t key = (w->rkey & 0xff) ^ 0x55;
		int status = bind_type2(b, w, foreign ? key | 0x7777700 : key | (w->rkey & ~0xffu));
		say(text("window.%d.bind", foreign), "%s", ibv_wc_status_str(status));
		wr.wr.rdma.rkey = key | (w->rkey & ~0xffu);
		wr.wr.rdma.remote_addr = (uintptr_t)buffer;
		go(text("window.%d", foreign), 1);
	}
}

static void responder(void)
{
	struct ibv_mr *ro = ibv_reg_mr(pd, buffer, BUFFER, IBV_ACCESS_REMOTE_READ);
	struct ibv_mr *wo = ibv_reg_mr(pd, buffer, BUFFER, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct ibv_pd *other = ibv_alloc_pd(context);
	struct ibv_mr *foreign = ibv_reg_mr(other, buffer, BUFFER, ALL_ACCESS);
	MUST(ro && wo && foreign);
	static const int ops[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
	for (int i = 0; i < 3; i++) {
		reset(IBV_QPT_RC, ops[i]), i == 2 ? (wr.wr.atomic.rkey = 0x12345) : (wr.wr.rdma.rkey = 0x12345);
		go(text("rkey.%d", ops[i]), 1);
		reset(IBV_QPT_RC, ops[i]), i == 2 ? (wr.wr.atomic.rkey = ro->rkey) : (wr.wr.rdma.rkey = ro->rkey);
		go(text("readonly.%d", ops[i]), 1);
		reset(IBV_QPT_RC, ops[i]), i == 2 ? (wr.wr.atomic.rkey = wo->rkey) : (wr.wr.rdma.rkey = wo->rkey);
		go(text("writeonly.%d", ops[i]), 1);
		reset(IBV_QPT_RC, ops[i]), i == 2 ? (wr.wr.atomic.rkey = foreign->rkey) : (wr.wr.rdma.rkey = foreign->rkey);
		go(text("other_pd.%d", ops[i]), 1);
		reset(IBV_QPT_RC, ops[i]), i == 2 ? (wr.wr.atomic.remote_addr -= 3 * PAGE) : (wr.wr.rdma.remote_addr -= 3 * PAGE);
		go(text("before.%d", ops[i]), 1);
		reset(IBV_QPT_RC, ops[i]), own.length = 0;
		i == 2 ? (wr.wr.atomic.rkey = 0) : (wr.wr.rdma.rkey = 0);
		if (i < 2)
			go(text("empty.%d", ops[i]), 1);
		else
			MUST(!ibv_destroy_qp(a) && !ibv_destroy_qp(b));
	}
	reset(IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD), wr.wr.atomic.remote_addr += 4;
	go("unaligned", 1);
	reset(IBV_QPT_RC, IBV_WR_SEND), rwr.sg_list->length = 10;
	receive();
	go("short", 2);
	reset(IBV_QPT_RC, IBV_WR_SEND), rwr.num_sge = 0;
	receive();
	go("no_sge", 2);
	reset(IBV_QPT_RC, IBV_WR_SEND), rwr.sg_list->lkey = 0x12345;
	receive();
	go("recv_lkey", 2);
	reset(IBV_QPT_RC, IBV_WR_SEND), rwr.sg_list->lkey = ro->lkey;
	receive();
	go("recv_readonly", 2);
	reset(IBV_QPT_RC, IBV_WR_SEND);
	go("rnr", 1);
	reset(IBV_QPT_RC, IBV_WR_SEND);
	struct ibv_qp_attr e = {.qp_state = IBV_QPS_ERR};
	MUST(!ibv_modify_qp(b, &e, IBV_QP_STATE));
	go("gone", 1);
	reset(IBV_QPT_RC, IBV_WR_SEND);
	e.qp_state = IBV_QPS_RESET;
	MUST(!ibv_modify_qp(b, &e, IBV_QP_STATE));
	go("reset", 1);
	static const int bits[] = {IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_ATOMIC};
	for (int i = 0; i < 3; i++) { /* rights of the QP */
		reset(IBV_QPT_RC, ops[i]);
		struct ibv_qp_attr q = {.qp_access_flags = 7 * 2 & ~bits[i]};
		ERROR(text("rights.%d.modify", ops[i]), ibv_modify_qp(b, &q, IBV_QP_ACCESS_FLAGS));
		go(text("rights.%d", ops[i]), 1);
	}
	reset(IBV_QPT_UC, IBV_WR_RDMA_WRITE), wr.wr.rdma.rkey = 0x12345;
	go("uc.rkey", 1);
	reset(IBV_QPT_UC, IBV_WR_SEND);
	go("uc.no_recv", 1);
	reset(IBV_QPT_UC, IBV_WR_SEND), rwr.sg_list->length = 10;
	receive();
	go("uc.short", 1);
	/* a region that is destroyed while a QP has receives in it */
	struct ibv_mr *m = ibv_reg_mr(pd, buffer, BUFFER, ALL_ACCESS);
	reset(IBV_QPT_RC, IBV_WR_SEND), rwr.sg_list->lkey = m->lkey;
	receive();
	ERROR("dereg", ibv_dereg_mr(m));
	go("dereg", 2);
}

/* datagrams sends datagrams that may be dropped. */
static void datagrams(void)
{
	struct ibv_ah_attr attr = {.grh = {.dgid = gid, .sgid_index = gid_index, .hop_limit = 1}, .is_global = 1,
				   .port_num = 1};
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);
	MUST(ah);
	static const struct {
		const char *name;
		int op, size, room, key, wcs;
	} list[] = {
		{"good", IBV_WR_SEND, 64, 104, 0x11, 2},     {"imm", IBV_WR_SEND_WITH_IMM, 64, 104, 0x11, 2},
		{"empty", IBV_WR_SEND, 0, 40, 0x11, 2},	     {"qkey", IBV_WR_SEND, 64, 104, 0x12, 1},
		{"short", IBV_WR_SEND, 64, 100, 0x11, 1},    {"long", IBV_WR_SEND, 8000, 16000, 0x11, 1},
		{"write", IBV_WR_RDMA_WRITE, 64, 104, 0x11, 1}, {"qkey.high", IBV_WR_SEND, 64, 104, -1, 1},
	};
	for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
		reset(IBV_QPT_UD, list[i].op);
		rwr.sg_list->length = list[i].room;
		receive();
		own.length = list[i].size;
		wr.imm_data = htonl(0x1234);
		wr.wr.ud.ah = ah, wr.wr.ud.remote_qpn = b->qp_num, wr.wr.ud.remote_qkey = list[i].key;
		go(list[i].name, list[i].wcs);
	}
	reset(IBV_QPT_UD, IBV_WR_SEND);
	wr.wr.ud.ah = ah, wr.wr.ud.remote_qpn = b->qp_num, wr.wr.ud.remote_qkey = 0x11;
	go("no_recv", 1);
	/* the header of the datagram and its sender */
	reset(IBV_QPT_UD, IBV_WR_SEND);
	rwr.sg_list->length = 104;
	memset(buffer + 2 * PAGE, 0xee, 104);
	receive();
	wr.wr.ud.ah = ah, wr.wr.ud.remote_qpn = b->qp_num, wr.wr.ud.remote_qkey = 0x11;
	struct ibv_send_wr *bad;
	MUST(!ibv_post_send(a, &wr, &bad));
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc;
		MUST(wait_wc(&wc) == 1);
		if (wc.wr_id != 1)
			continue;
		say("wc", "src %d, sl %d, dlid %d, slid %d, pkey %d", wc.src_qp == a->qp_num, wc.sl, wc.dlid_path_bits,
		    wc.slid, wc.pkey_index);
		say("header", "%d bytes untouched, version %x, addresses %d",
		    (int)strspn(buffer + 2 * PAGE, "\xee"), (unsigned char)buffer[2 * PAGE + 20] >> 4,
		    !memcmp(buffer + 2 * PAGE + 36, gid.raw + 12, 4) + !memcmp(buffer + 2 * PAGE + 32, gid.raw + 12, 4));
		struct ibv_ah *back = MADE("back", ibv_create_ah_from_wc(pd, &wc, (void *)(buffer + 2 * PAGE), 1));
		struct ibv_ah_attr from = {0};
		if (back && !ibv_init_ah_from_wc(context, 1, &wc, (void *)(buffer + 2 * PAGE), &from))
			say("from", "gid %d, global %d, index %d", !memcmp(&from.grh.dgid, &gid, 16), from.is_global,
			    from.grh.sgid_index == gid_index);
	}
}

/* full fills queues without completions. */
static void full(void)
{
	struct ibv_qp *qp = new_qp(IBV_QPT_RC);
	MUST(!to_init(qp));
	struct ibv_recv_wr r = {0}, *bad_recv;
	int n = 0;
	while (n < 1000 && !ibv_post_recv(qp, &r, &bad_recv))
		n++;
	say("recv", "%d", n);
	ERROR("recv.full", ibv_post_recv(qp, &r, &bad_recv));
	struct ibv_recv_wr list[3] = {{.next = &list[1]}, {.next = &list[2]}, {0}};
	bad_recv = NULL;
	ERROR("recv.list", ibv_post_recv(qp, list, &bad_recv));
	say("recv.bad", "%d", (int)(bad_recv - list));
	MUST(!to_rtr(qp, qp->qp_num) && !to_rts(qp));
	struct ibv_qp_attr s = {.qp_state = IBV_QPS_SQD};
	MUST(!ibv_modify_qp(qp, &s, IBV_QP_STATE));
	struct ibv_send_wr w = {.opcode = IBV_WR_SEND, .send_flags = 0}, *bad_send;
	n = 0;
	while (n < 1000 && !ibv_post_send(qp, &w, &bad_send))
		n++;
	say("send", "%d", n);
	ERROR("send.full", ibv_post_send(qp, &w, &bad_send));
}

const struct probe transfer_probes[] = {{"opcodes", opcodes},	  {"requester", requester}, {"keys", keys},
					{"responder", responder}, {"datagrams", datagrams}, {"full", full},	{0}};
