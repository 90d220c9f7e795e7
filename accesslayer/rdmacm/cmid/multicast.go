package cmid

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/rdmacm/internal/address"
	"ciddk/accesslayer/rdmacm/internal/failure"
	"ciddk/accesslayer/rdmacm/resolve"
	"ciddk/accesslayer/sa"
	"ciddk/ci"
	"ciddk/mad"
)

// McastQPN is the destination QPN of datagrams to a group (IBTA volume 1, 10.5.2).
const McastQPN ci.QPN = 0xffffff

// JoinConfig describes how an ID joins a group.
type JoinConfig struct {
	// SendOnly joins as a sender: the QP does not receive what is sent to the group.
	SendOnly bool
	// NoAttach leaves it to the caller to attach a QP to the group, with the GID and, on InfiniBand, the LID of
	// Group.Peer. The ID needs no QP then.
	NoAttach bool
}

// Group is a membership of an ID in a multicast group.
type Group struct {
	id       *ID
	addr     netip.Addr
	key      member
	src      resolve.Source
	noAttach bool // the ID attaches no QP
	step     *step

	mu    sync.Mutex
	peer  Peer
	mcast ci.Mcast // nil: not attached
	left  bool
	// membership is that at the subnet administrator, and mlid the LID of the group when the port joined it. It is nil
	// on Ethernet, and until the port has joined.
	membership *sa.Membership
	mlid       uint16
}

// member identifies a port's membership in a group.
type member struct {
	port mads.Port
	mgid ci.GID
	sgid ci.GID
	join mad.JoinState
}

var errNoAdministrator = errors.New("rdmacm: groups on InfiniBand need the subnet administrator (set Config.MAD)")

// joinMask has the components that creating a group needs (15.2.5.17.2). If the group exists, they must have its
// values.
const joinMask = mad.MCMGID | mad.MCPortGID | mad.MCJoinState | mad.MCPKey | mad.MCQKey | mad.MCSL | mad.MCFlowLabel |
	mad.MCTrafficClass

// Addr returns the address of the group.
func (g *Group) Addr() netip.Addr { return g.addr }

// Peer returns where to send so that all members receive it. It is valid after the ID has joined.
func (g *Group) Peer() Peer {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.peer
}

