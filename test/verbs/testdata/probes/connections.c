/* Probes of the connection manager: options, addresses and calls in each state. */
#include "probe.h"
#include <rdma/rdma_cma.h>

static struct rdma_event_channel *channel;

/* TRY is ERROR that returns the result. */
static int result;
#define TRY(key, call) (errno = 0, result = (call), error(key, result), result)

enum { PORT = 17430, IDLE = 0, BOUND, LISTENING, ADDRESS, ROUTE, STATES };

static const char *const states[] = {"idle", "bound", "listening", "address", "route"};

union address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* at returns an address from text; "own" is the device's. */
static union address at(const char *ip, int port)
{
	union address a = {0};
	if (strchr(ip, ':')) {
		a.in6.sin6_family = AF_INET6, a.in6.sin6_port = htons(port);
		MUST(inet_pton(AF_INET6, ip, &a.in6.sin6_addr) == 1);
		return a;
	}
	a.in.sin_family = AF_INET, a.in.sin_port = htons(port);
	if (!strcmp(ip, "own"))
		memcpy(&a.in.sin_addr, gid.raw + 12, 4);
	else
		MUST(inet_pton(AF_INET, ip, &a.in.sin_addr) == 1);
	return a;
}

static struct rdma_cm_id *new_id(enum rdma_port_space space)
{
	struct rdma_cm_id *id;
	if (!channel)
		MUST(channel = rdma_create_event_channel());
	MUST(!rdma_create_id(channel, &id, NULL, space));
	return id;
}

/* next takes an event, NULL if there is none for some time. */
static struct rdma_cm_event *next(int ms)
{
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};
	struct rdma_cm_event *e;
	if (poll(&p, 1, ms) != 1)
		return NULL;
	MUST(!rdma_get_cm_event(channel, &e));
	return e;
}

static void say_next(const char *key)
{
	struct rdma_cm_event *e = next(30000);
	say(key, "%s, status %d", e ? rdma_event_str(e->event) : "none", e ? e->status : 0);
	if (e)
		rdma_ack_cm_event(e);
}

/* expect takes an event of a kind and returns its ID. */
static struct rdma_cm_id *expect(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e = next(30000);
	MUST(e && e->event == type);
	struct rdma_cm_id *id = e->id;
	rdma_ack_cm_event(e);
	return id;
}

/* in returns an ID in a state. */
static struct rdma_cm_id *in(int state, enum rdma_port_space space, int port)
{
	struct rdma_cm_id *id = new_id(space);
	union address own = at("own", port);
	if (state == BOUND || state == LISTENING)
		MUST(!rdma_bind_addr(id, &own.sa));
	if (state == LISTENING)
		MUST(!rdma_listen(id, 1));
	if (state >= ADDRESS) {
		MUST(!rdma_resolve_addr(id, NULL, &own.sa, 2000));
		MUST(expect(RDMA_CM_EVENT_ADDR_RESOLVED) == id);
	}
	if (state == ROUTE) {
		MUST(!rdma_resolve_route(id, 2000));
		MUST(expect(RDMA_CM_EVENT_ROUTE_RESOLVED) == id);
	}
	return id;
}

/* options sets each option in each state, with right and wrong lengths and values. */
static void options(void)
{
	static char zeros[64 * 72];
	for (int s = 0; s < STATES; s++) {
		for (int space = 0; space < 2; space++)
			for (int name = 0; name < 5; name++) {
				struct rdma_cm_id *id = in(s, space ? RDMA_PS_UDP : RDMA_PS_TCP, PORT);
				for (int value = 0; value < 2; value++)
					for (int length = 0; length <= 8; length = length ? 2 * length : 1) {
						int v[2] = {value, value};
						ERROR(text("%s.%d.%d.%d.%d", states[s], space, name, value, length),
						      rdma_set_option(id, RDMA_OPTION_ID, name, v, length));
					}
				MUST(!rdma_destroy_id(id));
			}
		static const int path[][2] = {{0, 0}, {1, 0}, {1, 71}, {1, 72}, {1, 144}, {2, 72}};
		for (size_t i = 0; i < sizeof path / sizeof *path; i++) {
			struct rdma_cm_id *id = in(s, RDMA_PS_TCP, PORT);
			ERROR(text("%s.path.%d.%d", states[s], path[i][0], path[i][1]),
			      rdma_set_option(id, RDMA_OPTION_IB, path[i][0], zeros, path[i][1]));
			MUST(!rdma_destroy_id(id));
		}
	}
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
	ERROR("level", rdma_set_option(id, 2, 0, zeros, 4));
}

