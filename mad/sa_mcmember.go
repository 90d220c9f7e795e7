package mad

import (
	"fmt"
	"strings"
)

// MCMemberRecordLen is the length of an MCMemberRecord in bytes.
const MCMemberRecordLen = 52

// Components of an MCMemberRecord (15.2.5.17, table 210).
const (
	MCMGID             ComponentMask = 1 << 0
	MCPortGID          ComponentMask = 1 << 1
	MCQKey             ComponentMask = 1 << 2
	MCMLID             ComponentMask = 1 << 3
	MCMTUSelector      ComponentMask = 1 << 4
	MCMTU              ComponentMask = 1 << 5
	MCTrafficClass     ComponentMask = 1 << 6
	MCPKey             ComponentMask = 1 << 7
	MCRateSelector     ComponentMask = 1 << 8
	MCRate             ComponentMask = 1 << 9
	MCLifeTimeSelector ComponentMask = 1 << 10
	MCLifeTime         ComponentMask = 1 << 11
	MCSL               ComponentMask = 1 << 12
	MCFlowLabel        ComponentMask = 1 << 13
	MCHopLimit         ComponentMask = 1 << 14
	MCScope            ComponentMask = 1 << 15
	MCJoinState        ComponentMask = 1 << 16
	MCProxyJoin        ComponentMask = 1 << 17
)

// JoinState is the set of a port's memberships in a multicast group. It has four bits.
type JoinState uint8

// Join states.
const (
	FullMember         JoinState = 1
	NonMember          JoinState = 2 // receives, but does not keep the group alive
	SendOnlyNonMember  JoinState = 4
	SendOnlyFullMember JoinState = 8
)

func (j JoinState) String() string {
	var words []string
	for i, n := range []string{"full", "non", "send-only non", "send-only full"} {
		if j&(1<<i) != 0 {
			words = append(words, n+" member")
		}
	}
	if r := j &^ 15; r != 0 {
		words = append(words, fmt.Sprintf("%#02x", uint8(r)))
	}
	if words == nil {
		return "no member"
	}
	return strings.Join(words, ", ")
}

// MCMemberRecord is the membership of a port in a multicast group (15.2.5.17).
type MCMemberRecord struct {
	MGID             [16]byte  // bytes 0-15: multicast GID
	PortGID          [16]byte  // bytes 16-31
	QKey             uint32    // bytes 32-35
	MLID             uint16    // bytes 36-37: multicast LID
	MTUSelector      Selector  // byte 38, bits 7-6
	MTU              MTU       // byte 38, bits 5-0
	TrafficClass     uint8     // byte 39
	PKey             uint16    // bytes 40-41
	RateSelector     Selector  // byte 42, bits 7-6
	Rate             Rate      // byte 42, bits 5-0
	LifeTimeSelector Selector  // byte 43, bits 7-6
	LifeTime         TimeExp   // byte 43, bits 5-0
	SL               uint8     // byte 44, bits 7-4
	FlowLabel        uint32    // byte 44, bit 3, to byte 46, bit 0
	HopLimit         uint8     // byte 47
	Scope            uint8     // byte 48, bits 7-4
	JoinState        JoinState // byte 48, bits 3-0
	ProxyJoin        bool      // byte 49, bit 7
	ReservedProxy    uint8     // byte 49, bits 6-0
	Reserved50       uint16    // bytes 50-51
}

// Put writes the record to b[:MCMemberRecordLen]. It panics if b is shorter.
func (m *MCMemberRecord) Put(b []byte) {
	_ = b[MCMemberRecordLen-1]
	copy(b[:16], m.MGID[:])
	copy(b[16:32], m.PortGID[:])
	be.PutUint32(b[32:], m.QKey)
	be.PutUint16(b[36:], m.MLID)
	b[38], b[39] = uint8(m.MTUSelector)<<6|uint8(m.MTU)&0x3f, m.TrafficClass
	be.PutUint16(b[40:], m.PKey)
	b[42] = uint8(m.RateSelector)<<6 | uint8(m.Rate)&0x3f
	b[43] = uint8(m.LifeTimeSelector)<<6 | uint8(m.LifeTime)&0x3f
	be.PutUint32(b[44:], uint32(m.SL)<<28|m.FlowLabel&0xfffff<<8|uint32(m.HopLimit))
	b[48], b[49] = m.Scope<<4|uint8(m.JoinState)&15, bit(m.ProxyJoin)<<7|m.ReservedProxy&0x7f
	be.PutUint16(b[50:], m.Reserved50)
}

// Parse reads the record from b[:MCMemberRecordLen]. It panics if b is shorter.
func (m *MCMemberRecord) Parse(b []byte) {
	_ = b[MCMemberRecordLen-1]
	w := be.Uint32(b[44:])
	*m = MCMemberRecord{
		MGID: [16]byte(b[:16]), PortGID: [16]byte(b[16:32]), QKey: be.Uint32(b[32:]), MLID: be.Uint16(b[36:]),
		MTUSelector: Selector(b[38] >> 6), MTU: MTU(b[38] & 0x3f), TrafficClass: b[39], PKey: be.Uint16(b[40:]),
		RateSelector: Selector(b[42] >> 6), Rate: Rate(b[42] & 0x3f), LifeTimeSelector: Selector(b[43] >> 6),
		LifeTime: TimeExp(b[43] & 0x3f), SL: uint8(w >> 28), FlowLabel: w >> 8 & 0xfffff, HopLimit: uint8(w),
		Scope:     b[48] >> 4,
		JoinState: JoinState(b[48] & 15), ProxyJoin: b[49]&0x80 != 0, ReservedProxy: b[49] & 0x7f,
		Reserved50: be.Uint16(b[50:]),
	}
}
