package cm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
)

// Conns lists a connection from its request to the end of time-wait, also before Connect and Accept return it.
func TestConns(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		assert.Empty(t, p.a.m.Conns())
		l := p.b.listen()
		asked := make(chan cm.Conn)
		go func() { asked <- must(p.a.m.Connect(t.Context(), p.a.requestTo(p.b))) }()
		pass(100 * time.Millisecond)
		a, b := p.a.m.Conns(), p.b.m.Conns()
		require.Len(t, a, 1)
		require.Len(t, b, 1)
		assert.Equal(t, cm.ConnInfo{ID: a[0].ID, State: cm.StateREQSent, Active: true}, a[0])
		assert.Equal(t, cm.ConnInfo{ID: b[0].ID, RemoteID: a[0].ID, State: cm.StateREQRcvd}, b[0])

		passive := must(l.Accept(t.Context()))
		answered := make(chan error)
		go func() { answered <- passive.Accept(t.Context(), reply()) }()
		active := <-asked
		require.NoError(t, active.Confirm(nil))
		require.NoError(t, <-answered)
		want := []cm.ConnInfo{{ID: active.ID(), RemoteID: passive.ID(), State: cm.StateEstablished, Active: true}}
		assert.Equal(t, want, p.a.m.Conns())

		require.NoError(t, l.Close())
		require.NoError(t, active.Close())
		require.NoError(t, passive.Close())
		pass(time.Minute)
		assert.Empty(t, p.a.m.Conns())
		assert.Empty(t, p.b.m.Conns())
	})
}
