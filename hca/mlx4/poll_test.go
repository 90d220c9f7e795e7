package mlx4_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/hca/mlx4"
)

// entry returns a completion of a QP. opcode has the bit of sends.
func entry(qp byte, index uint16, opcode, syndrome byte) []byte {
	b := make([]byte, 33)
	b[0] = qp
	binary.BigEndian.PutUint16(b[1+0x18:], index)
	b[1+0x1b], b[1+0x1f] = syndrome, opcode
	return b
}

// FuzzPoll has the adapter write completions of its choice. Each request completes once at most, no other request
// completes, and every entry that completes none raises an event.
func FuzzPoll(f *testing.F) {
	for qp := range byte(4) {
		f.Add(entry(qp, 0, 0x4a, 0))
		f.Add(append(entry(qp, 1, 0x01, 0), entry(qp, 0, 0x01, 0)...))
		f.Add(append(entry(qp, 1, 0x5e, 0x05), entry(qp, 0, 0x1e, 0x05)...))
		f.Add(append(entry(qp, 0xffff, 0x40, 0), entry(qp, 2, 0x16, 0)...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		o := newSingle(t, false)
		events := make(chan ci.Event, 1024)
		cq, err := o.pd.CreateCQ(ci.CQCreate{Size: 16, OnEvent: func(e ci.Event) { events <- e }})
		require.NoError(t, err)
		srq, err := o.pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 5, MaxSGE: 1}})
		require.NoError(t, err)
		open := map[uint64]bool{} // IDs of outstanding requests
		recv := func(post func([]ci.RecvWR) (int, error)) {
			for range 3 {
				id := uint64(len(open) + 1)
				_, err := post([]ci.RecvWR{{ID: id, SGL: o.sge()}})
				require.NoError(t, err)
				open[id] = true
			}
		}
		var qps []ci.QP
		for _, c := range []ci.QPCreate{
			{Type: ci.RC, QPCaps: ci.QPCaps{RecvDepth: 4, RecvSGE: 1}},
			{Type: ci.UD, SRQ: srq},
			{Type: ci.UC}, // without receives
		} {
			c.SendCQ, c.RecvCQ = cq, cq
			c.SendDepth, c.SendSGE = 4, 1
			q, err := o.pd.CreateQP(c)
			require.NoError(t, err)
			require.NoError(t, q.Modify(ci.ToInit{Port: 1}.For(c.Type)))
			qps = append(qps, q)
		}
		recv(qps[0].PostRecv)
		recv(srq.PostRecv)
		numBad := 0
		for ; len(b) >= 33 && numBad < cap(events); b = b[33:] {
			e := append([]byte(nil), b[1:33]...)
			if k := int(b[0]); k < len(qps) {
				binary.BigEndian.PutUint32(e, mlx4.Hardware(qps[k])|uint32(e[0])<<24)
			}
			mlx4.PutEntry(cq, e)
			var wc [4]ci.WC
			n, err := cq.Poll(wc[:])
			require.NoError(t, err)
			require.LessOrEqual(t, n, 1)
			if n == 0 {
				numBad++
				continue
			}
			require.True(t, open[wc[0].ID], "%+v", wc[0])
			delete(open, wc[0].ID)
		}
		for range numBad {
			assert.EqualValues(t, ci.EventCQError, (<-events).Type)
		}
		o.close(t, qps[0], qps[1], qps[2], srq, cq)
	})
}
