package queue

import (
	"encoding/binary"

	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
)

// An Address is an address vector in the adapter's form.
type Address struct {
	vector [prm.AddressVector]byte
	mac    [6]byte
}

// NewAddress returns the address vector of a. On an Ethernet link, mac is the destination's.
func NewAddress(a *ci.AVAttr, pd uint32, isEthernet bool, mac [6]byte) Address {
	var d Address
	b := d.vector[:]
	prm.AVPort.Put(b, uint64(a.Port))
	prm.AVPD.Put(b, uint64(pd))
	prm.AVPathBits.Put(b, uint64(a.PathBits))
	prm.AVRemoteLID.Put(b, uint64(a.DLID))
	prm.AVSL.Put(b, uint64(a.SL))
	if a.StaticRate != 0 {
		prm.AVRate.Put(b, uint64(a.StaticRate)+rateOffset)
	}
	if a.Global || isEthernet {
		prm.AVGRH.Put(b, 1)
		prm.AVGIDIndex.Put(b, uint64(a.GRH.SGIDIndex))
		prm.AVHopLimit.Put(b, uint64(a.GRH.HopLimit))
		prm.AVClass.Put(b, uint64(a.GRH.TrafficClass))
		prm.AVFlowLabel.Put(b, uint64(a.GRH.FlowLabel))
		copy(prm.AVGID.Bytes(b, prm.GIDSize), a.GRH.DGID[:])
	}
	if isEthernet {
		prm.AVRemoteLID.Put(b, 0)
		prm.AVPathBits.Put(b, 0)
		prm.AVSL.Put(b, uint64(a.SL)<<1)
		d.mac = mac
	}
	return d
}

// AddressSize is the size of Bytes.
const AddressSize = prm.AddressVector + 8

// Bytes returns the address in a form for AddressOf in another process.
func (a *Address) Bytes() (b [AddressSize]byte) {
	n := copy(b[:], a.vector[:])
	copy(b[n:], a.mac[:])
	return b
}

// AddressOf is the reverse of Bytes.
func AddressOf(b [AddressSize]byte) Address {
	return Address{vector: [prm.AddressVector]byte(b[:]), mac: [6]byte(b[prm.AddressVector:])}
}

// MAC returns the destination's address on an Ethernet link.
func (a *Address) MAC() [6]byte { return a.mac }

// rateOffset is the difference between the codes of IBTA and of the adapter (linux mlx4/device.h,
// MLX4_STAT_RATE_OFFSET).
const rateOffset = 5

// RateCode returns the code of a static rate in paths.
func RateCode(r ci.Rate) uint64 {
	if r == 0 {
		return 0
	}
	return uint64(r) + rateOffset
}

// Extra is what a request needs beside the ci.SendWR.
type Extra struct {
	Address *Address // datagrams
	List    uint64   // fast registration: the address of the page list
	Window  ci.Key   // bind: the new key
	Region  ci.Key   // bind: the L_Key of the region
	Type2   bool     // bind
	Signal  bool     // completion, whatever the flags are
}

