package mutant

import (
	"sync"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant/tap"
)

// Datagram returns mutants with faults in special QPs, multicast and path migration.
func Datagram() []Mutant {
	special := func(name, breaks, does string, f func(p ciwrap.PD, port uint8, c ci.QPCreate) (ci.QP, error)) Mutant {
		return Of(name, breaks, does,
			tap.PDs(func(p ciwrap.PD) ci.PD { return specialist{p, f} })).Needing(ci.CapSpecialQP)
	}
	attach := func(name, breaks, does string, f func(q ciwrap.QP, c ci.McastAttach) (ci.Mcast, error)) Mutant {
		return Of(name, breaks, does, tap.QPs(func(q ciwrap.QP) ci.QP { return joiner{q, f} })).Needing(ci.CapMulticast)
	}
	apm := func(name, breaks, does string, f func(q *modifier, set ci.QPField, a ci.QPAttr) error) Mutant {
		return Of(name, breaks, does, tap.Layer(ciwrap.Layer{QP: func(q ci.QP, c ci.QPCreate) ci.QP {
			return &modifier{QP: ciwrap.QP{QP: q}, typ: c.Type, f: f}
		}})).Needing(ci.CapAPM)
	}
	return []Mutant{
		special("special.busy-otherwise", "CI-SpecialQP-01", "creating a second QP1 returns InsufficientResources",
			func(p ciwrap.PD, port uint8, c ci.QPCreate) (ci.QP, error) {
				q, err := p.CreateSpecialQP(port, c)
				if ci.StatusOf(err) == ci.ResourceBusy {
					return nil, &ci.Error{Verb: "PD.CreateSpecialQP", Status: ci.InsufficientResources}
				}
				return q, err
			}),
		special("special.port-zero", "CI-SpecialQP-03", "port 0 is taken as port 1",
			func(p ciwrap.PD, port uint8, c ci.QPCreate) (ci.QP, error) {
				return p.CreateSpecialQP(max(port, 1), c)
			}),
		special("special.any-type", "CI-SpecialQP-04", "CreateSpecialQP also creates ordinary QPs",
			func(p ciwrap.PD, port uint8, c ci.QPCreate) (ci.QP, error) {
				if c.Type == ci.RC || c.Type == ci.UD {
					return p.CreateQP(c)
				}
				return p.CreateSpecialQP(port, c)
			}),
		special("special.no-most", "CI-SpecialQP-05",
			"a rejected create does not return the sizes that would be granted",
			func(p ciwrap.PD, port uint8, c ci.QPCreate) (ci.QP, error) {
				q, err := p.CreateSpecialQP(port, c)
				if ci.StatusOf(err) == ci.InvalidSetting {
					return nil, &ci.Error{Verb: "PD.CreateSpecialQP", Status: ci.InvalidSetting}
				}
				return q, err
			}),
		Of("special.no-source", "CI-SpecialQP-06", "completions of QP1 lack the sender's QPN",
			tap.Layer(ciwrap.Layer{CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ {
				return editor{ciwrap.CQ{CQ: c}, func(w *ci.WC) {
					if w.QPN == 1 {
						w.SrcQP = 0
					}
				}}
			}})).Needing(ci.CapSpecialQP),
		Of("special.open-qkey", "CI-SpecialQP-07", "a request may contain the well-known Q_Key", tap.Layer(
			ciwrap.Layer{
				QP: func(q ci.QP, c ci.QPCreate) ci.QP { return &privileged{QP: ciwrap.QP{QP: q}, typ: c.Type} }})).
			Needing(ci.CapSpecialQP),
		Of("mcast.no-grh", "CI-Mcast-01", "the completion of a datagram with GRH lacks WCGRH",
			tap.Layer(ciwrap.Layer{CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ {
				return editor{ciwrap.CQ{CQ: c}, func(w *ci.WC) { w.Flags &^= ci.WCGRH }}
			}})).Needing(ci.CapMulticast),
		Of("mcast.never-leaves", "CI-Mcast-02", "a QP leaves its groups only when it is destroyed",
			tap.QPs(func(q ciwrap.QP) ci.QP { return &faithful{QP: q} })).Needing(ci.CapMulticast),
		attach("mcast.type", "CI-Mcast-03", "attaching a connected QP returns InvalidQPState",
			func(q ciwrap.QP, c ci.McastAttach) (ci.Mcast, error) {
				m, err := q.QP.AttachMcast(c)
				if ci.StatusOf(err) == ci.InvalidServiceType {
					return nil, &ci.Error{Verb: "QP.AttachMcast", Status: ci.InvalidQPState}
				}
				return m, err
			}),
		attach("mcast.any-gid", "CI-Mcast-04", "attaching a unicast GID returns InvalidParameter",
			func(q ciwrap.QP, c ci.McastAttach) (ci.Mcast, error) {
				m, err := q.QP.AttachMcast(c)
				if ci.StatusOf(err) == ci.InvalidGID {
					return nil, &ci.Error{Verb: "QP.AttachMcast", Status: ci.InvalidParameter}
				}
				return m, err
			}),
		onLink("direct", attach("mcast.any-lid", "CI-Mcast-05", "the LID is ignored",
			func(q ciwrap.QP, c ci.McastAttach) (ci.Mcast, error) {
				c.LID = 0xc001
				return q.QP.AttachMcast(c)
			})),
		Of("mcast.leaves-on-destroy", "CI-Mcast-06", "Destroy of an attached QP detaches it and succeeds",
			tap.QPs(func(q ciwrap.QP) ci.QP { return &leaver{QP: q} })).Needing(ci.CapMulticast),
		Of("mcast.one-handle", "CI-Mcast-07", "attaching a QP again returns the existing handle",
			tap.QPs(func(q ciwrap.QP) ci.QP { return &single{QP: q} })).Needing(ci.CapMulticast),
		Of("mcast.one-group", "CI-Mcast-08", "a QP always joins its first group",
			tap.QPs(func(q ciwrap.QP) ci.QP { return &narrow{QP: q} })).Needing(ci.CapMulticast),
		Of("mcast.stale", "CI-Mcast-10", "a destroyed membership returns InvalidQPHandle",
			tap.Mcasts(func(m ciwrap.Mcast) ci.Mcast { return misnamed{m} })).Needing(ci.CapMulticast),
		apm("apm.stays-rearm", "CI-APM-01", "Rearm succeeds and has no effect",
			func(q *modifier, set ci.QPField, a ci.QPAttr) error {
				if set&ci.QPFieldAPM != 0 && a.APM == ci.APMRearm {
					set &^= ci.QPFieldAPM
				}
				return q.inner(set, a)
			}),
		Of("apm.old-primary", "CI-APM-02", "Query always returns the first ACK timeout",
			tap.Layer(ciwrap.Layer{QP: func(q ci.QP, _ ci.QPCreate) ci.QP {
				return queryer{ciwrap.QP{QP: q}, func(a *ci.QPAttr) { a.Primary.AckTimeout &^= 1 }}
			}})).Needing(ci.CapAPM),
		Of("apm.no-event", "CI-APM-03", "a migration causes no event",
			tap.Layer(ciwrap.Layer{Event: func(e ci.Event, deliver func(ci.Event)) {
				if e.Type != ci.EventQPAPM {
					deliver(e)
				}
			}})).Needing(ci.CapAPM),
		apm("apm.any-state", "CI-APM-04", "an invalid migration state returns InvalidParameter",
			func(q *modifier, set ci.QPField, a ci.QPAttr) error {
				err := q.inner(set, a)
				if ci.StatusOf(err) == ci.InvalidAPMState {
					return &ci.Error{Verb: "QP.Modify", Status: ci.InvalidParameter}
				}
				return err
			}),
		apm("apm.port-zero", "CI-APM-05", "port 0 of an alternate path is taken as port 1",
			func(q *modifier, set ci.QPField, a ci.QPAttr) error {
				a.Alternate.AV.Port = max(a.Alternate.AV.Port, 1)
				return q.inner(set, a)
			}),
		Of("apm.hidden", "CI-APM-06", "Query does not return the alternate path",
			tap.Layer(ciwrap.Layer{QP: func(q ci.QP, _ ci.QPCreate) ci.QP {
				return queryer{ciwrap.QP{QP: q}, func(a *ci.QPAttr) { a.Alternate = ci.Path{} }}
			}})).Needing(ci.CapAPM),
		Of("apm.once", "CI-APM-07", "a QP can be rearmed only once",
			tap.Layer(ciwrap.Layer{QP: func(q ci.QP, c ci.QPCreate) ci.QP {
				n := 0
				return &modifier{
					QP:  ciwrap.QP{QP: q},
					typ: c.Type,
					f: func(q *modifier, set ci.QPField, a ci.QPAttr) error {
						if set&ci.QPFieldAPM != 0 && a.APM == ci.APMRearm {
							if n++; n > 1 {
								return &ci.Error{Verb: "QP.Modify", Status: ci.InvalidAPMState}
							}
						}
						return q.inner(set, a)
					},
				}
			}})).Needing(ci.CapAPM),
	}
}

