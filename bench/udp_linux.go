package bench

import (
	"fmt"
	"strings"
)

// Rounds of the cases over UDP.
const (
	streamBytes  = 64 << 20
	streamDepth  = 16
	floods       = 64000
	floodBatches = 8 // outstanding messages
	bounces      = 4000
)

// udpCases returns the cases with a limit, then those of Wire.
func udpCases() []Case {
	pair := func(c Case, ours, yard string, o, y role, ops int, timed bool) Case {
		c.Ours, c.Yards = []Entry{{Name: "ours", What: ours}}, []Entry{{Name: "yardstick", What: yard}}
		c.Open = openTwo(Place{}, turn{role: o, ops: ops, timed: timed}, turn{role: y, ops: ops, timed: timed})
		return c
	}
	write := func(size int) Case {
		name := Size(size)
		return pair(Case{Name: "udp/write-" + name, Want: 0.7, AtLeast: true, Op: "message", Bytes: size},
			"RDMA WRITE of "+name+" over UDP between two processes, 16 outstanding",
			"a raw socket pair, two processes, 4096-byte packets with CRC, segmentation and receive offload",
			role{Kind: "write", Size: size, Per: 1, Depth: streamDepth}, role{Kind: "trains",
				Size: size}, streamBytes/size, false)
	}
	return append([]Case{
		write(64 << 10),
		write(mib),
		pair(Case{Name: "udp/ping-64B", Want: 1.3, Op: "round trip", Bytes: small},
			"SEND of 64 bytes and its answer over UDP, two processes spinning on Poll", "raw sockets, two processes, "+
				"spinning",
			role{Kind: "send-ping", Size: small}, role{Kind: "udp-ping", Size: small}, bounces, false),
		pair(Case{Name: "udp/send-64B", Want: 3, AtLeast: true, Op: "message", Bytes: small},
			"SEND of 64 bytes over UDP, two processes, in batches of 32", "a raw socket that sends one datagram a "+
				"call, two "+
				"processes",
			role{Kind: "send", Size: small, Per: batch, Depth: floodBatches * batch}, role{Kind: "udp",
				Size: small}, floods, false),
	}, append(connectCases(), Wire(Place{})...)...)
}

// WireSizes are the message sizes of Wire's cases, in bytes.
var WireSizes = []int{64, 4 << 10, 64 << 10, mib}

// Operations of Wire's cases.
const (
	OpSend  = "SEND"
	OpWrite = "WRITE"
	OpRead  = "READ"
)

// Wire returns the cases of two processes, each with its HCA over UDP, at each of WireSizes, beside UDP and TCP sockets
// at the same place. Bandwidth is measured with streams of messages; latency with a message and its answer, or one READ
// at a time.
func Wire(at Place) []Case {
	var list []Case
	for _, size := range WireSizes {
		list = append(list, bandwidthCase(at, 1, size, OpSend, OpWrite, OpRead))
	}
	for _, size := range WireSizes {
		list = append(list, latencyCase(at, 1, size, OpSend, OpWrite), latencyCase(at, 1, size, OpRead))
	}
	return list
}

// WireCase returns the case of one operation (OpSend, OpWrite or OpRead) with messages of size bytes, in the table
// Bandwidth or Latency. part is the fraction of the operations of a loopback round, for slower places.
func WireCase(at Place, part int, t Table, op string, size int) (Case, error) {
	switch {
	case op != OpSend && op != OpWrite && op != OpRead:
		return Case{}, fmt.Errorf("unknown operation %q: %s, %s and %s are known", op, OpSend, OpWrite, OpRead)
	case part < 1:
		return Case{}, fmt.Errorf("part %d: 1 or more is possible", part)
	case size <= 0 || size > bufBytes/streamDepth:
		return Case{}, fmt.Errorf("messages of %d bytes: 1 to %d are possible", size, bufBytes/streamDepth)
	case t == Bandwidth:
		return bandwidthCase(at, part, size, op), nil
	case t == Latency:
		return latencyCase(at, part, size, op), nil
	}
	return Case{}, fmt.Errorf("table %d has no such cases", t)
}

func bandwidthCase(at Place, part, size int, ops ...string) Case {
	per, depth, total := 1, streamDepth, 32<<20
	switch {
	case size < 4<<10:
		per, depth, total = batch, floodBatches*batch, 32000*size
	case size < 64<<10:
		per, depth = 8, 64
	}
	n := max(2*depth, total/size/part/batch*batch)
	flow := func(kind string) turn {
		return turn{role: role{Kind: kind, Size: size, Per: per, Depth: depth}, ops: n}
	}
	c := Case{
		Name: "wire/bandwidth-" + Size(size), Table: Bandwidth, AtLeast: true, Op: "message", Bytes: size,
		Yards: []Entry{
			{"UDP", "sockets, a datagram a call, without CRC; messages larger than the largest that fits a packet " +
				"(65507 bytes on loopback) are cut into such"},
			{"UDP in trains", "sockets with packets as RoCEv2's, 12 bytes of header, an MTU of data and a CRC, " +
				"segmentation and receive offload, four trains a call"},
			{"TCP", "sockets, a message a call, at most 256 KiB"},
		},
	}
	what := map[string]string{
		OpSend: "SENDs, both sides spin on Poll", OpWrite: "RDMA WRITEs, the passive side sleeps",
		OpRead: "RDMA READs, the passive side sleeps",
	}
	var turns []turn
	for _, op := range ops {
		c.Ours = append(c.Ours, Entry{op, what[op]})
		turns = append(turns, flow(strings.ToLower(op)))
	}
	c.Open = openTwo(at, append(turns, flow("udp"), flow("trains"), flow("tcp"))...)
	return c
}

// latencyCase returns the case of SEND and WRITE, or of READ, which has another yardstick.
func latencyCase(at Place, part, size int, ops ...string) Case {
	n := max(50, min(bounces/2, 16<<20/size)/part)
	one := func(kind string) turn {
		return turn{role: role{Kind: kind, Size: size, Per: 1, Depth: 1},
			ops: n, timed: true}
	}
	c := Case{Name: "wire/latency-" + Size(size), Table: Latency, Op: "message", Bytes: size}
	var turns []turn
	for _, op := range ops {
		switch op {
		case OpSend:
			c.Ours = append(c.Ours, Entry{op, "half of the time of a SEND and its answer, both sides spin on Poll"})
			turns = append(turns, one("send-ping"))
		case OpWrite:
			c.Ours = append(c.Ours, Entry{op, "the same with RDMA WRITE with immediate data, that the passive side " +
				"may poll its CQ"})
			turns = append(turns, one("write-ping"))
		case OpRead:
			c.Name = "wire/fetch-" + Size(size)
			c.Ours = append(c.Ours, Entry{op, "an RDMA READ, one outstanding; the passive side spins on Poll"})
			c.Yards = []Entry{{"UDP", "sockets, a request of 16 bytes and the message in answer, both sides spin"},
				{"TCP", "sockets, as UDP's"}}
			c.Open = openTwo(at, one("read"), one("udp-fetch"), one("tcp-fetch"))
			return c
		}
	}
	c.Yards = []Entry{{"UDP", "sockets, half of the time of a message and its answer, both sides spin"},
		{"TCP", "sockets, as UDP's"}}
	c.Open = openTwo(at, append(turns, one("udp-ping"), one("tcp-ping"))...)
	return c
}