// EncodeSend writes a request to a slot, except for the first word, which SendRing.Commit writes. The caller has
// checked that the request fits the slot. It returns the opcode and the size in units of 16 bytes.
func EncodeSend(slot []byte, wr *ci.SendWR, x *Extra) (opcode uint8, units int) {
	be := binary.BigEndian
	var flags, imm uint32
	if wr.Flags&ci.SendSignaled != 0 || x.Signal {
		flags = prm.CompletionAlways << 2
	}
	if wr.Flags&ci.SendSolicited != 0 {
		flags |= 1 << 1
	}
	if x.Address != nil {
		flags |= checksumBits(wr.Flags)
	}
	at := prm.CtrlSegment
	switch wr.Op {
	case ci.OpLSO:
		opcode = prm.WQELSO
		if lsoSize(len(wr.Ext.LSO.Header)) > block {
			opcode |= bigLSO
		}
		at = putDatagram(slot, at, wr, x.Address)
		at = PutList(slot, putLSO(slot, at, &wr.Ext.LSO), wr.SGL)
	case ci.OpSend:
		opcode = prm.WQESend
		switch {
		case wr.Flags&ci.SendInvalidate != 0:
			opcode, imm = prm.WQESendInv, uint32(wr.Inv)
		case wr.Flags&ci.SendImmediate != 0:
			opcode, imm = prm.WQESendImm, wr.Imm
		}
		if x.Address != nil {
			at = putDatagram(slot, at, wr, x.Address)
		}
		at = putPayload(slot, at, wr)
	case ci.OpWrite:
		opcode = prm.WQEWrite
		if wr.Flags&ci.SendImmediate != 0 {
			opcode, imm = prm.WQEWriteImm, wr.Imm
		}
		at = putPayload(slot, putRemote(slot, at, wr.Remote), wr)
	case ci.OpRead:
		opcode = prm.WQERead
		at = PutList(slot, putRemote(slot, at, wr.Remote), wr.SGL)
	case ci.OpCompareSwap, ci.OpFetchAdd:
		opcode, at = putAtomic(slot, at, wr)
		at = PutList(slot, at, wr.SGL)
	case ci.OpLocalInv:
		opcode = prm.WQELocalInv
		flags |= 1 << 7 // strong order
		clear(slot[at : at+prm.LocalInvSegment])
		be.PutUint32(slot[at+prm.LocalInvKey.Off:], uint32(wr.Inv))
		at += prm.LocalInvSegment
	case ci.OpFastReg:
		opcode = prm.WQEFastRegister
		flags |= 1 << 7
		at = putFastReg(slot, at, &wr.Ext.FastReg, x)
	case ci.OpBindMW:
		opcode = prm.WQEBind
		flags |= 1 << 7
		at = putBind(slot, at, &wr.Ext.Bind, x)
	default:
		opcode = prm.WQENop
	}
	units = at / prm.CtrlSegment
	size := uint32(units)
	if wr.Flags&ci.SendFence != 0 {
		size |= 1 << 6
	}
	be.PutUint32(slot[4:], size)
	be.PutUint32(slot[8:], flags)
	be.PutUint32(slot[12:], imm)
	return opcode, units
}

// checksumBits returns the bits of the control segment for the checksums that the adapter computes.
func checksumBits(f ci.SendFlags) (v uint32) {
	if f&ci.SendIPChecksum != 0 {
		v |= 1 << 4
	}
	if f&ci.SendL4Checksum != 0 {
		v |= 1 << 5
	}
	return v
}

// Large sends.
const (
	maxLSOHeader = 124    // of IP over InfiniBand, IPv4 and TCP, both with all options
	lsoHead      = 4      // bytes in front of the header
	MaxLSO       = 128    // bytes of the longest LSO segment
	bigLSO       = 1 << 6 // with the opcode: the LSO segment is longer than a block
	maxMSS       = 1<<16 - 1
)

// lsoSize returns the bytes of the LSO segment for a header.
func lsoSize(header int) int {
	return (lsoHead + header + prm.DataSegment - 1) &^ (prm.DataSegment - 1)
}

// IsLSO reports whether a request has the header and the segment size of a large send that fits a slot.
func IsLSO(wr *ci.SendWR) bool {
	if wr.Ext == nil {
		return false
	}
	l := &wr.Ext.LSO
	return len(l.Header) > 0 && len(l.Header) <= maxLSOHeader && l.MSS > 0 && l.MSS <= maxMSS
}

// putLSO writes the LSO segment. Its first word is the last that changes, since the adapter reads ahead.
func putLSO(slot []byte, at int, l *ci.LSO) int {
	end := at + lsoSize(len(l.Header))
	n := copy(slot[at+lsoHead:end], l.Header)
	clear(slot[at+lsoHead+n : end])
	store32(slot[at:], uint32(l.MSS)<<16|uint32(len(l.Header)))
	return end
}

// putDatagram writes the datagram segment.
func putDatagram(slot []byte, at int, wr *ci.SendWR, a *Address) int {
	b := slot[at : at+prm.DatagramSegment]
	copy(b, a.vector[:])
	be := binary.BigEndian
	be.PutUint32(b[prm.DatagramQPN.Off:], uint32(wr.To.QPN))
	be.PutUint32(b[prm.DatagramQKey.Off:], uint32(wr.To.QKey))
	be.PutUint16(b[prm.DatagramVLAN.Off:], 0) // ci.AVAttr has no VLAN
	copy(b[prm.DatagramMAC.Off+2:], a.mac[:])
	return at + prm.DatagramSegment
}

func putRemote(slot []byte, at int, r ci.Remote) int {
	b := slot[at : at+prm.RemoteSegment]
	binary.BigEndian.PutUint64(b, r.Addr)
	binary.BigEndian.PutUint32(b[8:], uint32(r.RKey))
	binary.BigEndian.PutUint32(b[12:], 0)
	return at + prm.RemoteSegment
}