// Join makes the ID's QP a member of a multicast group: an IP group or, on InfiniBand, a GID written as an IPv6
// address. The ID must have a port (Bind to an address, or ResolveAddr) and a UD QP, unless cfg allows to go without.
// On Ethernet the operating system joins the IP group (IGMP, MLD); on InfiniBand the subnet administrator makes the
// port a member.
// Errors: InvalidGID (not a group), InvalidServiceType (not UD), InvalidState (no port, no QP), those of the driver and
// of the subnet administrator, the context's.
func (i *ID) Join(ctx context.Context, group netip.Addr, cfg JoinConfig) (*Group, error) {
	var g *Group
	err := i.await(ctx, opJoin, func(report func(Event)) (s *step, err error) {
		if g, err = i.join(group, cfg, report); err != nil {
			return nil, err
		}
		return g.step, nil
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// StartJoin starts Join. The result is EventGroupJoined or EventGroupError with the Group, which may be queued before
// StartJoin returns. Any number of joins may be in progress. Group.StartLeave ends one.
// Errors: InvalidGID, InvalidServiceType, InvalidState; then there is no event.
func (i *ID) StartJoin(group netip.Addr, cfg JoinConfig) (*Group, error) {
	return i.join(group, cfg, i.push)
}

func (i *ID) join(group netip.Addr, cfg JoinConfig, report func(Event)) (*Group, error) {
	g, err := i.newGroup(group.Unmap().WithZone(""), cfg)
	if err != nil {
		return nil, i.fail(opJoin, err)
	}
	g.step = i.newStep(opJoin, 0, report)
	if err := i.addGroup(g); err != nil {
		g.step.release()
		return nil, i.fail(opJoin, err)
	}
	if g.src.Link == ci.LinkInfiniBand {
		g.joinInfiniBand()
		return g, nil
	}
	peer := Peer{QPN: McastQPN, QKey: QKey, AV: ci.AVAttr{Port: g.key.port.Num, Global: true}}
	peer.AV.GRH = g.grh(address.HopLimit, i.cfg.TrafficClass)
	g.joined(peer, g.attach(peer))
	return g, nil
}

// joinInfiniBand makes the port a member at the subnet administrator. IDs that join a group alike share the membership.
func (g *Group) joinInfiniBand() {
	cfg := &g.id.cfg
	rec := mad.MCMemberRecord{MGID: g.key.mgid, PortGID: g.key.sgid, JoinState: g.key.join,
		PKey: uint16(cfg.partition()), QKey: uint32(QKey), TrafficClass: cfg.TrafficClass}
	err := g.id.m.sa.StartMembership(g.step.ctx, g.key.port,
		sa.MembershipConfig{Record: rec, Mask: joinMask, OnChange: g.rejoined}, g.hasMembership)
	if err != nil {
		g.hasMembership(nil, err)
	}
}

// hasMembership receives the outcome of the join at the subnet administrator.
func (g *Group) hasMembership(m *sa.Membership, err error) {
	if err != nil {
		if g.step.ctx.Err() != nil {
			err = context.Cause(g.step.ctx)
		}
		g.joined(Peer{}, err)
		return
	}
	rec := m.Group()
	g.mu.Lock()
	if g.left { // detach did not find it
		g.mu.Unlock()
		_ = m.DestroyAsync(nil)
		g.joined(Peer{}, context.Canceled)
		return
	}
	g.membership, g.mlid = m, rec.MLID
	g.mu.Unlock()
	peer := Peer{QPN: McastQPN, QKey: ci.QKey(rec.QKey), AV: ci.AVAttr{Port: g.key.port.Num, SL: ci.SL(rec.SL),
		DLID: ci.LID(rec.MLID), Global: true, GRH: g.grh(rec.HopLimit, rec.TrafficClass)}}
	peer.AV.GRH.DGID, peer.AV.GRH.FlowLabel = rec.MGID, rec.FlowLabel
	g.joined(peer, g.attach(peer))
}

// rejoined is called when the port has joined again, for example after a restart of the subnet manager. A port for
// which that failed, or whose group has another LID now, has lost its membership.
func (g *Group) rejoined(rec *mad.MCMemberRecord, err error) {
	g.mu.Lock()
	left, mlid := g.left, g.mlid
	g.mu.Unlock()
	if err == nil && rec.MLID != mlid {
		err = fmt.Errorf("rdmacm: the group has LID %#x instead of %#x now: join it again", rec.MLID, mlid)
	}
	if err != nil && !left {
		g.id.push(Event{Type: EventGroupError, Group: g, Err: err})
	}
}

// newGroup checks the arguments of Join.
func (i *ID) newGroup(group netip.Addr, cfg JoinConfig) (*Group, error) {
	const verb = "ID.Join"
	src, err := i.placed("Join")
	if err != nil {
		return nil, err
	}
	noAttach := cfg.SendOnly || cfg.NoAttach
	switch {
	case !group.IsMulticast():
		detail := fmt.Sprintf("%v is not a multicast group", group)
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidGID, Detail: detail}
	case i.typ != ci.UD:
		detail := fmt.Sprintf("groups are for UD, the ID is for %v", i.typ)
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidServiceType, Detail: detail}
	case i.QP() == nil && !noAttach:
		return nil, failure.InvalidState(verb, "there is no QP to receive with: "+
			"CreateQP, UseQP, JoinConfig.SendOnly or JoinConfig.NoAttach")
	}
	g := &Group{id: i, addr: group, src: src, noAttach: noAttach}
	g.key = member{port: src.Port, join: mad.FullMember, sgid: src.GID, mgid: address.GIDOf(group)}
	if src.Link == ci.LinkInfiniBand {
		if i.m.sa == nil {
			return nil, errNoAdministrator
		}
		g.key.mgid = mgid(group, i.cfg.partition())
		if cfg.SendOnly {
			g.key.join = mad.SendOnlyNonMember
		}
	}
	return g, nil
}

// addGroup adds a group to the ID, whose Close leaves it then.
func (i *ID) addGroup(g *Group) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ctx.Err() != nil {
		return context.Cause(i.ctx)
	}
	i.groups[g] = struct{}{}
	return nil
}

