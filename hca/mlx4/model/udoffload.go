package model

import (
	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
	"ciddk/rvt"
)

// Datagrams of IP over InfiniBand (RFC 4391, 6) have a header of ipoibSize bytes: the EtherType, and two reserved
// bytes. The adapter computes and checks their checksums, and cuts large sends.
const ipoibSize = 4

// A datagramOffload is what the adapter does with the data of a datagram.
type datagramOffload struct {
	ip, transport bool   // the checksums to fill in
	header        []byte // of a large send; else nil
	mss           int
}

var _ rvt.Offload = (*datagramOffload)(nil)

// Packets implements rvt.Offload.
func (o *datagramOffload) Packets(b []byte) (list [][]byte) {
	if o.header == nil {
		if len(b) >= ipoibSize {
			p := parseContent(bigEndian.Uint16(b), b[ipoibSize:])
			p.fillChecksums(o.ip, o.transport)
		}
		return [][]byte{b}
	}
	if len(o.header) < ipoibSize {
		return nil
	}
	l, ok := parseLSOContent(o.header, bigEndian.Uint16(o.header), ipoibSize)
	if !ok {
		return nil
	}
	f := append(append(make([]byte, 0, len(o.header)+len(b)), o.header...), b...)
	l.cut(f, o.mss, nil, func(s []byte) { list = append(list, append([]byte(nil), s...)) })
	return list
}

// largeSend decodes a large send.
func (d *decoder) largeSend() bool {
	if d.q.typ != ci.UD || d.q.gsiPort != 0 || !d.datagram() {
		return false
	}
	header, mss := d.takeLSO()
	if header == nil {
		return false
	}
	d.w.Op = ci.OpSend
	d.w.Offload = &datagramOffload{header: append([]byte(nil), header...), mss: mss}
	return d.data()
}

// setChecksums has the adapter fill in the checksums that the control segment of a datagram asks for.
func (d *decoder) setChecksums(ctrl []byte) {
	const bits = 0x30 // prm.CtrlIPChecksum, CtrlL4Checksum
	if ctrl[0xb]&bits != 0 {
		d.w.Offload = &datagramOffload{ip: prm.CtrlIPChecksum.Has(ctrl), transport: prm.CtrlL4Checksum.Has(ctrl)}
	}
}

// received adds what the adapter finds out about a datagram of IP over InfiniBand to its completion: the flags of the
// CQE as EtherType, and the checksum as VendorErr. Neither has another meaning in the completion of a datagram.
func (m *Model) received(wc *ci.WC, payload [][]byte) {
	q, ok := wc.Context.(*qp)
	if !ok || !q.checksIP || len(payload) == 0 {
		return
	}
	b := payload[0]
	if len(b) < ipoibSize {
		return
	}
	kind := bigEndian.Uint16(b)
	if kind != typeIPv4 && kind != typeIPv6 {
		return
	}
	if len(payload) > 1 {
		b = nil
		for _, s := range payload {
			b = append(b, s...)
		}
	}
	p := parseContent(kind, b[ipoibSize:])
	flags, checksum := p.classify()
	wc.EtherType, wc.VendorErr = uint16(flags), uint32(checksum)
}