func putAtomic(slot []byte, at int, wr *ci.SendWR) (opcode uint8, end int) {
	at = putRemote(slot, at, wr.Remote)
	swap, compare := wr.Atomic.Swap, wr.Atomic.Compare
	opcode = prm.WQECompareSwap
	if wr.Op == ci.OpFetchAdd {
		opcode, swap, compare = prm.WQEFetchAdd, wr.Atomic.Compare, 0
	}
	binary.BigEndian.PutUint64(slot[at:], swap)
	binary.BigEndian.PutUint64(slot[at+8:], compare)
	return opcode, at + prm.AtomicSegment
}

// putPayload writes inline data or data segments.
func putPayload(slot []byte, at int, wr *ci.SendWR) int {
	if wr.Inline != nil {
		return PutInline(slot, at, wr.Inline)
	}
	return PutList(slot, at, wr.SGL)
}

// PutList writes data segments. It returns their end.
func PutList(slot []byte, at int, list []ci.SGE) int {
	for _, s := range list {
		putData(slot[at:], s)
		at += prm.DataSegment
	}
	return at
}

// PutInline writes data as inline segments, none of which crosses a block. It returns the end, which is a multiple of
// 16.
func PutInline(slot []byte, at int, data []byte) int {
	for len(data) > 0 {
		n := min(len(data), prm.InlineBoundary-at%prm.InlineBoundary-prm.InlineHeader)
		copy(slot[at+prm.InlineHeader:], data[:n])
		store32(slot[at:], 1<<31|uint32(n))
		end := at + prm.InlineHeader + n
		at = (end + prm.DataSegment - 1) &^ (prm.DataSegment - 1)
		clear(slot[end:at])
		data = data[n:]
	}
	return at
}

// InlineSize returns the bytes that n bytes of inline data occupy behind a header of at bytes.
func InlineSize(at, n int) int {
	first := at
	for n > 0 {
		k := min(n, prm.InlineBoundary-at%prm.InlineBoundary-prm.InlineHeader)
		at = (at + prm.InlineHeader + k + prm.DataSegment - 1) &^ (prm.DataSegment - 1)
		n -= k
	}
	return at - first
}

// rights of fast registrations and binds, in the same bits.
func rightBits(a ci.Access) (v uint32) {
	if a&ci.RemoteAtomic != 0 {
		v |= 1 << 31
	}
	if a&ci.RemoteWrite != 0 {
		v |= 1 << 30
	}
	if a&ci.RemoteRead != 0 {
		v |= 1 << 29
	}
	return v
}

func putFastReg(slot []byte, at int, f *ci.FastReg, x *Extra) int {
	b := slot[at : at+prm.FastRegSegment]
	flags := rightBits(f.Access) | 1<<27
	if f.Access&ci.LocalWrite != 0 {
		flags |= 1 << 28
	}
	be := binary.BigEndian
	be.PutUint32(b[prm.FastRegKey.Off:], uint32(f.Key))
	be.PutUint64(b[prm.FastRegList.Off:], x.List)
	be.PutUint64(b[prm.FastRegStart.Off:], f.IOVA)
	be.PutUint64(b[prm.FastRegLength.Off:], f.Length)
	be.PutUint32(b[prm.FastRegOffset.Off:], f.Offset)
	be.PutUint32(b[prm.FastRegLogPage.Off:], uint32(f.PageShift))
	clear(b[prm.FastRegLogPage.Off+4:])
	be.PutUint32(b, flags)
	return at + prm.FastRegSegment
}

func putBind(slot []byte, at int, m *ci.MWBind, x *Extra) int {
	b := slot[at : at+prm.BindSegment]
	be := binary.BigEndian
	be.PutUint32(b, rightBits(m.Access))
	var flags uint32
	if x.Type2 {
		flags = 1 << 31
	}
	be.PutUint32(b[4:], flags)
	be.PutUint32(b[prm.BindNewKey.Off:], uint32(x.Window))
	be.PutUint32(b[prm.BindLKey.Off:], uint32(x.Region))
	be.PutUint64(b[prm.BindAddress.Off:], m.Addr)
	be.PutUint64(b[prm.BindLength.Off:], m.Length)
	return at + prm.BindSegment
}
