package rvt

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// newBudgeted opens an adapter whose queues may occupy limit bytes.
func newBudgeted(t *testing.T, limit int64) (*HCA, ci.PD) {
	t.Helper()
	l := &wireLink{mtu: ci.MTU1024}
	h, err := New(Config{Info: ci.HCAInfo{GUID: 1}, Attr: ci.CAAttr{Caps: testCaps}, Rings: plainRings{},
		Clock: newClock(),
		Rand:  rand.NewChaCha8([32]byte{1}), Ports: []Port{l.port()}, QueueMemory: limit})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	ca, err := h.OpenCA(1, func(ci.Event) {}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ca.Destroy()) })
	pd, err := ca.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pd.Destroy()) })
	return h, pd
}

// used returns the bytes of queue memory in use.
func used(h *HCA) int64 {
	n, _ := h.QueueMemory()
	return n
}

// TestQueueMemoryIsLimited fills the adapter's queue memory with each kind of queue. The create that exceeds it fails
// with InsufficientResources and changes nothing; destroying releases what was counted, to the byte.
func TestQueueMemoryIsLimited(t *testing.T) {
	const limit = 8 << 20
	h, pd := newBudgeted(t, limit)
	cq, err := pd.CreateCQ(ci.CQCreate{Size: 64})
	require.NoError(t, err)
	qp := ci.QPCreate{Type: ci.RC, SendCQ: cq, RecvCQ: cq, QPCaps: ci.QPCaps{SendDepth: 256, RecvDepth: 256,
		SendSGE: 4, RecvSGE: 4}}
	base := used(h)
	require.Positive(t, base)
	for name, create := range map[string]func() (interface{ Destroy() error }, error){
		"QP": func() (interface{ Destroy() error }, error) { return pd.CreateQP(qp) },
		"CQ": func() (interface{ Destroy() error }, error) { return pd.CreateCQ(ci.CQCreate{Size: 4096}) },
		"SRQ": func() (interface{ Destroy() error }, error) {
			return pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4096, MaxSGE: 4}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var made []interface{ Destroy() error }
			for {
				before := used(h)
				o, err := create()
				if err != nil {
					require.ErrorIs(t, err, ci.InsufficientResources)
					var e *ci.Error
					require.ErrorAs(t, err, &e)
					assert.Contains(t, e.Detail, "Config.QueueMemory")
					assert.Equal(t, before, used(h), "a create that fails changes nothing")
					break
				}
				require.Greater(t, used(h), before)
				require.LessOrEqual(t, used(h), int64(limit))
				made = append(made, o)
			}
			require.Greater(t, len(made), 2)
			for _, o := range made {
				require.NoError(t, o.Destroy())
			}
			assert.Equal(t, base, used(h), "destroying releases what was counted")
		})
	}
	require.NoError(t, cq.Destroy())
	assert.Zero(t, used(h))
}

// TestQueueMemoryCountsChanges checks that resizing a CQ or an SRQ and responder resources are counted, and that a
// change that exceeds the limit fails with InsufficientResources and leaves the old size.
func TestQueueMemoryCountsChanges(t *testing.T) {
	h, pd := newBudgeted(t, 4<<20)
	cq, err := pd.CreateCQ(ci.CQCreate{Size: 16})
	require.NoError(t, err)
	small := used(h)
	_, err = cq.Resize(ci.CQResize{Size: 4096})
	require.NoError(t, err)
	require.Greater(t, used(h), small)
	before := used(h)
	_, err = cq.Resize(ci.CQResize{Size: 1<<20 - 1})
	require.ErrorIs(t, err, ci.InsufficientResources)
	assert.Equal(t, before, used(h))
	attr, err := cq.Query()
	require.NoError(t, err)
	assert.Equal(t, 4096, attr.Size)
	_, err = cq.Resize(ci.CQResize{Size: 16})
	require.NoError(t, err)
	assert.Equal(t, small, used(h))

	srq, err := pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 16, MaxSGE: 32}})
	require.NoError(t, err)
	before = used(h)
	require.ErrorIs(t, srq.Modify(ci.SRQFieldMaxWR, ci.SRQAttr{MaxWR: 1<<16 - 1}), ci.InsufficientResources)
	assert.Equal(t, before, used(h))
	require.NoError(t, srq.Modify(ci.SRQFieldMaxWR, ci.SRQAttr{MaxWR: 256}))
	assert.Greater(t, used(h), before)
	require.NoError(t, srq.Modify(ci.SRQFieldMaxWR, ci.SRQAttr{MaxWR: 16}))
	assert.Equal(t, before, used(h))

	qp, err := pd.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: cq, RecvCQ: cq})
	require.NoError(t, err)
	created := used(h)
	require.NoError(t, qp.Modify(ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: 1}))
	require.NoError(t, qp.Modify(ci.QPFieldsRTR, ci.QPAttr{State: ci.QPRTR, MTU: ci.MTU256, RespRes: 128, DestNum: 2,
		Primary: ci.Path{AV: ci.AVAttr{DLID: 1, Port: 1}}}))
	assert.Equal(t, created+responderBytes(128), used(h), "responder resources are counted from RTR on")
	require.NoError(t, qp.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPReset}))
	assert.Equal(t, created, used(h))
	require.NoError(t, qp.Destroy())
	require.NoError(t, srq.Destroy())
	require.NoError(t, cq.Destroy())
	assert.Zero(t, used(h))
}

