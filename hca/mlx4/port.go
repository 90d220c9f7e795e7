package mlx4

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/prm"
	"ciddk/mad"
)

// port is a port of the adapter.
type port struct {
	hca  *HCA
	num  uint8
	caps fw.PortCaps
	info mad.NodeInfo

	isDown   atomic.Bool // it has gone down, and has not been seen in another state since
	isActive atomic.Bool // as reported last
	isShut   atomic.Bool // CA.Modify has taken it down, and OpenCA brings it up

	mu    sync.Mutex
	gids  []ci.GIDEntry // of an Ethernet port: as set; of an InfiniBand port: as read, nil to read them again
	pkeys []ci.PKey     // nil: to read again
	set   ci.PortCap    // capabilities of an Ethernet port
}

// Errors of the agent in the firmware.
var (
	errAgent    = errors.New("mlx4: the agent in the firmware has not answered the request")
	errPortInfo = errors.New("mlx4: the agent in the firmware reports a state or an MTU that no port has")
	errNodeGUID = errors.New("mlx4: the agent in the firmware reports no node GUID")
)

// port returns a port, counted from 1, or nil.
func (h *HCA) port(n uint8) *port {
	if n == 0 || int(n) > len(h.ports) {
		return nil
	}
	return h.ports[n-1]
}

func (p *port) isEthernet() bool { return p.caps.Link == ci.LinkEthernet }

// hasFamily reports whether an Ethernet port has a GID that is an IPv4 address, or one that is not.
func (p *port) hasFamily(isIPv4 bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.gids, func(e ci.GIDEntry) bool {
		return e.GID != ci.GID{} && isMapped(&e.GID) == isIPv4
	})
}

// start sets the tables of the port up.
func (p *port) start(ctx context.Context) (err error) {
	if p.caps, err = p.hca.dev.Port(p.num); err != nil {
		return err
	}
	if !p.isEthernet() {
		return nil
	}
	p.pkeys = []ci.PKey{0xffff}
	p.gids = p.defaultGIDs()
	if n := int(p.num) - 1; n < len(p.hca.cfg.GIDs) && p.hca.cfg.GIDs[n] != nil {
		if p.gids, err = checkGIDs(p.hca.cfg.GIDs[n]); err != nil {
			return err
		}
	}
	if err := p.hca.dev.SetEthPort(ctx, p.num, fw.EthPort{MTU: p.ethernetMTU()}); err != nil {
		return err
	}
	if err := p.hca.dev.SetMACs(ctx, p.num, [][6]byte{p.caps.MAC}); err != nil {
		return err
	}
	list := make([]fw.GIDEntry, len(p.gids))
	for i, g := range p.gids {
		list[i] = fw.GIDEntry{GID: g.GID, IsV2: g.Type == ci.GIDRoCEv2}
	}
	return p.hca.dev.SetGIDs(ctx, p.num, list)
}

// checkGIDs returns a copy of a table of Config.GIDs. Empty entries have the type of the first one, which must not be
// empty.
func checkGIDs(table []ci.GIDEntry) ([]ci.GIDEntry, error) {
	list := slices.Clone(table)
	for i := range list {
		g := &list[i]
		switch {
		case g.GID == ci.GID{} && i == 0, len(list) > prm.GIDTableSize:
			return nil, fmt.Errorf("%w: Config.GIDs: a table has 1 to %d entries, the first of which is not empty",
				ci.InvalidParameter, prm.GIDTableSize)
		case g.GID == ci.GID{}:
			g.Type = list[0].Type
		case g.Type != ci.GIDRoCEv1 && g.Type != ci.GIDRoCEv2:
			return nil, fmt.Errorf("%w: Config.GIDs: the type of entry %d is not that of RoCE", ci.InvalidParameter, i)
		}
	}
	return list, nil
}

