// Package wire provides the packet formats of InfiniBand and RoCE: headers, opcodes and CRCs. It parses, validates and
// formats packets. The transport in package rvt acts on them.
//
// # Headers
//
// A header is a plain struct with a Put and a Parse method. The comment of each field has the bytes that it occupies,
// and for part of a byte the bits; bit 7 is the most significant bit. Numbers are big-endian. The methods of headers
// with a fixed length do not validate, because the transport uses them for every packet; they panic if the slice is
// shorter than the constant that ends in Len. Reserved bits have fields, too, so Parse followed by Put writes the same
// bytes. CheckReserved reports reserved bits that are not zero.
//
// Use ParsePacket, ParseFrame, ParseIP, ParseLinkPacket and the Parse methods that return an error for bytes from a
// network. They validate everything and never panic. Errors are of type *Error and wrap one of the Err variables.
// Parsing and formatting allocate only errors.
//
//	var f wire.Frame
//	if err := wire.ParseIP(datagram, &f); err != nil {
//		return err
//	}
//	if err := f.CheckICRC(); err != nil {
//		return err
//	}
//	fmt.Println(f.Packet.BTH.Opcode, f.Packet.BTH.PSN)
//
// Functions and methods may be called concurrently as long as no two of them use the same value, except that Flow4 and
// Flow6 may be shared.
//
//	BTH, extension headers      bth.go exthdr.go syndrome.go opcode.go
//	transport packet            packet.go: BTH to ICRC, the same for all links
//	RoCEv2 and RoCEv1 frame     frame.go, with ethernet.go ip.go udp.go grh.go
//	InfiniBand packet           linkpacket.go, with lrh.go grh.go
//	ICRC, VCRC                  icrc.go icrc_flow.go icrc_ipid.go vcrc.go
//
// # Sources
//
// InfiniBand Architecture Specification (IBTA), volume 1:
//
//	ch. 5    packet formats: order of headers, lengths, pad
//	7.7      local route header
//	7.8      ICRC (7.8.1) and VCRC (7.8.2), and the sample packet that the tests use
//	8.3      global route header
//	9.2      base transport header, opcodes and their headers
//	9.3      extension headers
//	9.7      PSN arithmetic, AETH syndromes, RNR timers, credit counts
//
// Annex A16 (RoCE): EtherType 0x8915, GRH in place of IP, ones in place of the LRH in the ICRC. Annex A17 (RoCEv2): UDP
// port 4791, IP and UDP fields that count as ones in the ICRC, GIDs of IPv4 addresses, the GRH area of UD receives,
// congestion notification packets. RFC 791, 768, 1071 and 8200 for IP and UDP, RFC 1112 and 2464 for multicast
// addresses. UDP source ports follow Linux.
//
// Where the text is ambiguous, the formats follow packets that Linux Soft-RoCE sent (testdata).
package wire
