package sma

import (
	"encoding/binary"
	"sync"

	"ciddk/ci"
	"ciddk/mad"
)

// A CA is what NewCANode needs of an open adapter.
type CA interface {
	// LocalMAD is that of ci.CA.
	LocalMAD(port uint8, src *ci.AVAttr, in, out *ci.MAD) error
}

// A CANodeConfig describes a node over a driver.
type CANodeConfig struct {
	CA CA
	// Attr returns the adapter's attributes. The result is not changed.
	Attr func() *ci.CAAttr
	// Description is the NodeDescription of a driver that has none.
	Description string
	// Changed is called after a Set that the driver has executed. It may be nil.
	Changed func(port uint8)
}

// NewCANode returns a node over the ports of a driver (SAS-2.1-13). LocalMAD executes what the driver's hardware does.
// A Get that it answers with mad.StatusBadMethodAttribute is answered from the adapter's attributes: NodeDescription,
// NodeInfo, PortInfo, GUIDInfo and P_KeyTable. The node remembers the M_Key that a Set(PortInfo) has given to a port
// and protects it with its lease, whether the driver does so or not.
//
// A driver without CapLocalMAD gets no requests.
func NewCANode(c CANodeConfig) Node {
	n := &caNode{c: c}
	attr := c.Attr()
	n.numPorts = uint8(len(attr.Ports))
	n.keys = make([]caKey, len(attr.Ports))
	return n
}

// caNode implements KeyedNode and Notifier.
type caNode struct {
	c        CANodeConfig
	numPorts uint8

	mu   sync.Mutex
	keys []caKey // by port
}

// caKey is what a node remembers of the protection of a port.
type caKey struct {
	Protection
	own        bool   // from a Set that the node has passed on, not read from the driver
	violations uint16 // that the driver has not seen
	set        lastSet
}

// lastSet is what a Set has changed of the way to the manager, until the adapter's attributes show it: they may be
// those of a query before the Set when the manager's next request arrives.
type lastSet struct {
	link linkAttr
	attr *ci.CAAttr // the result of CANodeConfig.Attr that was seen last; nil if the attributes show the Set
	left int        // how many other results may be of a query before the Set
}

// linkAttr is what a port needs to send to its manager.
type linkAttr struct {
	manager Manager
	state   ci.PortState
}

var _ interface {
	KeyedNode
	Notifier
} = (*caNode)(nil)

// Type implements Node.
func (n *caNode) Type() uint8 { return mad.NodeCA }

// NumPorts implements Node.
func (n *caNode) NumPorts() uint8 { return n.numPorts }

// key returns the key of a port, or nil. The caller holds n.mu.
func (n *caNode) key(port uint8) *caKey {
	if port == 0 || port > n.numPorts {
		return nil
	}
	return &n.keys[port-1]
}

// Protection implements KeyedNode.
func (n *caNode) Protection(port uint8) Protection {
	n.mu.Lock()
	defer n.mu.Unlock()
	if k := n.key(port); k != nil {
		return k.Protection
	}
	return Protection{}
}

// CountMKeyViolation implements KeyedNode. The count is added to that of the driver's PortInfo.
func (n *caNode) CountMKeyViolation(port uint8) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if k := n.key(port); k != nil && k.violations != 0xffff {
		k.violations++
	}
}

// ExpireMKey implements KeyedNode. The driver's level is set to 0, too: otherwise a driver that checks keys would
// refuse what the node now admits.
func (n *caNode) ExpireMKey(port uint8) {
	n.mu.Lock()
	k := n.key(port)
	if k == nil {
		n.mu.Unlock()
		return
	}
	k.Level, k.own = 0, true
	key := k.Key
	n.mu.Unlock()
	if !n.c.Attr().Caps.Has(ci.CapLocalMAD) {
		return
	}
	var info mad.PortInfo
	if !n.ownPortInfo(port, mad.Get, key, &info) {
		return
	}
	info.State, info.PhysState, info.ClientReregister = 0, PhysNoChange, false
	info.MKey, info.MKeyProtect = key, 0
	n.ownPortInfo(port, mad.Set, key, &info)
}

