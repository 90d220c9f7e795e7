/* The frame of the probes. Usage: program [-l | [-d milliseconds] probe…]. -l lists them; without any, all run. */
#include "probe.h"
#include <stdarg.h>

struct ibv_context *context;
struct ibv_pd *pd;
struct ibv_cq *cq;
struct ibv_mr *mr;
char *buffer;
union ibv_gid gid;
int gid_index;

static const char *probe_name;

void say(const char *key, const char *format, ...)
{
	va_list a;
	va_start(a, format);
	printf("%s.%s = ", probe_name, key);
	vprintf(format, a);
	putchar('\n');
	fflush(stdout);
	va_end(a);
}

const char *text(const char *format, ...)
{
	static char buffers[KEYS][160];
	static int next;
	char *b = buffers[next++ % KEYS];
	va_list a;
	va_start(a, format);
	vsnprintf(b, sizeof buffers[0], format, a);
	va_end(a);
	return b;
}

static const char *errno_text(int e)
{
	const char *name = strerrorname_np(e);
	return name ? name : text("%d", e);
}

void error(const char *key, int result)
{
	int e = result == -1 ? errno : result;
	say(key, "%s", e ? errno_text(e) : "ok");
}

void *made(const char *key, void *object)
{
	say(key, "%s", object ? "ok" : errno_text(errno));
	return object;
}

void must(int ok, const char *what, int line)
{
	if (ok)
		return;
	say("failed", "line %d: %s: %s", line, what, strerror(errno));
	exit(1);
}

struct ibv_qp *new_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr a = {
		.send_cq = cq, .recv_cq = cq, .cap = {8, 8, 2, 2, 64}, .qp_type = type, .sq_sig_all = 1};
	struct ibv_qp *qp = ibv_create_qp(pd, &a);
	MUST(qp);
	return qp;
}

int to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
				.port_num = 1,
				.qkey = 0x11,
				.qp_access_flags =
					IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};
	return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					     (qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

int to_rtr(struct ibv_qp *qp, uint32_t to)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR,
				.path_mtu = IBV_MTU_1024,
				.dest_qp_num = to,
				.max_dest_rd_atomic = 4,
				.min_rnr_timer = 12,
				.ah_attr = {.grh = {.dgid = gid, .sgid_index = gid_index, .hop_limit = 64},
					    .is_global = 1,
					    .port_num = 1}};
	int mask = IBV_QP_STATE;
	if (qp->qp_type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return ibv_modify_qp(qp, &a, mask);
}

int to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTS, .timeout = 10, .retry_cnt = 2, .rnr_retry = 1, .max_rd_atomic = 4};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(qp, &a, mask);
}

void join(struct ibv_qp *a, struct ibv_qp *b)
{
	MUST(!to_init(a) && !to_rtr(a, b->qp_num) && !to_rts(a));
	if (a != b)
		MUST(!to_init(b) && !to_rtr(b, a->qp_num) && !to_rts(b));
}

int wait_wc(struct ibv_wc *wc)
{
	time_t end = time(NULL) + 30;
	int n;
	while (!(n = ibv_poll_cq(cq, 1, wc)) && time(NULL) < end)
		sched_yield();
	return n;
}

void say_wc(const char *key)
{
	struct ibv_wc wc = {0};
	int n = wait_wc(&wc);
	if (n != 1)
		say(key, "no completion: %d", n);
	else if (wc.status)
		say(key, "%d: %s", (int)wc.wr_id, ibv_wc_status_str(wc.status));
	else if (wc.opcode & IBV_WC_RECV)
		say(key, "%d: opcode %d, %d bytes, flags %d, imm %x", (int)wc.wr_id, wc.opcode, wc.byte_len,
		    wc.wc_flags, wc.wc_flags & IBV_WC_WITH_IMM ? ntohl(wc.imm_data) : 0);
	else
		say(key, "%d: opcode %d", (int)wc.wr_id, wc.opcode);
}

void say_event(const char *key)
{
	struct ibv_async_event e;
	struct pollfd p = {.fd = context->async_fd, .events = POLLIN};
	if (poll(&p, 1, 10000) != 1) {
		say(key, "none");
		return;
	}
	MUST(!ibv_get_async_event(context, &e));
	say(key, "%s", ibv_event_type_str(e.event_type));
	ibv_ack_async_event(&e);
}

void say_qp(const char *key, struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {0};
	struct ibv_qp_init_attr init;
	int r = ibv_query_qp(qp, &a, IBV_QP_STATE, &init);
	say(key, "%s, state %d", r ? "failed" : "ok", a.qp_state);
}

static int delay = 100;

void settle(void) { usleep(1000 * delay); }

static void find_gid(void)
{
	static struct ibv_gid_entry table[256];
	ssize_t n = ibv_query_gid_table(context, table, 256, 0);
	MUST(n > 0);
	static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};
	for (ssize_t i = 0; i < n; i++)
		if (table[i].gid_type == IBV_GID_TYPE_ROCE_V2 && !memcmp(&table[i].gid, v4, sizeof v4)) {
			gid = table[i].gid;
			gid_index = table[i].gid_index;
			return;
		}
	MUST(!"a GID of RoCEv2");
}

/* run runs a probe in a process of its own. */
static int run(const struct probe *p)
{
	pid_t pid = fork();
	if (!pid) {
		alarm(600);
		struct ibv_device **list = ibv_get_device_list(NULL);
		MUST(list && list[0] && (context = ibv_open_device(list[0])));
		ibv_free_device_list(list);
		find_gid();
		MUST(pd = ibv_alloc_pd(context));
		MUST(cq = ibv_create_cq(context, 64, NULL, NULL, 0));
		buffer = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		MUST(buffer != MAP_FAILED);
		MUST(mr = ibv_reg_mr(pd, buffer, BUFFER, ALL_ACCESS));
		p->run();
		say("done", "ok");
		exit(0); /* with its objects */
	}
	int status = 0;
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status))
		say("signal", "%s", strsignal(WTERMSIG(status)));
	return status != 0;
}

int main(int argc, char **argv)
{
	const struct probe *tables[] = {device_probes, memory_probes, cq_probes, qp_probes, transfer_probes,
					file_probes, connection_probes};
	int failed = 0, list = argc == 2 && !strcmp(argv[1], "-l");
	if (argc > 2 && !strcmp(argv[1], "-d")) {
		delay = atoi(argv[2]);
		argc -= 2, argv += 2;
	}
	for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
		for (const struct probe *p = tables[t]; p->name; p++) {
			int wanted = argc == 1;
			for (int i = 1; i < argc; i++)
				wanted |= !strcmp(argv[i], p->name);
			if (list)
				puts(p->name);
			if (!wanted)
				continue;
			probe_name = p->name;
			failed |= run(p);
		}
	return failed;
}
