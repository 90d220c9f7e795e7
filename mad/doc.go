// Package mad holds the layouts of management datagrams: what QP0 and QP1 send and receive. It moves bytes and judges form; what a
// datagram means is for the agents and managers above.
//
// # Style
//
// A layout is a plain struct of host integers with Put and Parse on a byte slice; bytes are big-endian. Layouts have fixed lengths, so
// neither checks: the slice must have the length that the constant …Len says (anything shorter is a programming error and panics as an
// index would).
//
// Nothing is lost: every bit of a layout, reserved ones included, has a field, so Parse then Put gives the same bytes for any bytes,
// and a capture shows what was sent. Reserved fields are called Reserved and their byte offset, or the field they stand beside.
// Who receives ignores them (13.4.1); Check, which every structure has, says what a sender that keeps the rules would not have sent: bits
// in reserved fields, values wider than their field or reserved. Put cuts off what is too wide: who sends values it did not make itself
// calls Check first.
//
// Bytes from a network come in through ParseHeader, ParseCM, ParseSA, ParsePerf and ParseIPCM, which check lengths and versions and never
// panic. AppendCM is the way out for CM messages: it refuses what Check refuses. Errors are an *Error around a kind, with the
// layout, the field and the value.
//
// Private data and names are arrays: the wire has them at full length, zeros behind what was meant.
//
//	header, general                header.go gmp.go status.go names.go codes.go
//	subnet management              smp.go node.go portinfo.go
//	RMPP                           rmpp.go segmentation.go
//	communication manager          cm.go cm_*.go rejreason.go serviceid.go
//	connecting by IP               ipcm.go
//	subnet administration          sa.go sa_*.go
//	performance management         perf.go perf_*.go
//	all classes of QP1             classportinfo.go
//
// # Sources
//
// InfiniBand Architecture Specification (IBTA), volume 1; chapter and table numbers in comments are those of release 1.2.1:
//
//	9.7      timer exponents, ACK timeout
//	12       communication management: messages (12.6), alternate paths (12.8), SIDR (12.11), service IDs (12.7)
//	13.4     common header, methods, status, ClassPortInfo
//	13.6     RMPP
//	14.2     subnet management: SMP, attributes
//	15.2     subnet administration: header, records, component masks (15.4)
//	16.1     performance management: counters
//	annex A3 ranges of service IDs
//	annex A11 RDMA IP CM service: service IDs by port, the header in private data
//
// Release 1.3 for what came later: rates from 14 Gb/s on, counters from SymbolErrors on in PortCountersExtended, vendor IDs in REQ, REP
// and SIDR_REP. Where a text leaves room, packets that Linux sent decide (testdata), and tshark reads what this package writes (tests).
package mad
