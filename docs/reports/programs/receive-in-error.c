/*
 * A receive that is posted to a QP in Error completes with a flush error (IBTA volume 1, 10.3.1.7).
 */
#include "loop.h"

int main(void)
{
	open_device();
	connect_loop();
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE));
	struct ibv_sge sge = {(uintptr_t)target, 8, target_mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad;
	CHECK(!ibv_post_recv(qp, &wr, &bad));
	struct ibv_wc wc;
	int n = 0;
	for (int i = 0; i < 2000 && !n; i++, usleep(1000))
		n = ibv_poll_cq(cq, 1, &wc);
	printf("%s: %s\n", n ? "right" : "FAULT", n ? ibv_wc_status_str(wc.status) : "no completion within 2 seconds");
	return !n;
}
