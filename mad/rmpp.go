package mad

import "fmt"

// RMPPLen is the length of the RMPP header, and RMPPEnd the offset of its end in a datagram, in bytes.
const (
	RMPPLen = 12
	RMPPEnd = HeaderLen + RMPPLen
)

// RMPPVersion is the version of the protocol.
const RMPPVersion = 1

// RMPPType is the type of a packet (13.6.2.1).
type RMPPType uint8

// Types of packets. Type 0 is a datagram that does not use RMPP.
const (
	RMPPData  RMPPType = 1
	RMPPAck   RMPPType = 2
	RMPPStop  RMPPType = 3 // the sender of the STOP has no resources
	RMPPAbort RMPPType = 4
)

func (t RMPPType) String() string {
	switch t {
	case 0:
		return "none"
	case RMPPData:
		return "DATA"
	case RMPPAck:
		return "ACK"
	case RMPPStop:
		return "STOP"
	case RMPPAbort:
		return "ABORT"
	}
	return fmt.Sprintf("RMPPType(%d)", uint8(t))
}

// RMPPFlags is a set of flags. It has three bits.
type RMPPFlags uint8

// Flags of RMPP.
const (
	RMPPActive RMPPFlags = 1 // the datagram is part of an RMPP transfer
	RMPPFirst  RMPPFlags = 2
	RMPPLast   RMPPFlags = 4
)

// RMPPNoTime in RMPP.ResponseTime means that the sender does not specify a response time.
const RMPPNoTime TimeExp = 31

// RMPPStatus is the reason of a STOP or ABORT (13.6.2.1, table 118).
type RMPPStatus uint8

// Statuses. A STOP carries RMPPResourcesExhausted, and an ABORT one of the others from 118 on. Statuses from 128 on are
// class-specific.
const (
	RMPPOK                 RMPPStatus = 0
	RMPPResourcesExhausted RMPPStatus = 1
	RMPPTotalTimeout       RMPPStatus = 118 // the transaction took too long
	RMPPBadLength          RMPPStatus = 119 // payload lengths of the first and the last segment disagree
	RMPPBadSegment         RMPPStatus = 120 // segment number inconsistent with first or last
	RMPPBadType            RMPPStatus = 121
	RMPPWindowTooSmall     RMPPStatus = 122 // NewWindowLast is less than the acknowledged segment
	RMPPSegmentTooBig      RMPPStatus = 123 // the acknowledged segment is beyond the window
	RMPPIllegalStatus      RMPPStatus = 124
	RMPPBadVersion         RMPPStatus = 125
	RMPPTooManyRetries     RMPPStatus = 126
	RMPPUnspecified        RMPPStatus = 127
)

var rmppStatus = map[RMPPStatus]string{
	RMPPOK: "normal", RMPPResourcesExhausted: "resources exhausted", RMPPTotalTimeout: "total time too long",
	RMPPBadLength: "inconsistent last and payload length", RMPPBadSegment: "inconsistent first and segment number",
	RMPPBadType: "bad RMPP type", RMPPWindowTooSmall: "new window last too small",
	RMPPSegmentTooBig: "segment number too big",
	RMPPIllegalStatus: "illegal status", RMPPBadVersion: "unsupported version", RMPPTooManyRetries: "too many retries",
	RMPPUnspecified: "unspecified",
}

func (s RMPPStatus) String() string {
	if n, ok := rmppStatus[s]; ok {
		return n
	}
	return fmt.Sprintf("RMPP status %d", uint8(s))
}

// RMPP is the header of the reliable multi-packet protocol (13.6.2.1). In classes that support RMPP, it follows the
// common header.
type RMPP struct {
	Version      uint8      // byte 0: RMPPVersion
	Type         RMPPType   // byte 1
	ResponseTime TimeExp    // byte 2, bits 7-3: or RMPPNoTime
	Flags        RMPPFlags  // byte 2, bits 2-0
	Status       RMPPStatus // byte 3
	Data1        uint32     // bytes 4-7: segment number of DATA and ACK
	Data2        uint32     // bytes 8-11: payload length of DATA, last segment of the new window of ACK
}

// Put writes the header to b[:RMPPLen]. It panics if b is shorter.
func (r *RMPP) Put(b []byte) {
	_ = b[RMPPLen-1]
	b[0], b[1] = r.Version, uint8(r.Type)
	b[2], b[3] = uint8(r.ResponseTime)<<3|uint8(r.Flags)&7, uint8(r.Status)
	be.PutUint32(b[4:], r.Data1)
	be.PutUint32(b[8:], r.Data2)
}

// Parse reads the header from b[:RMPPLen]. It panics if b is shorter.
func (r *RMPP) Parse(b []byte) {
	_ = b[RMPPLen-1]
	*r = RMPP{Version: b[0], Type: RMPPType(b[1]), ResponseTime: TimeExp(b[2] >> 3), Flags: RMPPFlags(b[2] & 7),
		Status: RMPPStatus(b[3]),
		Data1:  be.Uint32(b[4:]), Data2: be.Uint32(b[8:])}
}

// Active reports whether the datagram is part of an RMPP transfer. Otherwise the rest of the header is to be ignored.
func (r *RMPP) Active() bool { return r.Flags&RMPPActive != 0 }

// Segment returns the number of a DATA segment, from 1, or the last segment that an ACK acknowledges.
func (r *RMPP) Segment() uint32 { return r.Data1 }

// PayloadLength returns the payload length of a DATA packet in bytes after the RMPP header; see Segmentation. The first
// segment has the length of all segments, or 0 if the sender does not know it. The last segment has its own length.
func (r *RMPP) PayloadLength() uint32 { return r.Data2 }

// NewWindowLast returns, for an ACK, the last segment that the sender may send.
func (r *RMPP) NewWindowLast() uint32 { return r.Data2 }

// Fault validates the header of a received active datagram (13.6.2.1, 13.6.3). It returns RMPPOK, or the status of the
// ABORT with which the receiver must respond. It does not validate windows and lengths across segments, which depend on
// the state of the transfer.
func (r *RMPP) Fault() RMPPStatus {
	switch {
	case r.Version != RMPPVersion:
		return RMPPBadVersion
	case r.Type < RMPPData || r.Type > RMPPAbort:
		return RMPPBadType
	case r.Type == RMPPData && (r.Data1 == 0 || (r.Data1 == 1) != (r.Flags&RMPPFirst != 0)):
		return RMPPBadSegment
	case (r.Type == RMPPData || r.Type == RMPPAck) && r.Status != RMPPOK:
		return RMPPIllegalStatus
	case r.Type == RMPPStop && r.Status != RMPPResourcesExhausted:
		return RMPPIllegalStatus
	case r.Type == RMPPAbort && r.Status < RMPPTotalTimeout:
		return RMPPIllegalStatus
	case r.Type == RMPPAck && r.Data2 < r.Data1:
		return RMPPWindowTooSmall
	}
	return RMPPOK
}
