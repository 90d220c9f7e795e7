package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"ciddk/accesslayer/internal/hold"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// McastQPN is where datagrams to a group go (IBTA volume 1, 10.5.2).
const McastQPN ci.QPN = 0xffffff

// JoinConfig says how to join a group.
type JoinConfig struct {
	SendOnly bool // the QP does not receive what is sent to the group
}

// Group is a membership.
type Group struct {
	id   *ID
	addr netip.Addr
	key  member
	link ci.Link
	peer Peer

	mu    sync.Mutex
	mcast ci.Mcast // nil: send only, or left
	left  bool
}

// Addr is the group.
func (g *Group) Addr() netip.Addr { return g.addr }

// Peer is where to send so that all members receive it.
func (g *Group) Peer() Peer { return g.peer }

// Join makes the ID's QP a member of a multicast group, an IP group or, on InfiniBand, a GID written as an IPv6 address. The ID must have
// a port (Bind to an address, or ResolveAddr) and a UD QP, unless SendOnly. On Ethernet the operating system joins the IP group (IGMP, MLD);
// on InfiniBand the subnet administrator makes the port a member.
// Errors: InvalidGID (no group), InvalidServiceType (not UD), InvalidState (no port, no QP), those of the driver and of the subnet
// administrator, the context's.
func (i *ID) Join(ctx context.Context, group netip.Addr, cfg JoinConfig) (*Group, error) {
	ctx, cancel := i.during(ctx)
	defer cancel()
	g, err := i.join(ctx, group.Unmap().WithZone(""), cfg)
	return g, i.fail("join", err)
}

func (i *ID) join(ctx context.Context, group netip.Addr, cfg JoinConfig) (*Group, error) {
	const verb = "ID.Join"
	src, err := i.placed("Join")
	if err != nil {
		return nil, err
	}
	qp := i.QP()
	switch {
	case !group.IsMulticast():
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidGID, Detail: fmt.Sprintf("%v is not a multicast group", group)}
	case i.typ != ci.UD:
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidServiceType, Detail: fmt.Sprintf("groups are for UD, the ID is for %v", i.typ)}
	case qp == nil && !cfg.SendOnly:
		return nil, invalidState(verb, "there is no QP that could receive: CreateQP, UseQP or JoinConfig.SendOnly")
	}
	g := &Group{id: i, addr: group, link: src.Link, key: member{port: src.Port, join: mad.FullMember, sgid: src.GID}}
	var mlid ci.LID
	if src.Link == ci.LinkInfiniBand {
		if cfg.SendOnly {
			g.key.join = mad.SendOnlyNonMember
		}
		pkey := i.cfg.PKey
		if pkey == 0 {
			pkey = defaultPKey
		}
		g.key.mgid = mgid(group, pkey)
		rec, err := i.m.join(ctx, g.key, mad.MCMemberRecord{PKey: uint16(pkey), QKey: uint32(QKey), TrafficClass: i.cfg.TrafficClass})
		if err != nil {
			return nil, err
		}
		mlid = ci.LID(rec.MLID)
		g.peer = Peer{QPN: McastQPN, QKey: ci.QKey(rec.QKey), AV: ci.AVAttr{Port: src.Port.Num, SL: ci.SL(rec.SL), DLID: mlid, Global: true,
			GRH: ci.GRH{DGID: rec.MGID, SGIDIndex: src.GIDIndex, FlowLabel: rec.FlowLabel, HopLimit: rec.HopLimit, TrafficClass: rec.TrafficClass}}}
	} else {
		g.key.mgid = gidOf(group)
		g.peer = Peer{QPN: McastQPN, QKey: QKey, AV: ci.AVAttr{Port: src.Port.Num, Global: true,
			GRH: ci.GRH{DGID: g.key.mgid, SGIDIndex: src.GIDIndex, HopLimit: hopLimit, TrafficClass: i.cfg.TrafficClass}}}
	}
	if !cfg.SendOnly {
		if g.mcast, err = qp.AttachMcast(ci.McastAttach{GID: g.peer.AV.GRH.DGID, LID: mlid}); err != nil {
			i.m.leaveLater(g.key, src.Link)
			return nil, err
		}
	}
	i.mu.Lock()
	gone := i.state == closed
	if !gone {
		i.groups[g] = struct{}{}
	}
	i.mu.Unlock()
	if gone {
		return nil, errors.Join(context.Canceled, g.drop())
	}
	return g, nil
}

// Leave ends the membership, and waits until the subnet administrator has taken notice, where there is one. It is idempotent; closing the
// ID does it, too.
func (g *Group) Leave(ctx context.Context) error {
	first, err := g.detach()
	if first && g.link == ci.LinkInfiniBand {
		err = errors.Join(err, g.id.m.leave(ctx, g.key))
	}
	return g.id.fail("leave", err)
}

