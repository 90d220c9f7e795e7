/*
 * Preloaded into the server of qperf 0.4.11, which sends its port to the client before it listens there: a client that is
 * quicker is rejected. A later version listens first, and so does this one.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <rdma/rdma_cma.h>

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	(void)id, (void)backlog;
	return 0; /* rdma_get_src_port has done it */
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	int (*listen)(struct rdma_cm_id *, int) = (int (*)(struct rdma_cm_id *, int))dlsym(RTLD_NEXT, "rdma_listen");
	__be16 (*port)(struct rdma_cm_id *) = (__be16(*)(struct rdma_cm_id *))dlsym(RTLD_NEXT, "rdma_get_src_port");

	return listen && port && listen(id, 0) == 0 ? port(id) : 0;
}
