package model

import (
	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
	"ciddk/rvt"
)

// decoder decodes the segments of a send WQE.
type decoder struct {
	q      *qp
	w      *rvt.Work
	b      []byte // what has not been decoded
	inline []byte // the data of inline segments, or nil before the first
	ring   *sendRing
	slot   uint32 // of ring; its memory takes the inline data
}

// take removes a segment of n bytes. It returns nil if there are fewer.
func (d *decoder) take(n int) []byte {
	if len(d.b) < n {
		return nil
	}
	s := d.b[:n]
	d.b = d.b[n:]
	return s
}

// decode decodes a WQE. It reports false for an invalid one.
func (d *decoder) decode(opcode uint8, ctrl []byte) bool {
	w := d.w
	switch opcode {
	case prm.WQENop:
		w.Op = ci.OpNop
		return true
	case prm.WQESend, prm.WQESendImm, prm.WQESendInv:
		return d.send(opcode, ctrl)
	case prm.WQELSO:
		return d.largeSend()
	case prm.WQEWrite, prm.WQEWriteImm:
		w.Op = ci.OpWrite
		if opcode == prm.WQEWriteImm {
			w.Flags |= ci.SendImmediate
			w.Imm = uint32(prm.CtrlImmediate.Get(ctrl))
		}
		return d.remote() && d.data()
	case prm.WQERead:
		w.Op = ci.OpRead
		return d.remote() && d.data() && !(d.q.m.cfg.Quirks.FailEmptyReads && isEmpty(w.SGL))
	case prm.WQECompareSwap, prm.WQEFetchAdd:
		return d.remote() && d.atomic(opcode) && d.data()
	case prm.WQEFastRegister:
		return d.fastRegister()
	case prm.WQELocalInv:
		s := d.take(prm.LocalInvSegment)
		if s == nil {
			return false
		}
		w.Op, w.Inv = ci.OpLocalInv, ci.Key(prm.LocalInvKey.Get(s))
		return true
	case prm.WQEBind:
		return d.bind()
	}
	return false
}

func (d *decoder) send(opcode uint8, ctrl []byte) bool {
	w := d.w
	w.Op = ci.OpSend
	switch opcode {
	case prm.WQESendImm:
		w.Flags |= ci.SendImmediate
		w.Imm = uint32(prm.CtrlImmediate.Get(ctrl))
	case prm.WQESendInv:
		w.Flags |= ci.SendInvalidate
		w.Inv = ci.Key(prm.CtrlImmediate.Get(ctrl))
	}
	switch {
	case d.q.port != 0 || d.q.gsiPort != 0:
		return d.management(ctrl)
	case d.q.typ == ci.UD:
		d.setChecksums(ctrl)
		return d.datagram() && d.data()
	}
	return d.data()
}

// isEmpty reports whether a list has no bytes.
func isEmpty(list []ci.SGE) bool {
	for _, s := range list {
		if s.Length != 0 {
			return false
		}
	}
	return true
}

// datagram decodes the datagram segment.
func (d *decoder) datagram() bool {
	s := d.take(prm.DatagramSegment)
	if s == nil {
		return false
	}
	d.w.DestQP = ci.QPN(prm.DatagramQPN.Get(s))
	d.w.QKey = ci.QKey(prm.DatagramQKey.Get(s))
	d.w.AV = d.q.avs.get(vectorAddress(s))
	return d.w.AV != nil
}

// vectorAddress returns the address of a datagram segment.
func vectorAddress(s []byte) ci.AVAttr {
	return ci.AVAttr{Port: uint8(prm.AVPort.Get(s)), SL: ci.SL(prm.AVSL.Get(s)), PathBits: uint8(prm.AVPathBits.Get(s)),
		DLID: ci.LID(prm.AVRemoteLID.Get(s)), Global: prm.AVGRH.Has(s), DMAC: [6]byte(s[prm.DatagramMAC.Off+2:]),
		GRH: ci.GRH{DGID: ci.GID(prm.AVGID.Bytes(s, prm.GIDSize)), SGIDIndex: uint16(prm.AVGIDIndex.Get(s)),
			FlowLabel: uint32(prm.AVFlowLabel.Get(s)), HopLimit: uint8(prm.AVHopLimit.Get(s)),
			TrafficClass: uint8(prm.AVClass.Get(s))}}
}

// remote decodes the remote address segment.
func (d *decoder) remote() bool {
	s := d.take(prm.RemoteSegment)
	if s == nil {
		return false
	}
	d.w.Remote = ci.Remote{Addr: prm.RemoteAddress.Get(s), RKey: ci.Key(prm.RemoteKey.Get(s))}
	return true
}

