package cmid_test

import (
	"errors"
	"net/netip"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/accesslayer/rdmacm/resolve"
	"ciddk/accesslayer/sa"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/cmrig"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/mad"
	"ciddk/rvt"
)

// subnet is the data of a subnet administrator. On a direct link, each port has its own LID as that of the subnet
// manager, so each host has an agent that replies for the one administrator.
type subnet struct {
	t    *testing.T
	link *direct.Link

	mu      sync.Mutex
	lids    map[[16]byte]ci.LID
	groups  map[[16]byte]uint16 // MLID
	members map[[16]byte]int    // joins minus leaves
	joins   int
	busy    int // number of requests to answer with "busy"
	lost    int // number of requests to drop
	fail    uint16
	paths   int // number of path records
}

func newSubnet(t *testing.T) *subnet {
	return &subnet{t: t, link: direct.NewLink(), lids: map[[16]byte]ci.LID{}, groups: map[[16]byte]uint16{},
		members: map[[16]byte]int{}}
}

// ibHost is a host on the subnet.
type ibHost struct {
	m    *cmid.Manager
	al   *accesslayer.AL
	svc  mads.Service
	cm   cm.Service
	port mads.Port
	attr ci.PortAttr
	addr netip.Addr // its GID
}

func (s *subnet) host(edit func(*ibHost, *cmid.Config)) *ibHost {
	t := s.t
	al := accesslayer.New(accesslayer.Config{})
	hca, err := reference.New(reference.Config{Ports: []rvt.Port{testenv.Must(direct.New(s.link, direct.Config{}))}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, errors.Join(al.Close(), hca.Close())) })
	require.NoError(t, al.Register(hca))
	svc, err := mads.New(al, mads.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, svc.Close()) })
	c, err := cm.New(al, svc, cm.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	require.NoError(t, al.WaitPnP(cmrig.Within(t)))
	client, err := al.Open(accesslayer.ClientConfig{Name: t.Name()})
	require.NoError(t, err)
	h := &ibHost{al: al, svc: svc, cm: c, port: mads.Port{CA: hca.Info().GUID, Num: 1}}
	h.attr = al.Adapters()[0].Attr().Ports[0]
	h.addr = netip.AddrFrom16(h.attr.GIDs[0].GID)
	s.lids[h.attr.GIDs[0].GID] = h.attr.LID
	cfg := cmid.Config{CM: c, MAD: svc}
	if edit != nil {
		edit(h, &cfg)
	}
	h.m, err = cmid.New(client, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, h.m.Close()) })
	var agent mads.Agent
	ready := make(chan struct{})
	agent, err = svc.Register(mads.AgentConfig{Name: "SA", Port: h.port, Class: mad.ClassSubnetAdmin,
		Version: mad.ClassVersionSubnetAdmin,
		Methods: []mad.Method{mad.Get, mad.Set,
			mad.Delete}, OnReceive: func(r *mads.Received) { <-ready; s.answer(agent, r) }})
	require.NoError(t, err)
	close(ready)
	return h
}

func (s *subnet) answer(agent mads.Agent, r *mads.Received) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var q mad.SA
	if !assert.NoError(s.t, mad.ParseSA(r.MAD, &q)) {
		return
	}
	switch {
	case s.lost > 0:
		s.lost--
		return
	case s.busy > 0:
		s.busy--
		q.Status = mad.StatusBusy
	case s.fail != 0:
		q.Status = s.fail
	case q.Attribute == mad.AttrPathRecord && q.Method == mad.Get:
		s.path(&q)
	case q.Attribute == mad.AttrMCMemberRecord:
		s.member(&q)
	default:
		q.Status = mad.StatusBadMethodAttribute
	}
	q.Method |= mad.ResponseMask
	if q.Method == mad.Set|mad.ResponseMask {
		q.Method = mad.GetResp // 15.2.2
	}
	b := make([]byte, mad.Size)
	q.Put(b)
	assert.NoError(s.t, agent.Send(&mads.Message{To: r.From, MAD: b}))
}

