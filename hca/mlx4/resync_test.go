package mlx4_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/hca/mlx4"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/prm"
	"ciddk/link/direct"
)

// asyncEQ is the number of the event queue of asynchronous events.
const asyncEQ = 8

// withSRQ is an adapter with a QP that shares its receive queue.
type withSRQ struct {
	*single
	srq    ci.SRQ
	q      ci.QP
	cq     ci.CQ
	events chan ci.EventType // of the QP, of the SRQ and of the CQs in more
	more   []ci.Object
}

func newWithSRQ(t *testing.T, o *single) *withSRQ {
	x := &withSRQ{single: o, events: make(chan ci.EventType, 64)}
	tell := func(e ci.Event) { x.events <- e.Type }
	var err error
	x.cq, err = o.pd.CreateCQ(ci.CQCreate{Size: 100})
	require.NoError(t, err)
	x.srq, err = o.pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 8, MaxSGE: 1}, OnEvent: tell})
	require.NoError(t, err)
	x.q, err = o.pd.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: x.cq, RecvCQ: x.cq, SRQ: x.srq, OnEvent: tell,
		QPCaps: ci.QPCaps{SendDepth: 8, SendSGE: 1}})
	require.NoError(t, err)
	a, err := o.c.Query()
	require.NoError(t, err)
	require.NoError(t, x.q.Modify(ci.ToInit{Port: 1}.For(ci.RC)))
	require.NoError(t, x.q.Modify(ci.ToRTR{AV: ci.AVAttr{Port: 1, DLID: a.Ports[0].LID}, MTU: ci.MTU1024,
		DestNum: x.q.Num()}.For(ci.RC)))
	require.NoError(t, x.q.Modify(ci.ToRTS{RetryCount: 7, RNRRetry: 7}.For(ci.RC)))
	return x
}

// TestLostEvents has the adapter lose all asynchronous events. The driver reports what has happened nevertheless, and
// once.
func TestLostEvents(t *testing.T) {
	for _, isPolling := range []bool{false, true} {
		c := config
		c.Firmware.Polling, c.Firmware.WatchInterval = isPolling, 2*time.Millisecond
		c.Firmware.CompletionEQs = 1
		for name, tt := range map[string]struct {
			cause func(t *testing.T, x *withSRQ)
			want  ci.EventType
		}{
			"SRQ limit": {func(t *testing.T, x *withSRQ) {
				for range 3 {
					_, err := x.srq.PostRecv([]ci.RecvWR{{SGL: x.sge()}})
					require.NoError(t, err)
				}
				require.NoError(t, x.srq.Modify(ci.SRQFieldLimit, ci.SRQAttr{Limit: 2}))
				for range 2 {
					_, err := x.q.PostSend([]ci.SendWR{{Op: ci.OpSend, SGL: x.sge()}})
					require.NoError(t, err)
				}
			}, ci.EventSRQLimit},
			"drained": {func(t *testing.T, x *withSRQ) {
				require.NoError(t, x.q.Modify(ci.QPFieldState|ci.QPFieldSQDEvent,
					ci.QPAttr{State: ci.QPSQD, SQDEvent: true}))
			}, ci.EventSQDrained},
			"last WQE": {func(t *testing.T, x *withSRQ) {
				require.NoError(t, x.q.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError}))
			}, ci.EventLastWQE},
			"CQ error": {func(t *testing.T, x *withSRQ) {
				cq, err := x.pd.CreateCQ(ci.CQCreate{Size: 4, OnEvent: func(e ci.Event) { x.events <- e.Type }})
				require.NoError(t, err)
				x.more = append(x.more, cq)
				for x.m.ForgeCompletion(mlx4.HardwareCQ(cq), [prm.CQESize]byte{}) { // until it overflows
				}
			}, ci.EventCQError},
		} {
			t.Run(name, func(t *testing.T) {
				x := newWithSRQ(t, newSingleWith(t, true, c))
				x.m.OverflowEQ(asyncEQ, 1<<30)
				tt.cause(t, x)
				select {
				case e := <-x.events:
					require.Equal(t, tt.want, e)
				case <-time.After(time.Minute):
					require.Fail(t, "no event")
				}
				x.resync(t, false)
				require.NoError(t, x.q.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPReset}))
				x.close(t, append(x.more, x.q, x.srq, x.cq)...)
				require.Empty(t, x.events, "one event")
			})
		}
	}
}

