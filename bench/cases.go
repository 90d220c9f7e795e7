package bench

import "slices"

const mib = 1 << 20

// Cases returns the comparisons that this system can run on this machine, in the order of their tables.
func Cases() []Case {
	pair := func(c Case, ours, yard string) Case {
		c.Ours, c.Yards = []Entry{{Name: "ours", What: ours}}, []Entry{{Name: "yardstick", What: yard}}
		return c
	}
	return append([]Case{
		pair(Case{Name: "direct/write-1MiB", Want: 0.7, AtLeast: true, Op: "message", Bytes: mib,
			Open: openDirectWrite},
			"RDMA WRITE of 1 MiB over the direct link, post to poll", "copy of 1 MiB"),
		pair(Case{Name: "direct/send-64B", Want: 10, Op: "message", Bytes: small,
			Open: func() (Rig, error) { return openDirectSend(false, 1) }},
			"SEND of 64 bytes over the direct link, in batches of 32, post to poll on both sides by one goroutine",
			"a ring between two goroutines, a message a hop, copy in and copy out"),
		pair(Case{Name: "direct/send-64B-apart", Want: 10, Op: "message", Bytes: small,
			Open: func() (Rig, error) { return openDirectSend(true, 1) }},
			"the same with a goroutine for each side", "the same ring"),
		pair(Case{Name: "direct/send-64B-batch", Want: 10, Op: "message", Bytes: small,
			Open: func() (Rig, error) { return openDirectSend(false, batch) }},
			"SEND as in direct/send-64B",
			"the ring with batches of 32 on both sides, which is two copies and a share of a store"),
	}, slices.Concat(mlx4Cases(), delayCases(), udpCases())...)
}
