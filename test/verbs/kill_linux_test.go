package verbs

import (
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// isEmpty reports whether the daemon holds nothing for programs. Its only client is the command that reads its status.
func (r *rig) isEmpty() bool {
	clients := r.status().Clients
	return len(clients) == 1 && !strings.HasPrefix(clients[0].Name, "/dev/")
}

// killLater kills a program after a time, and waits until it has ended.
func killLater(c *exec.Cmd, after time.Duration) error {
	defer time.AfterFunc(after, func() { _ = c.Process.Kill() }).Stop() // it fails if the program has ended
	return c.Wait()
}

// TestKilled kills servers and clients at random moments. Nothing of them remains in the daemon, and the next server
// listens on the same port.
func TestKilled(t *testing.T) {
	const (
		rounds = 8
		to     = "10.0.0.1"
		latest = 150 * time.Millisecond
	)
	r := newRig(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for round := range rounds {
		x := []struct{ server, client string }{
			{"rping -s -P -a " + to, "rping -c -C 100000 -a " + to},
			{"ucmatose -c 5 -C 10000", "ucmatose -c 5 -C 10000 -s " + to},
			{"rstream -I 100000 -S 64 -b " + to, "rstream -I 100000 -S 64 -s " + to},
			{"ib_write_bw -R -D 60 -F", "ib_write_bw -R -D 60 -F " + to},
		}[round%4]
		server, serverOut := r.command(strings.Fields(x.server)...)
		require.NoError(t, server.Start())
		require.Eventually(t, r.isServed, patience, 5*time.Millisecond, "%s", x.server)
		client, _ := r.command(strings.Fields(x.client)...)
		require.NoError(t, client.Start())
		first, second := client, server
		if random.IntN(2) == 0 {
			first, second = server, client
		}
		assert.Error(t, killLater(first, time.Duration(random.Int64N(int64(latest)))))
		_ = killLater(second, time.Duration(random.Int64N(int64(latest)))) // it may end before, since its peer has
		require.Eventually(t, r.isEmpty, patience, 5*time.Millisecond, "after %s:\n%s", x.server, serverOut)
	}
	assert.Contains(t, r.connect("rping -s -C 2 -a "+to, "rping -c -v -C 2 -a "+to, false), "rdma-ping-1")
}
