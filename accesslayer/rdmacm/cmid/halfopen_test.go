package cmid_test

import (
	"context"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/sim"
	"ciddk/mad"
	"ciddk/rvt"
)

// asker is a host that sends requests and does not reply to anything.
type asker struct {
	al    *accesslayer.AL
	hca   *reference.HCA
	svc   *mads.Manager
	agent mads.Agent
	addr  netip.Addr
	n     uint32
}

func newAsker(t *testing.T, net *sim.Network, addr netip.Addr) *asker {
	a := &asker{al: accesslayer.New(accesslayer.Config{PollInterval: -1}), addr: addr}
	var err error
	a.hca, err = reference.New(reference.Config{Ports: []rvt.Port{testenv.Must(sim.New(net, sim.Config{Addr: addr}))}})
	require.NoError(t, err)
	require.NoError(t, a.al.Register(a.hca))
	a.svc, err = mads.New(a.al, mads.Config{})
	require.NoError(t, err)
	a.agent, err = a.svc.Register(mads.AgentConfig{Name: "asker", Port: mads.Port{CA: a.hca.Info().GUID, Num: 1},
		Class:   mad.ClassCM,
		Version: mad.ClassVersionCM, Methods: []mad.Method{mad.Send}, OnReceive: func(*mads.Received) {}})
	require.NoError(t, err)
	return a
}

func (a *asker) close(t *testing.T) {
	require.NoError(t, a.agent.Close())
	require.NoError(t, a.svc.Close())
	require.NoError(t, a.al.Close())
	require.NoError(t, a.hca.Close())
}

// ask sends a request with the longest times possible.
func (a *asker) ask(t *testing.T, to netip.AddrPort) {
	a.n++
	h, err := mad.NewIPCM(netip.AddrPortFrom(a.addr, 7000), to.Addr())
	require.NoError(t, err)
	r := mad.REQ{LocalCommID: a.n, ServiceID: mad.PortSpaceTCP.ServiceID(to.Port()),
		LocalCAGUID: uint64(a.hca.Info().GUID), LocalQPN: a.n + 16,
		RemoteTimeout: mad.MaxTimeExp, LocalTimeout: mad.MaxTimeExp, StartingPSN: 7, RetryCount: 7, PKey: 0xffff,
		PathMTU:       mad.MTU1024,
		RNRRetryCount: 7, MaxCMRetries: 15, ResponderRes: 4, InitiatorDepth: 4}
	p := &r.Primary
	p.LocalLID, p.RemoteLID = 0xffff, 0xffff
	p.LocalGID, p.RemoteGID = a.addr.As16(), to.Addr().As16()
	p.HopLimit, p.AckTimeout = 64, mad.MaxTimeExp
	h.Put(r.PrivateData[:])
	b := make([]byte, mad.Size)
	head := mad.CMHeader(uint64(a.n), &r)
	head.Put(b)
	r.Put(b[mad.HeaderLen:])
	av := ci.AVAttr{Global: true, GRH: ci.GRH{DGID: to.Addr().As16(), HopLimit: 64}}
	require.NoError(t, a.agent.Send(&mads.Message{To: mads.Address{QPN: 1, AV: av}, MAD: b}))
}

// TestHalfOpenMemory has a server accept 65,536 requests whose peers never reply, each with a QP and CQs of the default
// size. The heap of the connections, open ones and those in time-wait, stays below 150 MB. Time-wait ends after the
// limit of the server, although the peers requested hours.
func TestHalfOpenMemory(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector changes the size of the heap")
	}
	if testing.Short() {
		t.Skip("66,560 requests take several seconds")
	}
	const total, most = 65536, 150 << 20
	synctest.Test(t, func(t *testing.T) {
		net := sim.NewNetwork(sim.NetworkConfig{})
		server := netip.MustParseAddrPort("10.0.0.1:7174")
		al := accesslayer.New(accesslayer.Config{PollInterval: -1})
		hca,
			err := reference.New(reference.Config{Ports: []rvt.Port{testenv.Must(sim.New(net,
			sim.Config{Addr: server.Addr()}))}})
		require.NoError(t, err)
		require.NoError(t, al.Register(hca))
		svc, err := mads.New(al, mads.Config{})
		require.NoError(t, err)
		conns, err := cm.New(al, svc, cm.Config{})
		require.NoError(t, err)
		client, err := al.Open(accesslayer.ClientConfig{Name: "server"})
		require.NoError(t, err)
		m, err := cmid.New(client, cmid.Config{CM: conns, MAD: svc})
		require.NoError(t, err)
		ln, err := m.Listen(server, cmid.ListenConfig{})
		require.NoError(t, err)
		var served sync.WaitGroup
		served.Go(func() {
			for {
				id, err := ln.Accept(context.Background())
				if err != nil {
					return
				}
				served.Go(func() {
					if assert.NoError(t, id.CreateQP(cmid.QPConfig{})) {
						assert.Error(t, id.Accept(context.Background(), cmid.ConnParam{}))
					}
					assert.NoError(t, id.Close())
				})
			}
		})
		var askers []*asker
		for i := range byte(8) {
			askers = append(askers, newAsker(t, net, netip.AddrFrom4([4]byte{10, 0, 1, i + 1})))
		}
		heap := func() int64 {
			runtime.GC()
			runtime.GC()
			var s runtime.MemStats
			runtime.ReadMemStats(&s)
			return int64(s.HeapAlloc)
		}
		time.Sleep(time.Second)
		before := heap()
		for asked := 0; asked < total+1024; {
			for _, a := range askers {
				for range 8 {
					a.ask(t, server)
					asked++
				}
			}
			time.Sleep(5 * time.Millisecond) // 12,800 a second
		}
		synctest.Wait()
		after := heap()
		c := conns.Counters()
		used, _ := hca.QueueMemory()
		t.Logf("%d pending and %d in time-wait occupy %d bytes; queues of the adapter: %d", c.Pending, c.TimeWait,
			after-before, used)
		require.GreaterOrEqual(t, c.Conns, total)
		assert.LessOrEqual(t, after-before, int64(most))
		require.NoError(t, ln.Close())
		time.Sleep(4 * time.Minute)
		c = conns.Counters()
		assert.Zero(t, c.TimeWait, "peers cannot stretch time-wait beyond the limit")
		require.NoError(t, m.Close())
		require.NoError(t, conns.Close())
		require.NoError(t, svc.Close())
		require.NoError(t, client.Close())
		served.Wait()
		for _, a := range askers {
			a.close(t)
		}
		require.NoError(t, al.Close())
		require.NoError(t, hca.Close())
	})
}
