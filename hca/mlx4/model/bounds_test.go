package model_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/prm"
	"ciddk/link/direct"
	"ciddk/link/frame"
)

// TestFMRLimit makes FMRs until the adapter accepts no more. Nothing but the adapter's own memory limits them.
func TestFMRLimit(t *testing.T) {
	const (
		logMPTs = 17
		table   = 1 << 30 // ICM address
		limit   = 1 << 16
		first   = 16 // those below are reserved
	)
	d := newDriver(t, newModel(t, direct.NewLink(), model.Config{}))
	d.start()
	mailbox := append([]byte(nil), d.query(prm.CmdQueryHCA, 0, 0)[:prm.HCAVersion.Layout.Size]...)
	d.closeHCA()
	mpts := d.alloc(prm.MPTStride << logMPTs)
	pages := len(mpts.Bytes) / prm.ICMPageSize
	d.fill(func(b []byte) { d.pageList(b, table, mpts.IOVA, pages) })
	d.must(prm.CmdMapICM, uint32(countBits(pages)), 0)
	d.with(prm.CmdInitHCA, 0, 0, func(b []byte) {
		copy(b, mailbox)
		prm.HCADMPTBase.Put(b, table)
		prm.HCALogMPTs.Put(b, logMPTs)
	})
	d.fill(func(b []byte) {
		prm.MPTOwner.Put(b, prm.MPTOwnerSW)
		prm.MPTRegion.Put(b, 1)
		prm.MPTPD.Put(b, testPD)
		prm.MPTLogPage.Put(b, 12)
	})
	create := func(index uint32) prm.Status {
		prm.MPTIndex.Put(d.in.Bytes, uint64(index))
		s, _ := d.exec(prm.CmdSW2HWMPT, d.in.IOVA, index, 0, 0)
		return s
	}
	for i := range uint32(limit) {
		require.Equal(t, prm.OK, create(first+i), "FMR %d", i)
	}
	require.Equal(t, prm.ExceedLim, create(first+limit))
	d.imm(prm.CmdHW2SWMPT, 0, first+1, 1)
	require.Equal(t, prm.OK, create(first+limit), "one was destroyed")
	require.Equal(t, prm.ExceedLim, create(first+1))
}

// TestRepeatedMembers repeats a QP in an entry of the multicast table, and the entry in the table. A frame is delivered
// once nevertheless.
func TestRepeatedMembers(t *testing.T) {
	hub := frame.NewHub()
	a, b := newEthPeer(t, hub, 1, false), newEthPeer(t, hub, 2, false)
	qa, qb := a.newFrameQP(0x300), b.newFrameQP(0x300)
	const members = 200
	repeat := func(op uint8, index uint32) {
		b.with(prm.CmdWriteMCG, index, op, func(x []byte) {
			prm.MCGProtocol.Put(x, prm.ProtocolEth)
			prm.MCGMembers.Put(x, members)
			g := prm.MCGGID.Bytes(x, prm.GIDSize)
			g[5] = 1
			copy(g[10:], b.mac[:])
			for i := range members {
				binary.BigEndian.PutUint32(x[prm.MCGQPs+4*i:], qb.num)
			}
		})
	}
	for index := range uint32(5) {
		repeat(0, 7+index)
	}
	const promiscuous, single = 1, 1 << 1
	repeat(promiscuous, 1<<16|single)
	for i := range byte(3) {
		qb.postRecv(dataSegment(200, b.mr.key, b.mr.start+200*uint64(i)))
	}
	for i := range byte(3) {
		f := append(append(append([]byte{}, b.mac[:]...), a.mac[:]...), 0x88, 0xb5, i)
		copy(a.mr.Bytes, append(f, make([]byte, 60)...))
		qa.post(prm.WQESend, 0, dataSegment(60, a.mr.key, a.mr.start))
		requireCQE(t, a.cq.wait(), qa.num, true, prm.WQESend)
		requireCQE(t, b.cq.wait(), qb.num, false, prm.CQERecvSend)
		require.Equal(t, i, b.mr.Bytes[200*int(i)+14], "frame %d is in receive %d", i, i)
	}
	require.Nil(t, b.cq.poll())
}

// TestFrameQPLimit makes QPs of raw frames until the adapter accepts no more. Parents of receive queues need no CQ and
// no memory of the host.
func TestFrameQPLimit(t *testing.T) {
	const limit, first = 1 << 11, 0x400
	p := newEthPeer(t, frame.NewHub(), 1, false)
	q := p.newQP(first, prm.ServiceMLX, p.cq)
	path := prm.QPCPrimary.Bytes(q.context, prm.RSSOffset+prm.RSSBase.Layout.Size)
	prm.PathLinkType.Put(path, prm.PathLinkEthernet)
	prm.QPCRSS.Put(q.context, 1)
	p.fill(func(b []byte) { copy(b[prm.QPContext.Off:], q.context) })
	create := func(num uint32) prm.Status {
		s, _ := p.exec(prm.CmdRST2INIT, p.in.IOVA, num, 0, 0)
		return s
	}
	for i := range uint32(limit) {
		require.Equal(t, prm.OK, create(first+i), "QP %d", i)
	}
	require.Equal(t, prm.ExceedLim, create(first+limit))
	p.imm(prm.Cmd2RST, 0, first+1, 2)
	require.Equal(t, prm.OK, create(first+limit), "one was destroyed")
	require.Equal(t, prm.ExceedLim, create(first+1))
}

// TestQueueMemory makes the smallest QPs until the adapter accepts no more. Its own memory for a QP is larger than the
// QP's queues.
func TestQueueMemory(t *testing.T) {
	const (
		memory = 1 << 20
		least  = 3 << 10 // of a QP: a context, and the largest WQE of each queue
		first  = 0x400
	)
	p := newPeer(t, newModel(t, direct.NewLink(), model.Config{QueueMemory: memory}), prm.ServiceUD)
	q := p.newQP(first, prm.ServiceUD, p.cq)
	for _, f := range []prm.Field{prm.QPCLogSendSize, prm.QPCLogSendStride, prm.QPCLogRecvSize, prm.QPCLogRecvStride} {
		f.Put(q.context, 0)
	}
	p.fill(func(b []byte) { copy(b[prm.QPContext.Off:], q.context) })
	count := 0
	for ; ; count++ {
		if s, _ := p.exec(prm.CmdRST2INIT, p.in.IOVA, first+uint32(count), 0, 0); s != prm.OK {
			require.Equal(t, prm.ExceedLim, s)
			break
		}
	}
	require.Greater(t, count, 10)
	require.LessOrEqual(t, count, memory/least)
}
