package rvt

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/wire"
)

// TestResponderTrains checks that packets which a port joins to a train have the outcome of the same packets one by
// one: the bytes, the completions, and the last answer with its PSN and MSN.
func TestResponderTrains(t *testing.T) {
	const badKey = 0xbad
	for name, tt := range map[string]struct {
		op       wire.Op
		n        int    // packets
		last     uint32 // bytes of the last packet
		room     uint32 // size of the receive; 0: none is posted
		dma      uint32 // content of the RETH
		imm, inv bool
		refused  int // number of the rejected packet; -1: none
	}{
		"SEND":                            {wire.OpSend, 3, 5, 4096, 0, false, false, -1},
		"SEND without a receive":          {wire.OpSend, 3, 5, 0, 0, false, false, 0},
		"SEND too long in the last":       {wire.OpSend, 3, 50, 2*1024 + 10, 0, false, false, 2},
		"SEND too long in the second":     {wire.OpSend, 4, 50, 1024 + 10, 0, false, false, 1},
		"SEND, invalidate of a wrong key": {wire.OpSend, 3, 5, 4096, 0, false, true, -1}, // by the receiver alone
		"WRITE":                           {wire.OpWrite, 3, 5, 0, 2*1024 + 5, false, false, -1},
		"WRITE, less than announced":      {wire.OpWrite, 2, 5, 0, 1024 + 6, false, false, 1},
		"WRITE, more than announced":      {wire.OpWrite, 2, 7, 0, 1024 + 6, false, false, 1},
		"WRITE, more from the second on":  {wire.OpWrite, 4, 7, 0, 1024 + 6, false, false, 1},
		"WRITE with immediate, not ready": {wire.OpWrite, 3, 5, 0, 2*1024 + 5, true, false, 2},
		"WRITE with immediate":            {wire.OpWrite, 3, 5, 64, 2*1024 + 5, true, false, -1},
		"WRITE with immediate, outside":   {wire.OpWrite, 2, 5, 64, 1 << 20, true, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			type outcome struct {
				Op       wire.Op
				PSN      ci.PSN
				MSN      uint32
				Syndrome wire.Syndrome
				Statuses []ci.WCStatus
				Errors   int
				Memory   []byte
			}
			run := func(joined bool) outcome {
				x := newResponderRig(t, wire.RC)
				mtu := x.e.mtu
				require.EqualValues(t, 1024, mtu)
				if tt.room > 0 {
					x.recv(1, 8192, tt.room)
				}
				data := make([]byte, (tt.n-1)*int(mtu)+int(tt.last))
				for i := range data {
					data[i] = byte(i * 7)
				}
				whole := x.remote(tt.op, 0, 0, tt.dma)
				whole.N, whole.MTU = uint32(tt.n), mtu
				whole.Len, whole.Payload = uint32(len(data)), [][]byte{data}
				whole.HasImm, whole.HasInv, whole.Inv = tt.imm, tt.inv, badKey
				packets := []Packet{whole}
				if !joined {
					packets = nil
					for rest := whole; ; {
						first := rest
						first.Payload = append([][]byte(nil), rest.Payload...)
						if rest.N == 1 {
							packets = append(packets, first)
							break
						}
						first.head(1)
						packets = append(packets, first)
						rest.Payload = append([][]byte(nil), rest.Payload...)
						rest.trim(1)
					}
					require.Len(t, packets, tt.n)
				}
				x.run(func(turn *turn) {
					for i := range packets {
						x.r.request(turn, &packets[i])
					}
					x.r.respond(turn)
				})
				sent := x.takeSent()
				require.NotEmpty(t, sent)
				last := sent[len(sent)-1]
				return outcome{last.Op, last.PSN, last.MSN, last.Syndrome, x.statuses(), x.errors, bytes.Clone(x.buf)}
			}
			single := run(false)
			assert.Equal(t, single, run(true))
			want := tt.n - 1
			if tt.refused >= 0 {
				want = tt.refused
			}
			assert.Equal(t, psnAdd(halfPSN, uint32(want)), single.PSN)
			assert.Equal(t, tt.refused < 0, single.Syndrome.IsACK())
		})
	}
}
