package udp

import (
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/linktest"
	"ciddk/rvt"
	"ciddk/wire"
)

// What a port receives from another one of its process is what it receives from the socket, with every byte of a
// datagram's GRH (but for a flow label that the system chooses), and takes no system call.
func TestNear(t *testing.T) {
	addrs := [][2]netip.Addr{{linktest.Addr(), linktest.Addr()}, {netip.IPv6Loopback(), netip.IPv6Loopback()}}
	for _, at := range addrs {
		t.Run(at[0].String(), func(t *testing.T) {
			receive := func(near bool) (singles []linktest.Single, grhs [][]byte) {
				b, rb := openNear(t, at[1], near)
				a := b
				if at[0] != at[1] {
					a, _ = openNear(t, at[0], near)
				}
				defer func() { require.NoError(t, a.Close()); require.NoError(t, b.Close()) }()
				trains := linktest.Trains(routeTo(t, a, b))
				src, dst := rvt.Addr{GID: a.core.GID}, rvt.Addr{GID: b.core.GID}
				n := len(linktest.Singles(t, trains, src, dst))
				a.Send(trains)
				for _, p := range rb.Packets(t, n) {
					singles = append(singles, linktest.Singles(t, []rvt.Packet{p}, p.Src, p.Dst)...)
					assert.Equal(t, [2]rvt.Addr{src, dst}, [2]rvt.Addr{p.Src, p.Dst})
					assert.Equal(t, b.table.UDP, p.Entropy)
				}
				for i, g := range []ci.GRH{{TrafficClass: 0x6a, HopLimit: 17, FlowLabel: 0x12345},
					{TrafficClass: 3, FlowLabel: 1}} {
					g.DGID = b.core.GID
					rt, err := a.Route(&ci.AVAttr{Port: 1, Global: true, GRH: g}, rvt.Flow{Datagram: true})
					require.NoError(t, err)
					a.Send([]rvt.Packet{{Service: wire.UD, Op: wire.OpSend, Start: true, End: true, N: 1, MTU: 1024,
						Len: 5, HasImm: i == 1, Payload: [][]byte{make([]byte, 5)}, Route: rt}})
					grhs = append(grhs, rb.Packets(t, 1)[0].GRH)
				}
				require.Equal(t, near, b.core.Stats.Near.Load() > 0)
				if near {
					require.Zero(t, a.core.Stats.SystemCalls.Load())
				}
				return singles, grhs
			}
			near, nearGRH := receive(true)
			wired, wiredGRH := receive(false)
			assert.Equal(t, wired, near)
			assert.Equal(t, wiredGRH, nearGRH)
		})
	}
}

// openNear opens a port that the test closes. It skips the test without IPv6.
func openNear(t *testing.T, at netip.Addr, near bool) (*Port, *linktest.Collector) {
	t.Helper()
	c := Config{Addr: at, Near: near}
	if at.Is6() {
		c.Port = uint16(20000 + os.Getpid()%20000)
	}
	p, err := New(c)
	if at.Is6() && err != nil {
		t.Skip("no IPv6 here: ", err)
	}
	require.NoError(t, err)
	r := linktest.NewCollector()
	require.NoError(t, linktest.Start(p, r))
	return p, r
}

// A port takes the socket to a port that wants it, and to addresses of others.
func TestNearAndWire(t *testing.T) {
	for _, near := range [][2]bool{{true, false}, {false, true}} {
		a, _ := openTest(t, Config{Near: near[0]})
		b, rb := openTest(t, Config{Near: near[1]})
		c, rc := openTest(t, Config{Near: true})
		pkt := func(to *Port) rvt.Packet {
			return rvt.Packet{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, N: 1, MTU: 1024,
				Route: routeTo(t, a, to)}
		}
		a.Send([]rvt.Packet{pkt(b), pkt(c), pkt(b)}) // one batch of both kinds
		rb.Packets(t, 2)
		rc.Packets(t, 1)
		assert.Zero(t, b.core.Stats.Near.Load())
		assert.Equal(t, near[0], c.core.Stats.Near.Load() == 1)
	}
}

// A port whose cable is pulled out counts what arrives, as if it came from the socket.
func TestNearDown(t *testing.T) {
	a, _ := openTest(t, Config{Near: true})
	b, rb := openTest(t, Config{Near: true})
	b.SetLink(false)
	a.Send([]rvt.Packet{{Service: wire.RC, Op: wire.OpSend, Start: true, N: 3, MTU: 256, Len: 768,
		Payload: [][]byte{make([]byte, 768)}, Route: routeTo(t, a, b)}})
	assert.Equal(t, 3, rb.Counted(rvt.DropNotForUs))
	assert.Empty(t, rb.Taken())
}

// Nothing is delivered after Close, and what is in progress ends first.
func TestNearClose(t *testing.T) {
	a, _ := openTest(t, Config{Near: true})
	for range 20 {
		b, rb := openTest(t, Config{Near: true})
		var closed atomic.Bool
		started := make(chan struct{})
		var once sync.Once
		rb.Each = func() {
			once.Do(func() { close(started) })
			assert.False(t, closed.Load())
		}
		rt := routeTo(t, a, b)
		var senders sync.WaitGroup
		stop := make(chan struct{})
		for range 2 {
			senders.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						a.Send([]rvt.Packet{{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, N: 1,
							Route: rt}})
					}
				}
			})
		}
		<-started
		require.NoError(t, b.Close())
		closed.Store(true)
		close(stop)
		senders.Wait()
	}
}

// Two adapters do every operation of RC near each other. The certifier does the rest (--set loopback=direct).
func TestNearVerbs(t *testing.T) {
	open := func() *linktest.Node {
		p, err := New(Config{Addr: linktest.Addr(), Near: true})
		require.NoError(t, err)
		return linktest.Open(t, ci.RC, 1<<20, p)
	}
	a, b := open(), open()
	linktest.ConnectBoth(a, b)
	linktest.Exercise(t, a, b)
}

// A delivery allocates nothing.
func TestNearAllocations(t *testing.T) {
	a, _ := openTest(t, Config{Near: true})
	p, err := New(Config{Addr: linktest.Addr(), Near: true})
	require.NoError(t, err)
	defer p.Close()
	require.NoError(t, linktest.Start(p, quiet{}))
	pkt := rvt.Packet{Op: wire.OpSend, Start: true, End: true, N: 1, MTU: 1024, Len: 8,
		Payload: [][]byte{make([]byte, 8)}, Route: routeTo(t, a, p)}
	for _, s := range []wire.Service{wire.RC, wire.UD} {
		list := []rvt.Packet{pkt}
		list[0].Service = s
		assert.Zero(t, testing.AllocsPerRun(100, func() { a.Send(list) }), s)
	}
}

// quiet is a Receiver that keeps nothing.
type quiet struct{}

func (quiet) Deliver([]rvt.Packet, bool, bool) {}
func (quiet) FlushAcks()                       {}
func (quiet) PortEvent(ci.EventType)           {}
func (quiet) Count(rvt.Counter, int)           {}
