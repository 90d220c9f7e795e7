package wire

import "encoding/binary"

// EtherTypes.
const (
	EtherTypeIPv4   = 0x0800
	EtherTypeVLAN   = 0x8100 // IEEE 802.1Q
	EtherTypeIPv6   = 0x86dd
	EtherTypeRoCEv1 = 0x8915 // annex A16; a GRH follows
)

// Lengths of Ethernet headers in bytes.
const (
	EthernetLen = 14
	VLANLen     = 4
)

// Ethernet is an Ethernet II header with at most one VLAN tag (IEEE 802.3, 802.1Q). It does not include the frame check
// sequence.
type Ethernet struct {
	Dst       [6]byte // bytes 0-5
	Src       [6]byte // bytes 6-11
	Tagged    bool    // the header has a VLAN tag: EtherTypeVLAN in bytes 12-13, and TCI
	TCI       uint16  // bytes 14-15 if Tagged: priority (3 bits), drop eligible (1), VLAN (12)
	EtherType uint16  // bytes 12-13, or 16-17 if Tagged: the protocol that follows
}

// Len returns the length of the header in bytes.
func (h *Ethernet) Len() int {
	if h.Tagged {
		return EthernetLen + VLANLen
	}
	return EthernetLen
}

// Put writes the header to b[:h.Len()]. It panics if b is shorter.
func (h *Ethernet) Put(b []byte) {
	_ = b[h.Len()-1]
	*(*[6]byte)(b) = h.Dst
	*(*[6]byte)(b[6:]) = h.Src
	b = b[12:]
	if h.Tagged {
		binary.BigEndian.PutUint16(b, EtherTypeVLAN)
		binary.BigEndian.PutUint16(b[2:], h.TCI)
		b = b[VLANLen:]
	}
	binary.BigEndian.PutUint16(b, h.EtherType)
}

// Parse reads the header from the start of b. Error: ErrShort.
func (h *Ethernet) Parse(b []byte) error {
	if len(b) < EthernetLen {
		return errorf(ErrShort, "%d bytes, want at least %d for an Ethernet header", len(b), EthernetLen)
	}
	*h = Ethernet{Dst: [6]byte(b), Src: [6]byte(b[6:]), EtherType: binary.BigEndian.Uint16(b[12:])}
	if h.EtherType == EtherTypeVLAN {
		if len(b) < EthernetLen+VLANLen {
			return errorf(ErrShort, "%d bytes, want at least %d for an Ethernet header with a VLAN tag", len(b),
				EthernetLen+VLANLen)
		}
		h.Tagged, h.TCI, h.EtherType = true, binary.BigEndian.Uint16(b[14:]), binary.BigEndian.Uint16(b[16:])
	}
	return nil
}