func (s *subnet) path(q *mad.SA) {
	s.paths++
	var p mad.PathRecord
	p.Parse(q.Data[:])
	to, ok := s.lids[p.DGID]
	if !ok {
		q.Status = mad.StatusSANoRecords
		return
	}
	p.DLID, p.SLID, p.PKey = uint16(to), uint16(s.lids[p.SGID]), 0xffff
	p.MTU, p.MTUSelector = mad.MTU2048, mad.Exactly
	p.Rate, p.RateSelector = 2, mad.Exactly
	p.LifeTime, p.LifeTimeSelector = 14, mad.Exactly
	p.Put(q.Data[:])
}

func (s *subnet) member(q *mad.SA) {
	var r mad.MCMemberRecord
	r.Parse(q.Data[:])
	if q.Method == mad.Delete {
		if s.members[r.MGID] == 0 {
			q.Status = mad.StatusSARequestInvalid
			return
		}
		s.members[r.MGID]--
		return
	}
	if _, ok := s.groups[r.MGID]; !ok {
		s.groups[r.MGID] = 0xc001 + uint16(len(s.groups))
	}
	s.members[r.MGID]++
	s.joins++
	r.MLID, r.MTU, r.HopLimit = s.groups[r.MGID], mad.MTU2048, 0
	r.Put(q.Data[:])
}

func (s *subnet) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// listen accepts one request at a listener.
func (h *ibHost) listen(t *testing.T, at netip.AddrPort, cfg cmid.IDConfig) <-chan accepted {
	ln, err := h.m.Listen(at, cmid.ListenConfig{ID: cfg})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, ln.Close()) })
	return serve(t, ln, nil, cmid.ConnParam{})
}

// TestInfiniBand connects over InfiniBand, where a GID is the address and the path comes from the subnet administrator:
// in all port spaces, and to a service ID.
func TestInfiniBand(t *testing.T) {
	s := newSubnet(t)
	a, b := s.host(nil), s.host(nil)
	ctx := cmrig.Within(t)
	tests := map[string]cmid.IDConfig{
		"TCP":           {},
		"IB":            {Space: cmid.IB},
		"IB, UC":        {Space: cmid.IB, Type: ci.UC},
		"service":       {Service: 0x1000_0000_0000_0077},
		"UDP":           {Space: cmid.UDP},
		"service, UD":   {Service: 0x1000_0000_0000_0078, Type: ci.UD},
		"traffic class": {TrafficClass: 0x40},
	}
	for name, cfg := range tests {
		for any, at := range map[string]netip.Addr{"any": {}, "its GID": b.addr} {
			t.Run(name+"/"+any, func(t *testing.T) {
				peer := b.listen(t, netip.AddrPortFrom(at, 7174), cfg)
				id, err := a.m.Dial(ctx, netip.AddrPortFrom(b.addr, 7174),
					cmid.DialConfig{ID: cfg, Local: netip.AddrPortFrom(a.addr, 0)})
				require.NoError(t, err)
				p := <-peer
				require.NoError(t, p.err)
				assert.Equal(t, b.attr.LID, id.Path().AV.DLID)
				assert.Equal(t, ci.MTU2048, id.Path().MTU)
				if cfg.Service == 0 || cfg.Type != ci.UD { // SIDR_REQ within a subnet has only the LID of its sender
					assert.Equal(t, a.addr, p.id.RemoteAddr().Addr())
				}
				assert.Equal(t, b.addr, p.id.LocalAddr().Addr())
				if cfg.Service != 0 {
					assert.Len(t, p.id.Request().Private, map[bool]int{true: cmid.NativeUDLen,
						false: cmid.NativeLen}[cfg.Type == ci.UD])
					assert.Contains(t, id.RemoteAddr().String(), "#10000000000000")
				}
				require.NoError(t, id.Disconnect(ctx))
				require.NoError(t, id.Close())
				require.NoError(t, p.id.Close())
			})
		}
	}
}