/* binds binds pairs of IDs to one port, and listens on both. */
static void binds(void)
{
	static const char *const addresses[] = {"0.0.0.0", "::", "own", "127.0.0.1", "::1"};
	for (int i = 0; i < 5; i++)
		for (int j = 0; j < 5; j++)
			for (int how = 0; how < 4; how++) { /* nothing, the option of one family, another value, reuse */
				struct rdma_cm_id *id[2];
				const int from[2] = {i, j};
				for (int k = 0; k < 2; k++) {
					int value = how != 2;
					union address a = at(addresses[from[k]], PORT + 1);
					id[k] = new_id(RDMA_PS_TCP);
					if (how)
						MUST(!rdma_set_option(id[k], RDMA_OPTION_ID,
								      how == 3 ? RDMA_OPTION_ID_REUSEADDR : RDMA_OPTION_ID_AFONLY,
								      &value, sizeof value));
					ERROR(text("%s.%s.%d.bind%d", addresses[i], addresses[j], how, k),
					      rdma_bind_addr(id[k], &a.sa));
				}
				for (int k = 0; k < 2; k++)
					if (rdma_get_src_port(id[k]))
						ERROR(text("%s.%s.%d.listen%d", addresses[i], addresses[j], how, k),
						      rdma_listen(id[k], 0));
				MUST(!rdma_destroy_id(id[0]) && !rdma_destroy_id(id[1]));
			}
	/* options of an ID that is bound */
	for (int order = 0; order < 2; order++) {
		struct rdma_cm_id *a = new_id(RDMA_PS_TCP), *b = new_id(RDMA_PS_TCP);
		int one = 1;
		union address any4 = at("0.0.0.0", PORT + 2), any6 = at("::", PORT + 2);
		MUST(!rdma_bind_addr(a, order ? &any4.sa : &any6.sa));
		ERROR(text("later.%d.only", order), rdma_set_option(a, 0, RDMA_OPTION_ID_AFONLY, &one, sizeof one));
		rdma_set_option(b, 0, RDMA_OPTION_ID_AFONLY, &one, sizeof one);
		ERROR(text("later.%d.bind", order), rdma_bind_addr(b, order ? &any6.sa : &any4.sa));
		ERROR(text("later.%d.listen.a", order), rdma_listen(a, 0));
		ERROR(text("later.%d.listen.b", order), rdma_listen(b, 0));
		rdma_destroy_id(a), rdma_destroy_id(b);
		a = new_id(RDMA_PS_TCP), b = new_id(RDMA_PS_TCP);
		MUST(!rdma_bind_addr(a, &any4.sa));
		ERROR(text("later.%d.reuse", order), rdma_set_option(a, 0, RDMA_OPTION_ID_REUSEADDR, &one, sizeof one));
		if (order)
			ERROR("later.reuse.listen.first", rdma_listen(a, 0));
		rdma_set_option(b, 0, RDMA_OPTION_ID_REUSEADDR, &one, sizeof one);
		ERROR(text("later.%d.reuse.bind", order), rdma_bind_addr(b, &any4.sa));
		rdma_destroy_id(a), rdma_destroy_id(b);
	}
	/* addresses that cannot be bound */
	static const char *const none[] = {"192.0.2.1", "fe80::1", "2001:db8::1", "224.0.0.1", "255.255.255.255"};
	for (int i = 0; i < 5; i++) {
		struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
		union address a = at(none[i], 0);
		ERROR(text("none.%s", none[i]), rdma_bind_addr(id, &a.sa));
		a = at("own", 0);
		ERROR(text("none.%s.then", none[i]), rdma_bind_addr(id, &a.sa));
		say(text("none.%s.port", none[i]), "%d", rdma_get_src_port(id) != 0);
		ERROR(text("none.%s.twice", none[i]), rdma_bind_addr(id, &a.sa));
	}
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
	ERROR("unbound.listen", rdma_listen(id, 0));
	say("unbound.family", "%d, port %d", id->route.addr.src_addr.sa_family, rdma_get_src_port(id) != 0);
}

