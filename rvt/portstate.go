package rvt

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
)

// port is the engine's state of a Port: what QPs need of it to send. The receiver delivers what comes in.
type port struct {
	Port
	dev     *device
	num     uint8
	hints   Hints
	driver  Driver        // or nil
	group   GroupPort     // or nil
	backlog BacklogPort   // or nil
	keys    ViolationPort // or nil
	queue   QueuePort     // or nil
	attr    atomic.Pointer[ci.PortAttr]

	raise func(ci.Event) // raises an event for the open CA

	refreshMu sync.Mutex

	traffic portCount
	turns   runQueue
	acks    ackQueue

	shut atomic.Bool // CA.Modify has taken the port down, and OpenCA brings it up

	pkeyErrors, qkeyErrors atomic.Uint32 // saturate at 16 bits (PortInfo, IBTA volume 1, 14.2.5.6)
	pkeyReport, qkeyReport atomic.Int64  // the time from which an event may be raised
}

func newPort(d *device, num uint8, p Port) *port {
	t := &port{Port: p, dev: d, num: num, hints: p.Hints()}
	t.turns.clock = d.clock
	t.driver, _ = ci.As[Driver](p)
	t.group, _ = ci.As[GroupPort](p)
	t.backlog, _ = ci.As[BacklogPort](p)
	t.keys, _ = ci.As[ViolationPort](p)
	t.queue, _ = ci.As[QueuePort](p)
	t.refresh()
	return t
}

// refresh renews the cache of attributes. It reports whether the P_Key table or an MTU has changed, which QPs must take
// over.
func (p *port) refresh() bool {
	p.refreshMu.Lock() // a snapshot never takes the place of a younger one
	defer p.refreshMu.Unlock()
	a := p.Port.Attr()
	a.Num = p.num
	if a.GUID == 0 {
		a.GUID = p.dev.cfg.Info.GUID + ci.GUID(p.num)
	}
	old := p.attr.Swap(&a)
	return old != nil && (!slices.Equal(old.PKeys, a.PKeys) || old.MTU != a.MTU || !slices.Equal(old.MTUs, a.MTUs))
}

// pkey returns the entry at index i of the port's P_Key table, and whether there is a valid one.
func (p *port) pkey(i uint16) (ci.PKey, bool) {
	t := p.attr.Load().PKeys
	if int(i) >= len(t) || t[i]&0x7fff == 0 {
		return 0, false
	}
	return t[i], true
}

// transmit counts a batch and sends it.
func (p *port) transmit(pkts []Packet) {
	p.sent(pkts)
	p.Send(pkts)
}

// catchUp is BacklogPort.CatchUp; a port without a backlog has always caught up.
func (p *port) catchUp(mark uint64) (next uint64, done bool) {
	if p.backlog == nil {
		return 0, true
	}
	return p.backlog.CatchUp(mark)
}

// badPKey counts a packet with a wrong P_Key, and reports it.
func (p *port) badPKey(k *Packet) {
	saturate(&p.pkeyErrors)
	p.reportKey(ci.EventPKeyTrap, &p.pkeyReport, k)
}

// badQKey counts a packet with a wrong Q_Key, and reports it.
func (p *port) badQKey(k *Packet) {
	saturate(&p.qkeyErrors)
	p.reportKey(ci.EventQKeyTrap, &p.qkeyReport, k)
}

// violationInterval limits the events of packets with wrong keys, for each port and kind of key. Events wait without
// limit for a consumer, and the traps that they cause are rarer.
const violationInterval = 10 * time.Millisecond

// reportKey reports a packet with a wrong key to the port, which may count it and have an agent that sends a trap. Of a
// port without such an agent, it raises an event, from which the access layer makes the trap. due is the time from
// which an event of the kind may be raised.
func (p *port) reportKey(t ci.EventType, due *atomic.Int64, k *Packet) {
	a := p.attr.Load()
	if a.Link != ci.LinkInfiniBand {
		return
	}
	v := k.violation(t)
	if p.keys != nil {
		p.keys.KeyViolation(v, t == ci.EventQKeyTrap)
	}
	if a.HardwareAgents {
		return
	}
	now, next := int64(p.dev.clock.Elapsed()), due.Load()
	if now < next || !due.CompareAndSwap(next, now+int64(violationInterval)) {
		return
	}
	p.raise(ci.Event{Type: t, Port: p.num, Violation: &v})
}

// violation returns what is reported about a packet with a wrong key.
func (p *Packet) violation(t ci.EventType) ci.KeyViolation {
	v := ci.KeyViolation{SLID: p.Src.LID, DLID: p.Dst.LID, SL: p.SL, Key: uint32(p.PKey), SrcQP: p.SrcQP,
		DestQP: p.DestQP}
	if t == ci.EventQKeyTrap {
		v.Key = uint32(p.QKey)
	}
	if len(p.GRH) >= grhSize {
		v.SGID, v.DGID = ci.GID(p.GRH[8:24]), ci.GID(p.GRH[24:40])
	}
	return v
}