// drop is Leave without waiting.
func (g *Group) drop() error {
	first, err := g.detach()
	if first {
		g.id.m.leaveLater(g.key, g.link)
	}
	return err
}

func (g *Group) detach() (first bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left {
		return false, nil
	}
	g.left = true
	g.id.mu.Lock()
	delete(g.id.groups, g)
	g.id.mu.Unlock()
	if g.mcast != nil {
		err = unlessGone(g.mcast.Destroy())
	}
	return true, err
}

// mgid is the GID of an IP group on InfiniBand (RFC 4391, section 4): of IPv4 the lower 28 bits, of IPv6 the lower 80. The signature is RDMA
// CM's own, not IPoIB's, so that the two do not meet; scope link-local. IPv6 groups that look like such GIDs are taken as they are.
func mgid(group netip.Addr, pkey ci.PKey) ci.GID {
	a := group.As16()
	if group.Is6() && a[1]&0xf0 == 0x10 {
		switch uint16(a[2])<<8 | uint16(a[3]) {
		case 0x401b, 0x601b, 0xa01b, 0x4001, 0x6001: // IPoIB's, those that administrators assign, and these here
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

// member is a port's membership at the subnet administrator, which several groups of several IDs share.
type member struct {
	port mads.Port
	mgid ci.GID
	sgid ci.GID
	join mad.JoinState
}

type membership struct {
	users int
	mu    hold.Mutex // held while the administrator is asked
	ask   mad.MCMemberRecord
	rec   *mad.MCMemberRecord // nil: no member yet
}

// join makes the port a member, or finds that it is one.
func (m *Manager) join(ctx context.Context, k member, ask mad.MCMemberRecord) (*mad.MCMemberRecord, error) {
	if m.sa == nil {
		return nil, errors.New("groups on InfiniBand need the subnet administrator: give Config.MAD")
	}
	m.mu.Lock()
	s := m.members[k]
	if s == nil {
		s = &membership{mu: hold.NewMutex()}
		m.members[k] = s
	}
	s.users++
	m.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rec != nil {
		return s.rec, nil
	}
	ask.MGID, ask.PortGID, ask.JoinState = k.mgid, k.sgid, k.join
	rec, err := m.sa.Join(ctx, k.port, ask, joinMask)
	if err != nil {
		m.mu.Lock()
		if s.users--; s.users == 0 {
			delete(m.members, k)
		}
		m.mu.Unlock()
		return nil, err
	}
	s.ask, s.rec = ask, rec
	return rec, nil
}

// joinMask has what it takes to make a group that is not there (15.2.5.17.2); of one that is, the values must be its own.
const joinMask = mad.MCMGID | mad.MCPortGID | mad.MCJoinState | mad.MCPKey | mad.MCQKey | mad.MCSL | mad.MCFlowLabel | mad.MCTrafficClass

// leave ends a membership with its last user.
func (m *Manager) leave(ctx context.Context, k member) error {
	m.mu.Lock()
	s := m.members[k]
	last := false
	if s != nil {
		s.users--
		if last = s.users == 0; last {
			delete(m.members, k)
		}
	}
	m.mu.Unlock()
	if !last {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rec == nil {
		return nil
	}
	return m.sa.Leave(ctx, k.port, mad.MCMemberRecord{MGID: k.mgid, PortGID: k.sgid, JoinState: k.join})
}

// leaveLater is leave for those who do not wait. When the Manager closes, the administrator finds out when the port goes.
func (m *Manager) leaveLater(k member, link ci.Link) {
	if link == ci.LinkInfiniBand {
		m.background(func(ctx context.Context) { _ = m.leave(ctx, k) })
	}
}

// rejoin makes a port's memberships anew. Those that fail are lost: their groups' IDs hear of it.
func (m *Manager) rejoin(port mads.Port) {
	m.background(func(ctx context.Context) {
		m.mu.Lock()
		list := map[member]*membership{}
		for k, s := range m.members {
			if k.port == port {
				list[k] = s
			}
		}
		m.mu.Unlock()
		for k, s := range list {
			s.mu.Lock()
			if s.rec != nil {
				rec, err := m.sa.Join(ctx, k.port, s.ask, joinMask)
				if err == nil && rec.MLID != s.rec.MLID {
					err = fmt.Errorf("the group has another LID now, %#x instead of %#x: join it again", rec.MLID, s.rec.MLID)
				}
				if err != nil && ctx.Err() == nil {
					m.lost(k, err)
				}
			}
			s.mu.Unlock()
		}
	})
}

// lost tells those who use a membership.
func (m *Manager) lost(k member, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.ids {
		i.mu.Lock()
		for g := range i.groups {
			if g.key == k {
				i.events.push(Event{Type: EventGroupError, Group: g, Err: err})
			}
		}
		i.mu.Unlock()
	}
}
