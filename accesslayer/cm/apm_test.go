package cm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/mad"
	"ciddk/rvt"
)

func awaitEvent(t *testing.T, events chan ci.EventType, want ci.EventType) {
	t.Helper()
	for {
		select {
		case e := <-events:
			if e == want {
				return
			}
		case <-time.After(testenv.Patience):
			t.Fatalf("no event %v", want)
		}
	}
}

// waitArmed waits until the path migration of both QPs is armed. That takes packets in both directions, which show each
// QP that its peer is ready.
func waitArmed(t *testing.T, a, b *stack, qa, qb *accesslayer.QP) {
	require.Eventually(t, func() bool {
		carry(t, a, qa, b, "arm")
		postOne(b, qb)
		carry(t, b, qb, a, "arm")
		postOne(a, qa)
		x, y := must(qa.Query()), must(qb.Query())
		return x.APM == ci.APMArmed && y.APM == ci.APMArmed
	}, testenv.Patience, time.Millisecond)
}

// TestReferenceAPM loads an alternate path over the second ports with the REQ. When the first link fails, the QPs
// migrate. The first link is then restored, loaded as the new alternate path with a LAP, and takes over when the second
// link fails.
func TestReferenceAPM(t *testing.T) {
	onLinks(t, 2, func(t *testing.T, a, b *stack) {
		events := make(chan ci.EventType, 64)
		alt := a.path(2, b, 2)
		ca, cb, qa, qb := establishWatched(t, a, b, ci.RC, events, func(c *cm.ConnectConfig) { c.Alternate = &alt })
		nextAfterDelays(t, cb, cm.EventEstablished)
		require.Equal(t, ci.APMRearm, must(qa.Query()).APM)
		require.Equal(t, uint8(2), must(qb.Query()).Alternate.AV.Port)
		waitArmed(t, a, b, qa, qb)

		setLink(t, a, b, 1, false)
		carry(t, a, qa, b, "over the second port")
		carry(t, b, qb, a, "both ways")
		awaitEvent(t, events, ci.EventQPAPM)
		awaitEvent(t, events, ci.EventQPAPM)
		require.NoError(t, ca.Migrated())
		require.NoError(t, cb.Migrated())
		require.Equal(t, ci.APMMigrated, must(qa.Query()).APM)
		require.Equal(t, uint8(2), must(qa.Query()).Port)

		setLink(t, a, b, 1, true)
		loaded := make(chan error, 1)
		go func() {
			e := nextAfterDelays(t, cb, cm.EventAlternate)
			assert.Equal(t, uint8(1), e.Path.Port.Num)
			loaded <- cb.AnswerAlternate(mad.APRLoaded, nil, nil)
		}()
		_, err := ca.LoadAlternate(t.Context(), cm.AlternateConfig{Path: a.path(1, b, 1)})
		require.NoError(t, err)
		require.NoError(t, <-loaded)
		for c, qp := range map[cm.Conn]*accesslayer.QP{ca: qa, cb: qb} {
			set, attr, err := c.AlternateAttr()
			require.NoError(t, err)
			require.NoError(t, qp.Modify(set, attr))
		}
		waitArmed(t, a, b, qa, qb)
		setLink(t, a, b, 2, false)
		carry(t, b, qb, a, "and back")
		carry(t, a, qa, b, "to the first")
		require.NoError(t, ca.Migrated())
		require.NoError(t, cb.Migrated())
		done := make(chan error, 1)
		go func() {
			nextAfterDelays(t, cb, cm.EventDisconnect)
			done <- cb.AnswerDisconnect(nil)
		}()
		_, err = ca.Disconnect(t.Context(), nil)
		require.NoError(t, err, "the manager uses the new path")
		require.NoError(t, <-done)
	})
}

// setLink disables or enables the links of the ports with a number at both ends.
func setLink(t *testing.T, a, b *stack, num uint8, up bool) {
	for _, s := range []*stack{a, b} {
		require.NoError(t, s.hca.SetLink(num, up))
	}
}

// TestReferenceVanish removes the server without a DREQ. The client detects that when it disconnects. A new server at
// the same address accepts connections.
func TestReferenceVanish(t *testing.T) {
	l := direct.NewLink()
	port := func(lid ci.LID) rvt.Port {
		return testenv.Must(direct.New(l, direct.Config{LID: lid, GUID: ci.GUID(lid)}))
	}
	quick := func(c *cm.ConnectConfig) { c.ResponseTime, c.RemoteResponseTime, c.MaxRetries = 12, 12, 3 }
	a, b := newStack(t, port(1)), newStack(t, port(2))
	ca, _, qa, _ := establish(t, a, b, ci.RC, quick)
	require.NoError(t, b.mads.Close())
	b.close()
	_, err := ca.Disconnect(t.Context(), nil)
	require.ErrorIs(t, err, cm.ErrTimeout)
	require.NoError(t, qa.Destroy())
	require.ErrorIs(t, nextAfterDelays(t, ca, cm.EventDisconnected).Err, cm.ErrTimeout)

	c := newStack(t, port(2))
	drain(a.cq)
	cc, cs, qc, qs := establish(t, a, c, ci.RC)
	carry(t, a, qc, c, "to the new one")
	carry(t, c, qs, a, "and from it")
	require.NoError(t, cc.Close())
	nextAfterDelays(t, cs, cm.EventEstablished)
	nextAfterDelays(t, cs, cm.EventDisconnect)
	require.NoError(t, cs.Close())
}

// A manager that is closed disconnects its peers. The removal of an HCA ends the calls that use it.
func TestReferenceClose(t *testing.T) {
	onLinks(t, 1, func(t *testing.T, a, b *stack) {
		ca, cb, _, _ := establish(t, a, b, ci.RC)
		require.NoError(t, b.cm.Close())
		nextAfterDelays(t, ca, cm.EventDisconnect)
		require.Equal(t, cm.StateClosed, cb.State())
		require.NoError(t, ca.AnswerDisconnect(nil))
		failed := make(chan error, 1)
		go func() {
			_, err := a.cm.Connect(t.Context(), cm.ConnectConfig{Service: service1, Primary: a.path(1, b, 1),
				RemoteResponseTime: 14, MaxRetries: 2})
			failed <- err
		}()
		require.NoError(t, a.al.Deregister(a.hca.Info().GUID))
		require.Error(t, <-failed)
		_, err := a.cm.Connect(t.Context(), cm.ConnectConfig{Service: service1,
			Primary: cm.Path{Port: mads.Port{CA: a.hca.Info().GUID, Num: 1}}})
		require.ErrorIs(t, err, ci.InvalidPort)
	})
}
