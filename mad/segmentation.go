package mad

import "math"

// Segmentation says how RMPP cuts the data of a class: every segment repeats headers of HeaderLen bytes (common, RMPP, class's own) and
// has room for DataLen bytes (13.6.2.1). The payload lengths of RMPP count the class's own header too, segment by segment.
type Segmentation struct {
	HeaderLen int
	DataLen   int
}

// SegmentationOf gives that of a class, and false for classes without RMPP.
func SegmentationOf(c Class) (Segmentation, bool) {
	n := 0
	switch {
	case c == ClassSubnetAdmin:
		n = SAHeaderLen
	case c == ClassDevice || c == ClassDeviceAdmin || c == ClassBIS:
		n = 64
	case c.Vendor2():
		n = 40
	default:
		return Segmentation{}, false
	}
	return Segmentation{HeaderLen: n, DataLen: Size - n}, true
}

// own is the length of the class's own header.
func (s Segmentation) own() int { return s.HeaderLen - RMPPEnd }

// Segments gives how many segments n bytes take; no bytes take one.
func (s Segmentation) Segments(n int) int { return max(1, (n+s.DataLen-1)/s.DataLen) }

// FirstPayloadLength gives the first segment's PayloadLength for n bytes; 0, which means unknown, where 32 bits do not suffice.
func (s Segmentation) FirstPayloadLength(n int) uint32 {
	if v := uint64(n) + uint64(s.Segments(n))*uint64(s.own()); v <= math.MaxUint32 {
		return uint32(v)
	}
	return 0
}

// LastPayloadLength gives the last segment's PayloadLength for n bytes in all.
func (s Segmentation) LastPayloadLength(n int) uint32 {
	return uint32(n - (s.Segments(n)-1)*s.DataLen + s.own())
}

// Total is the inverse of FirstPayloadLength: how many bytes of data a transfer will have. 0 with true in known means none at all.
//
// Errors: ErrRange for a length that no transfer can have (a last segment shorter than the class's own header).
func (s Segmentation) Total(length uint32) (n int, known bool, err error) {
	if length == 0 {
		return 0, false, nil
	}
	room := uint64(s.DataLen + s.own())
	segments := (uint64(length) + room - 1) / room
	total := int64(length) - int64(segments)*int64(s.own())
	if last := total - int64(segments-1)*int64(s.DataLen); last < 0 || last == 0 && segments > 1 {
		return 0, false, errorf(ErrRange, "RMPP", "Data2", "%d bytes in first segment's payload length, %d of them headers", length, int64(segments)*int64(s.own()))
	}
	if total > math.MaxInt {
		return 0, false, errorf(ErrRange, "RMPP", "Data2", "%d bytes of data, this machine cannot address them", total)
	}
	return int(total), true, nil
}

// Last is the inverse of LastPayloadLength: how many bytes of data the last segment has.
//
// Errors: ErrRange for less than the class's own header and more than a datagram holds. The receiver then sends ABORT with
// RMPPBadLength.
func (s Segmentation) Last(length uint32) (int, error) {
	if length < uint32(s.own()) || length > uint32(s.own()+s.DataLen) {
		return 0, errorf(ErrRange, "RMPP", "Data2", "%d bytes in last segment's payload length, want %d to %d", length, s.own(), s.own()+s.DataLen)
	}
	return int(length) - s.own(), nil
}