func onLink(link string, m Mutant) Mutant { m.Link = link; return m }

type specialist struct {
	ciwrap.PD
	f func(p ciwrap.PD, port uint8, c ci.QPCreate) (ci.QP, error)
}

func (s specialist) CreateSpecialQP(port uint8, c ci.QPCreate) (ci.QP, error) {
	return s.f(s.PD, port, c)
}

// editor changes completions.
type editor struct {
	ciwrap.CQ
	f func(*ci.WC)
}

func (e editor) Poll(wc []ci.WC) (int, error) {
	n, err := e.CQ.Poll(wc)
	for i := range wc[:n] {
		e.f(&wc[i])
	}
	return n, err
}

// privileged sets the QP's Q_Key to the well-known one before a request that contains it.
type privileged struct {
	ciwrap.QP
	typ ci.QPType
}

func (p *privileged) PostSend(wrs []ci.SendWR) (int, error) {
	if p.typ == ci.UD && len(wrs) > 0 && wrs[0].To.QKey == 0x80010000 {
		_ = p.Modify(ci.QPFieldState|ci.QPFieldQKey, ci.QPAttr{State: ci.QPRTS, QKey: 0x80010000})
	}
	return p.QP.PostSend(wrs)
}

type joiner struct {
	ciwrap.QP
	f func(q ciwrap.QP, c ci.McastAttach) (ci.Mcast, error)
}

