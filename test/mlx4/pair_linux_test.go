package mlx4

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/hca/mlx4/model"
	"ciddk/link/direct"
	"ciddk/rvt"
	"ciddk/test/linux/guest"
)

// device is the name of the card in a guest.
const device = "mlx4_0"

// pair is two guests with a card each. Their programs find each other over a network that has nothing to do with the
// cards.
type pair struct {
	net     *guest.Network
	guests  [2]*guest.Guest
	models  [2]*model.Model
	counted [2]*countedDevice // the models, as the guests see them
}

// bootPair boots two guests, one after the other, whose cards are at links.
func bootPair(t *testing.T, ctx context.Context, c model.Config, links [2]rvt.Port, modules ...string) *pair {
	t.Helper()
	p := &pair{net: newNetwork(t, ctx)}
	for i := range p.guests {
		p.models[i] = newModel(t, c, links[i])
		p.counted[i] = &countedDevice{Device: p.models[i]}
		g, err := p.net.Boot(ctx, guestConfig(serve(t, p.counted[i])))
		require.NoError(t, err)
		p.guests[i] = g
		load(t, ctx, g, modules...)
	}
	return p
}

func newNetwork(t *testing.T, ctx context.Context) *guest.Network {
	t.Helper()
	n, err := guest.NewNetwork(ctx, guest.NetworkConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, n.Close()) })
	return n
}

// run runs a program in both guests, as a server in the first and as its client in the second, and returns what they
// print. listen is the TCP port at which the server waits.
func (p *pair) run(t *testing.T, ctx context.Context, listen uint16, args ...string) (server, client string) {
	t.Helper()
	s, err := p.guests[0].Start(ctx, args...)
	require.NoError(t, err)
	require.NoError(t, p.guests[0].WaitListen(ctx, listen))
	c, err := p.guests[1].Run(ctx, append(args, p.net.Addr4(p.guests[0].Index()).String())...)
	require.NoError(t, err)
	require.Zero(t, c.Code, "client: %s%s", c.Stdout, c.Stderr)
	r, err := s.Wait()
	require.NoError(t, err)
	require.Zero(t, r.Code, "server: %s%s", r.Stdout, r.Stderr)
	return r.Stdout + r.Stderr, c.Stdout + c.Stderr
}

// pingPongPort is the TCP port of the ping-pong programs.
const pingPongPort = 18515

// pingPong runs a ping-pong program that checks its data, and requires that they are right.
func (p *pair) pingPong(t *testing.T, ctx context.Context, kind string, size, count int, args ...string) {
	t.Helper()
	server, client := p.exchange(t, ctx, kind, size, count, args...)
	for _, out := range []string{server, client} {
		require.NoError(t, checkPingPong(out, count))
	}
}

// exchange runs a ping-pong program that checks its data, and returns what both sides print.
func (p *pair) exchange(t *testing.T, ctx context.Context, kind string, size, count int, args ...string) (server,
	client string) {
	t.Helper()
	all := append([]string{"ibv_" + kind + "_pingpong", "-d", device, "-c", "-s", strconv.Itoa(size), "-n",
		strconv.Itoa(count)}, args...)
	return p.run(t, ctx, pingPongPort, all...)
}

// checkPingPong checks the output of a ping-pong program, which reports wrong data, and succeeds nevertheless.
func checkPingPong(out string, count int) error {
	if strings.Contains(out, "invalid data") || !strings.Contains(out, fmt.Sprintf("%d iters in", count)) {
		return fmt.Errorf("wrong data or number of iterations: %s", out)
	}
	return nil
}

// requireQuiet requires that neither kernel has complained about its card.
func (p *pair) requireQuiet(t *testing.T, ctx context.Context) {
	t.Helper()
	for _, g := range p.guests {
		requireQuiet(t, ctx, g)
	}
}