// resync has the driver resynchronise twice: the adapter loses the events of the link of port 1, which first has the
// state isUp, and then the other one. The first time may be that of an earlier event.
func (o *single) resync(t *testing.T, isUp bool) {
	got := make(chan ci.EventType, 1<<16)
	h, err := o.c.OnEvent(func(e ci.Event) { got <- e.Type }, nil)
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, o.m.SetLink(1, isUp))
		want := ci.EventPortDown
		if isUp {
			want = ci.EventPortActive
		}
		for e := range got {
			if e == want {
				break
			}
		}
		isUp = !isUp
	}
	require.NoError(t, h.Destroy())
}

// TestLostMigration has the adapter lose the event of a QP that migrates to its alternate path. The driver reports the
// migration nevertheless, and once.
func TestLostMigration(t *testing.T) {
	for _, isPolling := range []bool{false, true} {
		c := config
		c.Firmware.Polling, c.Firmware.WatchInterval = isPolling, 2*time.Millisecond
		c.Firmware.CompletionEQs = 1
		l := new(direct.Link)
		second, err := direct.New(l, direct.Config{})
		require.NoError(t, err)
		o := newPortsWith(t, l, second, c)
		alternate := ci.Path{AV: o.address(t, 2), AckTimeout: 20}
		require.NoError(t, o.qp.Modify(ci.QPFieldAlternate|ci.QPFieldAPM,
			ci.QPAttr{Alternate: alternate, APM: ci.APMRearm}))
		post(t, o, []ci.SendWR{o.write([]byte("arm"))})
		a, err := o.qp.Query()
		require.NoError(t, err)
		require.Equal(t, ci.APMArmed, a.APM)

		o.m.OverflowEQ(asyncEQ, 1<<30)
		require.NoError(t, o.m.SetLink(1, false))
		post(t, o, []ci.SendWR{o.write([]byte("by the other port"))})
		select {
		case e := <-o.events:
			require.Equal(t, ci.EventQPAPM, e.Type)
		case <-time.After(time.Minute):
			require.Fail(t, "no event")
		}
		a, err = o.qp.Query()
		require.NoError(t, err)
		require.Equal(t, ci.APMMigrated, a.APM)
		require.Equal(t, alternate, a.Primary)
		o.resync(t, true)
		require.NoError(t, o.qp.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPReset}))
		o.close(t)
		require.Empty(t, o.events, "one event")
	}
}

// TestLostPortEvents has the adapter lose the event of a port that goes down, and that of one that comes back.
func TestLostPortEvents(t *testing.T) {
	for _, isPolling := range []bool{false, true} {
		c := config
		c.Firmware = fw.Config{Polling: isPolling, WatchInterval: 2 * time.Millisecond, CompletionEQs: 1, ResetDelay: 1}
		o := newSingleWith(t, true, c)
		got := make(chan ci.EventType, 1<<16)
		h, err := o.c.OnEvent(func(e ci.Event) { got <- e.Type }, nil)
		require.NoError(t, err)
		o.m.OverflowEQ(asyncEQ, 1<<30)
		for i, want := range []ci.EventType{ci.EventPortDown, ci.EventPortActive, ci.EventPortDown} {
			require.NoError(t, o.m.SetLink(1, i == 1))
			for e := range got {
				if e == want {
					break
				}
				if i > 0 { // the first event of the link may come late
					require.NotContains(t, []ci.EventType{ci.EventPortDown, ci.EventPortActive}, e)
				}
			}
		}
		o.close(t, h)
	}
}