/* resolves resolves addresses from others. */
static void resolves(void)
{
	static const char *const from[] = {"", "0.0.0.0", "own", "::", "127.0.0.1", "192.0.2.1"};
	static const char *const to[] = {"own", "0.0.0.0", "127.0.0.1", "127.9.8.7", "::", "::1", "fe80::1"};
	for (int i = 0; i < 6; i++)
		for (int bind = 0; bind < (i ? 2 : 1); bind++)
			for (int j = 0; j < 7; j++) {
				struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
				union address d = at(to[j], PORT), s = {0};
				const char *key = text("%s.%d.%s", i ? from[i] : "any", bind, to[j]);
				if (i)
					s = at(from[i], 0);
				if (bind && rdma_bind_addr(id, &s.sa)) {
					rdma_destroy_id(id);
					continue;
				}
				if (!TRY(key, rdma_resolve_addr(id, i && !bind ? &s.sa : NULL, &d.sa, 2000))) {
					struct rdma_cm_event *e = next(30000);
					say(text("%s.event", key), "%s", e ? rdma_event_str(e->event) : "none");
					if (e && e->event == RDMA_CM_EVENT_ADDR_RESOLVED) {
						union address own = at("own", 0);
						struct sockaddr_in *is = (void *)rdma_get_local_addr(id);
						say(text("%s.local", key), "family %d, own %d", is->sin_family,
						    is->sin_addr.s_addr == own.in.sin_addr.s_addr);
					}
					if (e)
						rdma_ack_cm_event(e);
				}
				MUST(!rdma_destroy_id(id));
			}
}

/* calls makes each call in each state. */
static void calls(void)
{
	struct ibv_qp *qp = new_qp(IBV_QPT_RC);
	static const char *const names[] = {"bind",	  "resolve", "route",  "listen", "connect", "accept",
					    "establish", "reject",  "disconnect", "notify", "init",    "join", "migrate"};
	for (int s = 0; s < STATES; s++)
		for (int call = 0; call < 13; call++)
			for (int space = 0; space < 2; space++) {
				struct rdma_cm_id *id = in(s, space ? RDMA_PS_UDP : RDMA_PS_TCP, PORT + 3);
				union address own = at("own", PORT + 4), group = at("239.1.2.3", 0);
				struct rdma_conn_param p = {.qp_num = qp->qp_num, .retry_count = 7};
				struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT};
				struct rdma_event_channel *other;
				int mask, r = -1;
				if (!id->verbs && strchr("\2\4\5\6\10\12\13", call) && call) {
					rdma_destroy_id(id); /* the library would not survive that */
					continue;
				}
				errno = 0;
				switch (call) {
				case 0: r = rdma_bind_addr(id, &own.sa); break;
				case 1: r = rdma_resolve_addr(id, NULL, &own.sa, 2000); break;
				case 2: r = rdma_resolve_route(id, 2000); break;
				case 3: r = rdma_listen(id, 0); break;
				case 4: r = rdma_connect(id, &p); break;
				case 5: r = rdma_accept(id, &p); break;
				case 6: r = rdma_establish(id); break;
				case 7: r = rdma_reject(id, NULL, 0); break;
				case 8: r = rdma_disconnect(id); break;
				case 9: r = rdma_notify(id, IBV_EVENT_COMM_EST); break;
				case 10: r = rdma_init_qp_attr(id, &a, &mask); break;
				case 11: r = rdma_join_multicast(id, &group.sa, NULL); break;
				case 12:
					MUST(other = rdma_create_event_channel());
					r = rdma_migrate_id(id, other);
					break;
				}
				int e = errno;
				const char *key = text("%s.%s.%d", states[s], names[call], space);
				error(key, r == -1 ? e : r);
				if (call == 10 && !r)
					say(text("%s.mask", key), "%x", mask);
				if (!r && (call == 1 || call == 2 || call == 4 || call == 11))
					say_next(text("%s.event", key));
				MUST(!rdma_destroy_id(id));
			}
}

/* connection connects two IDs. The client has a QP of its own, so that the CONNECT_RESPONSE is its. */
static void connection(struct rdma_cm_id **client, struct rdma_cm_id **server, struct ibv_qp *qp)
{
	struct rdma_conn_param p = {.qp_num = qp->qp_num, .retry_count = 7, .responder_resources = 1,
				    .initiator_depth = 1};
	*client = in(ROUTE, RDMA_PS_TCP, PORT + 5);
	MUST(!rdma_connect(*client, &p));
	*server = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
}

