/*
 * A queue of which ibv_create_qp says that it has room for 0 requests takes one. By its man page, it returns the actual
 * values of the QP that was created.
 */
#include "loop.h"

int main(void)
{
	open_device();
	CHECK(cq = ibv_create_cq(context, 16, NULL, NULL, 0));
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .cap = {4, 0, 1, 0, 0}, .qp_type = IBV_QPT_RC};
	CHECK(qp = ibv_create_qp(pd, &init));
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad;
	unsigned n = 0;
	while (n < 64 && !ibv_post_recv(qp, &wr, &bad))
		n++;
	printf("%s: room for %u receives was granted, and %u were taken\n", n > init.cap.max_recv_wr ? "FAULT" : "right",
	       init.cap.max_recv_wr, n);
	return n > init.cap.max_recv_wr;
}
