package mad

// NoticeLen is the length of a Notice in an SMP, and NoticeDetailsLen that of its details, in bytes.
const (
	NoticeLen        = 64
	NoticeDetailsLen = 54
)

// Values of Notice.Type (13.4.8.2).
const (
	NoticeFatal    uint8 = 0
	NoticeUrgent   uint8 = 1
	NoticeSecurity uint8 = 2
	NoticeSubnet   uint8 = 3
	NoticeInfo     uint8 = 4
	NoticeEmpty    uint8 = 0x7f // there is no notice
)

// Values of Notice.Producer in generic notices.
const (
	ProducerCA      uint32 = 1
	ProducerSwitch  uint32 = 2
	ProducerRouter  uint32 = 3
	ProducerManager uint32 = 4
)

// Numbers of generic traps of subnet management (14.2.5.1, tables 131 to 138).
const (
	TrapGIDInService      uint16 = 64 // TrapGID, as the next three
	TrapGIDOutOfService   uint16 = 65
	TrapGroupCreated      uint16 = 66
	TrapGroupDeleted      uint16 = 67
	TrapLinkState         uint16 = 128 // TrapLID: a port of the switch changed its state
	TrapLinkIntegrity     uint16 = 129 // TrapPort
	TrapBufferOverrun     uint16 = 130 // TrapPort
	TrapFlowControl       uint16 = 131 // TrapPort
	TrapCapabilityMask    uint16 = 144 // TrapCapability
	TrapSystemGUIDChanged uint16 = 145 // TrapSystemGUID
	TrapBadMKey           uint16 = 256 // TrapMKey
	TrapBadPKey           uint16 = 257 // TrapKey
	TrapBadQKey           uint16 = 258 // TrapKey
	TrapSwitchBadPKey     uint16 = 259 // TrapSwitchPKey
)

// Notice reports an event to a manager (13.4.8.2). It is the attribute of Trap, TrapRepress and Report, and of Get and
// Set of agents that keep notices. In subnet administration, the issuer's GID follows it.
type Notice struct {
	Generic   bool                   // byte 0, bit 7
	Type      uint8                  // byte 0, bits 6-0: Notice…
	Producer  uint32                 // bytes 1-3: Producer…, or the vendor's ID if the notice is not generic
	Trap      uint16                 // bytes 4-5: Trap…, or the device ID if the notice is not generic
	IssuerLID uint16                 // bytes 6-7
	Toggle    bool                   // byte 8, bit 7: changes when the notice is overwritten
	Count     uint16                 // byte 8, bit 6, to byte 9, bit 0: notices in the queue
	Details   [NoticeDetailsLen]byte // bytes 10-63
}

// Put writes the attribute to b[:NoticeLen]. It panics if b is shorter.
func (n *Notice) Put(b []byte) {
	_ = b[NoticeLen-1]
	b[0] = bit(n.Generic)<<7 | n.Type&0x7f
	put24(b[1:], n.Producer)
	be.PutUint16(b[4:], n.Trap)
	be.PutUint16(b[6:], n.IssuerLID)
	be.PutUint16(b[8:], uint16(bit(n.Toggle))<<15|n.Count&0x7fff)
	copy(b[10:NoticeLen], n.Details[:])
}

// Parse reads the attribute from b[:NoticeLen]. It panics if b is shorter.
func (n *Notice) Parse(b []byte) {
	_ = b[NoticeLen-1]
	count := be.Uint16(b[8:])
	*n = Notice{Generic: b[0]&0x80 != 0, Type: b[0] & 0x7f, Producer: get24(b[1:]), Trap: be.Uint16(b[4:]),
		IssuerLID: be.Uint16(b[6:]), Toggle: count&0x8000 != 0, Count: count & 0x7fff,
		Details: [NoticeDetailsLen]byte(b[10:NoticeLen])}
}
