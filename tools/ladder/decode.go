package ladder

import (
	"bytes"
	"fmt"
	"time"

	"ciddk/mad"
	"ciddk/wire"
)

// qp1 is the number of the QP of the general services (IBTA volume 1, 3.9.5), to which managers send.
const qp1 = 1

// Decode describes an IP packet with RoCEv2 in words. Two packets of one sender have the same id if one is a copy of
// the other. id is nil for acknowledgements of the transport and for datagrams of a consumer.
func Decode(ip []byte) (text Text, id []byte, err error) {
	var f wire.Frame
	if err := wire.ParseIP(ip, &f); err != nil {
		return Text{}, nil, err
	}
	p := &f.Packet
	if p.BTH.Opcode == wire.UDSendOnly && p.BTH.DestQP == qp1 {
		_, m, err := mad.ParseCM(p.Payload)
		if err != nil {
			return Text{}, nil, err
		}
		return message(m), bytes.Clone(p.Payload), nil
	}
	if o := p.BTH.Opcode; o.Service() == wire.RC && o.Request() {
		id = fmt.Appendf(nil, "%v %#x %#x %q", o, p.BTH.DestQP, p.BTH.PSN, p.Payload)
	}
	return transport(p), id, nil
}

// transport describes a data packet.
func transport(p *wire.Packet) Text {
	t := Text{Name: p.BTH.Opcode.String(), Fields: fmt.Sprintf("PSN %#06x", p.BTH.PSN)}
	switch {
	case p.BTH.Opcode.HasAETH():
		if t.Name = p.AETH.Syndrome.String(); p.AETH.Syndrome.IsACK() {
			t.Name = "ACK" // without its credits
		}
	case p.BTH.Opcode.Op() == wire.OpSend:
		t.Name = "SEND"
		t.More = []string{fmt.Sprintf("%q", p.Payload)}
	}
	if p.BTH.Opcode.HasDETH() {
		t.Fields = fmt.Sprintf("to QPN %#x, Q_Key %#x, from QPN %#x", p.BTH.DestQP, p.DETH.QKey, p.DETH.SrcQP)
	}
	return t
}

// message describes a message of the connection manager.
func message(m mad.CMMessage) Text {
	t := Text{Name: mad.AttributeName(mad.ClassCM, m.Attribute())}
	switch m := m.(type) {
	case *mad.REQ:
		t.Fields = fmt.Sprintf("service %s, QPN %#x", service(m.ServiceID), m.LocalQPN)
		t.More = []string{fmt.Sprintf("starting PSN %#06x", m.StartingPSN), "answer within " +
			span(m.RemoteTimeout.Duration())}
		if m.HasAlternate() {
			t.More = append(t.More, "alternate path")
		}
	case *mad.REP:
		t.Fields = fmt.Sprintf("QPN %#x, starting PSN %#06x", m.LocalQPN, m.StartingPSN)
	case *mad.MRA:
		t.Fields = fmt.Sprintf("of %s, wait for %s", which(m.Message, "LAP"), span(m.ServiceTimeout.Duration()))
	case *mad.REJ:
		t.Fields = fmt.Sprintf("of %s, reason %d, %v", which(m.Message, "no message"), uint16(m.Reason), m.Reason)
		if i := m.AdditionalInfo(); len(i) > 0 {
			t.More = append(t.More, "information "+text(i))
		}
		if s := text(m.Private()); s != `""` {
			t.More = append(t.More, "private data "+s)
		}
	case *mad.DREQ:
		t.Fields = fmt.Sprintf("of QPN %#x", m.RemoteQPN)
	case *mad.LAP:
		t.Fields = fmt.Sprintf("of QPN %#x, alternate path", m.RemoteQPN)
		t.More = []string{fmt.Sprintf("%s to %s", gid(m.Alternate.LocalGID), gid(m.Alternate.RemoteGID))}
	case *mad.APR:
		t.Fields = fmt.Sprintf("status %d, %v", uint8(m.Status), m.Status)
	case *mad.SIDRREQ:
		t.Fields = "service " + service(m.ServiceID)
	case *mad.SIDRREP:
		t.Fields = fmt.Sprintf("status %d, %v", uint8(m.Status), m.Status)
		if m.Status == mad.SIDRValid {
			t.More = []string{fmt.Sprintf("QPN %#x", m.QPN), fmt.Sprintf("Q_Key %#x", m.QKey)}
		}
	}
	return t
}

// which names the message that an MRA or REJ answers. The third value differs between the two.
func which(w mad.CMWhich, other string) string {
	if w == mad.WhichOther {
		return other
	}
	return w.String()
}

// service formats an ID without leading zeros.
func service(s mad.ServiceID) string { return fmt.Sprintf("%#x", uint64(s)) }

// text returns private data without trailing zeros.
func text(b []byte) string { return fmt.Sprintf("%q", bytes.TrimRight(b, "\x00")) }

// gid returns the IP address in a GID if it has one.
func gid(g [16]byte) string {
	if a, ok := wire.IPv4FromGID(g); ok {
		return fmt.Sprintf("%d.%d.%d.%d", a[0], a[1], a[2], a[3])
	}
	return fmt.Sprintf("%x", g)
}

// span formats a duration with about three digits.
func span(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.0f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.0f us", float64(d)/1e3)
}
