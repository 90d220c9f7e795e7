package udp

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/rvt"
	"ciddk/wire"
)

// Benchmarks of the port alone, without the engine. Package bench measures whole HCAs.

// benchWindow is the maximum number of bytes in flight.
const benchWindow = 1 << 20

// BenchmarkUDPStream sends RDMA WRITE packets of 4096 bytes, with at most 1 MiB or two messages in flight.
func BenchmarkUDPStream(b *testing.B) {
	for _, size := range []int{64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size>>10, " KiB"), func(b *testing.B) {
			b.SetBytes(int64(size))
			from, _ := openTest(b, Config{})
			to := newSink(b)
			rt, err := from.Route(avTo(to.port), rvt.Flow{})
			require.NoError(b, err)
			body := make([]byte, size)
			train := from.Hints().MaxTrain
			b.ResetTimer()
			for i := range b.N {
				var pkts [32]rvt.Packet
				k := 0
				for int64(i+1)*int64(size)-to.bytes.Load() > max(benchWindow, 2*int64(size)) {
					runtime.Gosched()
				}
				for off := 0; off < size; off += train {
					n := min(train, size-off)
					pkts[k] = rvt.Packet{Service: wire.RC, Op: wire.OpWrite, Start: off == 0, End: off+n == size,
						DMALen: uint32(size),
						PSN:    ci.PSN(off / 4096), N: uint32((n + 4095) / 4096), MTU: 4096, Len: uint32(n),
						Payload: [][]byte{body[off : off+n]}, Route: rt}
					k++
				}
				from.Send(pkts[:k])
			}
			for to.bytes.Load() < int64(b.N)*int64(size) {
				runtime.Gosched()
			}
			require.Zero(b, to.drops.Load())
		})
	}
}

// BenchmarkUDPSmall sends packets of 64 bytes in batches of 32.
func BenchmarkUDPSmall(b *testing.B) {
	from, _ := openTest(b, Config{})
	to := newSink(b)
	rt, err := from.Route(avTo(to.port), rvt.Flow{})
	require.NoError(b, err)
	pkts := make([]rvt.Packet, 32)
	for i := range pkts {
		pkts[i] = rvt.Packet{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, N: 1, MTU: 4096, Len: 64,
			Payload: [][]byte{make([]byte, 64)}, Route: rt}
	}
	b.ReportAllocs()
	b.ResetTimer()
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
	require.Zero(b, to.drops.Load())
}

// BenchmarkUDPPing exchanges a SEND of 64 bytes between two spinning consumers.
func BenchmarkUDPPing(b *testing.B) {
	x, y := newSink(b), newSink(b)
	side := func(me, peer *sink, from int64, rounds int, first bool) {
		rt, err := me.port.Route(avTo(peer.port), rvt.Flow{})
		if err != nil {
			panic(err)
		}
		pkts := []rvt.Packet{{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, N: 1, MTU: 4096, Len: 64,
			Payload: [][]byte{make([]byte, 64)}, Route: rt}}
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
	b.ResetTimer()
	fromX, fromY := x.got.Load(), y.got.Load()
	var wg sync.WaitGroup
	wg.Go(func() { side(y, x, fromY, b.N, false) })
	side(x, y, fromX, b.N, true)
	wg.Wait()
	require.Zero(b, x.drops.Load()+y.drops.Load())
}
