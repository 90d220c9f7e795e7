/* Probes of regions and windows. */
#include "probe.h"

static void flags(void)
{
	for (unsigned f = 0; f < 1 << 8; f++) {
		struct ibv_mr *m;
		if (f & IBV_ACCESS_ON_DEMAND)
			continue;
		MADE(text("%#x", f), m = ibv_reg_mr(pd, buffer, PAGE, f));
		if (m)
			MUST(!ibv_dereg_mr(m));
	}
	static const unsigned more[] = {IBV_ACCESS_ON_DEMAND,	   IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE,
					IBV_ACCESS_RELAXED_ORDERING, 1 << 8,
					1 << 9,			   1 << 10,
					1 << 19,		   1 << 21,
					1 << 29,		   1 << 30};
	for (size_t i = 0; i < sizeof more / sizeof *more; i++)
		MADE(text("more.%#x", more[i]), ibv_reg_mr(pd, buffer, PAGE, more[i]));
}

static void ranges(void)
{
	const int rw = IBV_ACCESS_LOCAL_WRITE;
	MADE("empty", ibv_reg_mr(pd, buffer, 0, rw));
	MADE("empty.odd", ibv_reg_mr(pd, buffer + 64, 0, rw));
	MADE("empty.last", ibv_reg_mr(pd, (void *)-1, 0, rw));
	MADE("empty.kernel", ibv_reg_mr(pd, (void *)0xffff800000000001, 0, rw));
	MADE("empty.unmapped", ibv_reg_mr(pd, (void *)64, 0, rw));
	MADE("empty.readonly", ibv_reg_mr(pd, (void *)((uintptr_t)ranges | 1), 0, rw));
	MADE("empty.iova", ibv_reg_mr_iova(pd, buffer + 64, 0, 0x10040, rw));
	MADE("null", ibv_reg_mr(pd, NULL, PAGE, rw));
	MADE("null_empty", ibv_reg_mr(pd, NULL, 0, rw));
	MADE("odd", ibv_reg_mr(pd, buffer + 1, 3, rw));
	MADE("huge", ibv_reg_mr(pd, buffer, (size_t)1 << 50, rw));
	MADE("wrap", ibv_reg_mr(pd, buffer, (size_t)-1, rw));
	MADE("kernel", ibv_reg_mr(pd, (void *)0xffff800000000000, PAGE, rw));
	char *hole = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(!munmap(hole + PAGE, PAGE));
	MADE("hole", ibv_reg_mr(pd, hole, 3 * PAGE, rw));
	MADE("hole.read", ibv_reg_mr(pd, hole, 3 * PAGE, 0));
	MADE("before_hole", ibv_reg_mr(pd, hole, PAGE, rw));
	char *ro = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MADE("readonly.write", ibv_reg_mr(pd, ro, PAGE, rw));
	MADE("readonly.read", ibv_reg_mr(pd, ro, PAGE, 0));
	MADE("readonly.remote_read", ibv_reg_mr(pd, ro, PAGE, IBV_ACCESS_REMOTE_READ));
	char *none = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MADE("none.write", ibv_reg_mr(pd, none, PAGE, rw));
	MADE("none.read", ibv_reg_mr(pd, none, PAGE, 0));
	int fd = open("/proc/self/exe", O_RDONLY);
	char *text_pages = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	MADE("file.private", ibv_reg_mr(pd, text_pages, PAGE, 0));
	char *shared_pages = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	MADE("file.shared", ibv_reg_mr(pd, shared_pages, PAGE, 0));
	MADE("file.shared.write", ibv_reg_mr(pd, shared_pages, PAGE, rw));
	MADE("code", ibv_reg_mr(pd, (void *)((uintptr_t)ranges & ~(uintptr_t)(PAGE - 1)), PAGE, 0));
	MADE("code.write", ibv_reg_mr(pd, (void *)((uintptr_t)ranges & ~(uintptr_t)(PAGE - 1)), PAGE, rw));
	MADE("iova", ibv_reg_mr_iova(pd, buffer, PAGE, 0x10000, rw));
	MADE("iova.odd", ibv_reg_mr_iova(pd, buffer, PAGE, 0x10001, rw));
	MADE("iova.offset", ibv_reg_mr_iova(pd, buffer + 5, 100, 0x10005, rw));
	MADE("iova.wrap", ibv_reg_mr_iova(pd, buffer, PAGE, -(uint64_t)PAGE, rw));
	MADE("dmabuf", ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, fd, rw));
	MADE("dmabuf.bad", ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, -1, rw));
	struct ibv_sge s = {(uintptr_t)buffer, 1, mr->lkey};
	ERROR("advise", ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &s, 1));
	ERROR("advise.flush", ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &s, 1));
	ERROR("advise.flags", ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0x100, &s, 1));
	ERROR("advise.advice", ibv_advise_mr(pd, 77, 0, &s, 1));
	ERROR("advise.none", ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &s, 0));
}

