package linux

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/test/linux/guest"
)

// soon is the time within which a program must react to the end of its peer, if the peer disconnects.
const soon = time.Minute

// endless starts a run without end, and returns after some pings.
func (l *lab) endless(t *testing.T, ctx context.Context, linuxServes bool, serving, calling []string) (server,
	client *running) {
	t.Helper()
	e := l.ends(false)
	server, client = &running{}, &running{}
	var sctx, cctx context.Context
	sctx, server.kill = context.WithCancel(ctx)
	cctx, client.kill = context.WithCancel(ctx)
	var err error
	if linuxServes {
		server.Process = e.serveLinux(t, sctx,
			append([]string{"rping", "-s", "-a", e.theirs().String()}, serving...)...)
		client.Process, err = l.net.Start(cctx, append([]string{l.rping, "-c", "-v", "-V", "-a", e.theirs().String()},
			calling...)...)
		require.NoError(t, err)
		require.NoError(t, client.WaitOutput(ctx, "ping data: rdma-ping-2:"))
		return server, client
	}
	server.Process = e.serveOurs(t, sctx, append([]string{l.rping, "-s", "-v", "-a", e.ours().String()}, serving...)...)
	client.Process, err = l.linux.Start(cctx, append([]string{"rping", "-c", "-V", "-a", e.ours().String()},
		calling...)...)
	require.NoError(t, err)
	require.NoError(t, server.WaitOutput(ctx, "server ping data: rdma-ping-2:"))
	return server, client
}

// running is a process that can be killed.
type running struct {
	*guest.Process
	kill context.CancelFunc
}

// ends waits for a process to end by itself.
func (r *running) ends(t *testing.T, within time.Duration, what string) guest.Result {
	t.Helper()
	type end struct {
		guest.Result
		error
	}
	c := make(chan end, 1)
	go func() {
		res, err := r.Wait()
		c <- end{res, err}
	}()
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case x := <-c:
		require.NoError(t, x.error, what)
		return x.Result
	case <-late.C:
		r.kill()
		x := <-c
		require.Fail(t, what+" does not end", "stdout %q, stderr %q", x.Stdout, x.Stderr)
		return x.Result
	}
}

// TestRPingEnds checks how connections end if either side disconnects, is killed, or does not exist.
func TestRPingEnds(t *testing.T) {
	l := useLab(t)
	var rec recording
	tests := map[string]func(t *testing.T, ctx context.Context){
		"our server disconnects": func(t *testing.T, ctx context.Context) {
			server, client := l.endless(t, ctx, false, []string{"-C", "5"}, nil)
			s := server.ends(t, soon, "our server")
			require.Zero(t, s.Code, "%s%s", s.Stdout, s.Stderr)
			c := client.ends(t, soon, "the client on Linux")
			assert.Contains(t, c.Stdout+c.Stderr, "DISCONNECT EVENT")
		},
		"the client on Linux is killed": func(t *testing.T, ctx context.Context) {
			server, client := l.endless(t, ctx, false, nil, nil)
			client.kill()
			s := server.ends(t, soon, "our server")
			if s.Code != 0 { // in the middle of a ping
				assert.Contains(t, s.Stderr, "the peer has disconnected")
			}
		},
		"the server on Linux is killed": func(t *testing.T, ctx context.Context) {
			server, client := l.endless(t, ctx, true, nil, nil)
			server.kill()
			c := client.ends(t, soon, "our client")
			assert.Equal(t, 1, c.Code)
			assert.Contains(t, c.Stderr, "the peer has disconnected")
		},
		"our server is killed": func(t *testing.T, ctx context.Context) {
			server, client := l.endless(t, ctx, false, nil, nil)
			// The client receives no notification. It retransmits outstanding requests without end, since a retry count
			// of 7 is infinite for rxe, or waits for us without end. So the test kills it, and checks that no state
			// remains.
			server.kill()
			_, err := server.Wait()
			require.Error(t, err)
			client.kill()
			_, err = client.Wait()
			require.Error(t, err)
			l.rpings(t, &rec, pings{size: 64, count: 2}, false)
		},
		"our client is killed": func(t *testing.T, ctx context.Context) {
			server, client := l.endless(t, ctx, true, nil, nil)
			client.kill() // the server must accept the next client
			_, err := client.Wait()
			require.Error(t, err)
			server.kill()
			_, err = server.Wait()
			require.Error(t, err)
			l.rpings(t, &rec, pings{size: 64, count: 2}, true)
		},
		"nobody listens on Linux": func(t *testing.T, ctx context.Context) {
			e := l.ends(true)
			p, err := l.net.Start(ctx, l.rping, "-c", "-a", e.theirs().String(), "-C", "1")
			require.NoError(t, err)
			c := (&running{p, func() {}}).ends(t, soon, "our client")
			assert.Equal(t, 1, c.Code)
			assert.Contains(t, c.Stderr, "connection refused")
			assert.Contains(t, c.Stderr, "invalid service ID")
		},
		"nobody listens here": func(t *testing.T, ctx context.Context) {
			e := l.ends(false)
			sctx, kill := context.WithCancel(ctx)
			defer kill()
			e.serveOurs(t, sctx, l.rping, "-s", "-a", e.ours().String(), "-p",
				"7175") // the HCA, with a listener elsewhere
			p, err := l.linux.Start(ctx, "rping", "-c", "-a", e.ours().String(), "-C", "1")
			require.NoError(t, err)
			c := (&running{p, func() {}}).ends(t, soon, "the client on Linux")
			assert.NotZero(t, c.Code)
			assert.Contains(t, c.Stdout+c.Stderr, "RDMA_CM_EVENT_REJECTED, error 8")
		},
	}
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			sent := rec.record(t, l, func() { f(t, ctx) })
			assert.Len(t, sent, 2, "addresses that sent RoCEv2")
		})
	}
	t.Run("tshark", rec.dissect)
}
