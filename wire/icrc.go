package wire

import "encoding/binary"

// ICRC is an invariant CRC, or a partial one (IBTA vol 1, 7.8.1; annexes A16 and A17 for RoCE). It is the CRC-32 of
// Ethernet over all bytes in front of the ICRC field, where fields that routers may change count as ones. It is
// computed in steps, without copying or changing a byte:
//
//	c := flow.Start(n, id) // headers in front of the BTH: Flow4, Flow6, StartGRH or StartLRH
//	c = c.Headers(hdr)     // BTH and extension headers
//	c = c.Update(seg)      // payload, in one or more pieces
//	c = c.Pad(pad)         // pad bytes, all zero
//	c.Put(b)               // the four bytes of the ICRC field
//
// Each value is the CRC of all bytes so far, as in hash/crc32.
type ICRC uint32

// icrcOnes is the ICRC of 8 bytes 0xff, which take the place of the LRH in RoCE packets (annexes A16, A17).
const icrcOnes ICRC = 0x2144df1c

// Headers adds b, which begins with a BTH and continues with extension headers or more. Byte 4 of the BTH (FECN, BECN,
// reserved) counts as ones. len(b) must be a multiple of 4 and at least BTHLen. b does not escape.
func (c ICRC) Headers(b []byte) ICRC {
	_ = b[BTHLen-1]
	r := crcWord(^uint32(c), binary.LittleEndian.Uint64(b)|0xff<<32)
	return ICRC(^headerCRC(r, b[8:]))
}

// Update adds a piece of the packet. It is at least as fast as hash/crc32 for long pieces.
func (c ICRC) Update(seg []byte) ICRC { return ICRC(^updateCRC(^uint32(c), seg)) }

// Pad adds n zero bytes.
func (c ICRC) Pad(n uint8) ICRC {
	r := ^uint32(c)
	for ; n > 0; n-- {
		r = crcTab[0][byte(r)] ^ r>>8
	}
	return ICRC(^r)
}

// Put writes the CRC to b[:ICRCLen] in wire order: least significant byte first.
func (c ICRC) Put(b []byte) { binary.LittleEndian.PutUint32(b, uint32(c)) }

// Transport adds a whole transport packet b, from the BTH to the end of the pad, without the ICRC. len(b) must be a
// multiple of 4 and at least BTHLen.
func (c ICRC) Transport(b []byte) ICRC {
	// Only the first 8 bytes need the mask. Update is faster than Headers for the rest.
	c = ICRC(^crcWord(^uint32(c), binary.LittleEndian.Uint64(b)|0xff<<32))
	return c.Update(b[8:])
}
