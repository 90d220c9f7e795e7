package rvt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/wire"
)

// The length of a packet is the sum of its opcode's headers, payload, padding and ICRC. The length of a train is the
// sum over its packets.
func TestWireBytes(t *testing.T) {
	const mtu = 256
	tried := 0
	for _, svc := range []wire.Service{wire.RC, wire.UC, wire.UD} {
		for op := wire.OpSend; op <= wire.OpAtomicAcknowledge; op++ {
			for bits := range 16 {
				start, end := bits&1 != 0, bits&2 != 0
				imm, inv := bits&4 != 0, bits&8 != 0
				for _, n := range []int{1, 2, 5} {
					p := Packet{Service: svc, Op: op, Start: start, End: end, HasImm: imm, HasInv: inv, N: uint32(n)}
					want, legal := 0, true
					for i := range n {
						last := i == n-1
						code, ok := wire.Make(svc, op, start && i == 0, end && last, imm && last, inv && last)
						legal = legal && ok && (n == 1 || code.HasPayload())
						size := 0
						if code.HasPayload() {
							if size = mtu; last && end {
								size = 13
							}
						}
						p.Len += uint32(size)
						want += code.HeaderLen() + (size+3)&^3 + 4
					}
					if legal {
						tried++
						require.Equal(t, want, p.wireBytes(), "%v %v of %d packets, start %t, end %t, immediate %t, "+
							"invalidate %t", svc, op, n, start, end, imm, inv)
					}
				}
			}
		}
	}
	require.Greater(t, tried, 80)
}

// One end receives what the other sends, and other counters do not change.
func TestPortCount(t *testing.T) {
	l := &wireLink{hints: Hints{MaxTrain: 1 << 16}}
	a, b := pair(t, l, ci.RC)
	b.recv(ci.RecvWR{SGL: b.sge(0, 8192)})
	before := a.hca.PortCount(1)
	a.send(ci.SendWR{Flags: ci.SendSignaled, SGL: a.sge(0, 5001)}) // MTU 1024
	require.Equal(t, ci.WCSuccess, a.onlyWC().Status)
	got, peer := a.hca.PortCount(1), b.hca.PortCount(1)
	require.EqualValues(t, 5, got.XmitPkts-before.XmitPkts)
	require.EqualValues(t, 5*16+5004, got.XmitBytes-before.XmitBytes)
	require.EqualValues(t, 1, got.RcvPkts-before.RcvPkts)
	require.EqualValues(t, 20, got.RcvBytes-before.RcvBytes, "an acknowledgement")
	require.Equal(t, got.XmitPkts, peer.RcvPkts)
	require.Equal(t, got.XmitBytes, peer.RcvBytes)
	require.Equal(t, got.RcvBytes, peer.XmitBytes)
	receiverOf(a.hca, 0).Count(DropICRC, 2)
	receiverOf(a.hca, 0).Count(DropMalformed, 3)
	receiverOf(a.hca, 0).Count(DropSendFailed, 4)
	receiverOf(a.hca, 0).Count(DropNotForUs, 5)
	got = a.hca.PortCount(1)
	require.EqualValues(t, 5, got.RcvErrors)
	require.EqualValues(t, 4, got.XmitDiscards)
	require.Zero(t, a.hca.PortCount(0))
	require.Zero(t, a.hca.PortCount(2))
}