static void rereg(void)
{
	struct ibv_pd *other = ibv_alloc_pd(context);
	MUST(other);
	static const int rights[] = {0, IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE,
				     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 1 << 30};
	for (int f = 0; f < 16; f++)
		for (size_t r = 0; r < sizeof rights / sizeof *rights; r++) {
			struct ibv_mr *m = ibv_reg_mr(pd, buffer, PAGE, IBV_ACCESS_LOCAL_WRITE);
			MUST(m);
			uint32_t before = m->rkey;
			errno = 0;
			int n = ibv_rereg_mr(m, f, other, buffer + PAGE, PAGE, rights[r]);
			say(text("%d.%#x", f, rights[r]), "%d %s, %s key, %s", n, n && errno ? strerrorname_np(errno) : "",
			    m->rkey == before ? "same" : "other", m->pd == other ? "other pd" : "same pd");
			ERROR(text("%d.%#x.dereg", f, rights[r]), ibv_dereg_mr(m));
		}
}

static void windows(void)
{
	struct ibv_mw *w = MADE("type1", ibv_alloc_mw(pd, IBV_MW_TYPE_1));
	struct ibv_mw *w2 = MADE("type2", ibv_alloc_mw(pd, IBV_MW_TYPE_2));
	MADE("type0", ibv_alloc_mw(pd, 0));
	MADE("type3", ibv_alloc_mw(pd, 3));
	struct ibv_qp *qp = new_qp(IBV_QPT_RC);
	join(qp, qp);
	struct ibv_mr *plain = ibv_reg_mr(pd, buffer, BUFFER, ALL_ACCESS & ~IBV_ACCESS_MW_BIND);
	struct ibv_mr *readonly = ibv_reg_mr(pd, buffer, BUFFER, IBV_ACCESS_MW_BIND);
	MUST(plain && readonly);
	struct ibv_mw_bind b = {.wr_id = 1, .send_flags = IBV_SEND_SIGNALED,
				.bind_info = {mr, (uintptr_t)buffer, PAGE, IBV_ACCESS_REMOTE_WRITE}};
	uint32_t key = w->rkey;
	ERROR("bind", ibv_bind_mw(qp, w, &b));
	say_wc("bind.wc");
	say("bind.key", "%s", w->rkey == key ? "same" : "other");
	b.bind_info.mr = plain;
	ERROR("bind.plain", ibv_bind_mw(qp, w, &b));
	b.bind_info.mr = mr;
	b.bind_info.mw_access_flags = IBV_ACCESS_LOCAL_WRITE;
	ERROR("bind.local", ibv_bind_mw(qp, w, &b));
	b.bind_info.mw_access_flags = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_WRITE;
	ERROR("bind.zero", ibv_bind_mw(qp, w, &b));
	b.bind_info.mw_access_flags = 1 << 20;
	ERROR("bind.unknown", ibv_bind_mw(qp, w, &b));
	b.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
	ERROR("bind.type2", ibv_bind_mw(qp, w2, &b));
	ERROR("dereg_bound", ibv_dereg_mr(readonly));
	b.bind_info.length = 0;
	ERROR("unbind", ibv_bind_mw(qp, w, &b));
	ERROR("dealloc", ibv_dealloc_mw(w));
	ERROR("dealloc2", ibv_dealloc_mw(w2));
}