// partition returns the P_Key.
func (c *IDConfig) partition() ci.PKey {
	if c.PKey == 0 {
		return defaultPKey
	}
	return c.PKey
}

// grh returns the GRH of datagrams to the group.
func (g *Group) grh(hopLimit, class uint8) ci.GRH {
	return ci.GRH{DGID: g.key.mgid, SGIDIndex: g.src.GIDIndex, HopLimit: hopLimit, TrafficClass: class}
}

// attach attaches the ID's QP to the group.
func (g *Group) attach(to Peer) error {
	if g.noAttach {
		return nil
	}
	mcast, err := g.id.QP().AttachMcast(ci.McastAttach{GID: to.AV.GRH.DGID, LID: to.AV.DLID})
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left { // detach did not find it
		return failure.UnlessGone(mcast.Destroy())
	}
	g.mcast = mcast
	return nil
}

// joined reports the result of Join. After an error the ID is not a member.
func (g *Group) joined(peer Peer, err error) {
	if !g.step.claim() {
		return
	}
	g.mu.Lock()
	g.peer = peer
	if err == nil && g.left {
		err = context.Canceled
	}
	g.mu.Unlock()
	if err != nil {
		err = g.step.fail(err)
		_ = g.drop() // the first error is the one to report
	}
	g.step.report(Event{Type: resultType(err, EventGroupJoined, EventGroupError), Group: g, Err: err})
	g.step.release()
}

// Leave ends the membership, and waits for the reply of the subnet administrator, where there is one. It is idempotent.
// Closing the ID leaves all its groups.
func (g *Group) Leave(ctx context.Context) error {
	m, err := g.detach()
	if m == nil {
		return g.id.fail("leave", err)
	}
	result := make(chan error, 1)
	if m.DestroyAsync(func(err error) { result <- err }) == nil { // else the client of the administrator was closed
		select {
		case leaveErr := <-result:
			err = errors.Join(err, leaveErr)
		case <-ctx.Done():
			err = errors.Join(err, ctx.Err())
		}
	}
	return g.id.fail("leave", err)
}

// StartLeave ends the membership and does not wait for the subnet administrator. There is no event; a join in progress
// ends with EventGroupError. It is idempotent.
func (g *Group) StartLeave() error { return g.id.fail("leave", g.drop()) }

func (g *Group) drop() error {
	m, err := g.detach()
	if m != nil {
		_ = m.DestroyAsync(nil) // an error means that the subnet administrator finds out by itself
	}
	return err
}

// detach detaches the QP. It returns the membership at the subnet administrator for the caller to end, if there is one,
// in one call.
func (g *Group) detach() (m *sa.Membership, err error) {
	g.id.mu.Lock()
	delete(g.id.groups, g)
	g.id.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left {
		return nil, nil
	}
	g.left = true
	if g.step != nil {
		g.step.cancel(context.Canceled)
	}
	if g.mcast != nil {
		err = failure.UnlessGone(g.mcast.Destroy())
	}
	return g.membership, err
}

// mgid returns the GID of an IP group on InfiniBand (RFC 4391, section 4): it contains the lower 28 bits of an IPv4
// address, the lower 80 of an IPv6 address. The signature is RDMA CM's own, not that of IPoIB, so that the two use
// different groups; the scope is link-local. IPv6 groups that have the form of such a GID are used as they are.
func mgid(group netip.Addr, pkey ci.PKey) ci.GID {
	a := group.As16()
	if group.Is6() && a[1]&0xf0 == 0x10 {
		switch uint16(a[2])<<8 | uint16(a[3]) {
		case 0x401b, 0x601b, 0xa01b, 0x4001, 0x6001: // of IPoIB, assigned by administrators, of RDMA CM
			return a
		}
	}
	g := ci.GID{0xff, 0x12, 0x40, 0x01, byte(pkey >> 8), byte(pkey)}
	if group.Is4() {
		v4 := group.As4()
		copy(g[12:], []byte{v4[0] & 0x0f, v4[1], v4[2], v4[3]})
		return g
	}
	g[2] = 0x60
	copy(g[6:], a[6:])
	return g
}
