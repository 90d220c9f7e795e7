package model_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/prm"
	"ciddk/link/direct"
)

// datagramSegment returns the address of a QP at a LID, with a GID if gid is not zero.
func datagramSegment(lid uint16, gid ci.GID, qpn, qkey uint32) []byte {
	b := make([]byte, prm.DatagramSegment)
	prm.AVPort.Put(b, 1)
	prm.AVPD.Put(b, testPD)
	prm.AVRemoteLID.Put(b, uint64(lid))
	if gid != (ci.GID{}) {
		prm.AVGRH.Put(b, 1)
		copy(prm.AVGID.Bytes(b, 16), gid[:])
	}
	prm.DatagramQPN.Put(b, uint64(qpn))
	prm.DatagramQKey.Put(b, uint64(qkey))
	return b
}

func (q *queuePair) start() {
	q.d.t.Helper()
	q.modify(prm.CmdRST2INIT, 0)
	q.modify(prm.CmdINIT2RTR, 0)
	q.modify(prm.CmdRTR2RTS, 0)
}

// Datagrams to a QP, and to a group that it joins before it leaves Reset.
func TestDatagrams(t *testing.T) {
	a, b := newPeers(t, prm.ServiceUD)
	group := ci.GID{0: 0xff, 1: 0x12, 15: 9}
	join := func(members ...uint32) {
		b.with(prm.CmdWriteMCG, 3, 0, func(e []byte) {
			prm.MCGMembers.Put(e, uint64(len(members)))
			copy(prm.MCGGID.Bytes(e, 16), group[:])
			for i, n := range members {
				binary.BigEndian.PutUint32(e[prm.MCGQPs+4*i:], n)
			}
		})
	}
	join(b.qp.num)
	a.qp.start()
	b.qp.start()
	for i, to := range [][]byte{datagramSegment(2, ci.GID{}, b.qp.num, 0x1234),
		datagramSegment(0xc001, group, 0xffffff, 0x1234)} {
		b.qp.postRecv(dataSegment(500, b.mr.key, b.mr.start))
		a.qp.post(prm.WQESend, 0, to, inlineSegment("datagram"))
		requireCQE(t, a.cq.wait(), a.qp.num, true, prm.WQESend)
		e := b.cq.wait()
		requireCQE(t, e, b.qp.num, false, prm.CQERecvSend)
		require.EqualValues(t, 48, prm.CQEByteCount.Get(e))
		require.EqualValues(t, a.qp.num, prm.CQERemoteQPN.Get(e))
		require.EqualValues(t, 1, prm.CQERemoteLID.Get(e))
		require.Equal(t, i == 1, prm.CQEGRH.Has(e))
		require.Equal(t, "datagram", string(b.mr.Bytes[40:48]))
	}
	e := b.query(prm.CmdReadMCG, 3, 0)
	require.EqualValues(t, b.qp.num, prm.MemberQPN.Get(e[prm.MCGQPs:]))
	join()
	b.qp.postRecv(dataSegment(500, b.mr.key, b.mr.start))
	a.qp.post(prm.WQESend, 0, datagramSegment(0xc001, group, 0xffffff, 0x1234), inlineSegment("datagram"))
	requireCQE(t, a.cq.wait(), a.qp.num, true, prm.WQESend)
	require.Nil(t, b.cq.poll(), "the QP has left the group")
	d := datagramSegment(2, ci.GID{}, b.qp.num, 1)
	a.qp.post(prm.WQESend, 0, d, inlineSegment("wrong Q_Key"))
	requireCQE(t, a.cq.wait(), a.qp.num, true, prm.WQESend)
	require.Nil(t, b.cq.poll())
}

// The second port of an adapter. Linux has the port of a QP in its context only from the step to RTR on.
func TestSecondPort(t *testing.T) {
	for name, service := range map[string]uint64{"datagram": prm.ServiceUD, "connection": prm.ServiceRC} {
		t.Run(name, func(t *testing.T) {
			first, second := direct.NewLink(), direct.NewLink()
			var c model.Config
			for _, l := range []*direct.Link{first, second} {
				p, err := direct.New(l, direct.Config{})
				require.NoError(t, err)
				c.Ports = append(c.Ports, model.PortConfig{Link: p})
			}
			m, err := model.New(c)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, m.Close()) })
			a, b := newPeer(t, m, service), newPeer(t, newModel(t, second, model.Config{}), service)
			a.imm(prm.CmdInitPort, 0, 2, 0)
			a.qp.modify(prm.CmdRST2INIT, 0)
			prm.PathPort.Put(prm.QPCPrimary.Bytes(a.qp.context, prm.PathSize), 1)
			var to [][]byte
			if service == prm.ServiceUD {
				a.qp.modify(prm.CmdINIT2RTR, 0)
				a.qp.modify(prm.CmdRTR2RTS, 0)
				b.qp.start()
				to = [][]byte{datagramSegment(2, ci.GID{}, b.qp.num, 0x1234)}
				prm.AVPort.Put(to[0], 2)
			} else {
				a.qp.proceed(2, b.qp.num)
				b.qp.connect(1, a.qp.num)
			}
			b.qp.postRecv(dataSegment(500, b.mr.key, b.mr.start))
			a.qp.post(prm.WQESend, 0, append(to, inlineSegment("by port 2"))...)
			requireCQE(t, a.cq.wait(), a.qp.num, true, prm.WQESend)
			requireCQE(t, b.cq.wait(), b.qp.num, false, prm.CQERecvSend)
		})
	}
}
