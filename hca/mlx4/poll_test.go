package mlx4_test

import (
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/hca/mlx4"
	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/prm"
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
			assert.Equal(t, ci.EventCQError, (<-events).Type)
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
				require.Equal(t, ci.EventCQError, (<-events).Type)
			}
		}
		require.NoError(t, q.Destroy())
	}
	require.Empty(t, events)
	o.close(t, srq, cq)
}

// sendLies are completions of requests of 8 bytes. The adapter reports a length only for RDMA READ and atomics, and
// success only of requests that are signaled.
var sendLies = []struct {
	op     ci.SendOp
	flags  ci.SendFlags
	opcode uint64
	length uint64
	want   ci.WCStatus
}{
	{ci.OpSend, ci.SendSignaled, prm.WQESend, 0, ci.WCSuccess},
	{ci.OpSend, ci.SendSignaled, prm.WQESend, 1<<32 - 1, ci.WCSuccess},
	{ci.OpSend, ci.SendSignaled, prm.WQERead, 8, ci.WCGeneralErr},
	{ci.OpSend, ci.SendSignaled, prm.WQENop, 0, ci.WCGeneralErr},
	{ci.OpSend, ci.SendSignaled, prm.WQESendImm, 0, ci.WCGeneralErr},
	{ci.OpWrite, ci.SendSignaled, prm.WQEWrite, 4096, ci.WCSuccess},
	{ci.OpWrite, ci.SendSignaled, prm.WQEBind, 0, ci.WCGeneralErr},
	{ci.OpRead, ci.SendSignaled, prm.WQERead, 8, ci.WCSuccess},
	{ci.OpRead, ci.SendSignaled, prm.WQERead, 7, ci.WCGeneralErr},
	{ci.OpRead, ci.SendSignaled, prm.WQERead, 9, ci.WCGeneralErr},
	{ci.OpRead, ci.SendSignaled, prm.WQERead, 1<<32 - 1, ci.WCGeneralErr},
	{ci.OpRead, ci.SendSignaled, prm.WQEWrite, 8, ci.WCGeneralErr},
	{ci.OpCompareSwap, ci.SendSignaled, prm.WQECompareSwap, 8, ci.WCSuccess},
	{ci.OpCompareSwap, ci.SendSignaled, prm.WQECompareSwap, 4, ci.WCGeneralErr},
	{ci.OpCompareSwap, ci.SendSignaled, prm.WQEFetchAdd, 8, ci.WCGeneralErr},
	{ci.OpFetchAdd, ci.SendSignaled, prm.WQEFetchAdd, 8, ci.WCSuccess},
	{ci.OpFetchAdd, ci.SendSignaled, prm.WQEFetchAdd, 1 << 12, ci.WCGeneralErr},
	{ci.OpWrite, 0, prm.WQEWrite, 0, ci.WCGeneralErr},
	{ci.OpRead, ci.SendFence, prm.WQERead, 8, ci.WCGeneralErr},
}

// lieAboutSends has the adapter complete requests that it has not executed. q is in SQD, so that the adapter does not
// execute them. It calls isBad after each entry that is an error.
func lieAboutSends(t *testing.T, m *model.Model, cqn uint32, cq ci.CQ, q ci.QP, sge ci.SGE, isBad func()) {
	for i, tt := range sendLies {
		wr := ci.SendWR{ID: uint64(i) + 1, Op: tt.op, Flags: tt.flags, SGL: []ci.SGE{sge}}
		_, err := q.PostSend([]ci.SendWR{wr})
		require.NoError(t, err)
		var e [prm.CQESize]byte
		prm.CQEQPN.Put(e[:], uint64(q.Num()))
		prm.CQEWQEIndex.Put(e[:], uint64(i))
		prm.CQESend.Put(e[:], 1)
		prm.CQEOpcode.Put(e[:], tt.opcode)
		prm.CQEByteCount.Put(e[:], tt.length)
		require.True(t, m.ForgeCompletion(cqn, e))
		var wc [2]ci.WC
		n, err := cq.Poll(wc[:])
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, wr.ID, wc[0].ID)
		require.Equal(t, tt.want, wc[0].Status, "%+v", tt)
		if tt.want != ci.WCSuccess {
			require.Zero(t, wc[0].Length)
			isBad()
			continue
		}
		require.Equal(t, sge.Length, wc[0].Length, "%+v", tt)
	}
}

// TestWrongSend has the adapter complete requests with another opcode or length than theirs. They complete with an
// error, and raise an event.
func TestWrongSend(t *testing.T) {
	o := newSingle(t, false)
	events := make(chan ci.Event, len(sendLies))
	cq, err := o.pd.CreateCQ(ci.CQCreate{Size: 16, OnEvent: func(e ci.Event) { events <- e }})
	require.NoError(t, err)
	q, err := o.pd.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: cq, RecvCQ: cq,
		QPCaps: ci.QPCaps{SendDepth: 4, SendSGE: 1}})
	require.NoError(t, err)
	require.NoError(t, q.Modify(ci.ToInit{Port: 1}.For(ci.RC)))
	require.NoError(t, q.Modify(ci.ToRTR{AV: ci.AVAttr{Port: 1, DLID: 7}, MTU: ci.MTU1024, DestNum: 5}.For(ci.RC)))
	require.NoError(t, q.Modify(ci.ToRTS{RetryCount: 7, RNRRetry: 7}.For(ci.RC)))
	require.NoError(t, q.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPSQD}))
	lieAboutSends(t, o.m, mlx4.HardwareCQ(cq), cq, q, o.sge()[0], func() {
		require.Equal(t, ci.EventCQError, (<-events).Type)
	})
	require.Empty(t, events)
	o.close(t, q, cq)
}

