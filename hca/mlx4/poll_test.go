package mlx4_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/hca/mlx4"
	"ciddk/hca/mlx4/prm"
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
		const most = 1024
		events := make(chan ci.Event, most+16) // a message that is too long completes, and raises an event, too
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
		for ; len(b) >= 33 && numBad < most; b = b[33:] {
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
			if wc[0].Op == ci.WCRecv {
				require.LessOrEqual(t, wc[0].Length, o.sge()[0].Length)
			}
			delete(open, wc[0].ID)
		}
		for range numBad {
			assert.EqualValues(t, ci.EventCQError, (<-events).Type)
		}
		o.close(t, qps[0], qps[1], qps[2], srq, cq)
	})
}

// TestLongMessage has the adapter report messages that are longer than their receives. They complete with an error, so
// that no consumer reads beyond its memory, and raise an event.
func TestLongMessage(t *testing.T) {
	o := newSingle(t, false)
	events := make(chan ci.Event, 16)
	cq, err := o.pd.CreateCQ(ci.CQCreate{Size: 16, OnEvent: func(e ci.Event) { events <- e }})
	require.NoError(t, err)
	srq, err := o.pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 8, MaxSGE: 1}})
	require.NoError(t, err)
	for name, c := range map[string]ci.QPCreate{
		"receive queue": {Type: ci.RC, QPCaps: ci.QPCaps{RecvDepth: 8, RecvSGE: 1}},
		"SRQ":           {Type: ci.RC, SRQ: srq},
	} {
		c.SendCQ, c.RecvCQ = cq, cq
		q, err := o.pd.CreateQP(c)
		require.NoError(t, err)
		require.NoError(t, q.Modify(ci.ToInit{Port: 1}.For(ci.RC)))
		post := q.PostRecv
		if c.SRQ != nil {
			post = srq.PostRecv
		}
		for index, tt := range []struct {
			opcode byte
			length uint32
			want   ci.WCStatus
		}{
			{prm.CQERecvSend, 8, ci.WCSuccess},
			{prm.CQERecvSend, 9, ci.WCGeneralErr},
			{prm.CQERecvSendImm, 1 << 31, ci.WCGeneralErr},
			{prm.CQERecvWriteImm, 1 << 31, ci.WCSuccess},
			{prm.CQERecvWriteImm, 1<<31 + 1, ci.WCGeneralErr},
		} {
			_, err := post([]ci.RecvWR{{ID: uint64(index), SGL: o.sge()}})
			require.NoError(t, err)
			e := entry(0, uint16(index), tt.opcode, 0)[1:]
			binary.BigEndian.PutUint32(e, mlx4.Hardware(q))
			binary.BigEndian.PutUint32(e[0x14:], tt.length)
			mlx4.PutEntry(cq, e)
			var wc [1]ci.WC
			n, err := cq.Poll(wc[:])
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.EqualValues(t, index, wc[0].ID)
			require.Equal(t, tt.want, wc[0].Status, "%s, %d", name, index)
			if tt.want != ci.WCSuccess {
				require.Zero(t, wc[0].Length)
				require.EqualValues(t, ci.EventCQError, (<-events).Type)
			}
		}
		require.NoError(t, q.Destroy())
	}
	require.Empty(t, events)
	o.close(t, srq, cq)
}

// TestManyEvents has an adapter raise events without end while the callback of the consumer blocks. Only so many wait.
func TestManyEvents(t *testing.T) {
	o := newSingle(t, false)
	var count int
	started, goOn, last := make(chan struct{}), make(chan struct{}), make(chan struct{})
	cq, err := o.pd.CreateCQ(ci.CQCreate{Size: 16, OnEvent: func(e ci.Event) {
		if count++; count == 1 {
			close(started)
			<-goOn
		}
	}, OnCompletion: func(any) { close(last) }})
	require.NoError(t, err)
	bad := entry(0, 0, 0x01, 0)[1:]
	put := func() {
		mlx4.PutEntry(cq, bad)
		n, err := cq.Poll(make([]ci.WC, 1))
		require.NoError(t, err)
		require.Zero(t, n)
	}
	put()
	<-started
	for range 2 * mlx4.MaxEvents {
		put()
	}
	mlx4.RaiseCompletion(cq)
	close(goOn)
	<-last // completions are not lost
	require.Equal(t, 1+mlx4.MaxEvents, count)
	o.close(t, cq)
}