/* ends rejects and ends connections, with all lengths that are next to a limit. */
static void ends(void)
{
	static const int lengths[] = {0, 1, 56, 57, 92, 93, 148, 149, 196, 197, 255};
	static char data[256];
	struct ibv_qp *a = new_qp(IBV_QPT_RC), *b = new_qp(IBV_QPT_RC);
	struct rdma_cm_id *l = in(LISTENING, RDMA_PS_TCP, PORT + 5), *client, *server;
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		struct rdma_conn_param p = {.qp_num = a->qp_num, .retry_count = 7, .private_data = data,
					    .private_data_len = lengths[i]};
		client = in(ROUTE, RDMA_PS_TCP, PORT + 6); /* nobody listens there */
		if (!TRY(text("connect.%d", lengths[i]), rdma_connect(client, &p)))
			say_next(text("connect.%d.event", lengths[i]));
		rdma_destroy_id(client);
		connection(&client, &server, a);
		int r = TRY(text("reject.%d", lengths[i]), rdma_reject(server, data, lengths[i]));
		if (!r) {
			say_next(text("reject.%d.event", lengths[i]));
			ERROR(text("reject.%d.again", lengths[i]), rdma_reject(server, data, 0));
			ERROR(text("reject.%d.disconnect", lengths[i]), rdma_disconnect(client));
		}
		rdma_destroy_id(server);
		if (r)
			say_next(text("reject.%d.closed", lengths[i]));
		rdma_destroy_id(client);
	}
	for (int from = 0; from < 2; from++) {
		struct rdma_conn_param p = {.qp_num = b->qp_num, .retry_count = 7, .responder_resources = 1,
					    .initiator_depth = 1};
		connection(&client, &server, a);
		ERROR(text("ends.%d.disconnect.request", from), rdma_disconnect(from ? server : client));
		rdma_destroy_id(server), rdma_destroy_id(client);
		for (struct rdma_cm_event *e; (e = next(300));)
			rdma_ack_cm_event(e);
		connection(&client, &server, a);
		MUST(!rdma_accept(server, &p));
		MUST(expect(RDMA_CM_EVENT_CONNECT_RESPONSE) == client);
		ERROR(text("ends.%d.notify.reply", from), rdma_notify(from ? server : client, IBV_EVENT_COMM_EST));
		if (from)
			expect(RDMA_CM_EVENT_ESTABLISHED);
		ERROR(text("ends.%d.establish", from), rdma_establish(client));
		if (!from)
			MUST(expect(RDMA_CM_EVENT_ESTABLISHED) == server);
		ERROR(text("ends.%d.establish.again", from), rdma_establish(client));
		static const int events[] = {IBV_EVENT_COMM_EST, IBV_EVENT_QP_FATAL};
		for (int i = 0; i < 2; i++)
			ERROR(text("ends.%d.notify.%d", from, i), rdma_notify(from ? server : client, events[i]));
		ERROR(text("ends.%d.reject", from), rdma_reject(from ? server : client, NULL, 0));
		ERROR(text("ends.%d.disconnect", from), rdma_disconnect(from ? server : client));
		MUST(expect(RDMA_CM_EVENT_DISCONNECTED) == (from ? client : server));
		ERROR(text("ends.%d.answer", from), rdma_disconnect(from ? client : server));
		MUST(expect(RDMA_CM_EVENT_DISCONNECTED) == (from ? server : client));
		ERROR(text("ends.%d.again", from), rdma_disconnect(client));
		ERROR(text("ends.%d.again.server", from), rdma_disconnect(server));
		MUST(!rdma_destroy_id(server) && !rdma_destroy_id(client));
	}
	/* the client rejects the reply */
	struct rdma_conn_param p = {.qp_num = b->qp_num, .retry_count = 7};
	connection(&client, &server, a);
	MUST(!rdma_accept(server, &p));
	MUST(expect(RDMA_CM_EVENT_CONNECT_RESPONSE) == client);
	ERROR("ends.reject", rdma_reject(client, data, 5));
	say_next("ends.reject.event");
	rdma_destroy_id(l);
}

const struct probe connection_probes[] = {{"cm_options", options}, {"cm_binds", binds}, {"cm_resolves", resolves},
					  {"cm_calls", calls},	   {"cm_ends", ends},	{0}};
