package mlx4

import (
	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
	"ciddk/internal/mlx4/queue"
)

// Sizes of the headers of a management datagram, and what inline segments they need at most.
const (
	lrhSize  = 8
	grhSize  = 40
	bthSize  = 12
	dethSize = 8
	ethSize  = 14
	ip4Size  = 20
	udpSize  = 8
	icrcSize = 4

	maxHeader        = ethSize + grhSize + udpSize + bthSize + dethSize
	managementHeader = prm.CtrlSegment + 128 + prm.DataSegment // with the segment of the ICRC
)

// CreateSpecialQP creates QP0 or QP1 of a port. Status: as CreateQP; ResourceBusy (taken), InvalidPort, Unsupported.
func (p *pd) CreateSpecialQP(num uint8, c ci.QPCreate) (ci.QP, error) {
	const verb = "PD.CreateSpecialQP"
	h := p.hca
	switch c.Type {
	case ci.QP0, ci.QP1:
		if !h.claims.Has(ci.CapSpecialQP) {
			return p.UnimplementedPD.CreateSpecialQP(num, c)
		}
	case ci.RawIPv6, ci.RawEther:
		return nil, fail(verb, ci.Unsupported, c.Type.String())
	default:
		return nil, fail(verb, ci.InvalidServiceType, c.Type.String())
	}
	port := h.port(num)
	switch {
	case !p.refs.Alive():
		return nil, fail(verb, ci.InvalidPDHandle, "")
	case p.user != nil:
		return nil, fail(verb, ci.InvalidPermission, "the PD is that of a client process")
	case c.User != nil:
		return nil, fail(verb, ci.InvalidParameter, "a special QP has no user library: User must be nil")
	case port == nil:
		return nil, fail(verb, ci.InvalidPort, "the adapter has no such port")
	case c.Type == ci.QP0 && port.isEthernet():
		return nil, fail(verb, ci.Unsupported, "an Ethernet port has no QP0") // IBTA volume 1, annex A16, 16.4.2
	}
	if err := h.checkQP(verb, &c, true); err != nil {
		return nil, err
	}
	if c.MaxInline > 0 { // the headers are inline already
		most := c.QPCaps
		most.MaxInline = 0
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidSetting, Detail: "special QPs have no inline data",
			Most: &most}
	}
	const portsPerType = 2
	number := h.caps.SpecialQPs + uint32(c.Type-ci.QP0)*portsPerType + uint32(num-1)
	slot := &h.special[num-1][c.Type-ci.QP0]
	if !slot.CompareAndSwap(nil, new(qp)) {
		return nil, fail(verb, ci.ResourceBusy, "the port has one already")
	}
	q, err := p.newQP(verb, c, number)
	if err != nil {
		slot.Store(nil)
		return nil, err
	}
	q.attr.Port = num
	slot.Store(q)
	return q, nil
}

// encodeManagement writes a datagram of QP0 or QP1 with its headers. It reports false for one that cannot be sent.
func (q *qp) encodeManagement(slot []byte, wr *ci.SendWR, v *vector) (units int, ok bool) {
	if wr.Flags&ci.SendImmediate != 0 || wr.Inline != nil {
		return 1, false
	}
	p := q.hca.port(v.attr.Port)
	index := wr.To.PKeyIndex
	if q.num == 0 {
		index = 0
	}
	key, hasKey := p.pkey(index)
	if !hasKey {
		return 1, false
	}
	var length int
	for _, s := range wr.SGL {
		length += int(s.Length)
	}
	var buf [maxHeader + ip4Size]byte
	h := q.appendTransport(p.appendNetwork(buf[:0], q, v, length), wr, key, length)
	at := queue.PutInline(slot, prm.CtrlSegment, h)
	at = queue.PutList(slot, at, wr.SGL)
	at = queue.PutInline(slot, at, make([]byte, icrcSize))
	ctrl := slot[:prm.CtrlSegment]
	clear(ctrl[4:])
	prm.CtrlSize.Put(ctrl, uint64(at/prm.CtrlSegment))
	if wr.Flags&ci.SendSignaled != 0 || q.extra.Signal {
		prm.CtrlCompletion.Put(ctrl, prm.CompletionAlways)
	}
	if wr.Flags&ci.SendSolicited != 0 {
		prm.CtrlSolicited.Put(ctrl, 1)
	}
	if !p.isEthernet() {
		prm.MLXSL.Put(ctrl, uint64(v.attr.SL))
		prm.MLXRemoteLID.Put(ctrl, uint64(v.attr.DLID))
		if q.num == 0 {
			prm.MLXVL15.Put(ctrl, 1)
		}
		if v.attr.DLID == permissiveLID {
			prm.MLXSLR.Put(ctrl, 1)
		}
	}
	return at / prm.CtrlSegment, true
}

