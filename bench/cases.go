package bench

const mib = 1 << 20

// Cases lists the comparisons that this system can make, in the order of the table.
func Cases() []Case {
	return append([]Case{
		{Name: "direct/write-1MiB", Ours: "RDMA WRITE of 1 MiB over the direct link, post to poll", Yardstick: "copy of 1 MiB",
			Want: 0.7, AtLeast: true, Op: "message", Bytes: mib, open: openDirectWrite},
		{Name: "direct/send-64B", Ours: "SEND of 64 bytes over the direct link, in batches of 32, post to poll on both sides by one goroutine",
			Yardstick: "a ring between two goroutines, a message a hop, copy in and copy out", Want: 10, Op: "message", Bytes: small,
			open: func() (rig, error) { return openDirectSend(false, 1) }},
		{Name: "direct/send-64B-apart", Ours: "the same with a goroutine for each side",
			Yardstick: "the same ring", Want: 10, Op: "message", Bytes: small, open: func() (rig, error) { return openDirectSend(true, 1) }},
		{Name: "direct/send-64B-batch", Ours: "SEND as in direct/send-64B", Yardstick: "the ring with batches of 32 on both sides, which is two copies and a share of a store",
			Want: 10, Op: "message", Bytes: small, open: func() (rig, error) { return openDirectSend(false, batch) }},
	}, udpCases()...)
}
