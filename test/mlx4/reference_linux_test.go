package mlx4

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/rdmacm"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/hca/mlx4/model"
	"ciddk/hca/reference"
	"ciddk/internal/pcapfile"
	"ciddk/internal/testenv"
	"ciddk/internal/tsharktest"
	"ciddk/link/frame"
	"ciddk/rvt"
	"ciddk/test/linux/guest"
)

// hostAddr is the address of the reference HCA on the cards' network.
var hostAddr = netip.AddrFrom4([4]byte{10, 88, 0, 200})

// numPings is the number of pings of each run of rping.
const numPings = 5

// A recorder is a carrier that keeps the frames in both directions.
type recorder struct {
	frame.Carrier
	mu     sync.Mutex
	frames [][]byte
}

func (r *recorder) keep(frames [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range frames {
		r.frames = append(r.frames, slices.Clone(f))
	}
}

// Start implements frame.Carrier.
func (r *recorder) Start(deliver func([][]byte), failed func(error)) error {
	return r.Carrier.Start(func(frames [][]byte) {
		r.keep(frames)
		deliver(frames)
	}, failed)
}

// Send implements frame.Carrier.
func (r *recorder) Send(frames [][]byte) int {
	r.keep(frames)
	return r.Carrier.Send(frames)
}

// openReference opens a reference HCA with a connection manager on a switch.
func openReference(t *testing.T, c frame.Carrier) *rdmacm.Manager {
	t.Helper()
	port, err := frame.New(frame.Config{Carrier: c, MAC: cardMAC(200), Resolve: true,
		GIDs: []ci.GIDEntry{{GID: hostAddr.As16(), Type: ci.GIDRoCEv2}}})
	require.NoError(t, err)
	h, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
	require.NoError(t, err)
	m, err := rdmacm.OpenHCA(h, rdmacm.OpenConfig{OnClose: h.Close})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	return m
}

// bootCard boots a guest with an Ethernet card that has an address.
func bootCard(t *testing.T, ctx context.Context, m *model.Model) *guest.Guest {
	t.Helper()
	g := boot(t, ctx, guestConfig(serve(t, m)))
	load(t, ctx, g, "mlx4_en", "mlx4_ib")
	run(t, ctx, g, "ip", "addr", "add", netip.PrefixFrom(cardAddr(0), 24).String(), "dev", netdev)
	run(t, ctx, g, "ip", "link", "set", netdev, "up")
	awaitActive(t, ctx, g, 1)
	gidIndex(t, ctx, g, cardAddr(0), "RoCE v2")
	return g
}

// TestReferenceHCA runs rping between a card and the reference HCA of this process, in both roles: SEND, READ and WRITE
// over RoCE v2, with checked data. tshark dissects the frames.
func TestReferenceHCA(t *testing.T) {
	testenv.OnlyWhole(t)
	ctx := needGuests(t, "mlx4")
	hub := frame.NewHub()
	rec := &recorder{Carrier: hub.Join()}
	m := openReference(t, rec)
	model := newModel(t, model.Config{Pro: true}, ethernetLinks(t, hub)[0])
	g := bootCard(t, ctx, model)
	t.Run("the card is the server", func(t *testing.T) { requireServer(t, ctx, m, g) })
	t.Run("the card is the client", func(t *testing.T) { requireServed(t, ctx, m, g) })
	requireQuiet(t, ctx, g)
	t.Run("tshark", rec.dissect)
}

// requireServer runs rping as the server of a client of this process.
func requireServer(t *testing.T, ctx context.Context, m *rdmacm.Manager, g *guest.Guest) {
	t.Helper()
	s, err := g.Start(ctx, "rping", "-s", "-a", cardAddr(0).String(), "-C", strconv.Itoa(numPings), "-S", "5000", "-v")
	require.NoError(t, err)
	awaitListener(t, ctx, g)
	p := new(rpingPeer)
	id, err := m.IDs().Dial(ctx, netip.AddrPortFrom(cardAddr(0), rpingPort),
		cmid.DialConfig{QP: rpingQP(), Conn: rpingTerms(), Setup: p.setup})
	require.NoError(t, err)
	for n := range numPings {
		require.NoError(t, p.ping(ctx, n), "ping %d", n)
	}
	require.NoError(t, id.Disconnect(ctx)) // the server ends with its client
	require.NoError(t, id.Close())
	require.NoError(t, p.mr.Destroy())
	r, err := s.Wait()
	require.NoError(t, err)
	require.Equal(t, numPings, strings.Count(r.Stdout, "server ping data: "), "%+v", r)
}

// requireServed runs rping as a client of a server of this process.
func requireServed(t *testing.T, ctx context.Context, m *rdmacm.Manager, g *guest.Guest) {
	t.Helper()
	ln, err := m.IDs().Listen(netip.AddrPortFrom(hostAddr, rpingPort), cmid.ListenConfig{})
	require.NoError(t, err)
	defer ln.Close()
	c, err := g.Start(ctx, "rping", "-c", "-a", hostAddr.String(), "-C", strconv.Itoa(numPings), "-S",
		"5000", "-v", "-V")
	require.NoError(t, err)
	id, err := ln.Accept(ctx)
	require.NoError(t, err)
	require.NoError(t, id.CreateQP(rpingQP()))
	p := new(rpingPeer)
	require.NoError(t, p.setup(id))
	require.NoError(t, id.Accept(ctx, rpingTerms()))
	for n := range numPings {
		require.NoError(t, p.pong(ctx), "ping %d", n)
	}
	r, err := c.Wait()
	require.NoError(t, err)
	require.Contains(t, r.Stdout, fmt.Sprintf("ping data: rdma-ping-%d:", numPings-1), "%+v", r)
	require.NotContains(t, r.Stdout+r.Stderr, "mismatch")
	require.NoError(t, id.Close())
	require.NoError(t, p.mr.Destroy())
}

// dissect requires that tshark finds RoCE v2 in both directions and no NAK. The frames are those of the Ethernet port,
// so the check includes ARP and the headers of Ethernet and IP.
func (r *recorder) dissect(t *testing.T) {
	_, err := exec.LookPath("tshark")
	testenv.Linux(t, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	file := tsharktest.Write(t, pcapfile.Ethernet, r.frames)
	rows := tsharktest.ReadMatching(t, file, `frame.protocols matches "^eth:ethertype:ip:udp:infiniband"`,
		"ip.src", "eth.src", "ip.checksum.status", "infiniband.aeth.syndrome.error_code")
	sent := map[string]int{}
	for _, row := range rows {
		sent[row[0]+" "+row[1]]++
		assert.Empty(t, row[3], "a NAK")
	}
	const packets = 5 * numPings // of a message of 5000 bytes, for each ping
	for _, from := range []string{cardAddr(0).String() + " 02:02:c9:00:00:00", hostAddr.String() +
		" 02:02:c9:00:00:c8"} {
		assert.Greater(t, sent[from], packets, "%s: %v", from, sent)
	}
	assert.Len(t, sent, 2, "addresses")
	assert.NotEmpty(t, tsharktest.ReadMatching(t, file, "arp.opcode == 2", "arp.src.proto_ipv4"), "ARP replies")
}