func (j joiner) AttachMcast(c ci.McastAttach) (ci.Mcast, error) {
	return j.f(j.QP, c)
}

// faithful is a QP that leaves its groups only when it is destroyed.
type faithful struct {
	ciwrap.QP
	mu         sync.Mutex
	groups     []ci.Mcast
	numHandles int // handles that are not destroyed
}

type membership struct {
	ciwrap.Mcast
	q         *faithful
	destroyed bool
}

func (f *faithful) AttachMcast(c ci.McastAttach) (ci.Mcast, error) {
	m, err := f.QP.AttachMcast(c)
	if err != nil {
		return m, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.groups = append(f.groups, m)
	f.numHandles++
	return &membership{Mcast: ciwrap.Mcast{Mcast: m}, q: f}, nil
}

func (m *membership) Destroy() error {
	m.q.mu.Lock()
	defer m.q.mu.Unlock()
	if m.destroyed {
		return &ci.Error{Verb: "Mcast.Destroy", Status: ci.InvalidMcastHandle}
	}
	m.destroyed = true
	m.q.numHandles--
	return nil
}

func (f *faithful) Destroy() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.numHandles == 0 {
		for _, m := range f.groups {
			_ = m.Destroy()
		}
		f.groups = nil
	}
	return f.QP.Destroy()
}

// leaver is a QP that leaves its groups when it is destroyed.
type leaver struct {
	ciwrap.QP
	groups []ci.Mcast
}

func (l *leaver) AttachMcast(c ci.McastAttach) (ci.Mcast, error) {
	m, err := l.QP.AttachMcast(c)
	if err == nil {
		l.groups = append(l.groups, m)
	}
	return m, err
}

func (l *leaver) Destroy() error {
	for _, m := range l.groups {
		_ = m.Destroy()
	}
	return l.QP.Destroy()
}

// single is a QP with one handle for all its attachments to a group.
type single struct {
	ciwrap.QP
	have map[ci.GID]ci.Mcast
}

func (s *single) AttachMcast(c ci.McastAttach) (ci.Mcast, error) {
	if m := s.have[c.GID]; m != nil {
		return m, nil
	}
	m, err := s.QP.AttachMcast(c)
	if err == nil {
		if s.have == nil {
			s.have = map[ci.GID]ci.Mcast{}
		}
		s.have[c.GID] = m
	}
	return m, err
}

type misnamed struct{ ciwrap.Mcast }

func (m misnamed) Destroy() error {
	err := m.Mcast.Destroy()
	if ci.StatusOf(err) == ci.InvalidMcastHandle {
		return &ci.Error{Verb: "Mcast.Destroy", Status: ci.InvalidQPHandle}
	}
	return err
}

// narrow is a QP that joins its first group again instead of another one.
type narrow struct {
	ciwrap.QP
	first *ci.GID
}

func (n *narrow) AttachMcast(c ci.McastAttach) (ci.Mcast, error) {
	if n.first == nil {
		n.first = &c.GID
	}
	c.GID = *n.first
	return n.QP.AttachMcast(c)
}
