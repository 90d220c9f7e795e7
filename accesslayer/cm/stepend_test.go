package cm_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
)

// An outcome that waits behind a blocked OnEvent is delivered even after Close, which drops events.
func TestCloseKeepsOutcomes(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		var r record
		l := p.b.listen()
		unblock := make(chan struct{})
		a, b := p.connect(l, p.a.requestTo(p.b, func(c *cm.ConnectConfig) {
			c.OnEvent = func(_ cm.Conn, e cm.Event) {
				r.add("event: %v", e.Type)
				<-unblock
			}
		}), reply())
		require.NoError(t, l.Close())
		require.NoError(t, b.StartDisconnect(t.Context(), nil, func([]byte, error) {}))
		pass(10 * time.Millisecond) // OnEvent is blocked with EventDisconnect
		require.NoError(t, a.StartDisconnect(t.Context(), nil, func(_ []byte, err error) { r.add("outcome: %v", err) }))
		require.NoError(t, a.Close())
		pass(10 * time.Millisecond)
		require.Equal(t, []string{"event: disconnect"}, r.all())
		close(unblock)
		pass(10 * time.Millisecond)
		assert.Equal(t, []string{"event: disconnect", "outcome: <nil>"}, r.all())
	})
}

// countingContext is a context that never ends. It counts the functions that wait for its end.
type countingContext struct {
	context.Context
	done    chan struct{}
	waiting atomic.Int32
}

func (c *countingContext) Done() <-chan struct{} { return c.done }

// AfterFunc is called by context.AfterFunc.
func (c *countingContext) AfterFunc(func()) (stop func() bool) {
	c.waiting.Add(1)
	var once sync.Once
	return func() bool {
		once.Do(func() { c.waiting.Add(-1) })
		return true
	}
}

// A step that has ended leaves nothing in its context, which may live for the whole program.
func TestStepsLeaveTheirContext(t *testing.T) {
	inPairOn(t, ci.LinkInfiniBand, 2, cm.Config{}, func(t *testing.T, p *pair) {
		ctx := &countingContext{Context: t.Context(), done: make(chan struct{})}
		l, lookups := p.b.listen(), p.b.listen(datagrams)
		conns := make(chan cm.Conn, 2)
		require.NoError(t, l.StartAccept(ctx, func(c cm.Conn, err error) {
			assert.NoError(t, err)
			assert.NoError(t, c.StartAccept(ctx, reply(), func(err error) { assert.NoError(t, err) }))
			conns <- c
		}))
		require.NoError(t, lookups.StartAcceptLookup(ctx, func(r cm.LookupRequest, err error) {
			assert.NoError(t, err)
			assert.NoError(t, r.Accept(1, 2, nil))
		}))
		require.Equal(t, int32(2), ctx.waiting.Load(), "context.AfterFunc uses the context's AfterFunc")
		a := must(p.a.m.Connect(ctx, p.a.requestTo(p.b)))
		require.NoError(t, a.Confirm(nil))
		_, err := p.a.m.Lookup(ctx, cm.LookupConfig{Service: service1, Path: p.a.path(1, p.b, 1)})
		require.NoError(t, err)
		b := <-conns
		pass(10 * time.Millisecond)
		answered := make(chan error, 1)
		require.NoError(t, a.StartLoadAlternate(ctx, cm.AlternateConfig{Path: p.a.path(2, p.b, 2)},
			func(_ *mad.APR, err error) { answered <- err }))
		next(t, b, cm.EventEstablished)
		next(t, b, cm.EventAlternate)
		require.NoError(t, b.AnswerAlternate(mad.APRLoaded, nil, nil))
		require.NoError(t, <-answered)
		_, err = a.Disconnect(ctx, nil)
		require.NoError(t, err)
		assert.Zero(t, ctx.waiting.Load())
		require.NoError(t, l.Close())
		require.NoError(t, lookups.Close())
		require.NoError(t, b.Close())
	})
}

// The answer of a lookup arrives at the moment when its context ends. The lookup ends once.
func TestLookupAnsweredWhenCanceled(t *testing.T) {
	inPairOn(t, ci.LinkInfiniBand, 1, cm.Config{}, func(t *testing.T, p *pair) {
		var sent []byte
		p.net.tap = func(d *datagram) { sent = d.mad }
		p.net.drop(mad.AttrSIDRREQ)
		outcomes := map[bool]int{}
		for range 500 {
			ctx, cancel := context.WithCancel(t.Context())
			var ended, answered atomic.Int32
			require.NoError(t, p.a.m.StartLookup(ctx, cm.LookupConfig{Service: service1, Path: p.a.path(1, p.b, 1)},
				func(r *cm.LookupReply, err error) {
					ended.Add(1)
					if err == nil {
						answered.Add(1)
					}
				}))
			_, msg, err := mad.ParseCM(sent)
			require.NoError(t, err)
			answer := &mad.SIDRREP{RequestID: msg.(*mad.SIDRREQ).RequestID, ServiceID: service1, QPN: 5}
			b := make([]byte, mad.Size)
			h := mad.CMHeader(1, answer)
			h.Put(b)
			answer.Put(b[mad.HeaderLen:])
			cancel()
			p.a.m.Inject(p.a.port(1), b, p.b.attr(1).LID)
			synctest.Wait()
			require.Equal(t, int32(1), ended.Load())
			outcomes[answered.Load() == 1]++
		}
		t.Logf("%d answered, %d canceled", outcomes[true], outcomes[false])
		p.net.mu.Lock()
		p.net.tap = nil
		p.net.mu.Unlock()
	})
}