// TestShortDatagram has the adapter report datagrams that lack the area of the GRH, which consumers skip.
func TestShortDatagram(t *testing.T) {
	o := newSingle(t, false)
	events := make(chan ci.Event, 16)
	cq, err := o.pd.CreateCQ(ci.CQCreate{Size: 16, OnEvent: func(e ci.Event) { events <- e }})
	require.NoError(t, err)
	q, err := o.pd.CreateQP(ci.QPCreate{Type: ci.UD, SendCQ: cq, RecvCQ: cq,
		QPCaps: ci.QPCaps{RecvDepth: 4, RecvSGE: 1}})
	require.NoError(t, err)
	require.NoError(t, q.Modify(ci.ToInit{Port: 1}.For(ci.UD)))
	r := o.mr.Region()
	for index, length := range []uint64{40, 39, 0, 100} {
		_, err := q.PostRecv([]ci.RecvWR{{ID: uint64(index), SGL: []ci.SGE{r.SGE(0, 100)}}})
		require.NoError(t, err)
		var e [prm.CQESize]byte
		prm.CQEQPN.Put(e[:], uint64(q.Num()))
		prm.CQEWQEIndex.Put(e[:], uint64(index))
		prm.CQEOpcode.Put(e[:], prm.CQERecvSend)
		prm.CQEByteCount.Put(e[:], length)
		require.True(t, o.m.ForgeCompletion(mlx4.HardwareCQ(cq), e))
		var wc [1]ci.WC
		n, err := cq.Poll(wc[:])
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.EqualValues(t, index, wc[0].ID)
		if length >= 40 {
			require.Equal(t, ci.WCSuccess, wc[0].Status)
			require.EqualValues(t, length, wc[0].Length)
			continue
		}
		require.Equal(t, ci.WCGeneralErr, wc[0].Status, "%d bytes", length)
		require.Equal(t, ci.EventCQError, (<-events).Type)
	}
	require.Empty(t, events)
	o.close(t, q, cq)
}

// flood has the adapter write bad entries to a CQ as fast as it can, while there is more room than spare, until the
// function that it returns is called.
func flood(m *model.Model, cqn uint32, spare int, qpn uint64) (end func()) {
	var entries [4][prm.CQESize]byte
	for i, opcode := range []uint64{prm.CQERecvSend, prm.CQEOpcodeError, prm.CQEOpcodeResize, prm.WQESend} {
		e := entries[i][:]
		prm.CQEQPN.Put(e, qpn)
		prm.CQEWQEIndex.Put(e, 0xffff) // of no request
		prm.CQEOpcode.Put(e, opcode)
		prm.CQESend.Put(e, uint64(i&1))
	}
	var hasEnded atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; !hasEnded.Load(); i++ {
			if m.CQRoom(cqn) > spare {
				m.ForgeCompletion(cqn, entries[i%len(entries)])
			} else {
				runtime.Gosched()
			}
		}
	})
	return func() {
		hasEnded.Store(true)
		wg.Wait()
	}
}

// TestManyBadEntries has the adapter write bad entries without end, as fast as it can. Poll takes no more entries at a
// time than the queue has, and requests complete afterwards.
func TestManyBadEntries(t *testing.T) {
	o := newSingle(t, true)
	var once sync.Once
	event := make(chan struct{})
	cq, err := o.pd.CreateCQ(ci.CQCreate{Size: 15, OnEvent: func(ci.Event) { once.Do(func() { close(event) }) }})
	require.NoError(t, err)
	q, err := o.pd.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: cq, RecvCQ: cq,
		QPCaps: ci.QPCaps{SendDepth: 4, SendSGE: 1, MaxInline: 64}})
	require.NoError(t, err)
	end := flood(o.m, mlx4.HardwareCQ(cq), 0, uint64(q.Num()))
	defer end()
	slots := mlx4.Slots(cq)
	for range 500 {
		for n := 0; n < slots; runtime.Gosched() { // the adapter goes on while Poll takes the entries
			var err error
			n, err = cq.Peek()
			require.NoError(t, err)
		}
		before := mlx4.Consumer(cq)
		var wc [4]ci.WC
		n, err := cq.Poll(wc[:])
		require.NoError(t, err)
		require.Zero(t, n)
		require.LessOrEqual(t, int(mlx4.Consumer(cq)-before), slots)
	}
	end()
	for n := -1; n != 0; {
		_, err := cq.Poll(make([]ci.WC, 1))
		require.NoError(t, err)
		n, err = cq.Peek()
		require.NoError(t, err)
	}
	a, err := o.c.Query()
	require.NoError(t, err)
	require.NoError(t, q.Modify(ci.ToInit{Port: 1, Access: ci.RemoteWrite}.For(ci.RC)))
	require.NoError(t, q.Modify(ci.ToRTR{AV: ci.AVAttr{Port: 1, DLID: a.Ports[0].LID}, MTU: ci.MTU1024,
		DestNum: q.Num()}.For(ci.RC)))
	require.NoError(t, q.Modify(ci.ToRTS{RetryCount: 7, RNRRetry: 7}.For(ci.RC)))
	_, err = q.PostSend([]ci.SendWR{o.write([]byte("after"))})
	require.NoError(t, err)
	var wc [1]ci.WC
	for deadline := time.Now().Add(time.Minute); ; runtime.Gosched() {
		n, err := cq.Poll(wc[:])
		require.NoError(t, err)
		if n == 1 {
			break
		}
		require.True(t, time.Now().Before(deadline), "no completion")
	}
	require.NoError(t, wc[0].Err())
	require.Equal(t, "after", string(o.b[2048:2048+5]))
	<-event
	o.close(t, q, cq)
}