/* bind posts a bind of a window of type 2 and says its completion. */
static void bind_window(const char *key, struct ibv_mr *m, uint64_t at, uint64_t size, unsigned access, int next)
{
	struct ibv_qp *qp = new_qp(IBV_QPT_RC);
	join(qp, qp);
	struct ibv_mw *w = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	MUST(w);
	struct ibv_send_wr wr = {.wr_id = 7, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;
	wr.bind_mw.mw = w;
	wr.bind_mw.rkey = next ? ibv_inc_rkey(w->rkey) : w->rkey;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){m, at, size, access};
	int r = ibv_post_send(qp, &wr, &bad);
	ERROR(text("%s.post", key), r);
	if (!r) {
		say_wc(key);
		say_qp(text("%s.state", key), qp);
	}
	ibv_destroy_qp(qp);
	ERROR(text("%s.dealloc", key), ibv_dealloc_mw(w));
}

static void binds(void)
{
	struct ibv_mr *plain = ibv_reg_mr(pd, buffer, BUFFER, ALL_ACCESS & ~IBV_ACCESS_MW_BIND);
	struct ibv_mr *readonly = ibv_reg_mr(pd, buffer, BUFFER, IBV_ACCESS_MW_BIND);
	struct ibv_mr *zero = ibv_reg_mr(pd, buffer, BUFFER, ALL_ACCESS | IBV_ACCESS_ZERO_BASED);
	MUST(plain && readonly);
	uint64_t at = (uintptr_t)buffer;
	const int w = IBV_ACCESS_REMOTE_WRITE;
	bind_window("good", mr, at, PAGE, w, 1);
	bind_window("whole", mr, at, BUFFER, w, 1);
	bind_window("beyond", mr, at, BUFFER + 1, w, 1);
	bind_window("before", mr, at - 1, PAGE, w, 1);
	bind_window("no_bind", plain, at, PAGE, w, 1);
	bind_window("no_write", readonly, at, PAGE, w, 1);
	bind_window("read_only", readonly, at, PAGE, IBV_ACCESS_REMOTE_READ, 1);
	bind_window("empty", mr, at, 0, w, 1);
	bind_window("same_key", mr, at, PAGE, w, 0);
	bind_window("zero_based", mr, at, PAGE, w | IBV_ACCESS_ZERO_BASED, 1);
	if (zero)
		bind_window("zero_based_mr", zero, at, PAGE, w, 1);
	bind_window("no_rights", mr, at, PAGE, 0, 1);
	bind_window("atomic", mr, at, PAGE, IBV_ACCESS_REMOTE_ATOMIC, 1);
	bind_window("bind_right", mr, at, PAGE, IBV_ACCESS_MW_BIND, 1);
}

/* zero_based writes to a region by offsets and by addresses. */
static void zero_based(void)
{
	struct ibv_mr *zero = MADE("reg", ibv_reg_mr(pd, buffer + 100, PAGE, ALL_ACCESS | IBV_ACCESS_ZERO_BASED));
	if (!zero)
		return;
	for (int by_address = 0; by_address < 2; by_address++) {
		struct ibv_qp *qp = new_qp(IBV_QPT_RC), *to = new_qp(IBV_QPT_RC);
		join(qp, to);
		memset(buffer, 0, BUFFER);
		memset(buffer + 2 * PAGE, 7, PAGE);
		struct ibv_sge s = {(uintptr_t)buffer + 2 * PAGE, 10, mr->lkey};
		struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;
		wr.wr.rdma.rkey = zero->rkey;
		wr.wr.rdma.remote_addr = by_address ? (uintptr_t)buffer + 100 : 0;
		ERROR(text("%d.post", by_address), ibv_post_send(qp, &wr, &bad));
		say_wc(text("%d.wc", by_address));
		say(text("%d.data", by_address), "%d %d %d", buffer[0], buffer[100], buffer[110]);
		MUST(!ibv_destroy_qp(qp) && !ibv_destroy_qp(to));
	}
}

const struct probe memory_probes[] = {{"mr_flags", flags}, {"mr_ranges", ranges}, {"rereg", rereg},
				      {"windows", windows}, {"binds", binds},	  {"zero_based", zero_based}, {0}};