// ownPortInfo has the driver execute a Get or a Set of PortInfo of the node itself. It reports whether it did.
func (n *caNode) ownPortInfo(port uint8, method mad.Method, key uint64, info *mad.PortInfo) bool {
	s := mad.SMP{Header: mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassSubnetLID,
		ClassVersion: mad.ClassVersionSubnet, Method: method, Attribute: mad.AttrPortInfo}, MKey: key}
	if method == mad.Set {
		info.Put(s.Data[:])
	}
	var in, out ci.MAD
	s.Put(in[:])
	if err := n.c.CA.LocalMAD(port, nil, &in, &out); err != nil || out == (ci.MAD{}) {
		return false
	}
	s.Parse(out[:])
	info.Parse(s.Data[:])
	return s.Status == mad.StatusOK
}

// Manager implements Notifier.
func (n *caNode) Manager(port uint8) (m Manager, ok bool) {
	attr := n.c.Attr()
	if port == 0 || int(port) > len(attr.Ports) {
		return m, false
	}
	p := &attr.Ports[port-1]
	l := n.latest(port, attr, linkAttr{Manager{LID: p.SMLID, SL: ci.SL(p.SMSL), Own: p.LID, Timeout: p.SubnetTimeout},
		p.State})
	m = l.manager
	isOwn := m.Own == m.LID // of a manager on this port, or of none on a link that comes up by itself
	return m, l.state >= ci.PortActive && m.Own != 0 && m.LID != 0 && (!isOwn || p.Capability&ci.PortCapSM != 0)
}

// latest returns shown, which is from the attributes, or what a later Set has made of it.
func (n *caNode) latest(port uint8, attr *ci.CAAttr, shown linkAttr) linkAttr {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.key(port)
	if k == nil || k.set.attr == nil {
		return shown
	}
	if attr != k.set.attr {
		k.set.attr = attr
		k.set.left--
		k.set.link.state = shown.state // which changes without a Set, too
	}
	if k.set.left < 0 || shown == k.set.link {
		k.set.attr = nil
		return shown
	}
	return k.set.link
}

// Execute implements Node.
func (n *caNode) Execute(q Request) (status uint16, answered bool) {
	attr := n.c.Attr()
	if q.Port == 0 || int(q.Port) > len(attr.Ports) {
		return 0, false
	}
	if attr.Caps.Has(ci.CapLocalMAD) {
		if status, answered = n.local(&q); !answered || status != mad.StatusBadMethodAttribute {
			return status, answered
		}
	}
	if q.Set {
		return mad.StatusBadMethodAttribute, true
	}
	return n.fromAttributes(&q, attr), true
}

// local passes a request to the driver.
func (n *caNode) local(q *Request) (status uint16, answered bool) {
	in, out := *q.MAD, ci.MAD{}
	src := &ci.AVAttr{Port: q.Port, DLID: q.SLID}
	if q.SLID == 0 {
		src = nil
	}
	if err := n.c.CA.LocalMAD(q.Port, src, &in, &out); err != nil || out == (ci.MAD{}) {
		return 0, false
	}
	status = binary.BigEndian.Uint16(out[4:]) &^ mad.StatusDirection
	if status == mad.StatusBadMethodAttribute {
		return status, true
	}
	copy(q.Data, out[64:128])
	if q.Attribute == mad.AttrPortInfo && status == mad.StatusOK && n.selects(q) {
		var asked *mad.PortInfo
		if q.Set {
			asked = new(mad.PortInfo)
			asked.Parse(in[64:])
		}
		n.learn(q, asked)
	}
	if q.Set && status == mad.StatusOK && n.c.Changed != nil {
		n.c.Changed(q.Port)
	}
	return status, true
}

// selects reports whether a PortInfo is that of the port on which the request arrived.
func (n *caNode) selects(q *Request) bool { return q.Modifier == 0 || q.Modifier == uint32(q.Port) }

// learn completes the PortInfo of a response with what the node knows of the port's protection: the M_Key, for those
// who may see it, and the violations that the driver has not seen. asked is the PortInfo of a Set, or nil.
func (n *caNode) learn(q *Request, asked *mad.PortInfo) {
	var i mad.PortInfo
	i.Parse(q.Data)
	attr := n.c.Attr()
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.key(q.Port)
	switch {
	case asked != nil:
		k.set = lastSet{attr: attr, left: 1, link: linkAttr{Manager{LID: ci.LID(i.MasterSMLID), SL: ci.SL(i.MasterSMSL),
			Own: ci.LID(i.LID), Timeout: ci.TimeExp(i.SubnetTimeout)}, ci.PortState(i.State)}}
		k.own, k.Protection = true, Protection{asked.MKey, asked.MKeyProtect, asked.MKeyLease}
		if asked.MKeyViolations == 0 {
			k.violations = 0
		}
	case !k.own && q.Authentic && (i.MKey != 0 || i.MKeyProtect == 0):
		k.Protection = Protection{i.MKey, i.MKeyProtect, i.MKeyLease}
	}
	if k.own {
		i.MKey, i.MKeyProtect, i.MKeyLease = k.Key, k.Level, k.Lease
	}
	if !q.Authentic && k.Level != 0 {
		i.MKey = 0
	}
	i.MKeyViolations = uint16(min(uint32(i.MKeyViolations)+uint32(k.violations), 0xffff))
	i.Put(q.Data)
}

