package mad

import "math"

// Segmentation describes the RMPP segments of a class (13.6.2.1). Every segment has HeaderLen bytes of headers (common,
// RMPP and class-specific) and up to DataLen bytes of data. The payload lengths of RMPP include the class-specific
// header of every segment.
type Segmentation struct {
	HeaderLen int
	DataLen   int
}

// SegmentationOf returns the segmentation of a class. It returns false for classes without RMPP.
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

// classHeader returns the length of the class-specific header.
func (s Segmentation) classHeader() int { return s.HeaderLen - RMPPEnd }

// Segments returns the number of segments for n bytes of data. It is at least 1.
func (s Segmentation) Segments(n int) int { return max(1, (n+s.DataLen-1)/s.DataLen) }

// FirstPayloadLength returns the PayloadLength of the first segment for n bytes of data. If it does not fit 32 bits,
// FirstPayloadLength returns 0, which stands for an unknown length.
func (s Segmentation) FirstPayloadLength(n int) uint32 {
	if v := uint64(n) + uint64(s.Segments(n))*uint64(s.classHeader()); v <= math.MaxUint32 {
		return uint32(v)
	}
	return 0
}

// LastPayloadLength returns the PayloadLength of the last segment for n bytes of data in total.
func (s Segmentation) LastPayloadLength(n int) uint32 {
	return uint32(n - (s.Segments(n)-1)*s.DataLen + s.classHeader())
}

// Total returns the number of bytes of data for a PayloadLength of the first segment; it inverts FirstPayloadLength. If
// length is 0, the number is unknown and known is false.
//
// Errors: ErrRange for a length that is not valid, because the last segment would be shorter than the class-specific
// header.
func (s Segmentation) Total(length uint32) (n int, known bool, err error) {
	if length == 0 {
		return 0, false, nil
	}
	room := uint64(s.DataLen + s.classHeader())
	segments := (uint64(length) + room - 1) / room
	total := int64(length) - int64(segments)*int64(s.classHeader())
	if last := total - int64(segments-1)*int64(s.DataLen); last < 0 || last == 0 && segments > 1 {
		return 0, false, errorf(ErrRange, "RMPP", "Data2",
			"payload length of the first segment is %d, with %d bytes of headers", length,
			int64(segments)*int64(s.classHeader()))
	}
	if total > math.MaxInt {
		return 0, false, errorf(ErrRange, "RMPP", "Data2", "%d bytes of data exceed the address space", total)
	}
	return int(total), true, nil
}

// Last returns the number of bytes of data in the last segment for its PayloadLength.
//
// Errors: ErrRange for a length that is less than the class-specific header, or more than a datagram can hold. The
// receiver then sends an ABORT with RMPPBadLength.
func (s Segmentation) Last(length uint32) (int, error) {
	if length < uint32(s.classHeader()) || length > uint32(s.classHeader()+s.DataLen) {
		return 0, errorf(ErrRange, "RMPP", "Data2", "payload length of the last segment is %d, want %d to %d", length,
			s.classHeader(), s.classHeader()+s.DataLen)
	}
	return int(length) - s.classHeader(), nil
}
