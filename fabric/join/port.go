package join

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/mad"
	"ciddk/rvt"
	"ciddk/sma"
)

// A Port is the link side of a port of a fabric in another process. It implements rvt.Port, and the optional interfaces
// CablePort, CounterPort, EncoderPort, GUIDPort, SMAPort and ViolationPort.
type Port struct {
	conn    net.Conn
	stream  *stream
	node    mad.NodeInfo
	attr    atomic.Pointer[ci.PortAttr]
	started atomic.Bool
	closed  atomic.Bool
	readEnd chan struct{} // closed when the reader has ended

	received, invalid atomic.Uint64

	// Set by Start, before started.
	recv  rvt.Receiver
	clock clock.Clock

	mu      sync.Mutex
	number  uint32
	waiting map[uint32]chan *ci.MAD // by number; nil after the end of the connection

	in arrived // of the reader
}

var _ interface {
	rvt.Port
	rvt.CablePort
	rvt.CounterPort
	rvt.EncoderPort
	rvt.GUIDPort
	rvt.SMAPort
	rvt.SystemGUIDPort
	rvt.ViolationPort
} = (*Port)(nil)

func newPort(c net.Conn, w welcome) *Port {
	p := &Port{conn: c, stream: newStream(c, nil), node: w.Node, readEnd: make(chan struct{}),
		waiting: make(map[uint32]chan *ci.MAD)}
	p.attr.Store(&w.Attr)
	go p.read()
	return p
}

// Start admits deliveries.
func (p *Port) Start(c rvt.PortContext) error {
	if p.closed.Load() || p.started.Load() {
		return fmt.Errorf("join: %w", rvt.ErrPortStarted)
	}
	p.recv, p.clock = c.Receiver, c.Clock
	p.started.Store(true)
	return nil
}

// Close leaves the fabric, and returns when no delivery to the adapter is in progress. It is idempotent.
func (p *Port) Close() error {
	if p.closed.Swap(true) {
		return nil
	}
	p.stream.close()
	<-p.readEnd
	<-p.stream.done
	return nil
}

// Attr returns the attributes as of the last change that has arrived.
func (p *Port) Attr() ci.PortAttr { return *p.attr.Load() }

// NodeGUID returns the GUID of the node in the topology. It implements rvt.GUIDPort.
func (p *Port) NodeGUID() ci.GUID { return ci.GUID(p.node.NodeGUID) }

// NodeInfo returns the NodeInfo of the node, whose identity an adapter may take over (ci.CAAttr).
func (p *Port) NodeInfo() mad.NodeInfo { return p.node }

// Hints returns those of a link that may lose packets: a process that does not read loses them.
func (p *Port) Hints() rvt.Hints {
	return rvt.Hints{MaxTrain: 64 << 10, Window: 512 << 10, Packets: 1024}
}

// Modify sets capability bits and the init type, and takes the link down.
func (p *Port) Modify(set ci.PortField, a ci.PortModify) error {
	if rest := set &^ (ci.PortFieldCapability | ci.PortFieldShutdown | ci.PortFieldInitType); rest != 0 {
		return &ci.Error{Verb: "CA.Modify", Status: ci.Unsupported,
			Detail: fmt.Sprintf("fields %#x are not the port's", uint32(rest))}
	}
	if _, ok := p.call(typeModify, encode(modify{set, a})); !ok {
		return &ci.Error{Verb: "CA.Modify", Status: ci.Timeout, Detail: "the fabric does not answer"}
	}
	return nil
}

// SetSystemGUID changes the system image GUID of the node, and sends trap 145. It implements rvt.SystemGUIDPort. A
// fabric that does not answer has not changed it.
func (p *Port) SetSystemGUID(g ci.GUID) {
	p.call(typeModify, encode(modify{ci.PortFieldSystemGUID, ci.PortModify{SystemGUID: g}}))
}

// SetLink plugs in or pulls out the cable. It implements rvt.CablePort.
func (p *Port) SetLink(up bool) {
	var b [1]byte
	if up {
		b[0] = 1
	}
	p.stream.put(typeLink, b[:])
}

