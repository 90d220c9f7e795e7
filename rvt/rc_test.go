package rvt

import (
	"crypto/rand"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

var linkKinds = []struct {
	name  string
	hints Hints
}{
	{"packets", Hints{}},
	{"trains", Hints{MaxTrain: 16 << 10}},
	{"window", Hints{MaxTrain: 8 << 10, Window: 16 << 10}},
	{"lossless", Hints{MaxTrain: 1 << 20, Lossless: true}},
}

func TestRCSend(t *testing.T) {
	for _, k := range linkKinds {
		t.Run(k.name, func(t *testing.T) {
			a, b := pair(t, &wireLink{hints: k.hints}, ci.RC)
			for _, size := range []int{0, 1, 1023, 1024, 1025, 4096, 65536, 300001} {
				rand.Read(a.buf[:size])
				b.recv(ci.RecvWR{ID: 7, SGL: b.sge(0, 400000)})
				a.send(ci.SendWR{ID: 8, Op: ci.OpSend, Flags: ci.SendSignaled | ci.SendImmediate, Imm: 0x01020304,
					SGL: a.sge(0, size)})
				wc := b.poll()
				require.Len(t, wc, 1)
				require.Equal(t, ci.WC{ID: 7, Length: uint32(size), QPN: b.qp.Num(), Imm: 0x01020304,
					Flags: ci.WCImmediate, Op: ci.WCRecv}, wc[0])
				require.Equal(t, a.buf[:size], b.buf[:size])
				wc = a.poll()
				require.Len(t, wc, 1)
				require.Equal(t, ci.WC{ID: 8, Length: uint32(size), QPN: a.qp.Num(), Op: ci.WCSend}, wc[0])
			}
		})
	}
}

func TestRCRemote(t *testing.T) {
	for _, k := range linkKinds {
		t.Run(k.name, func(t *testing.T) {
			a, b := pair(t, &wireLink{hints: k.hints}, ci.RC)
			for _, size := range []int{0, 1, 1024, 1025, 65536, 300001} {
				rand.Read(a.buf[:size])
				r := b.mr.Region()
				a.send(
					ci.SendWR{ID: 1, Op: ci.OpWrite, Flags: ci.SendSignaled, SGL: a.sge(0, size), Remote: r.Remote(17)},
					ci.SendWR{ID: 2, Op: ci.OpRead, Flags: ci.SendSignaled, SGL: a.sge(500000, size),
						Remote: r.Remote(17)},
				)
				wc := a.poll()
				require.Len(t, wc, 2)
				require.Equal(t, ci.WC{ID: 1, Length: uint32(size), QPN: a.qp.Num(), Op: ci.WCWrite}, wc[0])
				require.Equal(t, ci.WC{ID: 2, Length: uint32(size), QPN: a.qp.Num(), Op: ci.WCRead}, wc[1])
				require.Equal(t, a.buf[:size], b.buf[17:17+size])
				require.Equal(t, a.buf[:size], a.buf[500000:500000+size])
			}
			binary.NativeEndian.PutUint64(b.buf[64:], 41)
			r := b.mr.Region()
			a.send(
				ci.SendWR{ID: 1, Op: ci.OpFetchAdd, Flags: ci.SendSignaled, SGL: a.sge(0, 8), Remote: r.Remote(64),
					Atomic: ci.Atomic{Compare: 1}},
				ci.SendWR{ID: 2, Op: ci.OpCompareSwap, Flags: ci.SendSignaled, SGL: a.sge(8, 8), Remote: r.Remote(64),
					Atomic: ci.Atomic{Compare: 42, Swap: 99}},
				ci.SendWR{ID: 3, Op: ci.OpCompareSwap, Flags: ci.SendSignaled, SGL: a.sge(16, 8), Remote: r.Remote(64),
					Atomic: ci.Atomic{Compare: 42, Swap: 1}},
			)
			wc := a.poll()
			require.Len(t, wc, 3)
			for i, want := range []uint64{41, 42, 99} {
				require.Equal(t, ci.WCSuccess, wc[i].Status)
				require.Equal(t, want, binary.NativeEndian.Uint64(a.buf[8*i:]))
			}
			require.EqualValues(t, 99, binary.NativeEndian.Uint64(b.buf[64:]))
		})
	}
}
