package model

import (
	"ciddk/internal/mlx4/prm"
)

// Limits of large send offload.
const (
	logMaxLSO     = 17
	maxLSOPayload = 1 << logMaxLSO
	minLSOSegment = 32
	maxLSOHeader  = 256
)

// Flags of TCP, which all segments but the last, or but the first, have not.
const (
	tcpFlagsAt = 13
	tcpFIN     = 1 << 0
	tcpPSH     = 1 << 3
	tcpCWR     = 1 << 7
)

// takeLSO takes the segment with the header of a large send. It returns no header for an invalid one.
func (d *decoder) takeLSO() (header []byte, mss int) {
	const head = 4
	if len(d.b) < head {
		return nil, 0
	}
	n := int(prm.LSOHeaderSize.Get(d.b))
	mss = int(prm.LSOSegmentSize.Get(d.b))
	if n > maxLSOHeader || mss < minLSOSegment {
		return nil, 0
	}
	s := d.take((head + n + prm.DataSegment - 1) &^ (prm.DataSegment - 1))
	if s == nil {
		return nil, 0
	}
	return s[head : head+n], mss
}

// An lsoHeader is the parts of the header of a large send.
type lsoHeader struct {
	size        int // of all headers
	kind        uint16
	ip, tcp     int // offsets
	isIPv4      bool
	id          uint16
	sequence    uint32
	flags       byte
	payloadSize int // of the large send
}

// parseLSO parses the headers of a large send: Ethernet, IP without extensions, TCP.
func parseLSO(h []byte) (l lsoHeader, ok bool) {
	if len(h) < ethSize {
		return l, false
	}
	kind, at := etherType(h)
	return parseLSOContent(h, kind, at)
}

// parseLSOContent parses the headers of a large send, of which IP with an EtherType begins at an offset.
func parseLSOContent(h []byte, kind uint16, at int) (l lsoHeader, ok bool) {
	b := h[at:]
	l.size, l.kind, l.ip = len(h), kind, at
	switch {
	case kind == typeIPv4 && len(b) >= ip4Size && b[0]>>4 == 4 && b[9] == protocolTCP:
		l.isIPv4, l.tcp, l.id = true, at+int(b[0]&0xf)*4, bigEndian.Uint16(b[4:])
		if l.tcp < at+ip4Size {
			return l, false
		}
	case kind == typeIPv6 && len(b) >= grhSize && b[0]>>4 == 6 && b[6] == protocolTCP:
		l.tcp = at + grhSize
	default:
		return l, false
	}
	if len(h) < l.tcp+tcpSize || len(h) != l.tcp+int(h[l.tcp+12]>>4)*4 {
		return l, false
	}
	l.sequence, l.flags = bigEndian.Uint32(h[l.tcp+4:]), h[l.tcp+tcpFlagsAt]
	return l, true
}

// adjust sets the lengths, numbers, flags and checksums of the segment at an offset of the payload.
func (l *lsoHeader) adjust(f []byte, index, off int) {
	if l.isIPv4 {
		bigEndian.PutUint16(f[l.ip+2:], uint16(len(f)-l.ip))
		bigEndian.PutUint16(f[l.ip+4:], l.id+uint16(index))
	} else {
		bigEndian.PutUint16(f[l.ip+4:], uint16(len(f)-l.ip-grhSize))
	}
	bigEndian.PutUint32(f[l.tcp+4:], l.sequence+uint32(off))
	flags := l.flags
	if off > 0 {
		flags &^= tcpCWR
	}
	if off+len(f)-l.size < l.payloadSize {
		flags &^= tcpFIN | tcpPSH
	}
	f[l.tcp+tcpFlagsAt] = flags
	p := parseContent(l.kind, f[l.ip:])
	p.fillChecksums(true, true)
}

// cut calls emit with the segments of a payload behind its header, which are in f. buf is memory for a segment.
func (l *lsoHeader) cut(f []byte, mss int, buf []byte, emit func(s []byte)) {
	payload := f[l.size:]
	l.payloadSize = len(payload)
	for index, off := 0, 0; index == 0 || off < len(payload); index, off = index+1, off+mss {
		buf = append(append(buf[:0], f[:l.size]...), payload[off:min(off+mss, len(payload))]...)
		l.adjust(buf, index, off)
		emit(buf)
	}
}

// sendLarge sends a payload as TCP segments. f has the header and the payload. It returns the syndrome of an error, or
// 0.
func (q *frameQP) sendLarge(f, wqe []byte, headerSize, mss int) prm.Syndrome {
	l, ok := parseLSO(f[:headerSize])
	if !ok || mss > maxFrame-headerSize {
		return prm.SynLocalQPOp
	}
	l.cut(f, mss, q.segment, func(s []byte) {
		q.transmit(s, wqe)
		q.segment = s
	})
	return 0
}
