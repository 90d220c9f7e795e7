package services_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
	"ciddk/hca/reference/userlib"
	"ciddk/internal/testenv"
	"ciddk/kproxy"
)

// TestBlockedCallsEnd has goroutines wait without a deadline for a message, for a datagram and for a request, when the
// daemon ends and when the adapter is removed. Each of them receives an error.
func TestBlockedCallsEnd(t *testing.T) {
	ends := map[string]func(t *testing.T, r *rig){
		"daemon":  func(_ *testing.T, r *rig) { r.server.Close() },
		"removal": func(t *testing.T, r *rig) { require.NoError(t, r.al.Deregister(r.hcas[0].Info().GUID)) },
	}
	for name, libraries := range map[string][]*ci.UserLibrary{"messages": nil, "bypass": {userlib.New()}} {
		for how, end := range ends {
			t.Run(name+" "+how, func(t *testing.T) {
				r := newRig(t, kproxy.Config{}, simPorts(t, "10.0.0.1")...)
				calls := blockedCalls(t, r.manager(libraries...))
				if how == "removal" {
					delete(calls, "Listener.Accept") // it waits for another adapter with its address
				}
				end(t, r)
				for range len(calls) {
					for call, ended := range calls {
						select {
						case err := <-ended:
							require.Error(t, err, call)
							delete(calls, call)
						case <-time.After(testenv.Patience):
							t.Fatalf("%s hangs", call)
						}
					}
				}
			})
		}
	}
}

// blockedCalls starts calls that wait, and returns the channels of their errors, by name.
func blockedCalls(t *testing.T, m *rdmacm.Manager) map[string]chan error {
	forever := context.Background()
	at := netip.MustParseAddrPort("10.0.0.1:7174")
	ln, err := m.Listen(at, rdmacm.ListenConfig{})
	require.NoError(t, err)
	accepted := make(chan *rdmacm.Conn, 1)
	go func() {
		defer close(accepted)
		if q, err := ln.Accept(forever); err == nil {
			if c, err := q.Accept(forever); err == nil {
				accepted <- c
			}
		}
	}()
	a, err := m.Dial(deadline(t), at)
	require.NoError(t, err)
	b := <-accepted
	require.NotNil(t, b)
	d, err := m.ListenDatagram(netip.MustParseAddrPort("10.0.0.1:7175"), rdmacm.DatagramConfig{})
	require.NoError(t, err)
	calls := map[string]chan error{}
	start := func(name string, f func() error) {
		ended := make(chan error, 1)
		calls[name] = ended
		go func() { ended <- f() }()
	}
	start("Conn.Recv", func() error { _, err := a.Recv(forever); return err })
	start("Conn.Recv of the peer", func() error { _, err := b.Recv(forever); return err })
	start("Datagram.RecvFrom", func() error { _, _, err := d.RecvFrom(forever, make([]byte, 8)); return err })
	start("Listener.Accept", func() error { _, err := ln.Accept(forever); return err })
	return calls
}
