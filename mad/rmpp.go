package mad

import "fmt"

// RMPPLen is the length of the RMPP header, RMPPEnd where it ends in a datagram, in bytes.
const (
	RMPPLen = 12
	RMPPEnd = HeaderLen + RMPPLen
)

// RMPPVersion is the one version of the protocol.
const RMPPVersion = 1

// RMPPType is the type of a packet (13.6.2.1).
type RMPPType uint8

// Types of packets. 0 is a datagram that does not use RMPP.
const (
	RMPPData  RMPPType = 1
	RMPPAck   RMPPType = 2
	RMPPStop  RMPPType = 3 // the receiver or sender has no resources
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

// RMPPFlags are three bits.
type RMPPFlags uint8

// Flags.
const (
	RMPPActive RMPPFlags = 1 // the datagram is part of an RMPP transfer
	RMPPFirst  RMPPFlags = 2
	RMPPLast   RMPPFlags = 4
)

// RMPPNoTime in RMPP.ResponseTime says that the sender gives none.
const RMPPNoTime TimeExp = 31

// RMPPStatus tells why a transfer ended (13.6.2.1, table 118).
type RMPPStatus uint8

// Statuses. STOP carries ResourcesExhausted, ABORT one from 118 on; 128 and up are the class's own.
const (
	RMPPOK                 RMPPStatus = 0
	RMPPResourcesExhausted RMPPStatus = 1
	RMPPTotalTimeout       RMPPStatus = 118 // the transaction takes too long
	RMPPBadLength          RMPPStatus = 119 // last segment's payload length against the first's
	RMPPBadSegment         RMPPStatus = 120 // segment number inconsistent with first or last
	RMPPBadType            RMPPStatus = 121
	RMPPWindowTooSmall     RMPPStatus = 122 // new window last below the segment acknowledged
	RMPPSegmentTooBig      RMPPStatus = 123 // acknowledged segment beyond the window
	RMPPIllegalStatus      RMPPStatus = 124
	RMPPBadVersion         RMPPStatus = 125
	RMPPTooManyRetries     RMPPStatus = 126
	RMPPUnspecified        RMPPStatus = 127
)

var rmppStatus = map[RMPPStatus]string{
	RMPPOK: "normal", RMPPResourcesExhausted: "resources exhausted", RMPPTotalTimeout: "total time too long",
	RMPPBadLength: "inconsistent last and payload length", RMPPBadSegment: "inconsistent first and segment number",
	RMPPBadType: "bad RMPP type", RMPPWindowTooSmall: "new window last too small", RMPPSegmentTooBig: "segment number too big",
	RMPPIllegalStatus: "illegal status", RMPPBadVersion: "unsupported version", RMPPTooManyRetries: "too many retries",
	RMPPUnspecified: "unspecified",
}

func (s RMPPStatus) String() string {
	if n, ok := rmppStatus[s]; ok {
		return n
	}
	return fmt.Sprintf("RMPP status %d", uint8(s))
}

// RMPP is the header of the reliable multi-packet protocol (13.6.2.1), behind the common header in classes that have it.
//
//	byte 0    version
//	byte 1    type
//	byte 2    response time 5, flags 3
//	byte 3    status
//	byte 4:4  data 1: DATA and ACK the segment number
//	byte 8:4  data 2: DATA the payload length, ACK the last segment of the new window
type RMPP struct {
	Version      uint8
	Type         RMPPType
	ResponseTime TimeExp // five bits
	Flags        RMPPFlags
	Status       RMPPStatus
	Data1        uint32
	Data2        uint32
}

// Put writes the header to b[:RMPPLen]; b must be that long.
func (r *RMPP) Put(b []byte) {
	_ = b[RMPPLen-1]
	b[0], b[1], b[2], b[3] = r.Version, uint8(r.Type), uint8(r.ResponseTime)<<3|uint8(r.Flags)&7, uint8(r.Status)
	be.PutUint32(b[4:], r.Data1)
	be.PutUint32(b[8:], r.Data2)
}

// Parse reads the header from b[:RMPPLen]; b must be that long.
func (r *RMPP) Parse(b []byte) {
	_ = b[RMPPLen-1]
	*r = RMPP{Version: b[0], Type: RMPPType(b[1]), ResponseTime: TimeExp(b[2] >> 3), Flags: RMPPFlags(b[2] & 7), Status: RMPPStatus(b[3]),
		Data1: be.Uint32(b[4:]), Data2: be.Uint32(b[8:])}
}

// Active tells whether the datagram takes part in an RMPP transfer; the rest of the header means nothing otherwise.
func (r *RMPP) Active() bool { return r.Flags&RMPPActive != 0 }

// Segment is the segment number of DATA, from 1, or the last segment that an ACK has seen.
func (r *RMPP) Segment() uint32 { return r.Data1 }

// PayloadLength of DATA: of the first segment all segments together or 0 if the sender does not know, of the last its own, in
// bytes behind the RMPP header; see Segmentation.
func (r *RMPP) PayloadLength() uint32 { return r.Data2 }

// NewWindowLast of ACK is the last segment that the sender may send.
func (r *RMPP) NewWindowLast() uint32 { return r.Data2 }

// Fault judges the header of an active datagram as a receiver must (13.6.2.1, 13.6.3): RMPPOK, or the status of the ABORT to send. It
// keeps no state, so windows and lengths across segments are the protocol's affair.
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

// Check returns an *Error around ErrRange for a field that is too wide.
func (r *RMPP) Check() error {
	c := checker{layout: "RMPP"}
	r.check(&c, "")
	return c.err
}

func (r *RMPP) check(c *checker, in string) {
	c.fits(in+"ResponseTime", uint64(r.ResponseTime), 5)
	c.fits(in+"Flags", uint64(r.Flags), 3)
}