// defaultGIDs returns the table with the link-local address of the port.
func (p *port) defaultGIDs() []ci.GIDEntry {
	g := linkLocal(p.caps.MAC)
	list := []ci.GIDEntry{{GID: g, Type: ci.GIDRoCEv1}}
	if p.hca.caps.HasBMME(prm.BMMERoCE12) {
		list = append(list, ci.GIDEntry{GID: g, Type: ci.GIDRoCEv2})
	}
	return list
}

// linkLocal returns the link-local GID of a MAC address (RFC 4291, appendix A).
func linkLocal(m [6]byte) ci.GID {
	return ci.GID{0: 0xfe, 1: 0x80, 8: m[0] ^ 2, 9: m[1], 10: m[2], 11: 0xff, 12: 0xfe, 13: m[3], 14: m[4], 15: m[5]}
}

// get reads an attribute of the port from the agent in the firmware.
func (p *port) get(ctx context.Context, attribute uint16, modifier uint32) (data []byte, err error) {
	q := mad.SMP{Header: mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassSubnetLID,
		ClassVersion: mad.ClassVersionSubnet, Method: mad.Get, TID: 1, Attribute: attribute, Modifier: modifier}}
	var in, out ci.MAD
	q.Put(in[:])
	err = p.hca.dev.MadIfc(ctx, p.num, prm.MADIgnoreMKey|prm.MADIgnoreBKey, 0, in[:], out[:])
	if err != nil {
		return nil, err
	}
	var r mad.SMP
	r.Parse(out[:])
	if r.Method != mad.GetResp || r.Status != 0 || r.Attribute != attribute {
		return nil, errAgent
	}
	return r.Data[:], nil
}

// nodeInfo reads the identity of the adapter.
func (p *port) nodeInfo(ctx context.Context) (n mad.NodeInfo, err error) {
	b, err := p.get(ctx, mad.AttrNodeInfo, 0)
	if err == nil {
		n.Parse(b)
	}
	return n, err
}

// query returns the attributes of the port.
func (p *port) query(ctx context.Context) (ci.PortAttr, error) {
	a := ci.PortAttr{Num: p.num, Link: p.caps.Link, MaxMsgSize: p.hca.caps.MaxMessage}
	if p.isEthernet() {
		return a, p.queryEthernet(ctx, &a)
	}
	return a, p.queryInfiniBand(ctx, &a)
}

// Physical states of IBTA.
const (
	physPolling = 2
	physUp      = 5
)

func (p *port) queryEthernet(ctx context.Context, a *ci.PortAttr) error {
	c, err := p.hca.dev.QueryPort(ctx, p.num)
	if err != nil {
		return err
	}
	a.State, a.PhysState = ci.PortDown, physPolling
	if c.IsLinkUp {
		a.State, a.PhysState = ci.PortActive, physUp
	}
	a.GUID = guidOf(linkLocal(p.caps.MAC))
	a.MaxMTU = c.IBMTU
	a.MTU = roceMTU(p.ethernetMTU(), c.IBMTU)
	a.MaxVLs = 1
	a.SpeedActive = qdr
	a.WidthActive, a.SpeedExt = roceLanes(c.Speed)
	p.mu.Lock()
	defer p.mu.Unlock()
	a.GIDs, a.PKeys = slices.Clone(p.gids), slices.Clone(p.pkeys)
	a.Capability = p.set
	return nil
}

// qdr is the code of IBTA for 10 Gb/s a lane, the speed of Ethernet ports.
const qdr = 4

// roceLanes returns the width and the extended speed, in codes of IBTA, for a speed of Ethernet (linux ib main.c,
// eth_link_query_port).
func roceLanes(code uint8) (width, ext uint8) {
	const (
		oneLane, fourLanes = 1, 2
		fdr                = 1 // 14 Gb/s
	)
	switch code {
	case prm.Speed40G:
		return fourLanes, 0
	case prm.Speed56G:
		return fourLanes, fdr
	}
	return oneLane, 0
}

// ethernetMTU returns the MTU of the network, as far as the port has it.
func (p *port) ethernetMTU() uint16 {
	return min(cmp.Or(p.hca.cfg.EthernetMTU, defaultEthernetMTU), p.caps.EthMTU)
}

