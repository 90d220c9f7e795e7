package cm_test

import (
	"bytes"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// A report of the network ends a request without an answer if it quotes the request. Other reports have no effect in
// any state.
func TestUndelivered(t *testing.T) {
	for name, x := range situations {
		t.Run(name, func(t *testing.T) {
			inScriptOn(t, ci.LinkEthernet, cm.Config{}, func(t *testing.T, s *scripted) {
				v := x.enter(s)
				sent := cm.Sent(v.c)
				peer := s.p.x.attr(1).GIDs[0].GID
				report := func(to ci.GID, quote []byte) {
					s.x.m.Undeliver(s.x.port(1), &mads.Undelivered{To: to, MAD: quote, Err: syscall.ECONNREFUSED})
				}
				before := v.c.State()
				if sent != nil {
					forged := bytes.Clone(sent)
					forged[15]++ // transaction ID
					report(peer, forged)
					report(peer, sent[:mad.HeaderLen])
					report(s.p.x.attr(2).GIDs[0].GID, sent)
					report(peer, append(bytes.Clone(sent), 0))
					s.x.m.Undeliver(s.x.port(2), &mads.Undelivered{To: peer, MAD: sent, Err: syscall.ECONNREFUSED})
					assert.Equal(t, before, v.c.State())
					assert.Zero(t, s.x.m.Counters().Undelivered)
					report(peer, sent[:mad.HeaderLen+4]) // routers quote only the beginning
				}
				if x.state == cm.StateREQSent {
					assert.Equal(t, cm.StateClosed, v.c.State())
					assert.EqualValues(t, 1, s.x.m.Counters().Undelivered)
				} else {
					assert.Equal(t, before, v.c.State())
				}
				v.end()
			})
		})
	}
}

// Connect and Lookup return the cause of the report.
func TestUndeliveredError(t *testing.T) {
	inPairOn(t, ci.LinkEthernet, 1, cm.Config{}, func(t *testing.T, p *pair) {
		peer := p.b.attr(1).GIDs[0].GID
		p.net.filter = func(d *datagram) bool {
			if d.from == p.a.port(1) {
				quote := bytes.Clone(d.mad[:100])
				time.AfterFunc(time.Millisecond, func() {
					p.a.m.Undeliver(p.a.port(1), &mads.Undelivered{To: peer, MAD: quote, Err: syscall.EHOSTUNREACH})
				})
			}
			return false
		}
		start := time.Now()
		_, err := p.a.m.Connect(t.Context(), p.a.requestTo(p.b))
		require.ErrorIs(t, err, syscall.EHOSTUNREACH)
		require.ErrorContains(t, err, "cm: the request did not reach ")
		_, err = p.a.m.Lookup(t.Context(), cm.LookupConfig{Service: service1, Path: p.a.path(1, p.b, 1)})
		require.ErrorIs(t, err, syscall.EHOSTUNREACH)
		require.Less(t, time.Since(start), 10*time.Millisecond)

		// The second end of a peer-to-peer request starts later.
		peerRequest := func(c *cm.ConnectConfig) { c.Peer = true }
		start = time.Now()
		_, err = p.a.m.Connect(t.Context(), p.a.requestTo(p.b, peerRequest))
		require.ErrorIs(t, err, syscall.EHOSTUNREACH)
		require.Equal(t, 6*interval, time.Since(start))
	})
}

// Without an answer, Connect and Lookup fail after ten to twenty seconds, with the default path and with that of
// package rdmacm.
func TestSilence(t *testing.T) {
	for _, life := range []mad.TimeExp{0, 16} {
		inPairOn(t, ci.LinkEthernet, 1, cm.Config{}, func(t *testing.T, p *pair) {
			p.net.filter = func(*datagram) bool { return false }
			path := p.a.path(1, p.b, 1)
			path.LifeTime = life
			least, most := 9*time.Second, 20*time.Second
			start := time.Now()
			_, err := p.a.m.Connect(t.Context(), cm.ConnectConfig{Service: service1,
				QP: cm.QP{Num: 0x100}, Primary: path})
			require.ErrorIs(t, err, cm.ErrTimeout)
			took := time.Since(start)
			assert.True(t, least < took && took < most, "%v", took)
			start = time.Now()
			_, err = p.a.m.Lookup(t.Context(), cm.LookupConfig{Service: service1, Path: path})
			require.ErrorIs(t, err, cm.ErrTimeout)
			took = time.Since(start)
			assert.True(t, least < took && took < most, "%v", took)
		})
	}
}