// fromAttributes executes a Get from the adapter's attributes.
func (n *caNode) fromAttributes(q *Request, attr *ci.CAAttr) (status uint16) {
	p := &attr.Ports[q.Port-1]
	var data [mad.SMPDataLen]byte
	switch q.Attribute {
	case mad.AttrNodeDescription:
		copy(data[:], n.c.Description)
	case mad.AttrNodeInfo:
		n.nodeInfo(q, attr, data[:])
	case mad.AttrPortInfo:
		if !n.selects(q) {
			return mad.StatusBadField
		}
		i := n.portInfo(q, p)
		i.Put(data[:])
	case mad.AttrGUIDInfo:
		if q.Modifier >= uint32((len(p.GIDs)+7)/8) {
			return mad.StatusBadField
		}
		for i, g := range p.GIDs[8*q.Modifier : min(len(p.GIDs), 8*int(q.Modifier)+8)] {
			copy(data[8*i:], g.GID[8:])
		}
	case mad.AttrPKeyTable:
		if q.Modifier >= uint32((len(p.PKeys)+31)/32) {
			return mad.StatusBadField
		}
		for i, k := range p.PKeys[32*q.Modifier : min(len(p.PKeys), 32*int(q.Modifier)+32)] {
			binary.BigEndian.PutUint16(data[2*i:], uint16(k))
		}
	default:
		return mad.StatusBadMethodAttribute
	}
	copy(q.Data, data[:])
	return mad.StatusOK
}

func (n *caNode) nodeInfo(q *Request, attr *ci.CAAttr, data []byte) {
	p := &attr.Ports[q.Port-1]
	i := mad.NodeInfo{BaseVersion: mad.BaseVersion, ClassVersion: mad.ClassVersionSubnet, Type: mad.NodeCA,
		NumPorts: n.numPorts, SystemGUID: uint64(attr.SystemGUID), NodeGUID: uint64(attr.GUID),
		PortGUID:     uint64(p.GUID),
		PartitionCap: uint16(len(p.PKeys)), DeviceID: attr.DeviceID, Revision: uint32(attr.Revision), LocalPort: q.Port,
		VendorID: attr.VendorID}
	if i.SystemGUID == 0 {
		i.SystemGUID = i.NodeGUID
	}
	i.Put(data)
}

// portInfo returns what the attributes of a port contain of its PortInfo.
func (n *caNode) portInfo(q *Request, p *ci.PortAttr) mad.PortInfo {
	i := mad.PortInfo{LID: uint16(p.LID), MasterSMLID: uint16(p.SMLID), CapabilityMask: uint32(p.Capability),
		LocalPortNum: q.Port, State: uint8(p.State), PhysState: p.PhysState, LMC: p.LMC, NeighborMTU: uint8(p.MTU),
		MTUCap: uint8(p.MaxMTU), MasterSMSL: p.SMSL, VLCap: p.MaxVLs, WidthActive: p.WidthActive,
		SpeedActive: p.SpeedActive, SpeedExtActive: p.SpeedExt, SubnetTimeout: uint8(p.SubnetTimeout),
		InitTypeReply: uint8(p.InitTypeReply), GUIDCap: uint8(min(len(p.GIDs), 0xff)), PKeyViolations: p.PKeyErrors,
		QKeyViolations: p.QKeyErrors}
	if len(p.GIDs) > 0 {
		i.GIDPrefix = binary.BigEndian.Uint64(p.GIDs[0].GID[:])
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if k := n.key(q.Port); k != nil {
		i.MKeyProtect, i.MKeyLease, i.MKeyViolations = k.Level, k.Lease, k.violations
		if q.Authentic || k.Level == 0 {
			i.MKey = k.Key
		}
	}
	return i
}