// KeyViolation lets the fabric count a packet with a wrong key and send the trap. It implements rvt.ViolationPort.
func (p *Port) KeyViolation(v ci.KeyViolation, qkey bool) {
	var b [1 + mad.TrapKeyLen]byte
	if qkey {
		b[0] = 1
	}
	t := sma.KeyTrap(&v)
	t.Put(b[1:])
	p.stream.put(typeViolation, b[:])
}

// Send sends packets to the fabric. Those for which there is no room, since the fabric does not read, are dropped and
// counted by the adapter. So are those that a port in Down sends: when the fabric reads them, the cable may be in
// again.
func (p *Port) Send(pkts []rvt.Packet) {
	lost := 0
	if p.attr.Load().State == ci.PortDown {
		for i := range pkts {
			lost += int(pkts[i].N)
		}
	} else {
		lost = p.stream.putPackets(pkts, sentAddress{})
	}
	if lost > 0 && p.started.Load() {
		p.recv.Count(rvt.DropSendFailed, lost)
	}
}

// callTime is the time that the fabric has for an answer.
const callTime = 2 * time.Second

// SubnetMAD executes a datagram on the port's agent, which is in the fabric's process. It implements rvt.SMAPort. A
// fabric that does not answer is one whose agent has no response.
func (p *Port) SubnetMAD(in, out *ci.MAD) {
	*out = ci.MAD{}
	if m, ok := p.call(typeMAD, in[:]); ok {
		*out = m
	}
}

// call sends a message and waits for its answer. ok is false if there is none in time, or if the port is not started.
func (p *Port) call(typ byte, contents []byte) (m ci.MAD, ok bool) {
	if !p.started.Load() {
		return m, false
	}
	c := make(chan *ci.MAD, 1)
	p.mu.Lock()
	if p.waiting == nil {
		p.mu.Unlock()
		return m, false
	}
	p.number++
	number := p.number
	p.waiting[number] = c
	p.mu.Unlock()
	p.stream.put(typ, append(binary.BigEndian.AppendUint32(nil, number), contents...))
	timer := p.clock.AfterFunc(callTime, func() { p.answer(number, nil) })
	defer timer.Stop()
	got := <-c
	if got == nil {
		return m, false
	}
	return *got, true
}

// answer ends the wait of a call.
func (p *Port) answer(number uint32, m *ci.MAD) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.waiting[number]; c != nil {
		delete(p.waiting, number)
		c <- m
	}
}

// AddCounters adds the counters of the port. It implements rvt.CounterPort.
func (p *Port) AddCounters(m map[string]uint64) {
	m["join_rcv_packets"] += p.received.Load()
	m["join_rcv_invalid"] += p.invalid.Load()
	m["join_xmit_dropped"] += p.stream.dropped.Load()
}

// read takes the messages of the fabric until the connection ends. Then the port is down.
func (p *Port) read() {
	defer close(p.readEnd)
	r := bufio.NewReaderSize(p.conn, 64<<10)
	var buf []byte
	for {
		typ, b, next, err := readMessage(r, buf, maxControl)
		if err != nil || !p.take(typ, b) {
			break
		}
		buf = next
	}
	p.stream.close()
	p.mu.Lock()
	for _, c := range p.waiting {
		c <- nil
	}
	p.waiting = nil
	p.mu.Unlock()
	a := *p.attr.Load()
	wasUp := a.State != ci.PortDown
	a.State = ci.PortDown
	p.attr.Store(&a)
	if wasUp {
		p.raise(ci.EventPortDown)
	}
}

// raise reports an event to the adapter.
func (p *Port) raise(t ci.EventType) {
	if p.started.Load() && !p.closed.Load() {
		p.recv.PortEvent(t)
	}
}

// take executes a message of the fabric. It reports whether the message is valid.
func (p *Port) take(typ byte, b []byte) bool {
	switch typ {
	case typePacket:
		p.deliver(b)
	case typeChange:
		var c change
		if decode(b, &c) != nil {
			return false
		}
		p.attr.Store(&c.Attr)
		if !c.Has {
			c.Event = 0
		}
		p.raise(c.Event)
	case typeAnswer:
		if len(b) != madLen {
			return false
		}
		m := ci.MAD(b[numberLen:])
		p.answer(binary.BigEndian.Uint32(b), &m)
	default:
		return false
	}
	return true
}
