package rvt

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// A groupPort counts memberships. A join fails with refuse if that is set.
type groupPort struct {
	*linkPort
	mu     sync.Mutex
	in     map[ci.GID]int
	refuse error
}

func (p *groupPort) JoinGroup(g ci.GID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse != nil {
		return p.refuse
	}
	p.in[g]++
	return nil
}

func (p *groupPort) LeaveGroup(g ci.GID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.in[g]--; p.in[g] == 0 {
		delete(p.in, g)
	}
	return nil
}

// TestGroupPorts checks that a port joins a group when the first QP attaches and leaves it when the last one detaches.
// A join that one port rejects is undone on the others.
func TestGroupPorts(t *testing.T) {
	l := &wireLink{mtu: ci.MTU4096}
	var ports []*groupPort
	cfg := Config{Info: ci.HCAInfo{GUID: 1}, Attr: ci.CAAttr{Caps: testCaps, MaxMcastGroups: 2, MaxQPsPerMcastGroup: 3,
		MaxMcastQPs: 4}, Rings: plainRings{}, Clock: newClock()}
	for range 2 {
		p := &groupPort{linkPort: l.port(), in: map[ci.GID]int{}}
		p.attr = func(a *ci.PortAttr) { a.Link = ci.LinkEthernet }
		ports = append(ports, p)
		cfg.Ports = append(cfg.Ports, p)
	}
	h, err := New(cfg)
	require.NoError(t, err)
	ca, err := h.OpenCA(1, func(ci.Event) {}, nil)
	require.NoError(t, err)
	pd, err := ca.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	cq, err := pd.CreateCQ(ci.CQCreate{Size: 1})
	require.NoError(t, err)
	qp, err := pd.CreateQP(ci.QPCreate{Type: ci.UD, SendCQ: cq, RecvCQ: cq})
	require.NoError(t, err)
	g1, g2, g3 := ci.GID{0xff, 15: 1}, ci.GID{10: 0xff, 11: 0xff, 12: 239, 15: 2}, ci.GID{0xff, 15: 3}
	attach := func(g ci.GID, want ci.Status) ci.Mcast {
		t.Helper()
		m, err := qp.AttachMcast(ci.McastAttach{GID: g, LID: 0}) // the LID is ignored on Ethernet
		if want != ci.Success {
			require.ErrorIs(t, err, want)
			return nil
		}
		require.NoError(t, err)
		return m
	}
	var all []ci.Mcast
	for range 3 {
		all = append(all, attach(g1, ci.Success))
	}
	attach(g1, ci.MaxMcastQPsReached)
	for _, tt := range []struct {
		refuse error
		want   ci.Status
	}{
		{errors.New("no"), ci.InsufficientResources},
		{&ci.Error{Verb: "QP.AttachMcast", Status: ci.UnknownError}, ci.InsufficientResources},
		{&ci.Error{Verb: "QP.AttachMcast", Status: ci.InvalidGID}, ci.InvalidGID},
		{fmt.Errorf("port: %w", &ci.Error{Verb: "QP.AttachMcast", Status: ci.InvalidGID}), ci.InvalidGID},
		{ci.Timeout, ci.Timeout},
	} {
		ports[1].refuse = tt.refuse
		attach(g2, tt.want)
		for _, p := range ports {
			require.Equal(t, map[ci.GID]int{g1: 1}, p.in, "%v", tt.refuse)
		}
	}
	ports[1].refuse = nil
	all = append(all, attach(g2, ci.Success))
	attach(g3, ci.MaxMcastQPsReached)
	require.NoError(t, all[0].Destroy())
	attach(g3, ci.InsufficientResources)
	for _, p := range ports {
		require.Equal(t, map[ci.GID]int{g1: 1, g2: 1}, p.in)
	}
	for _, m := range all[1:] {
		require.NoError(t, m.Destroy())
	}
	for _, p := range ports {
		require.Empty(t, p.in)
	}
	var wg sync.WaitGroup // many concurrent attaches and detaches leave nothing
	for range 4 {
		wg.Go(func() {
			for range 200 {
				if m, err := qp.AttachMcast(ci.McastAttach{GID: g1, LID: 0}); err == nil {
					_ = m.Destroy()
				}
			}
		})
	}
	wg.Wait()
	for _, p := range ports {
		require.Empty(t, p.in)
	}
	require.Zero(t, h.Live()["Mcast"])
	for _, o := range []ci.Object{qp, cq, pd} {
		require.NoError(t, o.Destroy())
	}
	require.NoError(t, ca.Destroy())
	require.NoError(t, h.Close())
}
