package mads

import (
	"fmt"
	"maps"

	"ciddk/ci"
	"ciddk/mad"
)

// table maps datagrams to agents. A table is replaced, and never changed.
type table struct {
	agents map[uint32]*agent // by the upper half of the transaction ID
	claims map[claim]*[128]*agent
}

// claim is the key of an exclusive set of methods. ClassSubnetDirected counts as ClassSubnetLID.
type claim struct {
	class   mad.Class
	version uint8
	oui     [3]byte
}

// Limits of registrations: classes up to the end of vendor range 2, versions below 8, and eight OUIs for each class and
// version.
const (
	classVersions = 8
	maxOUIs       = 8
	ouiOffset     = mad.RMPPEnd + 1 // after a reserved byte (IBTA volume 1, 16.5.2)
)

func isSubnet(c mad.Class) bool { return c == mad.ClassSubnetLID || c == mad.ClassSubnetDirected }

func canonical(c mad.Class) mad.Class {
	if c == mad.ClassSubnetDirected {
		return mad.ClassSubnetLID
	}
	return c
}

// claimOf returns the claim that a datagram belongs to.
func claimOf(h *mad.Header, b []byte) claim {
	c := claim{class: canonical(h.Class), version: h.ClassVersion}
	if h.Class.Vendor2() {
		c.oui = [3]byte(b[ouiOffset:])
	}
	return c
}

// check returns an error for a configuration that no port accepts.
func (c *AgentConfig) check(verb string) error {
	bad := func(format string, args ...any) error {
		return &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: fmt.Sprintf(format, args...)}
	}
	_, rmpp := mad.SegmentationOf(c.Class)
	switch {
	case c.Queue < 0:
		return bad("Queue is %d, must not be negative (0: %d)", c.Queue, defaultQueue)
	case c.Class == 0 && len(c.Methods) > 0:
		return bad("Methods without Class")
	case c.Class == 0 && c.RMPP:
		return bad("RMPP without Class")
	case c.Class > mad.ClassVendor2Last && c.Class != mad.ClassSubnetDirected:
		return bad("Class %#02x: want 1 to %#02x, or %#02x", uint8(c.Class), uint8(mad.ClassVendor2Last),
			uint8(mad.ClassSubnetDirected))
	case c.Class != 0 && isSubnet(c.Class) != c.SubnetManagement:
		return bad("Class %v with SubnetManagement %v (classes of subnet management are on QP0, all others on QP1)",
			c.Class, c.SubnetManagement)
	case c.Version >= classVersions:
		return bad("Version %d: want 0 to %d", c.Version, classVersions-1)
	case c.Class.Vendor2() && len(c.Methods) > 0 && c.OUI == [3]byte{}:
		return bad("OUI is zero, but %v requires one", c.Class)
	case !c.Class.Vendor2() && c.OUI != [3]byte{}:
		return bad("OUI with %v, which does not use it", c.Class)
	case c.RMPP && !rmpp:
		return bad("RMPP with %v, which does not use it", c.Class)
	case c.Manager && !c.SubnetManagement:
		return bad("Manager without SubnetManagement")
	case c.OnReceive != nil && len(c.Methods) == 0:
		return bad("OnReceive without Methods: nothing would be received")
	}
	for _, m := range c.Methods {
		h := mad.Header{Class: c.Class, Method: m}
		if m == 0 || h.Response() {
			return bad("method %v in Methods: want requests, 1 to 0x7f without TrapRepress (responses are matched by "+
				"transaction ID)", m)
		}
	}
	return nil
}

const defaultQueue = 128

// with returns a copy of the table with the agent a.
func (t *table) with(verb string, a *agent) (*table, error) {
	n := t.clone()
	n.agents[a.hi] = a
	if len(a.cfg.Methods) == 0 {
		return n, nil
	}
	key := claim{canonical(a.cfg.Class), a.cfg.Version, a.cfg.OUI}
	busy := func(format string, args ...any) error {
		return &ci.Error{Verb: verb, Status: ci.ResourceBusy, Detail: fmt.Sprintf(format, args...)}
	}
	had := n.claims[key]
	if had == nil && key.class.Vendor2() {
		ouis := 0
		for k := range n.claims {
			if k.class == key.class && k.version == key.version {
				ouis++
			}
		}
		if ouis >= maxOUIs {
			return nil, busy("%v version %d has agents of %d OUIs", key.class, key.version, ouis)
		}
	}
	methods := new([128]*agent)
	if had != nil {
		*methods = *had
	}
	for _, m := range a.cfg.Methods {
		if other := methods[m]; other != nil && other != a {
			return nil, busy("agent %q has method %v of %v version %d", other.cfg.Name, m, key.class, key.version)
		}
		methods[m] = a
	}
	n.claims[key] = methods
	return n, nil
}

// without returns a copy of the table without the agent a.
func (t *table) without(a *agent) *table {
	n := t.clone()
	delete(n.agents, a.hi)
	for key, had := range n.claims {
		methods, left, mine := *had, false, false
		for i := range methods {
			if methods[i] == a {
				methods[i], mine = nil, true
			}
			left = left || methods[i] != nil
		}
		switch {
		case !left:
			delete(n.claims, key)
		case mine:
			n.claims[key] = &methods
		}
	}
	return n
}

func (t *table) clone() *table {
	n := &table{agents: make(map[uint32]*agent, len(t.agents)+1), claims: make(map[claim]*[128]*agent, len(t.claims)+1)}
	maps.Copy(n.agents, t.agents)
	maps.Copy(n.claims, t.claims)
	return n
}

// find returns the agent that has registered for a request, or nil.
func (t *table) find(h *mad.Header, b []byte) *agent {
	methods := t.claims[claimOf(h, b)]
	if methods == nil || h.Method >= 128 {
		return nil
	}
	a := methods[h.Method]
	if a != nil && a.cfg.Manager && h.Attribute != mad.AttrSMInfo && (h.Method == mad.Get || h.Method == mad.Set) {
		return nil
	}
	return a
}

// hasClass reports whether an agent has the class in any version.
func (t *table) hasClass(c mad.Class) bool {
	for k := range t.claims {
		if k.class == canonical(c) {
			return true
		}
	}
	return false
}

// isResponse reports whether a datagram is a response. Those of baseboard management are marked in their modifier (IBTA
// volume 1, 16.2.2).
func isResponse(h *mad.Header) bool {
	return h.Response() || h.Class == mad.ClassBoard && h.Modifier&1 != 0
}