// TestSubnetAdministrator tests failures of the subnet administrator.
func TestSubnetAdministrator(t *testing.T) {
	s := newSubnet(t)
	var cache *resolve.System
	a, b := s.host(func(h *ibHost, cfg *cmid.Config) {
		client := sa.New(h.al, h.svc, sa.Config{})
		cache = resolve.NewSystem(h.al, client)
		t.Cleanup(func() { assert.NoError(t, errors.Join(cache.Close(), client.Close())) })
		cfg.Resolver = cache
	}), s.host(nil)
	ctx := cmrig.Within(t)
	find := func(remote netip.Addr) error {
		id, err := a.m.NewID(cmid.IDConfig{})
		require.NoError(t, err)
		defer func() { assert.NoError(t, id.Close()) }()
		require.NoError(t, id.ResolveAddr(ctx, netip.AddrPortFrom(remote, 1)))
		return id.ResolveRoute(ctx)
	}
	s.set(func() { s.busy = 2 })
	require.NoError(t, find(b.addr), "the request is repeated")
	require.NoError(t, find(b.addr))
	s.set(func() { assert.Equal(t, 1, s.paths, "the path is kept") })
	cache.Forget(a.port, b.addr)
	s.set(func() { s.lost = 1 })
	require.NoError(t, find(b.addr), "the request is repeated after a second")
	s.set(func() { assert.Equal(t, 2, s.paths); assert.Zero(t, s.lost) })
	gid := b.addr.As16()
	gid[15] ^= 0xff
	err := find(netip.AddrFrom16(gid))
	require.ErrorIs(t, err, syscall.EHOSTUNREACH)
	e, ok := errors.AsType[*sa.StatusError](err)
	require.True(t, ok)
	assert.Equal(t, mad.StatusSANoRecords, e.Status)
	assert.ErrorContains(t, err, "no records")
	id, err := a.m.NewID(cmid.IDConfig{})
	require.NoError(t, err)
	require.ErrorIs(t, id.ResolveAddr(ctx, ap("[fe81::1]:1")), syscall.EHOSTUNREACH, "another subnet")
}

// TestStatic tests that static paths need no subnet administrator.
func TestStatic(t *testing.T) {
	s := newSubnet(t)
	b := s.host(nil)
	a := s.host(func(h *ibHost, c *cmid.Config) {
		c.MAD = nil
		path := cm.Path{Port: h.port, AV: ci.AVAttr{Port: 1, DLID: b.attr.LID, Global: true,
			GRH: ci.GRH{DGID: b.attr.GIDs[0].GID, HopLimit: 1}}}
		c.Resolver = &resolve.Static{AL: h.al, Paths: map[netip.Addr]cm.Path{b.addr: path}}
	})
	s.set(func() { s.fail = mad.StatusSADenied })
	peer := b.listen(t, netip.AddrPortFrom(netip.Addr{}, 7174), cmid.IDConfig{})
	ctx := cmrig.Within(t)
	id, err := a.m.Dial(ctx, netip.AddrPortFrom(b.addr, 7174), cmid.DialConfig{})
	require.NoError(t, err)
	require.NoError(t, (<-peer).err)
	assert.Equal(t, a.addr, id.LocalAddr().Addr())
	_, err = a.m.Dial(ctx, ap("[fe80::1]:7174"), cmid.DialConfig{})
	require.ErrorIs(t, err, syscall.EHOSTUNREACH)
	_, err = a.m.Dial(ctx, netip.AddrPortFrom(b.addr, 7174), cmid.DialConfig{Local: ap("[::2]:0")})
	require.ErrorIs(t, err, syscall.EADDRNOTAVAIL)
	_, err = b.m.Dial(ctx, netip.AddrPortFrom(a.addr, 7174),
		cmid.DialConfig{Local: netip.AddrPortFrom(b.addr, 0)})
	e, ok := errors.AsType[*sa.StatusError](err)
	require.True(t, ok, "the other host has no static path: %v", err)
	assert.Equal(t, mad.StatusSADenied, e.Status)
	udp, err := a.m.NewID(cmid.IDConfig{Space: cmid.UDP})
	require.NoError(t, err)
	require.NoError(t, udp.Bind(netip.AddrPortFrom(a.addr, 0)))
	_, err = udp.Join(ctx, netip.MustParseAddr("239.1.2.3"), cmid.JoinConfig{SendOnly: true})
	require.ErrorContains(t, err, "Config.MAD")
}

