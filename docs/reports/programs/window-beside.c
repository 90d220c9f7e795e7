/*
 * A WRITE through a memory window that begins where the window ends, inside of its region: remote access error, and the
 * memory stays as it is (IBTA volume 1, 10.6.7). The QP is connected to itself, so the error may flush the request first.
 */
#include "loop.h"

int main(void)
{
	open_device();
	connect_loop();
	char *p = map(PAGE);
	struct ibv_mr *mr = ibv_reg_mr(pd, p, PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	CHECK(mr);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	CHECK(mw);
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED,
				   .bind_info = {mr, (uintptr_t)p, 64, IBV_ACCESS_REMOTE_WRITE}};
	CHECK(!ibv_bind_mw(qp, mw, &bind));
	struct ibv_wc wc;
	while (!ibv_poll_cq(cq, 1, &wc))
		sched_yield();
	CHECK(wc.status == IBV_WC_SUCCESS);
	struct ibv_mr beside = {.addr = p + 64, .rkey = mw->rkey};
	fill(source, 64, 1);
	enum ibv_wc_status status = transfer(IBV_WR_RDMA_WRITE, source, source_mr, &beside, 64);
	int isWritten = has(p + 64, 64, 1);
	printf("%s: %s; memory beside the window was %s\n", isWritten ? "FAULT" : "right",
	       ibv_wc_status_str(status), isWritten ? "written" : "not written");
	return isWritten;
}
