package bench

import "strconv"

// Operations of a round of the cases of applications that share an adapter.
const (
	userPings  = 20000
	userSends  = 128000
	userWrites = 4096
)

// Words of the legends.
const (
	relayWhat = "a bare relay: three processes and rings in shared memory, each process yields when it finds nothing"
	copyWhat  = "copy between two memfds, over as many bytes"
)

// UserCases returns the comparisons of two applications that use one adapter through a daemon: three processes. The
// first have limits. The others have UCX beside them, if it is installed (MissingUCX).
func UserCases() []Case { return userCases(1) }

// userCases is UserCases with a part of the operations in each round.
func userCases(part int) []Case {
	const large = 64 << 10
	pings, sends, writes := userPings/part, userSends/part/batch*batch, userWrites/part
	pair := func(c Case, ours, yard string, o, y role, ops int) Case {
		c.Ours, c.Yards = []Entry{{"ours", ours}}, []Entry{{"yardstick", yard}}
		c.Open = openUser(turn{role: o, ops: ops}, turn{role: y, ops: ops})
		return c
	}
	ping := role{Kind: "send-ping", Size: small}
	send := role{Kind: "send", Size: small, Per: batch, Depth: floodBatches * batch}
	write := role{Kind: "write", Size: large, Per: 1, Depth: streamDepth}
	relay := func(per int) role { return role{Kind: "relay", Size: small, Per: per} }
	back := role{Kind: "relay-ping", Size: small}
	copies := role{Kind: "memfd-copy", Size: large, Depth: streamDepth}
	return []Case{
		pair(Case{Name: "user/ping-64B", Want: 2.5, Op: "round trip", Bytes: small},
			"SEND of 64 bytes and its answer between two applications through a daemon",
			relayWhat+"; a message and its answer", ping, back, pings),
		pair(Case{Name: "user/write-64KiB", Want: 0.7, AtLeast: true, Op: "message", Bytes: large},
			"RDMA WRITE of 64 KiB from the memory of one application to that of the other, 16 outstanding", copyWhat,
			write, copies, writes),
		pair(Case{Name: "user/send-64B", Want: 10, Op: "message", Bytes: small, Calls: 0.05},
			"SEND of 64 bytes between two applications, in batches of 32",
			relayWhat+"; messages one way, one at a time", send, relay(1), sends),
		pair(Case{Name: "user/send-64B-batch", Want: 10, Op: "message", Bytes: small, Calls: 0.05},
			"SEND as in user/send-64B",
			relayWhat+"; messages one way, up to 32 at a time", send, relay(batch), sends),
		beside(Case{Name: "user/latency-64B", Table: Latency, Op: "message", Bytes: small},
			Entry{OpSend, "half of the time of a SEND and its answer between two applications through a daemon"},
			Entry{"relay", relayWhat}, Entry{"UCX", "ucx_perftest tag_lat over shared memory, two processes"},
			turn{ping, pings, true, nil}, turn{back, pings, true, nil}, "tag_lat"),
		beside(Case{Name: "user/bandwidth-64B", Table: Bandwidth, AtLeast: true, Op: "message", Bytes: small},
			Entry{OpSend, "SENDs between two applications through a daemon, in batches of 32"},
			Entry{"relay", relayWhat + "; up to 32 messages at a time"},
			Entry{"UCX", "ucx_perftest ucp_am_bw over shared memory, two processes"},
			turn{send, sends, false, nil}, turn{relay(batch), sends, false, nil}, "ucp_am_bw"),
		beside(Case{Name: "user/bandwidth-64KiB", Table: Bandwidth, AtLeast: true, Op: "message", Bytes: large},
			Entry{OpWrite, "RDMA WRITEs from the memory of one application to that of the other, 16 outstanding"},
			Entry{"copy", copyWhat},
			Entry{"UCX", "ucx_perftest ucp_put_bw over shared memory, two processes, 16 outstanding, always to the " +
				"same 64 KiB"},
			turn{write, writes, false, nil}, turn{copies, writes, false, nil}, "ucp_put_bw", "-O",
			strconv.Itoa(streamDepth)),
	}
}

// beside completes a case with a yardstick and, if it is installed, UCX.
func beside(c Case, ours, yard, ucx Entry, o, y turn, test string, args ...string) Case {
	c.Ours, c.Yards = []Entry{ours}, []Entry{yard}
	turns := []turn{o, y}
	if MissingUCX() == "" {
		c.Yards = append(c.Yards, ucx)
		args = append([]string{"-t", test}, args...)
		turns = append(turns, turn{role{Kind: ucxKind}, o.ops, o.timed, newUCXTest("shm", c.Bytes, args...)})
	}
	c.Open = openUser(turns...)
	return c
}
