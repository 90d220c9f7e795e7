/*
 * Two peers of librpma: a client writes to the memory of a server and reads it back, then sends a message, upon which the
 * server compares what it has. Arguments: address, port.
 */
#include <librpma.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SIZE = 1 << 20, MESSAGE = 64 };

static const char *address, *port;

static void check_at(int line, int result)
{
	if (result == 0)
		return;
	printf("line %d: %s\n", line, rpma_err_2str(result));
	fflush(stdout);
	_Exit(1);
}
#define CHECK(x) check_at(__LINE__, x)
#define WANT(x) check_at(__LINE__, (x) ? 0 : RPMA_E_UNKNOWN)

static struct rpma_peer *peer(enum rpma_util_ibv_context_type type)
{
	struct ibv_context *context;
	struct rpma_peer *p;
	CHECK(rpma_utils_get_ibv_context(address, type, &context));
	CHECK(rpma_peer_new(context, &p));
	return p;
}

static char *memory(void)
{
	char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	WANT(p != MAP_FAILED);
	return p;
}

static void want_event(struct rpma_conn *conn, enum rpma_conn_event want)
{
	enum rpma_conn_event event;
	CHECK(rpma_conn_next_event(conn, &event));
	WANT(event == want);
}

static void complete(struct rpma_conn *conn, enum ibv_wc_opcode opcode)
{
	struct rpma_cq *cq;
	struct ibv_wc wc;
	int r;
	CHECK(rpma_conn_get_cq(conn, &cq));
	while ((r = rpma_cq_get_wc(cq, 1, &wc, NULL)) == RPMA_E_NO_COMPLETION)
		CHECK(rpma_cq_wait(cq));
	CHECK(r);
	WANT(wc.status == IBV_WC_SUCCESS && wc.opcode == opcode);
}

static char byte(int i) { return (char)(i * 11 + i / 256); }

static void *serve(void *endpoint)
{
	struct rpma_conn_req *request;
	struct rpma_conn *conn;
	struct rpma_mr_local *mr, *message;
	struct rpma_conn_private_data data;
	size_t size;
	char *p = memory(), *m = memory();
	struct rpma_peer *of = ((void **)endpoint)[1];
	CHECK(rpma_mr_reg(of, p, SIZE, RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, &mr));
	CHECK(rpma_mr_reg(of, m, MESSAGE, RPMA_MR_USAGE_RECV, &message));
	CHECK(rpma_mr_get_descriptor_size(mr, &size));
	data.ptr = malloc(size);
	data.len = size;
	CHECK(rpma_mr_get_descriptor(mr, data.ptr));
	CHECK(rpma_ep_next_conn_req(((void **)endpoint)[0], NULL, &request));
	CHECK(rpma_conn_req_recv(request, message, 0, MESSAGE, NULL));
	CHECK(rpma_conn_req_connect(&request, &data, &conn));
	want_event(conn, RPMA_CONN_ESTABLISHED);
	complete(conn, IBV_WC_RECV);
	for (int i = 0; i < SIZE; i++)
		WANT(p[i] == byte(i));
	WANT(strcmp(m, "written") == 0);
	CHECK(rpma_conn_disconnect(conn));
	want_event(conn, RPMA_CONN_CLOSED);
	CHECK(rpma_conn_delete(&conn));
	CHECK(rpma_mr_dereg(&mr));
	CHECK(rpma_mr_dereg(&message));
	return NULL;
}

int main(int argc, char **argv)
{
	struct rpma_ep *ep;
	struct rpma_conn_req *request;
	struct rpma_conn *conn;
	struct rpma_conn_private_data data;
	struct rpma_mr_local *from, *to;
	struct rpma_mr_remote *remote;
	pthread_t server;
	WANT(argc == 3);
	address = argv[1];
	port = argv[2];
	struct rpma_peer *server_peer = peer(RPMA_UTIL_IBV_CONTEXT_LOCAL), *client_peer = peer(RPMA_UTIL_IBV_CONTEXT_REMOTE);
	CHECK(rpma_ep_listen(server_peer, address, port, &ep));
	void *arguments[] = {ep, server_peer};
	WANT(pthread_create(&server, NULL, serve, arguments) == 0);

	char *p = memory(), *q = memory();
	for (int i = 0; i < SIZE; i++)
		p[i] = byte(i);
	CHECK(rpma_conn_req_new(client_peer, address, port, NULL, &request));
	CHECK(rpma_conn_req_connect(&request, NULL, &conn));
	want_event(conn, RPMA_CONN_ESTABLISHED);
	CHECK(rpma_conn_get_private_data(conn, &data));
	CHECK(rpma_mr_remote_from_descriptor(data.ptr, data.len, &remote));
	CHECK(rpma_mr_reg(client_peer, p, SIZE, RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_SEND, &from));
	CHECK(rpma_mr_reg(client_peer, q, SIZE, RPMA_MR_USAGE_READ_DST, &to));
	CHECK(rpma_write(conn, remote, 0, from, 0, SIZE, RPMA_F_COMPLETION_ALWAYS, NULL));
	complete(conn, IBV_WC_RDMA_WRITE);
	CHECK(rpma_read(conn, to, 0, remote, 0, SIZE, RPMA_F_COMPLETION_ALWAYS, NULL));
	complete(conn, IBV_WC_RDMA_READ);
	WANT(memcmp(p, q, SIZE) == 0);
	strcpy(p, "written");
	CHECK(rpma_send(conn, from, 0, MESSAGE, RPMA_F_COMPLETION_ALWAYS, NULL));
	complete(conn, IBV_WC_SEND);
	want_event(conn, RPMA_CONN_CLOSED);
	CHECK(rpma_conn_disconnect(conn));
	CHECK(rpma_conn_delete(&conn));
	WANT(pthread_join(server, NULL) == 0);
	CHECK(rpma_ep_shutdown(&ep));
	printf("success\n");
	return 0;
}
