package ibsim

import (
	"encoding/binary"
	"time"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/fabric"
	"ciddk/mad"
)

// A program passes a message of several datagrams to the kernel as one, and the kernel sends it by RMPP (IBTA volume 1,
// 13.6). Here the server is the kernel. A message arrives from a program in one of two forms:
//
//	segment number 0    the whole message, of which the preload library passes the first 256 bytes
//	segments from 1 on  the whole message in order, from a program that is not limited by that library
//
// To a program the server passes the first segment only, since the protocol has no room for more. It states so in the
// status of subnet administration.

// Bounds for each client: bytes of messages that are being sent; times and repetitions of a segment, as in Linux.
const (
	maxOutgoing   = 32 << 20
	outgoingTime  = 2 * time.Second
	outgoingTries = 5
	segmentCost   = dataLen + 32 // bytes that a segment is counted with
)

// transfer identifies a message by its transaction and its receiver.
type transfer struct {
	id  uint64
	lid ci.LID
	qp  ci.QPN
}

// outgoing is a message that a client sends by RMPP. client.mu guards it.
type outgoing struct {
	segments []message
	isWhole  bool // all segments have arrived from the client
	isCut    bool // the library has dropped the end
	acked    int  // segments that the receiver has
	sent     int
	window   int // number of the last segment that may be sent
	tries    int
	timer    clock.Timer
}

// rmppOf returns the RMPP header of a datagram. ok is false if it is not part of a transfer.
func rmppOf(m *ci.MAD) (r mad.RMPP, s mad.Segmentation, ok bool) {
	if s, ok = mad.SegmentationOf(mad.Class(m[1])); !ok {
		return r, s, false
	}
	r.Parse(m[mad.HeaderLen:])
	return r, s, r.Active()
}

// sendSegment handles a message of the client that is to be sent by RMPP. It reports false for other messages.
func (k *client) sendSegment(m *message) bool {
	r, s, ok := rmppOf(&m.mad)
	if !ok || r.Type > mad.RMPPData { // OpenSM leaves the type to the kernel
		return false
	}
	key := transfer{id: tid(&m.mad), lid: ci.LID(m.dlid), qp: ci.QPN(m.dqp)}
	if k.collect(key, m, &r, s) {
		k.advance(key)
	}
	return true
}

// collect adds a segment to a message. It reports whether the message is whole.
func (k *client) collect(key transfer, m *message, r *mad.RMPP, s mad.Segmentation) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pending == nil { // closed
		return false
	}
	number := int(r.Segment())
	if number <= 1 {
		k.dropOutgoing(key)
		k.outgoing[key] = &outgoing{window: 1}
	}
	o := k.outgoing[key]
	if o == nil || o.isWhole || number > 1 && number != len(o.segments)+1 {
		return false
	}
	data := s.DataLen
	switch {
	case number == 0:
		data = m.length - s.HeaderLen
		o.isWhole, o.isCut = true, m.length == mad.Size
	case r.Flags&mad.RMPPLast != 0:
		data = m.length - s.HeaderLen
		o.isWhole = true
	}
	o.segments = append(o.segments, *m)
	if k.outgoingBytes += segmentCost; k.outgoingBytes > maxOutgoing || data < 0 {
		k.dropOutgoing(key)
		return false
	}
	if o.isWhole {
		o.fill(s, data)
	}
	return o.isWhole
}

// fill writes the RMPP headers of the segments; last is the number of data bytes in the last one.
func (o *outgoing) fill(s mad.Segmentation, last int) {
	n := len(o.segments)
	total := (n-1)*s.DataLen + last
	for i := range o.segments {
		b := o.segments[i].mad[mad.HeaderLen:]
		var r mad.RMPP
		r.Parse(b)
		r = mad.RMPP{Version: mad.RMPPVersion, Type: mad.RMPPData, ResponseTime: r.ResponseTime, Flags: mad.RMPPActive,
			Data1: uint32(i + 1)}
		if i == 0 {
			r.Flags |= mad.RMPPFirst
		}
		if i == 0 && !o.isCut {
			r.Data2 = s.FirstPayloadLength(total)
		}
		if i == n-1 && !o.isCut {
			r.Flags |= mad.RMPPLast
			r.Data2 = s.LastPayloadLength(total)
		}
		r.Put(b)
	}
}

// advance sends the segments that the receiver's window admits.
func (k *client) advance(key transfer) {
	for {
		k.mu.Lock()
		o := k.outgoing[key]
		if o == nil || o.sent >= min(o.window, len(o.segments)) {
			k.mu.Unlock()
			return
		}
		m := o.segments[o.sent]
		o.sent++
		if o.timer != nil {
			o.timer.Stop()
		}
		o.timer = k.server.cfg.Clock.AfterFunc(outgoingTime, func() { k.repeat(key, o) })
		k.mu.Unlock()
		d := m.datagram()
		_ = k.port.Send(&d) // a lost segment is sent again
	}
}