// directLinks returns two ports with an InfiniBand cable.
func directLinks(t *testing.T) (ports [2]rvt.Port) {
	t.Helper()
	link := direct.NewLink()
	for i := range ports {
		p, err := direct.New(link, direct.Config{})
		require.NoError(t, err)
		ports[i] = p
	}
	return ports
}

// perftests are programs of perftest with their arguments. Those that measure latency send inline data, which the
// provider writes to BlueFlame registers.
var perftests = []string{"ib_send_bw -s 65536", "ib_send_bw -s 4096 -e", "ib_send_bw -s 1000 -c UC",
	"ib_send_bw -s 2048 -c UD", "ib_send_bw -s 4096 -r 64 --use-srq", "ib_send_bw -s 4096 -b",
	"ib_write_bw -s 65536 -q 4", "ib_write_bw -s 8192 -c UC", "ib_read_bw -s 65536 -e",
	"ib_atomic_bw -A FETCH_AND_ADD", "ib_atomic_bw -A CMP_AND_SWAP -e", "ib_send_lat -s 2", "ib_send_lat -s 64 -c UD",
	"ib_send_lat -s 400 -I 400", "ib_write_lat -s 16", "ib_read_lat -s 4096", "ib_atomic_lat -A FETCH_AND_ADD",
	"ib_atomic_lat -A CMP_AND_SWAP"}

// perftest runs a program of perftest between the guests, and requires that all iterations have ended.
func (p *pair) perftest(t *testing.T, ctx context.Context, args ...string) {
	t.Helper()
	const count = "100"
	_, out := p.run(t, ctx, pingPongPort, append(args, "-d", device, "-n", count, "-F")...)
	require.Regexp(t, `(?m)^\s*\d+\s+[1-9]\d*00\s`, out)
}

// TestInfiniBand runs the programs of perftest, and the ping-pong programs of rdma-core between two guests on an
// InfiniBand link.
func TestInfiniBand(t *testing.T) {
	ctx := needGuests(t, "mlx4")
	links := directLinks(t)
	client := &corruptPort{port: links[1]}
	links[1] = client
	p := bootPair(t, ctx, model.Config{}, links, "mlx4_ib")
	for _, g := range p.guests {
		awaitActive(t, ctx, g, 1)
	}
	for _, tt := range []struct {
		kind  string
		sizes []int
		args  string
	}{
		{"rc", []int{1, 2048, 2049, 100_000}, ""},
		{"rc", []int{4096}, "-e"},
		{"uc", []int{1, 4096, 10_000}, ""},
		{"uc", []int{4096}, "-e"},
		{"ud", []int{1, 2048}, ""},
		{"ud", []int{1024}, "-e"},
		{"srq", []int{1, 5000}, ""},
		{"srq", []int{4096}, "-e"},
	} {
		for _, size := range tt.sizes {
			t.Run(fmt.Sprint(tt.kind, tt.args, " ", size), func(t *testing.T) {
				p.pingPong(t, ctx, tt.kind, size, 100, strings.Fields(tt.args)...)
			})
		}
	}
	for _, args := range perftests {
		t.Run(args, func(t *testing.T) { p.perftest(t, ctx, strings.Fields(args)...) })
	}
	for _, args := range []string{"ib_write_bw -s 4096", "ib_send_lat -s 64", "ib_send_bw -s 4096 -e"} {
		t.Run("no reads, "+args, func(t *testing.T) { p.requireNoReads(t, ctx, strings.Fields(args)...) })
	}
	t.Run("wrong data", func(t *testing.T) { p.requireWrongData(t, ctx, client) })
	t.Run("the driver is loaded again", func(t *testing.T) {
		for _, g := range p.guests {
			require.NoError(t, g.Unload(ctx, "mlx4_ib", "mlx4_core"))
			load(t, ctx, g, "mlx4_ib")
			awaitActive(t, ctx, g, 1)
		}
		p.pingPong(t, ctx, "rc", 10_000, 100, "-e")
		p.pingPong(t, ctx, "ud", 1000, 100)
	})
	p.requireQuiet(t, ctx)
}
