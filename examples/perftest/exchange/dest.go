package exchange

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"

	"ciddk/ci"
)

// A Dest is a queue pair and the memory behind it, as one side describes them to the other.
type Dest struct {
	LID      ci.LID // 0 on Ethernet
	OutReads uint16 // RDMA reads and atomics that the side executes at a time
	QPN      ci.QPN
	PSN      ci.PSN // of the first packet that the side sends
	RKey     ci.Key
	VAddr    uint64
	GID      ci.GID
	SRQN     uint32 // 0: only XRC and DC use it
}

// Lengths of an encoded Dest.
const (
	textLen   = 4 + 1 + 4 + 1 + 6 + 1 + 6 + 1 + 8 + 1 + 16 + 1 + 16*3 + 8 + 1 + 1
	binaryLen = 56
)

// text returns the form used over TCP: fields in hexadecimal of fixed width, each followed by a colon, and a NUL.
// Each byte of the GID is a field.
func (d Dest) text() []byte {
	b := fmt.Appendf(nil, "%04x:%04x:%06x:%06x:%08x:%016x:", uint16(d.LID), d.OutReads, uint32(d.QPN)&0xffffff,
		uint32(d.PSN)&0xffffff,
		uint32(d.RKey), d.VAddr)
	for _, x := range d.GID {
		b = fmt.Appendf(b, "%02x:", x)
	}
	return fmt.Appendf(b, "%08x:\x00", d.SRQN)
}

// parseText parses the form used over TCP. Every field must have its width.
func parseText(b []byte) (d Dest, err error) {
	if len(b) != textLen || b[textLen-1] != 0 {
		return d, fmt.Errorf("exchange: the peer sent %q, not a destination of %d bytes: is it perftest, with a GID?",
			b, textLen)
	}
	rest := b
	field := func(name string, digits int) uint64 {
		f, colon := rest[:digits], rest[digits]
		rest = rest[digits+1:]
		n, perr := strconv.ParseUint(string(f), 16, 64)
		if (perr != nil || colon != ':') && err == nil {
			err = fmt.Errorf("exchange: the peer sent the %s %q, not %d hexadecimal digits and a colon", name,
				b[len(b)-len(rest)-digits-1:len(b)-len(rest)], digits)
		}
		return n
	}
	d.LID = ci.LID(field("LID", 4))
	d.OutReads = uint16(field("number of reads", 4))
	d.QPN = ci.QPN(field("QPN", 6))
	d.PSN = ci.PSN(field("PSN", 6))
	d.RKey = ci.Key(field("R_Key", 8))
	d.VAddr = field("address", 16)
	for i := range d.GID {
		d.GID[i] = byte(field("GID", 2))
	}
	d.SRQN = uint32(field("SRQ number", 8))
	if err != nil {
		return Dest{}, err
	}
	return d, nil
}

// binary returns the form used over RDMA CM.
//
//	byte  0:4   LID              byte 20:4   padding
//	byte  4:4   number of reads  byte 24:8   address
//	byte  8:4   QPN              byte 32:16  GID
//	byte 12:4   PSN              byte 48:4   SRQ number
//	byte 16:4   R_Key            byte 52:4   GID index
func (d Dest) binary() []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(d.LID))
	b = binary.BigEndian.AppendUint32(b, uint32(d.OutReads))
	b = binary.BigEndian.AppendUint32(b, uint32(d.QPN)&0xffffff)
	b = binary.BigEndian.AppendUint32(b, uint32(d.PSN)&0xffffff)
	b = binary.BigEndian.AppendUint32(b, uint32(d.RKey))
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint64(b, d.VAddr)
	b = append(b, d.GID[:]...)
	b = binary.BigEndian.AppendUint32(b, d.SRQN)
	return binary.BigEndian.AppendUint32(b, 0)
}

// parseBinary parses the form used over RDMA CM. Padding and the peer's GID index are ignored: perftest does not clear
// the padding, and does not use the index.
func parseBinary(b []byte) (Dest, error) {
	if len(b) != binaryLen {
		return Dest{}, fmt.Errorf("exchange: the peer sent a destination of %d bytes, want %d: is it perftest?",
			len(b), binaryLen)
	}
	u32 := func(off int) uint32 { return binary.BigEndian.Uint32(b[off:]) }
	for _, f := range []struct {
		name  string
		value uint32
		max   uint32
	}{{"LID", u32(0), 0xffff}, {"number of reads", u32(4), 0xffff}, {"QPN", u32(8), 0xffffff},
		{"PSN", u32(12), 0xffffff}} {
		if f.value > f.max {
			return Dest{}, fmt.Errorf("exchange: the peer sent the %s %#x, want at most %#x", f.name, f.value, f.max)
		}
	}
	d := Dest{
		LID: ci.LID(u32(0)), OutReads: uint16(u32(4)), QPN: ci.QPN(u32(8)), PSN: ci.PSN(u32(12)), RKey: ci.Key(u32(16)),
		VAddr: binary.BigEndian.Uint64(b[24:]), SRQN: u32(48),
	}
	copy(d.GID[:], b[32:48])
	return d, nil
}

// is4 reports whether a GID stands for an IPv4 address (RoCEv2 annex A17.4).
func is4(g ci.GID) bool { return netip.AddrFrom16(g).Is4In6() }

// dumpGID formats a GID as hexadecimal digits, for errors.
func dumpGID(g ci.GID) string { return hex.EncodeToString(g[:]) }