// repeat sends the segments without an acknowledgment again.
func (k *client) repeat(key transfer, o *outgoing) {
	k.mu.Lock()
	if k.outgoing[key] != o {
		k.mu.Unlock()
		return
	}
	o.sent = o.acked
	if o.tries++; o.tries > outgoingTries {
		k.dropOutgoing(key)
	}
	k.mu.Unlock()
	k.advance(key)
}

// dropOutgoing ends the sending of a message. k.mu is held.
func (k *client) dropOutgoing(key transfer) {
	o := k.outgoing[key]
	if o == nil {
		return
	}
	if o.timer != nil {
		o.timer.Stop()
	}
	k.outgoingBytes -= segmentCost * len(o.segments)
	delete(k.outgoing, key)
}

// takeControl handles the packets with which the receiver of a message answers, or its sender gives up. It reports
// whether d is one of them, and of a transaction of this client.
func (k *client) takeControl(d *fabric.Datagram) bool {
	r, _, ok := rmppOf(d.MAD)
	if !ok || r.Type == mad.RMPPData {
		return false
	}
	key := transfer{id: tid(d.MAD), lid: d.SLID, qp: d.SrcQP}
	k.mu.Lock()
	o := k.outgoing[key]
	if o == nil {
		k.mu.Unlock()
		return markOf(d.MAD) == k.mark() // as in Linux, programs never see one
	}
	acked, isCut := int(r.Segment()), o.isCut
	switch {
	case r.Type != mad.RMPPAck, acked >= len(o.segments):
		k.dropOutgoing(key)
	case acked >= o.acked:
		o.acked, o.tries = acked, 0
		o.window = max(o.window, int(min(r.NewWindowLast(), uint32(len(o.segments)))))
	}
	k.mu.Unlock()
	if isCut && r.Type == mad.RMPPAck {
		k.server.cfg.Log.Warn("the preload library has cut a message at 256 bytes: its transfer is aborted",
			"client", k.number)
		k.control(d, mad.RMPP{Type: mad.RMPPAbort, Status: mad.RMPPUnspecified})
		return true
	}
	k.advance(key)
	return true
}

// control answers a packet of RMPP.
func (k *client) control(d *fabric.Datagram, r mad.RMPP) {
	m := *d.MAD
	m[offMethod] ^= uint8(mad.ResponseMask)
	r.Version, r.Flags, r.ResponseTime = mad.RMPPVersion, mad.RMPPActive, mad.RMPPNoTime
	r.Put(m[mad.HeaderLen:])
	_ = k.port.Send(&fabric.Datagram{SLID: d.DLID, DLID: d.SLID, SrcQP: d.DestQP, DestQP: d.SrcQP, QKey: d.QKey,
		PKey: d.PKey, MAD: &m}) // a lost one is asked for again
}

// takeSegment handles a segment of a message to this client. It returns the length of the datagram for the program. ok
// is false for a segment after the first one, which the program cannot get.
func (k *client) takeSegment(d *fabric.Datagram) (length int, ok bool) {
	r, s, isActive := rmppOf(d.MAD)
	if !isActive || r.Type != mad.RMPPData {
		return mad.Size, true
	}
	if r.Segment() != 1 {
		return 0, false
	}
	length = mad.Size
	if r.Flags&mad.RMPPLast != 0 {
		if n, err := s.Last(r.PayloadLength()); err == nil {
			length = s.HeaderLen + n
		}
	}
	return length, true
}

// markCut sets the status of a table of which the program gets the first segment, and that is the reason that programs
// print. Without it, a program such as saquery --src-to-dst reports that a node that it did not get does not exist.
// Paths are the exception: ibqueryerrors can do without those that it does not get.
func (k *client) markCut(m *message) {
	r, _, ok := rmppOf(&m.mad)
	if !ok || r.Type != mad.RMPPData || r.Flags&mad.RMPPLast != 0 || mad.Class(m.mad[1]) != mad.ClassSubnetAdmin {
		return
	}
	attribute := binary.BigEndian.Uint16(m.mad[offAttribute:])
	k.server.cfg.Log.Warn("a table has more records than the preload library passes to a program (256 bytes)",
		"client", k.number, "attribute", attribute)
	if attribute != mad.AttrPathRecord {
		binary.BigEndian.PutUint16(m.mad[offMADStatus:], mad.StatusSATooManyRecords)
	}
}

// acknowledge answers the first segment of a message to this client: the rest of a longer one is refused.
func (k *client) acknowledge(d *fabric.Datagram) {
	r, _, ok := rmppOf(d.MAD)
	switch {
	case !ok || r.Type != mad.RMPPData:
	case r.Flags&mad.RMPPLast != 0 || r.PayloadLength() == 0: // the end, or a message that was cut
		k.control(d, mad.RMPP{Type: mad.RMPPAck, Data1: 1, Data2: 1})
	default:
		k.control(d, mad.RMPP{Type: mad.RMPPStop, Status: mad.RMPPResourcesExhausted})
	}
}
