package join

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/fabric"
	"ciddk/mad"
	"ciddk/rvt"
	"ciddk/wire"
)

// A session is a process at a port, as the server sees it. It is the rvt.Receiver of the port.
type session struct {
	server *Server
	ca     *fabric.CAPort
	at     place
	gone   chan struct{} // closed when the process has left the port
	stream *stream
	routes *routes
	ready  atomic.Bool // the welcome was sent

	in arrived // of the reader
}

// start connects the port, plugs its cable in, and sends the welcome.
func (k *session) start() error {
	k.ca.OnChange(func() { k.change(change{}) })
	if err := k.ca.Start(rvt.PortContext{Receiver: k, Clock: clock.Real(), Num: k.at.port}); err != nil {
		return err
	}
	if k.server.isLeft(k.at) {
		k.ca.SetLink(true)
	}
	k.stream.put(typeWelcome, encode(welcome{Node: k.ca.NodeInfo(), Attr: k.ca.Attr()}))
	k.ready.Store(true)
	k.change(change{}) // what changed since
	return nil
}

// leave pulls the cable out, and leaves the port to the next process.
func (k *session) leave() {
	k.stream.close()
	<-k.stream.done
	if k.ca.Attr().State != ci.PortDown {
		k.ca.SetLink(false)
		k.server.setLeft(k.at)
	}
	_ = k.ca.Close()
	k.disown()
}

// disown notes that the process has left the port.
func (k *session) disown() {
	s := k.server
	s.mu.Lock()
	defer s.mu.Unlock()
	close(k.gone)
	if s.owners[k.at] == k.gone {
		delete(s.owners, k.at)
	}
}

// read executes the messages of the process, until the connection ends.
func (k *session) read(c net.Conn) error {
	r := bufio.NewReaderSize(c, 64<<10)
	var buf []byte
	for {
		typ, b, next, err := readMessage(r, buf, maxPacket)
		if err != nil {
			return err
		}
		buf = next
		if err := k.execute(typ, b); err != nil {
			return err
		}
	}
}

// execute executes a message.
func (k *session) execute(typ byte, b []byte) error {
	switch typ {
	case typePacket:
		k.packet(b)
	case typeMAD:
		if len(b) != madLen {
			return fmt.Errorf("%w: a datagram of %d bytes, want %d", errMessage, len(b), madLen)
		}
		in := ci.MAD(b[numberLen:])
		var out ci.MAD
		k.ca.SubnetMAD(&in, &out)
		k.change(change{})
		k.answer(b, &out)
	case typeModify:
		if len(b) < numberLen {
			return fmt.Errorf("%w: a modify message of %d bytes", errMessage, len(b))
		}
		var m modify
		if err := decode(b[numberLen:], &m); err != nil {
			return err
		}
		if m.Set&ci.PortFieldSystemGUID != 0 {
			k.ca.SetSystemGUID(m.Attr.SystemGUID)
		}
		_ = k.ca.Modify(m.Set&^ci.PortFieldSystemGUID, m.Attr) // the client has rejected unknown fields
		k.change(change{})
		k.answer(b, &ci.MAD{})
	case typeViolation:
		if len(b) != 1+mad.TrapKeyLen {
			return fmt.Errorf("%w: a violation of %d bytes, want %d", errMessage, len(b), 1+mad.TrapKeyLen)
		}
		var t mad.TrapKey
		t.Parse(b[1:])
		k.ca.CountViolation(&t, b[0] != 0)
	case typeLink:
		if len(b) != 1 {
			return fmt.Errorf("%w: a link message of %d bytes, want 1", errMessage, len(b))
		}
		k.ca.SetLink(b[0] != 0)
	default:
		return fmt.Errorf("%w: type %d", errMessage, typ)
	}
	return nil
}

// answer answers a message that begins with a number.
func (k *session) answer(b []byte, out *ci.MAD) {
	var answer [madLen]byte
	copy(answer[:], b[:numberLen])
	copy(answer[numberLen:], out[:])
	k.stream.put(typeAnswer, answer[:])
}

// packet sends a packet of the process into the fabric. Invalid ones are dropped, as at the end of a cable.
func (k *session) packet(b []byte) {
	if _, ok := k.in.parse(b); !ok {
		k.server.invalid.Add(1)
		return
	}
	p := &k.in.pkt[0]
	p.Route = k.routes.find(&k.in.w)
	if p.Route == nil {
		return
	}
	p.Src, p.Dst = rvt.Addr{}, rvt.Addr{}
	k.ca.Send(k.in.pkt[:])
}

// Deliver implements rvt.Receiver.
func (k *session) Deliver(pkts []rvt.Packet, _, _ bool) {
	if k.ready.Load() {
		k.server.dropped.Add(uint64(k.stream.putPackets(pkts, receivedAddress{})))
	}
}

// FlushAcks implements rvt.Receiver.
func (k *session) FlushAcks() {}

// PortEvent implements rvt.Receiver.
func (k *session) PortEvent(t ci.EventType) {
	if t == ci.EventLIDChange || t == ci.EventGIDChange {
		k.routes.forget()
	}
	if t != 0 { // else OnChange does it
		k.change(change{Event: t, Has: true})
	}
}

// change sends the attributes of the port, with an event.
func (k *session) change(c change) {
	if k.ready.Load() {
		c.Attr = k.ca.Attr()
		k.stream.put(typeChange, encode(c))
	}
}

// Count implements rvt.Receiver. The counters of the port are the fabric's.
func (k *session) Count(rvt.Counter, int) {}

// receivedAddress addresses packets that the fabric delivers.
type receivedAddress struct{}

func (receivedAddress) address(w *wire.LinkPacket, p *rvt.Packet) bool {
	w.LRH = wire.LRH{LNH: wire.LNHLocal, SL: uint8(p.SL), SLID: uint16(p.Src.LID), DLID: uint16(p.Dst.LID)}
	lane(w, p)
	if g := p.GRH; len(g) >= wire.GRHLen {
		first := binary.BigEndian.Uint32(g)
		w.LRH.LNH = wire.LNHGlobal
		w.GRH = wire.GRH{TrafficClass: uint8(first >> 20), FlowLabel: first & wire.MaskFlowLabel,
			NextHeader: wire.NextHeaderIBA, HopLimit: g[7], SGID: [16]byte(g[8:24]), DGID: [16]byte(g[24:40])}
	}
	return true
}
