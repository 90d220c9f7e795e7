package verbs

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/internal/testenv"
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
	testenv.Long(t)
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

// victim is a program that can be killed, wherever its carrier puts it.
type victim struct {
	*exec.Cmd
	pid int
	out *bytes.Buffer
}

// victim starts a program, and returns when it has a process, which may not have run yet.
func (r *rig) victim(line string) victim {
	file := filepath.Join(r.t.TempDir(), "pid")
	cmd, out := r.command("sh", "-c", `echo $$ >"$0".new && mv "$0".new "$0" && exec `+line, file)
	require.NoError(r.t, cmd.Start())
	v := victim{Cmd: cmd, out: out}
	require.Eventually(r.t, func() bool {
		b, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		v.pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
		return err == nil
	}, patience, time.Millisecond, "%s: %s", line, out)
	return v
}

// killAfter kills the program after a time, and waits until ddkrun has ended.
func (v victim) killAfter(d time.Duration) {
	kill := time.AfterFunc(d, func() { _ = unix.Kill(v.pid, unix.SIGKILL) }) // fails if the program has ended
	defer kill.Stop()
	_ = v.Wait() // the program may end before, since its peer has
}

// TestKilledVerbs kills programs of libibverbs at random moments, alone or in traffic, with either carrier. Nothing of
// them remains in the daemon, which serves the next ones.
func TestKilledVerbs(t *testing.T) {
	const (
		rounds = 8
		latest = 200 * time.Millisecond
	)
	programs := []string{"ibv_rc_pingpong -g 0 -n 100000000", "ibv_srq_pingpong -g 0 -e -n 100000000",
		"ib_send_bw -D 60 -F", "ib_write_bw -D 60 -F -q 4"}
	for carrier, open := range map[string]func(*testing.T) *rig{"preload": newRig, "seccomp": newSeccompRig} {
		t.Run(carrier, func(t *testing.T) {
			r := open(t)
			r.flags = []string{"--carrier", carrier}
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 0))
			moment := func() time.Duration { return time.Duration(random.Int64N(int64(latest))) }
			for round := range rounds {
				program, port := programs[round%len(programs)], freePort(t)
				line := program + " -p " + strconv.Itoa(port)
				server := r.victim(line)
				if round < rounds/2 {
					server.killAfter(moment())
				} else {
					// The server lives until the test kills it, so it does not end before it listens.
					awaitListener(t, port, nil, waiting{r, server.pid, server.out})
					client := r.victim(line + " 127.0.0.1")
					first, second := client, server
					if random.IntN(2) == 0 {
						first, second = server, client
					}
					first.killAfter(moment())
					second.killAfter(moment())
				}
				require.Eventually(t, r.isEmpty, patience, 5*time.Millisecond, "after %s:\n%s", line, server.out)
			}
			assert.Contains(t, r.pair("ibv_rc_pingpong", "-g", "0", "-n", "50"), "409600 bytes in")
		})
	}
}