// TestInfiniBandGroup joins groups over InfiniBand. The port is a member once for any number of IDs. When the subnet
// manager has restarted, the port joins again.
func TestInfiniBandGroup(t *testing.T) {
	s := newSubnet(t)
	a, b := s.host(nil), s.host(nil)
	ctx := cmrig.Within(t)
	group := netip.MustParseAddr("239.1.2.3")
	const want = "ff12:4001:ffff::f01:203"
	join := func(h *ibHost, cfg cmid.JoinConfig) (*cmid.ID, *cmid.Group, *cmrig.Buffer) {
		id, err := h.m.NewID(cmid.IDConfig{Space: cmid.UDP})
		require.NoError(t, err)
		require.NoError(t, id.Bind(netip.AddrPortFrom(h.addr, 0)))
		require.NoError(t, id.CreateQP(cmid.QPConfig{}))
		buf := cmrig.NewBuffer(t, id, 64)
		testenv.Must(id.QP().PostRecv([]ci.RecvWR{{SGL: []ci.SGE{buf.R.SGE(0, 64)}}}))
		g, err := id.Join(ctx, group, cfg)
		require.NoError(t, err)
		assert.Equal(t, want, netip.AddrFrom16(g.Peer().AV.GRH.DGID).String())
		assert.Equal(t, ci.LID(0xc001), g.Peer().AV.DLID)
		return id, g, buf
	}
	sender, gs, out := join(a, cmid.JoinConfig{SendOnly: true})
	r1, g1, in := join(b, cmid.JoinConfig{})
	r2, g2, _ := join(b, cmid.JoinConfig{})
	mgid := netip.MustParseAddr(want).As16()
	members := func() (n int) { s.set(func() { n = s.members[mgid] }); return n }
	assert.Equal(t, 2, members(), "one port per host is a member")

	pd, err := sender.PD()
	require.NoError(t, err)
	av, err := pd.NewAV(gs.Peer().AV)
	require.NoError(t, err)
	copy(out.B, "to all")
	testenv.Must(sender.QP().PostSend([]ci.SendWR{{Op: ci.OpSend, SGL: []ci.SGE{out.R.SGE(0, 6)},
		To: ci.Dest{AV: av, QPN: gs.Peer().QPN, QKey: gs.Peer().QKey}}}))
	wc := make([]ci.WC, 1)
	for _, id := range []*cmid.ID{r1, r2} {
		testenv.Must(id.RecvCQ().Wait(ctx, wc))
		require.Equal(t, ci.WCSuccess, wc[0].Status)
	}
	assert.Equal(t, "to all", string(in.B[40:46]))

	ca, err := r1.CA()
	require.NoError(t, err)
	reregister(t, ca)
	require.Eventually(t, func() (ok bool) { s.set(func() { ok = s.joins == 3 }); return ok }, testenv.Patience,
		cmrig.Tick, "the port joins again")
	s.set(func() { s.groups[mgid] = 0xc009 })
	reregister(t, ca)
	for _, x := range []struct {
		id *cmid.ID
		g  *cmid.Group
	}{{r1, g1}, {r2, g2}} {
		e, err := x.id.Next(ctx)
		require.NoError(t, err)
		assert.Equal(t, cmid.EventGroupError, e.Type)
		assert.Same(t, x.g, e.Group)
		assert.ErrorContains(t, e.Err, "0xc009")
	}
	s.set(func() { s.members[mgid] = 2 })
	require.NoError(t, g1.Leave(ctx))
	assert.Equal(t, 2, members(), "another ID is still a member")
	require.NoError(t, r2.Close())
	require.Eventually(t, func() bool { return members() == 1 }, testenv.Patience, cmrig.Tick, "closing leaves")
	require.NoError(t, gs.Leave(ctx))
	assert.Equal(t, 0, members())
	s.set(func() { s.fail = mad.StatusSANoResources })
	_, err = r1.Join(ctx, group, cmid.JoinConfig{})
	e, ok := errors.AsType[*sa.StatusError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, mad.StatusSANoResources, e.Status)
}

