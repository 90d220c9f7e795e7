package wire

// RoCEv2 senders choose the UDP source port, which provides entropy for ECMP; receivers ignore it (annex A17). The
// functions of this file follow the rules of Linux.

const firstSourcePort = 0xc000 // first of the dynamic ports (RFC 6335)

// SourcePort returns the UDP source port of an RC or UC flow for its flow label. For a flow without a label, pass the
// result of QPFlowLabel.
func SourcePort(flowLabel uint32) uint16 {
	fl := flowLabel & MaskFlowLabel
	return uint16(firstSourcePort | (fl&0x3fff ^ fl>>14))
}

// QPFlowLabel returns the flow label for the source port of a connected QP without one. It is the same at both ends.
func QPFlowLabel(localQP, remoteQP uint32) uint32 {
	v := uint64(localQP) * uint64(remoteQP)
	v ^= v >> 20
	v ^= v >> 40
	return uint32(v & MaskFlowLabel)
}

// UDSourcePort returns the UDP source port of a UD QP or QP1. It does not depend on the flow label of the address.
func UDSourcePort(qpn uint32) uint16 {
	const golden = 0x61c88647 // 2^32 divided by the square of the golden ratio: a multiplicative hash
	return uint16(firstSourcePort | (qpn*golden)>>18)
}
