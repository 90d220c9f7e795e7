package model

import (
	"ciddk/hca/mlx4/prm"
	"ciddk/rvt"
)

const (
	maxFrame  = maxEthMTU + ethSize + vlanSize
	maxBurst  = 1 << logMaxQPSize // WQEs of one doorbell
	typeVLAN  = 0x8100
	typeSVLAN = 0x88a8
)

// doorbell sends the frames of all WQEs that the driver has passed.
func (q *frameQP) doorbell() {
	q.stateMu.RLock()
	defer q.stateMu.RUnlock()
	if q.send == nil || q.state != prm.QPRTS {
		return
	}
	q.sendMu.Lock()
	defer q.sendMu.Unlock()
	for range maxBurst {
		wqe, ok := q.send.fetch()
		if !ok {
			return
		}
		index := uint16(q.send.head)
		q.send.head += q.send.slotsOf(wqe)
		syndrome := q.sendWQE(wqe)
		if prm.CtrlCompletion.Get(wqe) != prm.CompletionAlways && syndrome == 0 {
			continue
		}
		var e [prm.CQESize]byte
		prm.CQEQPN.Put(e[:], uint64(q.num))
		prm.CQEWQEIndex.Put(e[:], uint64(index))
		prm.CQESend.Put(e[:], 1)
		prm.CQEOpcode.Put(e[:], prm.CtrlOpcode.Get(wqe))
		if syndrome != 0 {
			prm.CQEOpcode.Put(e[:], prm.CQEOpcodeError)
			prm.CQESyndrome.Put(e[:], uint64(syndrome))
		}
		q.sendCQ.putRaw(&e)
	}
}

// sendWQE sends the frame of a WQE. It returns the syndrome of an error, or 0.
func (q *frameQP) sendWQE(wqe []byte) prm.Syndrome {
	if prm.CtrlOpcode.Get(wqe) == prm.WQENop {
		return 0
	}
	if prm.CtrlOpcode.Get(wqe) != prm.WQESend || len(wqe) < prm.CtrlSegment {
		return prm.SynLocalQPOp
	}
	f := q.frame[:0]
	var w rvt.Work
	d := decoder{q: q.send.q, w: &w, b: wqe[prm.CtrlSegment:]}
	for len(d.b) >= prm.DataSegment {
		if prm.InlineFlag.Has(d.b) && prm.InlineCount.Get(d.b) != 0 {
			d.inline = d.inline[:0]
			if !d.inlineSegment() || len(f)+len(d.inline) > maxFrame {
				return prm.SynLocalLength
			}
			f = append(f, d.inline...)
			continue
		}
		s := dataSegment(d.take(prm.DataSegment), d.q.hasReservedKey)
		if s.Length > uint32(maxFrame-len(f)) {
			return prm.SynLocalLength
		}
		at := len(f)
		f = append(f, make([]byte, s.Length)...)
		if !q.copy(s, f[at:], false) {
			return prm.SynLocalProtection
		}
	}
	q.frame = f
	if len(f) < ethSize {
		return prm.SynLocalLength
	}
	checksums(f, prm.CtrlIPChecksum.Has(wqe), prm.CtrlL4Checksum.Has(wqe))
	if q.port.isOpen() {
		q.port.eth.SendFrame(q.tag(f, wqe))
	}
	return 0
}

// tag inserts the VLAN tag of a WQE. The bits of a WQE that came by BlueFlame have the QPN in their place.
func (q *frameQP) tag(f, wqe []byte) []byte {
	kind := uint16(0)
	switch {
	case uint32(prm.CtrlBFQPN.Get(wqe)) == q.num:
	case prm.CtrlInsertCVLAN.Has(wqe):
		kind = typeVLAN
	case prm.CtrlInsertSVLAN.Has(wqe):
		kind = typeSVLAN
	}
	if kind == 0 {
		return f
	}
	const macs = 12
	out := make([]byte, 0, len(f)+vlanSize)
	out = append(out, f[:macs]...)
	out = bigEndian.AppendUint16(out, kind)
	out = bigEndian.AppendUint16(out, uint16(prm.CtrlVLAN.Get(wqe)))
	return append(out, f[macs:]...)
}

// slotsOf returns the number of slots of a WQE.
func (r *sendRing) slotsOf(wqe []byte) uint32 {
	return max(1, uint32(len(wqe)+1<<r.stride-1)>>r.stride)
}
