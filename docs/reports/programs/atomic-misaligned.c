/*
 * A fetch and add at an address that is no multiple of 8: the responder is to answer with a remote invalid request (IBTA
 * volume 1, 9.4.5 and 9.9.3), so the request is to be posted. The provider refuses it.
 */
#include "loop.h"

int main(void)
{
	open_device();
	connect_loop();
	struct ibv_sge sge = {(uintptr_t)source, 8, source_mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				 .send_flags = IBV_SEND_SIGNALED}, *bad;
	wr.wr.atomic.remote_addr = (uintptr_t)target + 4;
	wr.wr.atomic.rkey = target_mr->rkey;
	int err = ibv_post_send(qp, &wr, &bad);
	if (err) {
		printf("FAULT: ibv_post_send: %s\n", strerror(err));
		return 1;
	}
	struct ibv_wc wc;
	while (!ibv_poll_cq(cq, 1, &wc))
		sched_yield();
	printf("%s: %s\n", wc.status == IBV_WC_REM_INV_REQ_ERR ? "right" : "FAULT", ibv_wc_status_str(wc.status));
	return wc.status != IBV_WC_REM_INV_REQ_ERR;
}
