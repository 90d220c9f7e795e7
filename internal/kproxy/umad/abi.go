package umad

import (
	"encoding/binary"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

var ne = binary.NativeEndian

// abiVersion is the version of the ABI (IB_USER_MAD_ABI_VERSION).
const abiVersion = 5

// The ioctls (rdma_user_ioctl.h), with the sizes of their structures in bits 16 to 29.
const (
	ioctlRegister   = 0xc01c1b01
	ioctlUnregister = 0x40041b02
	ioctlEnablePKey = 0x00001b03
	ioctlRegister2  = 0xc0281b04
)

const (
	sizeRegister  = 28
	sizeRegister2 = 40

	offFlags = 12 // in the structure of ioctlRegister2

	maxAgents = 32 // of a file

	sizeHeaderOld = 56 // struct ib_user_mad_hdr_old
	sizeHeader    = 64 // struct ib_user_mad_hdr, which has the P_Key index

	// leastMAD is the number of bytes of a datagram that a program must write: the headers of RMPP.
	leastMAD = mad.RMPPEnd
)

// registration is the request of both ioctls that create an agent.
type registration struct {
	qpn     uint32
	class   mad.Class
	version uint8
	mask    [2]uint64 // methods
	oui     [3]byte
	rmpp    uint8  // version
	flags   uint32 // of ioctlRegister2
	badOUI  bool   // more than 24 bits
}

// parseRegister decodes struct ib_user_mad_reg_req. Its mask is an array of longs, with method n at bit n.
func parseRegister(b []byte) *registration {
	return &registration{mask: [2]uint64{ne.Uint64(b[4:]), ne.Uint64(b[12:])}, qpn: uint32(b[20]),
		class: mad.Class(b[21]), version: b[22], oui: [3]byte(b[23:]), rmpp: b[26]}
}

// parseRegister2 decodes struct ib_user_mad_reg_req2.
func parseRegister2(b []byte) *registration {
	oui := ne.Uint32(b[32:])
	return &registration{qpn: ne.Uint32(b[4:]), class: mad.Class(b[8]), version: b[9], flags: ne.Uint32(b[offFlags:]),
		mask: [2]uint64{ne.Uint64(b[16:]), ne.Uint64(b[24:])},
		oui:  [3]byte{byte(oui >> 16), byte(oui >> 8), byte(oui)}, rmpp: b[36], badOUI: oui>>24 != 0}
}

// header is struct ib_user_mad_hdr.
type header struct {
	id, status, timeout, retries, length uint32

	to mads.Address
}

// parseHeader decodes a header of sizeHeaderOld or sizeHeader bytes.
func parseHeader(b []byte) (h header) {
	h = header{id: ne.Uint32(b), status: ne.Uint32(b[4:]), timeout: ne.Uint32(b[8:]), retries: ne.Uint32(b[12:]),
		length: ne.Uint32(b[16:])}
	h.to.QPN = ci.QPN(binary.BigEndian.Uint32(b[20:]))
	h.to.AV = ci.AVAttr{DLID: ci.LID(binary.BigEndian.Uint16(b[28:])), SL: ci.SL(b[30]), PathBits: b[31]}
	if b[32] != 0 {
		h.to.AV.Global = true
		h.to.AV.GRH = ci.GRH{SGIDIndex: uint16(b[33]), HopLimit: b[34], TrafficClass: b[35], DGID: ci.GID(b[36:52]),
			FlowLabel: binary.BigEndian.Uint32(b[52:])}
	}
	if len(b) >= sizeHeader {
		h.to.PKeyIndex = ne.Uint16(b[56:])
	}
	return h
}

// encode encodes a header of size bytes.
func (h *header) encode(size int) []byte {
	b := make([]byte, sizeHeader)
	for i, v := range []uint32{h.id, h.status, h.timeout, h.retries, h.length} {
		ne.PutUint32(b[4*i:], v)
	}
	a := &h.to.AV
	binary.BigEndian.PutUint32(b[20:], uint32(h.to.QPN))
	binary.BigEndian.PutUint16(b[28:], uint16(a.DLID))
	b[30], b[31] = uint8(a.SL), a.PathBits
	if a.Global {
		copy(b[32:], []byte{1, uint8(a.GRH.SGIDIndex), a.GRH.HopLimit, a.GRH.TrafficClass})
		copy(b[36:], a.GRH.DGID[:])
		binary.BigEndian.PutUint32(b[52:], a.GRH.FlowLabel)
	}
	ne.PutUint16(b[56:], h.to.PKeyIndex)
	return b[:size]
}