// atomic decodes the atomic segment.
func (d *decoder) atomic(opcode uint8) bool {
	s := d.take(prm.AtomicSegment)
	if s == nil {
		return false
	}
	swap, compare := prm.AtomicSwap.Get(s), prm.AtomicCompare.Get(s)
	if opcode == prm.WQEFetchAdd {
		d.w.Op, d.w.Compare = ci.OpFetchAdd, swap
	} else {
		d.w.Op, d.w.Swap, d.w.Compare = ci.OpCompareSwap, swap, compare
	}
	return true
}

// data decodes data segments or inline segments up to the end of the WQE. A WQE has either the one or the other.
func (d *decoder) data() bool {
	hasInline := false
	for len(d.b) >= prm.DataSegment {
		if isInline(d.b) {
			hasInline = true
			if !d.inlineSegment() {
				return false
			}
			continue
		}
		if len(d.w.SGL) == cap(d.w.SGL) {
			return false
		}
		d.w.SGL = append(d.w.SGL, dataSegment(d.take(prm.DataSegment), d.q.hasReservedKey))
	}
	d.w.IsInl = hasInline
	return !hasInline || len(d.w.SGL) == 0
}

// inlineSegment appends the data of an inline segment.
func (d *decoder) inlineSegment() bool {
	n := int(prm.InlineCount.Get(d.b))
	size := (prm.InlineHeader + n + prm.DataSegment - 1) &^ (prm.DataSegment - 1)
	s := d.take(size)
	if s == nil {
		return false
	}
	if d.inline == nil && d.ring != nil {
		d.inline = d.ring.inlineOf(d.slot)
	}
	d.inline = append(d.inline, s[prm.InlineHeader:prm.InlineHeader+n]...)
	return true
}

func (d *decoder) fastRegister() bool {
	s := d.take(prm.FastRegSegment)
	if s == nil {
		return false
	}
	log := uint8(min(prm.FastRegLogPage.Get(s), 63))
	offset, length := prm.FastRegOffset.Get(s), prm.FastRegLength.Get(s)
	start := prm.FastRegStart.Get(s)
	count := (offset + length + 1<<log - 1) >> log
	if log < 12 || length > 1<<logMaxMRSize || count > maxFastRegPages {
		return false
	}
	list := &pageList{log: log, pages: make([]uint64, count)}
	b := make([]byte, count*mttEntry)
	if !d.q.m.readHost(prm.FastRegList.Get(s), b) {
		return false
	}
	for i := range list.pages {
		list.pages[i] = bigEndian.Uint64(b[i*mttEntry:]) &^ 7
	}
	f := ci.FastReg{Key: ci.Key(prm.FastRegKey.Get(s)), IOVA: start, Length: length, Offset: uint32(offset),
		PageShift: log}
	for _, e := range []struct {
		f *prm.Field
		a ci.Access
	}{{&prm.FastRegAtomic, ci.RemoteAtomic}, {&prm.FastRegRemoteWrite, ci.RemoteWrite},
		{&prm.FastRegRemoteRead, ci.RemoteRead}, {&prm.FastRegLocalWrite, ci.LocalWrite}} {
		if e.f.Has(s) {
			f.Access |= e.a
		}
	}
	d.w.Op = ci.OpFastReg
	d.w.Ext = &rvt.WorkExt{ByKey: true, FastReg: f, Storage: &region{m: d.q.m, start: start, size: length, pages: list,
		first: start & (1<<log - 1)}}
	return true
}

func (d *decoder) bind() bool {
	s := d.take(prm.BindSegment)
	if s == nil {
		return false
	}
	b := ci.MWBind{Addr: prm.BindAddress.Get(s), Length: prm.BindLength.Get(s), Key: ci.Key(prm.BindNewKey.Get(s))}
	for _, e := range []struct {
		f *prm.Field
		a ci.Access
	}{{&prm.BindAtomic, ci.RemoteAtomic}, {&prm.BindRemoteWrite, ci.RemoteWrite},
		{&prm.BindRemoteRead, ci.RemoteRead}, {&prm.BindZeroBased, ci.ZeroBased}} {
		if e.f.Has(s) {
			b.Access |= e.a
		}
	}
	d.w.Op = ci.OpBindMW
	d.w.Ext = &rvt.WorkExt{ByKey: true, NewKeyOnly: true, Bind: b, MRKey: ci.Key(prm.BindLKey.Get(s))}
	return true
}
