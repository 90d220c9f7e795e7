package cm_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
)

func datagrams(c *cm.ListenConfig) { c.Datagram = true }

// A service ID is resolved, rejected, and unknown. Private data is delivered.
func TestLookup(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		cfg := cm.LookupConfig{Service: service1, Path: p.a.path(1, p.b, 1), Private: []byte("where")}
		var e *cm.LookupError
		_, err := p.a.m.Lookup(t.Context(), cfg)
		require.ErrorAs(t, err, &e)
		assert.Equal(t, mad.SIDRUnsupportedService, e.Status)

		l := p.b.listen(datagrams)
		done := make(chan error, 1)
		go func() {
			r, err := l.AcceptLookup(t.Context())
			if err == nil {
				assert.Equal(t, private([]byte("where"), mad.SIDRREQPrivateLen), r.Request().PrivateData[:])
				assert.Equal(t, service1, r.Request().ServiceID)
				assert.Equal(t, p.b.port(1), r.Path().Port)
				assert.Equal(t, ci.QPN(1), r.From().QPN)
				err = r.Accept(0x4242, 0x11223344, []byte("here"))
				assert.ErrorIs(t, r.Reject(mad.SIDRRejected, nil, nil), ci.InvalidState, "answered")
			}
			done <- err
		}()
		got, err := p.a.m.Lookup(t.Context(), cfg)
		require.NoError(t, err)
		require.NoError(t, <-done)
		assert.Equal(t, ci.QPN(0x4242), got.QPN)
		assert.Equal(t, ci.QKey(0x11223344), got.QKey)
		assert.Equal(t, private([]byte("here"), mad.SIDRREPPrivateLen), got.Private)

		go func() {
			r, err := l.AcceptLookup(t.Context())
			if err == nil {
				assert.ErrorIs(t, r.Reject(mad.SIDRValid, nil, nil), ci.InvalidParameter)
				assert.ErrorIs(t, r.Reject(mad.SIDRNoQP, make([]byte, 73), nil), ci.InvalidParameter)
				assert.ErrorIs(t, r.Accept(1<<24, 0, nil), ci.InvalidParameter)
				assert.ErrorIs(t, r.Accept(1, 0, make([]byte, 137)), ci.InvalidParameter)
				err = r.Reject(mad.SIDRNoQP, []byte("info"), []byte("no"))
			}
			done <- err
		}()
		_, err = p.a.m.Lookup(t.Context(), cfg)
		require.NoError(t, <-done)
		require.ErrorAs(t, err, &e)
		assert.Equal(t, mad.SIDRNoQP, e.Status)
		assert.Equal(t, "info", string(e.Info))
		assert.Equal(t, private([]byte("no"), mad.SIDRREPPrivateLen), e.Private)
		assert.ErrorContains(t, err, "no QP available")

		// A request without an answer is rejected when the listener is closed.
		rejected := make(chan error, 1)
		go func() { _, err := p.a.m.Lookup(t.Context(), cfg); rejected <- err }()
		pass(time.Second)
		require.NoError(t, l.Close())
		require.ErrorAs(t, <-rejected, &e)
		assert.Equal(t, mad.SIDRUnsupportedService, e.Status)
		_, err = l.AcceptLookup(t.Context())
		assert.ErrorIs(t, err, cm.ErrClosed)
		for _, bad := range []cm.LookupConfig{{Path: cfg.Path, Timeout: -1}, {Path: cfg.Path, Retries: -1},
			{Path: cfg.Path, Private: make([]byte, 217)}} {
			_, err := p.a.m.Lookup(t.Context(), bad)
			assert.ErrorIs(t, err, ci.InvalidParameter)
		}
	})
}

// Copies of a request get the same answer. Requests without an answer are removed after a while. Their number is
// limited, and their partition is checked.
func TestLookupCopies(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		l := s.x.listen(datagrams, func(c *cm.ListenConfig) { c.Backlog = 2 })
		req := func(id uint32) *mad.SIDRREQ { return &mad.SIDRREQ{RequestID: id, PKey: 0xffff, ServiceID: service1} }
		s.send(req(1))
		s.send(req(1))
		assert.Equal(t, uint64(1), s.x.m.Counters().Dropped[cm.DropLate])
		r := must(l.AcceptLookup(t.Context()))
		require.NoError(t, r.Accept(5, 6, nil))
		s.settle()
		first := one[*mad.SIDRREP](s)
		s.send(req(1))
		assert.Equal(t, first, one[*mad.SIDRREP](s))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		_, err := l.AcceptLookup(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, "the listener gets the request once")

		for id := range uint32(4) {
			s.send(req(10 + id))
		}
		ms := s.take()
		require.Len(t, ms, 2)
		assert.Equal(t, mad.SIDRNoQP, ms[0].(*mad.SIDRREP).Status)
		bad := req(20)
		bad.PKey = 0x1234
		s.send(bad)
		assert.Equal(t, mad.SIDRRejected, one[*mad.SIDRREP](s).Status)
		pass(time.Hour)
		c := s.x.m.Counters()
		assert.Equal(t, 0, c.Lookups)
		assert.Equal(t, uint64(2), c.Dropped[cm.DropUnanswered])
		require.NoError(t, l.Close())
		s.send(&mad.SIDRREP{RequestID: 77})
		assert.Equal(t, uint64(1), s.x.m.Counters().Dropped[cm.DropUnknown])
	})
}

// A lookup is repeated as often as configured, then it fails.
func TestLookupTimeout(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		times := s.net.sentTimes(mad.AttrSIDRREQ)
		start := time.Now()
		_, err := s.x.m.Lookup(t.Context(), cm.LookupConfig{Service: service1, Path: s.x.path(1, s.p.x, 1),
			Timeout: time.Second, Retries: 2})
		require.ErrorIs(t, err, cm.ErrTimeout)
		assert.Equal(t, 3*time.Second, time.Since(start))
		assert.Equal(t, []time.Duration{0, time.Second, 2 * time.Second}, times())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		_, err = s.x.m.Lookup(ctx, cm.LookupConfig{Path: s.x.path(1, s.p.x, 1)})
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// The number of kept answers is limited: the oldest is removed, and no request is rejected because of answered ones.
func TestAnswersBounded(t *testing.T) {
	inScriptOn(t, ci.LinkEthernet, cm.Config{MaxPending: 3}, func(t *testing.T, s *scripted) {
		l := s.x.listen(datagrams)
		for id := range uint32(10) {
			s.send(&mad.SIDRREQ{RequestID: id, PKey: 0xffff, ServiceID: service1})
			require.NoError(t, must(l.AcceptLookup(t.Context())).Accept(5, 6, nil))
			s.settle()
			assert.Equal(t, mad.SIDRValid, one[*mad.SIDRREP](s).Status)
		}
		assert.Equal(t, 3, s.x.m.Counters().Lookups)
		require.NoError(t, l.Close())
	})
}
