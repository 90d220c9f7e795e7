package reference

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/rvt"
	"ciddk/wire"
)

// Benchmarks of the port alone, without the engine; yardsticks run beside. The engine's are in bench_test.go.

func BenchmarkYardsticks(b *testing.B) {
	b.Run("copy 1 MiB", func(b *testing.B) { b.SetBytes(1 << 20); copyMiB(b.N) })
	b.Run("ring hop", func(b *testing.B) { ringHop(b.N) })
}

// BenchmarkUDPStream: RDMA WRITE packets of 4096 bytes, at most 1 MiB or two messages on the way, against a raw pair that computes and checks CRCs.
func BenchmarkUDPStream(b *testing.B) {
	for _, size := range []int{64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size>>10, " KiB"), func(b *testing.B) {
			b.SetBytes(int64(size))
			from, _ := openTest(b, UDPConfig{})
			to := newSink(b)
			rt, err := from.Route(avTo(to.port), rvt.Flow{})
			require.NoError(b, err)
			body := make([]byte, size)
			train := from.Hints().MaxTrain
			start := time.Now()
			for i := range b.N {
				var pkts [32]rvt.Packet
				k := 0
				for int64(i+1)*int64(size)-to.bytes.Load() > max(rawWindow, 2*int64(size)) {
					runtime.Gosched()
				}
				for off := 0; off < size; off += train {
					n := min(train, size-off)
					pkts[k] = rvt.Packet{Service: wire.RC, Op: wire.OpWrite, Start: off == 0, End: off+n == size, DMALen: uint32(size),
						PSN: ci.PSN(off / 4096), N: uint32((n + 4095) / 4096), MTU: 4096, Len: uint32(n), Payload: [][]byte{body[off : off+n]}, Route: rt}
					k++
				}
				from.Send(pkts[:k])
			}
			for to.bytes.Load() < int64(b.N)*int64(size) {
				runtime.Gosched()
			}
			ours := time.Since(start)
			b.StopTimer()
			s := &rawStream{from: newRawUDP(b), to: newRawUDP(b)}
			s.from.connect(s.to)
			trains := (b.N*size + rawPayload - 1) / rawPayload
			start = time.Now()
			var wg sync.WaitGroup
			wg.Go(func() { s.receive(b, trains) })
			s.send(b, trains)
			wg.Wait()
			raw := time.Since(start)
			b.ReportMetric(float64(raw)/float64(ours), "of_raw")
			require.Zero(b, to.drops.Load())
		})
	}
}

// BenchmarkUDPSmall: packets of 64 bytes in batches of 32, against one datagram per call.
func BenchmarkUDPSmall(b *testing.B) {
	from, _ := openTest(b, UDPConfig{})
	to := newSink(b)
	rt, err := from.Route(avTo(to.port), rvt.Flow{})
	require.NoError(b, err)
	pkts := make([]rvt.Packet, 32)
	for i := range pkts {
		pkts[i] = rvt.Packet{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, N: 1, MTU: 4096, Len: 64, Payload: [][]byte{make([]byte, 64)}, Route: rt}
	}
	b.ReportAllocs()
	b.ResetTimer()
	start := time.Now()
	n := 0
	for ; n < b.N; n += len(pkts) {
		for int64(n)-to.got.Load() > 2000 {
			runtime.Gosched()
		}
		from.Send(pkts)
	}
	for to.got.Load() < int64(n) {
		runtime.Gosched()
	}
	ours := time.Since(start)
	b.StopTimer()
	x, y := newRawUDP(b), newRawUDP(b)
	start = time.Now()
	require.Equal(b, n, rawOneByOne(b, x, y, n, 64))
	b.ReportMetric(float64(time.Since(start))/float64(ours), "times_one_by_one")
}

// BenchmarkUDPPing: a SEND of 64 bytes bounced by two spinning consumers, against two spinning raw sockets. Both run in turns, and the
// ratio is that of the medians, since both suffer from whatever else the machine does.
func BenchmarkUDPPing(b *testing.B) {
	x, y := newSink(b), newSink(b)
	side := func(me, peer *sink, from int64, rounds int, first bool) {
		rt, err := me.port.Route(avTo(peer.port), rvt.Flow{})
		if err != nil {
			panic(err)
		}
		pkts := []rvt.Packet{{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, N: 1, MTU: 4096, Len: 64, Payload: [][]byte{make([]byte, 64)}, Route: rt}}
		if first {
			me.port.Send(pkts)
		}
		for i := range rounds {
			for me.got.Load() <= from+int64(i) {
				me.port.Drive()
			}
			if i+1 < rounds || !first {
				me.port.Send(pkts)
			}
		}
	}
	p, q := newRawUDP(b), newRawUDP(b)
	p.connect(q)
	q.connect(p)
	const rounds = 2000
	var ours, raw []float64
	for n := 0; n < b.N || n < 10*rounds; n += rounds {
		var wg sync.WaitGroup
		start := time.Now()
		fromX, fromY := x.got.Load(), y.got.Load()
		wg.Go(func() { side(y, x, fromY, rounds, false) })
		side(x, y, fromX, rounds, true)
		wg.Wait()
		ours = append(ours, float64(time.Since(start)))
		start = time.Now()
		wg.Go(func() { rawPing(b, q, 84, rounds, false) })
		rawPing(b, p, 84, rounds, true)
		wg.Wait()
		raw = append(raw, float64(time.Since(start)))
	}
	slices.Sort(ours)
	slices.Sort(raw)
	b.ReportMetric(ours[len(ours)/2]/rounds, "ns/round")
	b.ReportMetric(raw[len(raw)/2]/rounds, "raw_ns/round")
	b.ReportMetric(ours[len(ours)/2]/raw[len(raw)/2], "times_raw")
	b.ReportMetric(ours[0]/raw[0], "best_times_raw")
}
