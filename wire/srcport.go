package wire

// RoCEv2 leaves the UDP source port to the sender, as entropy for ECMP (annex A17). These are the rules of Linux, so that a
// flow keeps its path whichever end runs it; receivers ignore the port.

const firstSourcePort = 0xc000 // the dynamic ports

// SourcePort gives the UDP source port of an RC or UC flow from its flow label. For flow label 0, which stands for none, pass
// QPFlowLabel.
func SourcePort(flowLabel uint32) uint16 {
	fl := flowLabel & MaskFlowLabel
	return uint16(firstSourcePort | (fl&0x3fff ^ fl>>14))
}

// QPFlowLabel gives the flow label that stands in when a connected QP has none. It is the same at both ends.
func QPFlowLabel(localQP, remoteQP uint32) uint32 {
	v := uint64(localQP) * uint64(remoteQP)
	v ^= v >> 20
	v ^= v >> 40
	return uint32(v & MaskFlowLabel)
}

// UDSourcePort gives the UDP source port of what a UD QP sends (QP1 too), whatever the flow label of the address.
func UDSourcePort(qpn uint32) uint16 {
	const golden = 0x61c88647 // 2^32 divided by the square of the golden ratio: a multiplicative hash
	return uint16(firstSourcePort | (qpn*golden)>>18)
}
