// Package wire holds the packet formats of InfiniBand and RoCE: header layouts, opcodes, CRCs. It moves bytes and judges form; what
// a packet means to a queue pair is the transport's affair.
//
// # Style
//
// A header is a plain struct with Put and Parse on a byte slice. Headers of fixed length, which the transport handles for every packet,
// do no checking: the slice must have the length that the constant …Len says (anything shorter is a programming error and panics
// as an index would). What reads bytes from a network — ParsePacket, ParseFrame, ParseIP, ParseLinkPacket and the Parse methods
// that return an error — checks everything, never panics and gives an *Error of a kind. Nothing on these paths allocates, errors
// apart.
// Reserved bits survive Parse and Put, so that a trace shows what was sent and CheckReserved can judge it.
//
//	BTH, extension headers      bth.go exthdr.go syndrome.go opcode.go
//	transport packet            packet.go: BTH … ICRC, common to all links
//	RoCEv2 and RoCEv1 frame     frame.go on ethernet.go ip.go udp.go grh.go
//	InfiniBand packet           linkpacket.go on lrh.go grh.go
//	ICRC, VCRC                  icrc.go icrc_flow.go icrc_ipid.go vcrc.go
//
// # Sources
//
// InfiniBand Architecture Specification (IBTA), volume 1:
//
//	ch. 5    packet formats: which headers in which order, lengths, pad
//	7.7      local route header
//	7.8      ICRC (7.8.1) and VCRC (7.8.2); the sample packet that the tests use
//	8.3      global route header
//	9.2      base transport header, opcodes and the headers that each has
//	9.3      extension headers
//	9.7      PSN arithmetic, AETH syndromes, RNR timers, credit counts
//
// Annex A16 (RoCE): EtherType 0x8915, GRH in place of IP, ones in place of the LRH in the ICRC. Annex A17 (RoCEv2): UDP port 4791, which
// IP and UDP fields the ICRC reads as ones, GIDs for IPv4 addresses, the GRH area of UD receives, congestion notification packets.
// RFC 791, 768, 1071, 8200 for IP and UDP, RFC 1112, 2464 for group addresses. The choice of UDP source ports is that of Linux.
//
// Packets that Linux Soft-RoCE sent, in testdata, decide where a text leaves room.
package wire