const permissiveLID = 0xffff

// appendNetwork appends the headers in front of the BTH.
func (p *port) appendNetwork(h []byte, q *qp, v *vector, length int) []byte {
	rest := bthSize + dethSize + length + icrcSize
	if p.isEthernet() {
		return p.appendEthernet(h, v, rest)
	}
	const (
		vl15  = 15 << 4
		hasIB = 2 // LNH
	)
	lrh := [lrhSize]byte{1: uint8(v.attr.SL)<<4 | hasIB, 7: v.attr.PathBits & 0x7f}
	total := lrhSize + rest
	if q.num == 0 {
		lrh[0] = vl15
	}
	if v.attr.Global {
		lrh[1]++
		total += grhSize
	}
	bigEndian.PutUint16(lrh[2:], uint16(v.attr.DLID))
	bigEndian.PutUint16(lrh[4:], uint16(total/4))
	h = append(h, lrh[:]...)
	if v.attr.Global {
		g, _ := p.gid(v.attr.GRH.SGIDIndex)
		h = appendGRH(h, &v.attr.GRH, g.GID, rest, nextBTH)
	}
	return h
}

// Values of the next header of IP and GRH.
const (
	nextBTH = 0x1b
	nextUDP = 17
)

func appendGRH(h []byte, r *ci.GRH, source ci.GID, length int, next uint8) []byte {
	h = bigEndian.AppendUint32(h, 6<<28|uint32(r.TrafficClass)<<20|r.FlowLabel&0xfffff)
	h = bigEndian.AppendUint16(h, uint16(length))
	h = append(h, next, max(r.HopLimit, 1))
	h = append(h, source[:]...)
	return append(h, r.DGID[:]...)
}

// appendEthernet appends the headers of RoCE.
func (p *port) appendEthernet(h []byte, v *vector, length int) []byte {
	const (
		typeRoCE = 0x8915
		typeIP4  = 0x0800
		typeIP6  = 0x86dd
		port     = 4791
		flow     = 0xc000
	)
	mac := v.address.MAC()
	h = append(append(h, mac[:]...), p.caps.MAC[:]...)
	g, _ := p.gid(v.attr.GRH.SGIDIndex)
	r := &v.attr.GRH
	if g.Type == ci.GIDRoCEv1 {
		return appendGRH(bigEndian.AppendUint16(h, typeRoCE), r, g.GID, length, nextBTH)
	}
	if isMapped(&g.GID) {
		h = bigEndian.AppendUint16(h, typeIP4)
		h = append(h, 0x45, r.TrafficClass)
		h = bigEndian.AppendUint16(h, uint16(ip4Size+udpSize+length))
		h = append(h, 0, 0, 0x40, 0, max(r.HopLimit, 1), nextUDP, 0, 0) // the adapter computes the checksum
		h = append(append(h, g.GID[12:]...), r.DGID[12:]...)
	} else {
		h = appendGRH(bigEndian.AppendUint16(h, typeIP6), r, g.GID, udpSize+length, nextUDP)
	}
	h = bigEndian.AppendUint16(bigEndian.AppendUint16(h, flow), port)
	return append(bigEndian.AppendUint16(h, uint16(udpSize+length)), 0, 0)
}

// appendTransport appends BTH and DETH.
func (q *qp) appendTransport(h []byte, wr *ci.SendWR, key ci.PKey, length int) []byte {
	const (
		sendOnly  = 0x64 // UD
		solicited = 1 << 7
		migrated  = 1 << 6
		ownQKey   = 1 << 31
	)
	flags := uint8(migrated | -length&3<<4)
	if wr.Flags&ci.SendSolicited != 0 {
		flags |= solicited
	}
	h = bigEndian.AppendUint16(append(h, sendOnly, flags), uint16(key))
	h = bigEndian.AppendUint32(h, uint32(wr.To.QPN)&maxNumber)
	h = bigEndian.AppendUint32(h, q.sq.Index()&maxNumber) // the PSN of datagrams is not checked
	qkey := wr.To.QKey
	if qkey&ownQKey != 0 && q.num != 1 {
		qkey = q.attr.QKey
	}
	return bigEndian.AppendUint32(bigEndian.AppendUint32(h, uint32(qkey)), uint32(q.num))
}
