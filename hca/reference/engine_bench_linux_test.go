package reference

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// Benchmarks of whole HCAs, both in this process, with the yardsticks in turns. Each figure is the median of several rounds.

func benchPair(b *testing.B, link string) (x, y *node) {
	pa, pb := links()[link]()
	x, y = newNode(b, one(pa), ci.RC, 32<<20), newNode(b, one(pb), ci.RC, 32<<20)
	connectBoth(x, y)
	return x, y
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// stream writes n messages with at most 16 outstanding, each signaled.
func stream(x, y *node, n, size int) {
	const depth = 16
	r := y.mr.Region()
	wrs := make([]ci.SendWR, depth)
	for i := range wrs {
		wrs[i] = ci.SendWR{Op: ci.OpWrite, Flags: ci.SendSignaled, SGL: x.sge(i*size%(16<<20), size), Remote: r.Remote(uint64(i * size % (16 << 20)))}
	}
	wcs := make([]ci.WC, depth)
	posted, done := 0, 0
	for done < n {
		if k := min(depth-(posted-done), n-posted); k > 0 {
			x.post(wrs[:k])
			posted += k
		}
		k, err := x.cq.Poll(wcs)
		if err != nil || k > 0 && wcs[0].Status != ci.WCSuccess {
			panic(fmt.Sprint(err, wcs[0]))
		}
		done += k
	}
}

func BenchmarkWrite(b *testing.B) {
	for _, link := range []string{"direct", "UDP"} {
		for _, size := range []int{64 << 10, 1 << 20} {
			b.Run(fmt.Sprint(link, " ", size>>10, " KiB"), func(b *testing.B) {
				x, y := benchPair(b, link)
				total := 64 << 20
				var ours, raw []time.Duration
				for range 7 {
					start := time.Now()
					stream(x, y, total/size, size)
					ours = append(ours, time.Since(start))
					start = time.Now()
					if link == "direct" {
						copyMiB(total >> 20)
					} else {
						s := &rawStream{from: newRawUDP(b), to: newRawUDP(b)}
						s.from.connect(s.to)
						trains := total / rawPayload
						start = time.Now()
						var wg sync.WaitGroup
						wg.Go(func() { s.receive(b, trains) })
						s.send(b, trains)
						wg.Wait()
					}
					raw = append(raw, time.Since(start))
				}
				b.ReportMetric(float64(total)/median(ours).Seconds()/1e6, "MB/s")
				b.ReportMetric(float64(median(raw))/float64(median(ours)), "of_yardstick")
			})
		}
	}
}

// BenchmarkSend: SENDs of 64 bytes in batches of 32, post to poll on both sides, by one goroutine each.
func BenchmarkSend(b *testing.B) {
	for _, link := range []string{"direct", "UDP"} {
		b.Run(link, func(b *testing.B) {
			x, y := benchPair(b, link)
			const total, batch = 64000, 32
			var ours, raw []time.Duration
			posts := 0 // batches of receives posted
			for range 5 {
				start := time.Now()
				var wg sync.WaitGroup
				recvs := make([]ci.RecvWR, batch)
				for i := range recvs {
					recvs[i].SGL = y.sge(64*i, 64)
				}
				for k := posts; k < 3; k++ {
					y.postRecv(recvs)
				}
				var ready atomic.Int64 // receives that have been posted: no RNR NAKs
				ready.Store(3 * batch)
				posts = 3 // as many are left over at the end
				wg.Go(func() {
					wcs := make([]ci.WC, batch)
					free := 0
					for got := 0; got < total; {
						k, err := y.cq.Poll(wcs)
						if err != nil {
							panic(err)
						}
						got += k
						if free += k; free >= batch {
							y.postRecv(recvs)
							free -= batch
							ready.Add(batch)
						}
					}
				})
				sends := make([]ci.SendWR, batch)
				for i := range sends {
					sends[i] = ci.SendWR{Op: ci.OpSend, SGL: x.sge(64*i, 64)}
				}
				sends[batch-1].Flags = ci.SendSignaled
				wcs := make([]ci.WC, 4)
				posted, done := 0, 0
				for done < total {
					if posted < total && posted-done < 3*batch && int64(posted) < ready.Load() {
						x.post(sends)
						posted += batch
					}
					k, err := x.cq.Poll(wcs)
					if err != nil || k > 0 && wcs[0].Status != ci.WCSuccess {
						panic(fmt.Sprint(err, wcs[0]))
					}
					done += k * batch
				}
				wg.Wait()
				ours = append(ours, time.Since(start))
				start = time.Now()
				if link == "direct" {
					ringHop(total)
				} else {
					p, q := newRawUDP(b), newRawUDP(b)
					require.Equal(b, total, rawOneByOne(b, p, q, total, 64))
				}
				raw = append(raw, time.Since(start))
			}
			b.ReportMetric(float64(median(ours).Nanoseconds())/total, "ns/msg")
			if link == "direct" {
				b.ReportMetric(float64(median(ours))/float64(median(raw)), "times_ring_hop")
			} else {
				b.ReportMetric(float64(median(raw))/float64(median(ours)), "times_one_by_one")
			}
		})
	}
}

// BenchmarkPing: a SEND of 64 bytes and its answer, both sides spinning, against raw sockets that spin.
func BenchmarkPing(b *testing.B) {
	x, y := benchPair(b, "UDP")
	const rounds = 2000
	side := func(n *node, first bool) {
		recv := []ci.RecvWR{{SGL: n.sge(0, 64)}}
		send := []ci.SendWR{{Op: ci.OpSend, SGL: n.sge(64, 64), Flags: ci.SendSignaled}}
		wcs := make([]ci.WC, 4)
		if first {
			n.post(send)
		}
		for i := range rounds {
			for got := false; !got; {
				k, err := n.cq.Poll(wcs)
				if err != nil {
					panic(err)
				}
				for _, wc := range wcs[:k] {
					if wc.Status != ci.WCSuccess {
						panic(wc)
					}
					got = got || wc.Op.IsRecv()
				}
			}
			n.postRecv(recv)
			if !first || i+1 < rounds {
				n.post(send)
			}
		}
	}
	x.recv(ci.RecvWR{SGL: x.sge(0, 64)})
	y.recv(ci.RecvWR{SGL: y.sge(0, 64)})
	p, q := newRawUDP(b), newRawUDP(b)
	p.connect(q)
	q.connect(p)
	var ours, raw []time.Duration
	for range 9 {
		var wg sync.WaitGroup
		start := time.Now()
		wg.Go(func() { side(y, false) })
		side(x, true)
		wg.Wait()
		ours = append(ours, time.Since(start))
		start = time.Now()
		wg.Go(func() { rawPing(b, q, 84, rounds, false) })
		rawPing(b, p, 84, rounds, true)
		wg.Wait()
		raw = append(raw, time.Since(start))
	}
	b.ReportMetric(float64(median(ours).Nanoseconds())/rounds, "ns/round")
	b.ReportMetric(float64(median(raw).Nanoseconds())/rounds, "raw_ns/round")
	b.ReportMetric(float64(median(ours))/float64(median(raw)), "times_raw")
	b.ReportMetric(float64(slices.Min(ours))/float64(slices.Min(raw)), "best_times_raw")
}
