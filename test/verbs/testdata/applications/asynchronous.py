"""A queue pair that is connected to itself, driven by coroutines: completions are events of asyncio."""
import asyncio
import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

SIZE, COUNT = 4096, 20


def connect(qp, context):
    attr = QPAttr(port_num=1)
    attr.qp_access_flags = e.IBV_ACCESS_REMOTE_WRITE
    qp.to_init(attr)
    gid = context.query_gid(1, 0)
    attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=GlobalRoute(dgid=gid, sgid_index=0))
    attr.dest_qp_num, attr.path_mtu, attr.min_rnr_timer, attr.max_dest_rd_atomic = qp.qp_num, e.IBV_MTU_1024, 12, 1
    qp.to_rtr(attr)
    attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.max_rd_atomic = 14, 7, 7, 1
    qp.to_rts(attr)


async def completions(channel, cq, count):
    """Yields completions. A thread waits for events, since pyverbs hides the channel's descriptor."""
    while count:
        await asyncio.to_thread(channel.get_cq_event, cq)
        cq.req_notify()
        number, list_ = cq.poll(16)
        while number:
            for wc in list_:
                yield wc
            count -= number
            number, list_ = cq.poll(16)
        cq.ack_events(1)


async def main():
    context = Context(name='rxe_ddk0')
    pd, channel = PD(context), CompChannel(context)
    cq = CQ(context, 64, None, channel, 0)
    qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(max_send_wr=COUNT, max_recv_wr=COUNT)))
    connect(qp, context)
    source, target = (MR(pd, SIZE * COUNT, e.IBV_ACCESS_LOCAL_WRITE) for _ in range(2))
    data = bytes((i * 7 + i // 256) % 256 for i in range(SIZE * COUNT))
    source.write(data, len(data))
    cq.req_notify()
    for i in range(COUNT):
        qp.post_recv(RecvWR(wr_id=i, sg=[SGE(target.buf + i * SIZE, SIZE, target.lkey)], num_sge=1))
        qp.post_send(SendWR(wr_id=i, sg=[SGE(source.buf + i * SIZE, SIZE, source.lkey)], num_sge=1))
    async for wc in completions(channel, cq, 2 * COUNT):
        assert wc.status == e.IBV_WC_SUCCESS, wc
    assert target.read(len(data), 0) == data
    print('success')


asyncio.run(asyncio.wait_for(main(), 120))
