package pcapfile

import (
	"encoding/binary"
	"time"
)

// InfiniBand packets are written as records of Endace's extensible record format (ERF). Wireshark does not read
// LINKTYPE_INFINIBAND, so ERF is the way to have packets with their LRH in a capture file.
const (
	ERFLinkType  = 197 // of a capture file's interface (the registry of tcpdump.org)
	ERFHeaderLen = 16  // bytes of a record before the packet
)

// erfRecord returns the record of an InfiniBand packet, LRH to VCRC: time stamp (little endian, 2^-32 s), type, flags
// (varying length), record length, loss counter, wire length. The lengths have 16 bits, which is enough for every
// InfiniBand packet.
func erfRecord(t time.Time, p []byte) []byte {
	const infiniband, varying = 21, 4
	b := make([]byte, 0, ERFHeaderLen+len(p))
	b = binary.LittleEndian.AppendUint64(b, uint64(t.Unix())<<32|uint64(t.Nanosecond())<<32/uint64(time.Second))
	b = append(b, infiniband, varying)
	b = binary.BigEndian.AppendUint16(b, uint16(ERFHeaderLen+len(p)))
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(p)))
	return append(b, p...)
}
