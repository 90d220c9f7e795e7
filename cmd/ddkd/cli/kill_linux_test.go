package cli_test

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/cmd/ddkd/cli"
	"ciddk/cmd/ddkd/software"
	"ciddk/hca/reference"
	"ciddk/hca/reference/userlib"
	"ciddk/internal/testenv"
	"ciddk/ual"
)

// kills is the number of clients that TestKillClients kills. CI uses 500.
var kills = flag.Int("kills", 30, "number of clients that are killed")

// role returns a command that runs the test's program in a role.
func role(t *testing.T, name string) *exec.Cmd {
	exe, err := os.Executable()
	require.NoError(t, err)
	c := exec.Command(exe)
	c.Env = append(os.Environ(), roleEnv+"="+name)
	return c
}

// TestKillClients kills clients at random moments: while they connect, create objects and transfer data, within the
// process, to a QP of this process, and over a connection to it, with the adapter's user library and without. Each
// time, the peer receives the errors of IBTA, and the daemon and its adapter have nothing left of the client.
func TestKillClients(t *testing.T) {
	socket(t)
	driver := software.Driver()
	opened := make(chan *reference.HCA, 1)
	open := driver.Open
	driver.Open = func(ctx context.Context, s cli.Settings, log *slog.Logger) (ci.HCA, error) {
		h, err := open(ctx, s, log)
		if r, ok := h.(*reference.HCA); ok {
			opened <- r
		}
		return h, err
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan int, 1)
	go func() {
		served <- cli.Run(ctx, cli.Config{Name: "ddkd", Drivers: []cli.Driver{driver}, Stderr: io.Discard},
			[]string{"serve", "--adapter", "link=network,address=10.0.0.1"})
	}()
	p := newPeer(t, dial(t), <-opened)
	rnd := rand.New(rand.NewPCG(9, 9))
	busy := 0
	for i := range *kills {
		kind, hasLibrary := victimKinds[i%len(victimKinds)], i/len(victimKinds)%2 == 0
		v := startVictim(t, kind, hasLibrary)
		isBusy := rnd.IntN(2) == 0
		if isBusy {
			busy++
		}
		p.serve(v, isBusy)
		<-time.After(time.Duration(rnd.IntN(30)) * time.Millisecond) // the random moment
		v.kill()
		p.checkEnd(v, isBusy)
	}
	assert.Positive(t, busy)
	p.close()
	stop()
	assert.Zero(t, <-served)
}

// TestKillDaemon kills the daemon under the traffic of a client. The client's verbs fail at once, it receives
// EventLocalFatal, and closing does not hang. A new daemon takes over the socket.
func TestKillDaemon(t *testing.T) {
	for name, libraries := range map[string][]*ci.UserLibrary{"messages": nil, "bypass": {userlib.New()}} {
		t.Run(name, func(t *testing.T) { killDaemon(t, libraries...) })
	}
}

func killDaemon(t *testing.T, libraries ...*ci.UserLibrary) {
	socket(t)
	daemon := role(t, "daemon")
	require.NoError(t, daemon.Start())
	c := dial(t, libraries...)
	x, err := newLoop(c)
	require.NoError(t, err)
	failed := make(chan error, 1)
	first := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			if err := x.transfer(); err != nil {
				failed <- err
				return
			}
			if n == 10 {
				close(first)
			}
		}
	}()
	<-first
	require.NoError(t, daemon.Process.Kill())
	_ = daemon.Wait() // killed
	late := time.After(testenv.Patience)
	select {
	case err := <-failed:
		require.ErrorIs(t, err, ual.ErrDisconnected)
		require.ErrorIs(t, err, ci.InvalidState)
	case <-late:
		t.Fatal("a verb hangs")
	}
	select {
	case <-x.fatal:
	case <-late:
		t.Fatal("no EventLocalFatal")
	}
	wc := make([]ci.WC, 64) // completions that are in shared memory come before the error
	for _, err = x.cq.Poll(wc); err == nil; _, err = x.cq.Poll(wc) {
	}
	require.ErrorIs(t, err, ual.ErrDisconnected)
	require.NoError(t, x.cq.Destroy(), "nothing exists any more")
	require.NoError(t, c.Close())
	require.NoError(t, x.shared.Close())

	again := role(t, "daemon")
	require.NoError(t, again.Start())
	c = dial(t)
	_, err = c.HCAs()
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.NoError(t, again.Process.Signal(os.Interrupt))
	_ = again.Wait() // its own signal handling is that of run's caller
}

// dial waits for a daemon and connects.
func dial(t *testing.T, libraries ...*ci.UserLibrary) (c *ual.Client) {
	eventually(t, "the daemon", func() (ok bool) {
		var err error
		c, err = ual.Dial(ual.Config{Name: t.Name(), Libraries: libraries})
		return err == nil
	})
	return c
}
