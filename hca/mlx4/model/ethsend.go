package model

import (
	"slices"

	"ciddk/internal/mlx4/prm"
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
	if q.send == nil {
		return
	}
	q.sendMu.Lock()
	defer q.sendMu.Unlock()
	for range maxBurst {
		if q.present() != prm.QPRTS {
			return
		}
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

// sendWQE sends the frame of a WQE, or the frames of a large send. It returns the syndrome of an error, or 0.
func (q *frameQP) sendWQE(wqe []byte) prm.Syndrome {
	opcode := prm.CtrlOpcode.Get(wqe)
	if opcode == prm.WQENop {
		return 0
	}
	if opcode != prm.WQESend && opcode != prm.WQELSO || len(wqe) < prm.CtrlSegment {
		return prm.SynLocalQPOp
	}
	d := decoder{q: q.send.q, b: wqe[prm.CtrlSegment:], inline: q.inline}
	limit, mss := maxFrame, 0
	var header []byte
	if opcode == prm.WQELSO {
		if header, mss = d.takeLSO(); header == nil {
			return prm.SynLocalQPOp
		}
		limit = maxLSOHeader + maxLSOPayload
	}
	q.frame = append(q.frame[:0], header...)
	syndrome := q.gather(&d, limit)
	q.inline = d.inline
	switch f := q.frame; {
	case syndrome != 0:
		return syndrome
	case opcode == prm.WQELSO:
		return q.sendLarge(f, wqe, len(header), mss)
	case len(f) < ethSize:
		return prm.SynLocalLength
	default:
		if ip, transport := prm.CtrlIPChecksum.Has(wqe), prm.CtrlL4Checksum.Has(wqe); ip || transport {
			p := parsePacket(f)
			p.fillChecksums(ip, transport)
		}
		q.transmit(f, wqe)
		return 0
	}
}

// gather appends the data of a WQE to q.frame, which has at most limit bytes then.
func (q *frameQP) gather(d *decoder, limit int) prm.Syndrome {
	for len(d.b) >= prm.DataSegment {
		if prm.InlineFlag.Has(d.b) && prm.InlineCount.Get(d.b) != 0 {
			d.inline = d.inline[:0]
			if !d.inlineSegment() || len(d.inline) > limit-len(q.frame) {
				return prm.SynLocalLength
			}
			q.frame = append(q.frame, d.inline...)
			continue
		}
		s := dataSegment(d.take(prm.DataSegment), d.q.hasReservedKey)
		at := len(q.frame)
		if uint64(s.Length) > uint64(limit-at) {
			return prm.SynLocalLength
		}
		q.frame = slices.Grow(q.frame, int(s.Length))[:at+int(s.Length)]
		if !q.copy(s, q.frame[at:], false) {
			return prm.SynLocalProtection
		}
	}
	return 0
}

// transmit sends a frame with the VLAN tag of its WQE. A port that is down drops it.
func (q *frameQP) transmit(f, wqe []byte) {
	if !q.port.isOpen() {
		q.port.stats.word[statSendDropped].Add(1)
		return
	}
	f = q.tag(f, wqe)
	q.port.stats.count(&sendCounters, f)
	q.port.eth.SendFrame(f)
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
	q.tagged = append(q.tagged[:0], f[:macsSize]...)
	q.tagged = bigEndian.AppendUint16(q.tagged, kind)
	q.tagged = bigEndian.AppendUint16(q.tagged, uint16(prm.CtrlVLAN.Get(wqe)))
	q.tagged = append(q.tagged, f[macsSize:]...)
	return q.tagged
}

// macsSize is the size of the two addresses of a frame.
const macsSize = 12

// slotsOf returns the number of slots of a WQE.
func (r *sendRing) slotsOf(wqe []byte) uint32 {
	return max(1, uint32(len(wqe)+1<<r.stride-1)>>r.stride)
}