const defaultEthernetMTU = 1500

// guidOf returns the interface ID of a GID.
func guidOf(g ci.GID) (v ci.GUID) {
	for _, b := range g[8:] {
		v = v<<8 | ci.GUID(b)
	}
	return v
}

// roceMTU returns the largest path MTU that fits frames of an Ethernet MTU, and is not above most.
func roceMTU(ethernet uint16, most ci.MTU) ci.MTU {
	const headers = 40 + 8 + 12 + 8 + 16 + 4 + 4 // IP or GRH, UDP, BTH, DETH, RETH, immediate, ICRC
	mtu := ci.MTU256
	for m := ci.MTU256; m <= most && m.Bytes()+headers <= int(ethernet); m++ {
		mtu = m
	}
	return mtu
}

func (p *port) queryInfiniBand(ctx context.Context, a *ci.PortAttr) error {
	b, err := p.get(ctx, mad.AttrPortInfo, uint32(p.num))
	if err != nil {
		return err
	}
	var i mad.PortInfo
	i.Parse(b)
	state := ci.PortState(i.State)
	if state < ci.PortDown || state > ci.PortActiveDefer || max(ci.MTU(i.NeighborMTU), ci.MTU(i.MTUCap)) > ci.MTU4096 {
		return errPortInfo
	}
	n, err := p.nodeInfo(ctx)
	if err != nil {
		return err
	}
	a.GUID, a.State, a.PhysState = ci.GUID(n.PortGUID), state, i.PhysState
	a.HardwareAgents = p.hca.cfg.HardwareAgents
	a.MTU, a.MaxMTU = ci.MTU(i.NeighborMTU), ci.MTU(i.MTUCap)
	a.LID, a.LMC = ci.LID(i.LID), i.LMC
	a.SMLID, a.SMSL = ci.LID(i.MasterSMLID), i.MasterSMSL
	a.MaxVLs = i.VLCap
	a.WidthActive, a.SpeedActive, a.SpeedExt = i.WidthActive, i.SpeedActive, i.SpeedExtActive
	a.SubnetTimeout, a.InitTypeReply = ci.TimeExp(i.SubnetTimeout), ci.InitType(i.InitTypeReply)
	a.PKeyErrors, a.QKeyErrors, a.Capability = i.PKeyViolations, i.QKeyViolations, ci.PortCap(i.CapabilityMask)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gids == nil {
		if p.gids, err = p.readGIDs(ctx, i.GIDPrefix, int(i.GUIDCap)); err != nil {
			return err
		}
	}
	if p.pkeys == nil {
		if p.pkeys, err = p.readPKeys(ctx); err != nil {
			return err
		}
	}
	a.GIDs, a.PKeys = slices.Clone(p.gids), slices.Clone(p.pkeys)
	return nil
}

// readGIDs reads the GID table of an InfiniBand port.
func (p *port) readGIDs(ctx context.Context, prefix uint64, n int) ([]ci.GIDEntry, error) {
	const perBlock = 8
	list := make([]ci.GIDEntry, 0, n)
	for block := 0; len(list) < n; block++ {
		b, err := p.get(ctx, mad.AttrGUIDInfo, uint32(block))
		if err != nil {
			return nil, err
		}
		for i := range min(perBlock, n-len(list)) {
			var e ci.GIDEntry
			if guid := b[8*i : 8*i+8]; !isZero(guid) {
				bigEndian.PutUint64(e.GID[:], prefix)
				copy(e.GID[8:], guid)
			}
			list = append(list, e)
		}
	}
	return list, nil
}

func isZero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}

// readPKeys reads the P_Key table of an InfiniBand port.
func (p *port) readPKeys(ctx context.Context) ([]ci.PKey, error) {
	n := int(p.info.PartitionCap)
	if n == 0 {
		i, err := p.nodeInfo(ctx)
		if err != nil {
			return nil, err
		}
		p.info = i
		n = int(i.PartitionCap)
	}
	list := make([]ci.PKey, 0, n)
	for block := 0; len(list) < n; block++ {
		b, err := p.get(ctx, mad.AttrPKeyTable, uint32(block))
		if err != nil {
			return nil, err
		}
		var t mad.PKeyBlock
		t.Parse(b)
		for _, k := range t[:min(len(t), n-len(list))] {
			list = append(list, ci.PKey(k))
		}
	}
	return list, nil
}

