// Package mad provides the layouts of InfiniBand management datagrams, which QP0 and QP1 exchange: the common header,
// subnet management packets, RMPP, and the messages and attributes of connection management, subnet administration and
// performance management. It parses, validates and formats; agents and managers in other packages act on the datagrams.
//
// # Layouts
//
// A layout is a plain struct with a Put and a Parse method. The comment of each field has the bytes that it occupies,
// and for part of a byte the bits; bit 7 is the most significant bit. Numbers are big-endian. Layouts have fixed
// lengths: Put and Parse panic if the slice is shorter than the constant that ends in Len.
//
//	var p mad.PathRecord
//	p.Parse(sa.Data[:])
//	fmt.Println(p.DLID, p.MTU)
//
// Every bit of a layout, including reserved ones, belongs to a field. Parse followed by Put therefore writes the same
// bytes. Reserved fields are named Reserved followed by their byte offset or by the name of an adjacent field.
// Receivers ignore reserved bits (13.4.1). Put drops bits that exceed a field. The Check method of a header or CM
// message reports reserved bits that are not zero and values that are too large for their field or reserved. Private
// data and names are arrays of their full length, padded with zeros.
//
// Use ParseHeader, ParseCM, ParseSA, ParsePerf and ParseIPCM for bytes from a network: they validate lengths and
// versions, and never panic. AppendCM rejects a CM message that does not pass Check. Errors are of type *Error and wrap
// one of the Err variables.
//
// Functions and methods may be called concurrently as long as no two of them use the same value.
//
//	header, names of codes         header.go status.go names.go codes.go
//	subnet management              smp.go node.go portinfo.go
//	RMPP                           rmpp.go segmentation.go
//	connection management          cm.go cm_*.go rejreason.go serviceid.go
//	RDMA IP CM service             ipcm.go
//	subnet administration          sa.go sa_*.go
//	performance management         perf.go perf_*.go
//	all classes of QP1             classportinfo.go
//
// # Sources
//
// InfiniBand Architecture Specification (IBTA), volume 1. Numbers of chapters and tables in comments are those of
// release 1.2.1:
//
//	9.7       timer exponents, ACK timeout
//	12        communication management: messages (12.6), service IDs (12.7), alternate paths (12.8), SIDR (12.11)
//	13.4      common header, methods, status, ClassPortInfo
//	13.6      RMPP
//	14.2      subnet management: SMP, attributes
//	15.2      subnet administration: header, records; component masks (15.4)
//	16.1      performance management: counters
//	annex A3  ranges of service IDs
//	annex A11 RDMA IP CM service: service IDs of ports, header in private data
//
// Release 1.3 added rates from 14 Gb/s on, the counters from SymbolErrors on in PortCountersExtended, and the vendor
// IDs in REQ, REP and SIDR_REP. Where the text is ambiguous, the layouts follow packets that Linux sent (testdata).
// Tests compare the output with tshark.
package mad
