package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// member identifies a port's membership at the subnet administrator, which groups of several IDs share.
type member struct {
	port mads.Port
	mgid ci.GID
	sgid ci.GID
	join mad.JoinState
}

// membership is the state of a member. The Manager's mu guards it. At most one request to the subnet administrator is
// in progress; its callback starts the next one that is necessary (Manager.advance).
type membership struct {
	userCount int
	isBusy    bool                // a request is in progress
	isStale   bool                // the subnet manager has restarted: join again
	ask       mad.MCMemberRecord  // of the first join
	rec       *mad.MCMemberRecord // nil: the port is not a member
	joining   []*joinCall
	leaving   []func(error)
}

// joinCall is a join that waits for the subnet administrator.
type joinCall struct {
	done   func(*mad.MCMemberRecord, error)
	detach func() bool // ends the callback of the context
}

var errNoAdministrator = errors.New("rdmacm: groups on InfiniBand need the subnet administrator (set Config.MAD)")

// joinMask has the components that creating a group needs (15.2.5.17.2). If the group exists, they must have its
// values.
const joinMask = mad.MCMGID | mad.MCPortGID | mad.MCJoinState | mad.MCPKey | mad.MCQKey | mad.MCSL | mad.MCFlowLabel |
	mad.MCTrafficClass

// useMember counts a user of a membership, until leave is called.
func (m *Manager) useMember(k member, ask mad.MCMemberRecord) *membership {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.members[k]
	if s == nil {
		ask.MGID, ask.PortGID, ask.JoinState = k.mgid, k.sgid, k.join
		s = &membership{ask: ask}
		m.members[k] = s
	}
	s.userCount++
	return s
}

// join makes the port a member, or returns the record if it is one already. done is called once, on the goroutine of
// the caller or of the subnet administrator's client.
func (m *Manager) join(ctx context.Context, k member, s *membership, done func(*mad.MCMemberRecord, error)) {
	call := &joinCall{done: done}
	m.mu.Lock()
	s.joining = append(s.joining, call)
	call.detach = context.AfterFunc(ctx, func() { m.cancelJoin(s, call, context.Cause(ctx)) })
	m.mu.Unlock()
	m.advance(k, s)
}

// cancelJoin ends a join whose context has ended, unless it has a result.
func (m *Manager) cancelJoin(s *membership, call *joinCall, err error) {
	m.mu.Lock()
	i := slices.Index(s.joining, call)
	if i >= 0 {
		s.joining = slices.Delete(s.joining, i, i+1)
	}
	m.mu.Unlock()
	if i >= 0 {
		call.done(nil, err)
	}
}

// leave ends a use of a membership. The last user makes the port leave the group. done is called once, when the subnet
// administrator has replied, or at once if other users remain.
func (m *Manager) leave(k member, done func(error)) {
	m.mu.Lock()
	s := m.members[k]
	if s == nil {
		m.mu.Unlock()
		done(nil)
		return
	}
	s.userCount--
	isLast := s.userCount == 0
	if isLast {
		s.leaving = append(s.leaving, done)
	}
	m.mu.Unlock()
	if !isLast {
		done(nil)
		return
	}
	m.advance(k, s)
}

// advance starts the next request of a membership, or ends the calls that wait for the state that it has.
func (m *Manager) advance(k member, s *membership) {
	m.mu.Lock()
	if s.isBusy {
		m.mu.Unlock()
		return
	}
	isMember := s.rec != nil
	switch {
	case isMember && s.userCount > 0 && s.isStale, !isMember && len(s.joining) > 0:
		s.isBusy, s.isStale = true, false
		m.mu.Unlock()
		done := func(rec *mad.MCMemberRecord, err error) { m.hasJoined(k, s, rec, err) }
		if err := m.sa.StartJoin(m.ctx, k.port, s.ask, joinMask, done); err != nil {
			done(nil, err)
		}
	case isMember && s.userCount == 0:
		s.isBusy = true
		m.mu.Unlock()
		done := func(err error) { m.hasLeft(k, s, err) }
		rec := mad.MCMemberRecord{MGID: k.mgid, PortGID: k.sgid, JoinState: k.join}
		if err := m.sa.StartLeave(m.ctx, k.port, rec, done); err != nil {
			done(err)
		}
	default:
		m.settle(k, s)
	}
}

// settle ends the calls of a membership that needs no request. mu is held and released.
func (m *Manager) settle(k member, s *membership) {
	joining, leaving, rec := s.joining, s.leaving, s.rec
	s.joining, s.leaving = nil, nil
	if s.userCount == 0 && m.members[k] == s {
		delete(m.members, k)
	}
	m.mu.Unlock()
	for _, call := range joining {
		call.detach()
		call.done(rec, nil)
	}
	for _, done := range leaving {
		done(nil)
	}
}

// hasJoined receives the subnet administrator's reply to a join. A port that joined again and failed, or whose group
// has another LID now, has lost its membership.
func (m *Manager) hasJoined(k member, s *membership, rec *mad.MCMemberRecord, err error) {
	m.mu.Lock()
	s.isBusy = false
	isRejoin := s.rec != nil
	var failed []*joinCall
	switch {
	case err == nil && isRejoin && rec.MLID != s.rec.MLID:
		err = fmt.Errorf("rdmacm: the group has LID %#x instead of %#x now: join it again", rec.MLID, s.rec.MLID)
	case err == nil && !isRejoin:
		s.rec = rec
	case err != nil && !isRejoin:
		failed = s.joining
		s.joining = nil
	}
	m.mu.Unlock()
	for _, call := range failed {
		call.detach()
		call.done(nil, err)
	}
	if isRejoin && err != nil && m.ctx.Err() == nil {
		m.lost(k, err)
	}
	m.advance(k, s)
}

// hasLeft receives the subnet administrator's reply to a leave.
func (m *Manager) hasLeft(k member, s *membership, err error) {
	m.mu.Lock()
	s.isBusy, s.rec = false, nil
	leaving := s.leaving
	s.leaving = nil
	m.mu.Unlock()
	for _, done := range leaving {
		done(err)
	}
	m.advance(k, s)
}

// rejoin joins the groups of a port again. IDs with memberships for which that fails get EventGroupError.
func (m *Manager) rejoin(port mads.Port) {
	m.mu.Lock()
	list := map[member]*membership{}
	for k, s := range m.members {
		if k.port == port {
			s.isStale = true
			list[k] = s
		}
	}
	m.mu.Unlock()
	for k, s := range list {
		m.advance(k, s)
	}
}

// lost queues EventGroupError for each group that uses a membership.
func (m *Manager) lost(k member, err error) {
	var groups []*Group
	m.mu.Lock()
	for i := range m.ids {
		i.mu.Lock()
		for g := range i.groups {
			if g.key == k {
				groups = append(groups, g)
			}
		}
		i.mu.Unlock()
	}
	m.mu.Unlock()
	for _, g := range groups {
		g.id.push(Event{Type: EventGroupError, Group: g, Err: err})
	}
}