// setCapabilities changes capability bits, as far as the adapter permits.
func (p *port) setCapabilities(ctx context.Context, mask, value ci.PortCap) (changed bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isEthernet() {
		set := p.set&^mask | value&mask
		changed = set != p.set
		p.set = set
		return changed, nil
	}
	b, err := p.get(ctx, mad.AttrPortInfo, uint32(p.num))
	if err != nil {
		return false, err
	}
	var i mad.PortInfo
	i.Parse(b)
	old := ci.PortCap(i.CapabilityMask)
	set := old&^mask | value&mask
	if set == old {
		return false, nil
	}
	return true, p.hca.dev.SetIBPort(ctx, p.num, fw.IBPort{Capabilities: uint32(set)})
}

// pkey returns a P_Key of the table, and whether there is one at the index.
func (p *port) pkey(index uint16) (ci.PKey, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pkeys == nil {
		var err error
		if p.pkeys, err = p.readPKeys(p.hca.ctx); err != nil {
			return 0, false
		}
	}
	if int(index) >= len(p.pkeys) {
		return 0, false
	}
	k := p.pkeys[index]
	return k, k&0x7fff != 0
}

// gid returns an entry of the GID table.
func (p *port) gid(index uint16) (ci.GIDEntry, bool) {
	p.mu.Lock()
	list := p.gids
	p.mu.Unlock()
	if list == nil {
		if _, err := p.query(p.hca.ctx); err != nil {
			return ci.GIDEntry{}, false
		}
		p.mu.Lock()
		list = p.gids
		p.mu.Unlock()
	}
	if int(index) >= len(list) || list[index].GID == (ci.GID{}) {
		return ci.GIDEntry{}, false
	}
	return list[index], true
}

// forget makes the next query read the tables again.
func (p *port) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isEthernet() {
		p.gids, p.pkeys = nil, nil
	}
}

// portEvent handles the events of ports, and the loss of events.
func (h *HCA) portEvent(e fw.Event) {
	if uint8(e.Type) == prm.EventEQOverflow {
		for _, p := range h.ports {
			p.resync()
		}
		return
	}
	p := h.port(e.Port)
	if p == nil {
		return // Stats.BadEvents counts it
	}
	p.forget()
	tell := func(t ci.EventType) { h.notifyCA(ci.Event{Type: t, Port: p.num}) }
	if uint8(e.Type) == prm.EventPortChange {
		switch e.Subtype {
		case prm.PortChangeActive:
			p.isActive.Store(true)
			tell(ci.EventPortActive)
		case prm.PortChangeDown:
			p.isActive.Store(false)
			tell(ci.EventPortDown)
			p.wentDown()
		}
		return
	}
	switch e.Subtype {
	case prm.MgmtPortInfo:
		for _, x := range []struct {
			bit uint32
			t   ci.EventType
		}{{prm.MgmtLIDChanged, ci.EventLIDChange}, {prm.MgmtSMLIDChanged, ci.EventSMChange},
			{prm.MgmtSMSLChanged, ci.EventSMChange}, {prm.MgmtGIDPrefixChanged, ci.EventGIDChange},
			{prm.MgmtReregister, ci.EventReregister}} {
			if e.Attr&x.bit != 0 {
				tell(x.t)
			}
		}
	case prm.MgmtGUIDInfo:
		tell(ci.EventGIDChange)
	case prm.MgmtPKeyTable:
		tell(ci.EventPKeyChange)
	}
}

// mtu returns the MTU of the port.
func (p *port) mtu() ci.MTU {
	a, err := p.query(p.hca.ctx)
	if err != nil {
		return 0
	}
	return a.MTU
}