// reregister does what a restarted subnet manager does.
func reregister(t *testing.T, ca *accesslayer.CA) {
	t.Helper()
	do := func(m mad.Method, p *mad.PortInfo) {
		q := mad.SMP{Header: mad.Header{BaseVersion: 1, Class: mad.ClassSubnetLID, ClassVersion: 1, Method: m,
			Attribute: mad.AttrPortInfo, Modifier: 1}}
		if m == mad.Set {
			p.Put(q.Data[:])
		}
		var in, out ci.MAD
		q.Put(in[:])
		require.NoError(t, ca.LocalMAD(1, nil, &in, &out))
		q.Parse(out[:])
		require.Equal(t, mad.GetResp, q.Method)
		require.Zero(t, q.Status)
		p.Parse(q.Data[:])
	}
	var p mad.PortInfo
	do(mad.Get, &p)
	p.State, p.PhysState, p.ClientReregister = 0, 0, true // only the request, without a change
	do(mad.Set, &p)
}

// TestSharedClient tests that a program and its Manager use one client of the subnet administrator.
func TestSharedClient(t *testing.T) {
	s := newSubnet(t)
	var c *sa.Client
	a := s.host(func(h *ibHost, cfg *cmid.Config) {
		c = sa.New(h.al, h.svc, sa.Config{})
		cfg.SA = c
	})
	b := s.host(nil)
	assert.Same(t, c, a.m.SA())
	assert.NotNil(t, b.m.SA())
	id, err := a.m.NewID(cmid.IDConfig{})
	require.NoError(t, err)
	require.NoError(t, id.ResolveAddr(cmrig.Within(t), netip.AddrPortFrom(b.addr, 1)))
	require.NoError(t, id.ResolveRoute(cmrig.Within(t)))
	require.NoError(t, a.m.Close())
	_, err = c.Path(cmrig.Within(t), a.port, sa.PathQuery{SGID: a.attr.GIDs[0].GID, DGID: b.attr.GIDs[0].GID})
	require.NoError(t, err, "the program closes it")
	require.NoError(t, c.Close())
}

// TestStartSetRecord sets the path by a record, and connects over it.
func TestStartSetRecord(t *testing.T) {
	s := newSubnet(t)
	a, b := s.host(nil), s.host(nil)
	ctx := cmrig.Within(t)
	peer := b.listen(t, netip.AddrPortFrom(b.addr, 7174), cmid.IDConfig{})
	id, err := a.m.NewID(cmid.IDConfig{})
	require.NoError(t, err)
	defer id.Close()
	rec := mad.PathRecord{DGID: b.addr.As16(), SGID: a.addr.As16(), DLID: uint16(b.attr.LID), SLID: uint16(a.attr.LID),
		PKey: 0xffff, MTU: mad.MTU1024, LifeTime: 12, Reversible: true, NumbPath: 1}
	require.ErrorIs(t, id.StartSetRecord(&rec), ci.InvalidState, "the address is not resolved")
	require.NoError(t, id.ResolveAddr(ctx, netip.AddrPortFrom(b.addr, 7174)))
	for _, wrong := range []func(r *mad.PathRecord){
		func(r *mad.PathRecord) { r.MTU = 0 }, func(r *mad.PathRecord) { r.MTU = 6 },
		func(r *mad.PathRecord) { r.LifeTime = mad.MaxTimeExp + 1 },
	} {
		bad := rec
		wrong(&bad)
		require.ErrorIs(t, id.StartSetRecord(&bad), ci.InvalidParameter)
	}
	require.NoError(t, id.StartSetRecord(&rec))
	e, err := id.Next(ctx)
	require.NoError(t, err)
	assert.Equal(t, cmid.EventRouteResolved, e.Type)
	require.ErrorIs(t, id.StartSetRecord(&rec), ci.InvalidState)
	assert.Equal(t, b.attr.LID, id.Path().AV.DLID)
	require.NoError(t, id.CreateQP(cmid.QPConfig{}))
	require.NoError(t, id.Connect(ctx, cmid.ConnParam{}))
	p := <-peer
	require.NoError(t, p.err)
	defer p.id.Close()
	attr, err := id.QP().Query()
	require.NoError(t, err)
	assert.Equal(t, ci.MTU1024, attr.MTU)
	require.NoError(t, id.Disconnect(ctx))
}