// TestInboxIsLimitedInBytes fills the inbox of a QP whose engine is busy. The inbox holds its share of
// Config.InboxMemory; further packets are dropped and counted. The bytes are released with the packets.
func TestInboxIsLimitedInBytes(t *testing.T) {
	l := &wireLink{mtu: ci.MTU4096}
	s := newSide(t, l, 1, nil, ci.RC, nil)
	q := s.qp.(*QP)
	h := s.hca
	h.inboxes.limit = 1 << 20
	pkts := []Packet{{Len: 4096, N: 1, Payload: [][]byte{make([]byte, 4096)}}}
	q.mu.Lock()
	for range inboxLimit {
		q.enqueue(pkts)
	}
	held := q.inbox.bytes
	dropped := h.count[DropBusy].Load()
	q.mu.Unlock()
	assert.LessOrEqual(t, held, int64(1<<20)/inboxShare)
	assert.Greater(t, held, int64(1<<20)/inboxShare-packetBytes-4096)
	assert.Equal(t, held, h.inboxes.used.Load())
	assert.Equal(t, uint64(inboxLimit)-uint64(held/(packetBytes+4096)), dropped)
	q.kick()
	assert.Zero(t, h.inboxes.used.Load())
}

// TestDestroyedQueuesHoldNoRings checks that a reference to a destroyed QP, SRQ or CQ does not keep its rings.
func TestDestroyedQueuesHoldNoRings(t *testing.T) {
	_, pd := newBudgeted(t, 0)
	cq, err := pd.CreateCQ(ci.CQCreate{Size: 64})
	require.NoError(t, err)
	srq, err := pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 64, MaxSGE: 1}})
	require.NoError(t, err)
	qp, err := pd.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: cq, RecvCQ: cq, QPCaps: ci.QPCaps{SendDepth: 64,
		RecvDepth: 64}})
	require.NoError(t, err)
	require.NoError(t, qp.Destroy())
	require.NoError(t, srq.Destroy())
	require.NoError(t, cq.Destroy())
	q := qp.(*QP)
	assert.Equal(t, []any{noSendRing{}, noRecvRing{}, noRecvRing{}}, []any{q.sq, q.rq, q.source})
	assert.Equal(t, noRecvRing{}, srq.(*SRQ).ring)
	assert.Equal(t, noCompletionRing{}, cq.(*CQ).ring)
	_, err = qp.PostSend([]ci.SendWR{{Op: ci.OpSend}})
	assert.ErrorIs(t, err, ci.InvalidQPHandle)
	_, err = qp.PostRecv([]ci.RecvWR{{}})
	assert.ErrorIs(t, err, ci.InvalidQPHandle)
	_, err = srq.PostRecv([]ci.RecvWR{{}})
	assert.ErrorIs(t, err, ci.InvalidSRQHandle)
	_, err = cq.Poll(make([]ci.WC, 1))
	assert.ErrorIs(t, err, ci.InvalidCQHandle)
}
