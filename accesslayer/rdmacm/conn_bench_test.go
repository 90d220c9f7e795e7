package rdmacm_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
	"ciddk/internal/testenv"
)

func benchmarkPingPong(b *testing.B, size int) {
	x, y := udpPair(b, rdmacm.ConnConfig{})
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, size)
		for {
			n, err := y.RecvInto(ctx, buf)
			if err != nil || y.Send(ctx, buf[:n]) != nil {
				return
			}
		}
	}()
	msg := make([]byte, size)
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		if err := x.Send(ctx, msg); err != nil {
			b.Fatal(err)
		}
		if _, err := x.RecvInto(ctx, msg); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	cancel()
	<-done
}

// BenchmarkConnPingPong sends a message in each direction, between two HCAs over UDP.
func BenchmarkConnPingPong(b *testing.B) {
	b.Run("64", func(b *testing.B) { benchmarkPingPong(b, 64) })
	b.Run("4096", func(b *testing.B) { benchmarkPingPong(b, 4096) })
}

// BenchmarkConnRead reads 4 KiB by RDMA READ through the buffers of the Conn.
func BenchmarkConnRead(b *testing.B) {
	x, y := udpPair(b, rdmacm.ConnConfig{})
	mem := rdmacm.New(y.ID().Manager()).NewMemory(ci.Bytes(make([]byte, 4096)), ci.RemoteRead)
	defer mem.Close()
	r, err := mem.Region(y)
	require.NoError(b, err)
	buf := make([]byte, 4096)
	b.SetBytes(4096)
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		if err := x.Read(b.Context(), buf, r); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStream writes a stream of bytes in one direction.
func BenchmarkStream(b *testing.B) {
	x, y := udpPair(b, rdmacm.ConnConfig{MaxMessage: 32 << 10})
	w, r := rdmacm.NewStream(x), rdmacm.NewStream(y)
	const size = 64 << 10
	go func() {
		buf := make([]byte, size)
		for {
			if _, err := r.Read(buf); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, size)
	b.SetBytes(size)
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		if _, err := w.Write(buf); err != nil {
			b.Fatal(err)
		}
	}
}

// TestConnAllocations tests that messages and one-sided transfers do not allocate in this package. The software HCA
// starts a goroutine, which is an allocation, for each wakeup of a CQ on which a call sleeps: at most one for the read
// and one for the message.
func TestConnAllocations(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	x, y := udpPair(t, rdmacm.ConnConfig{})
	ctx := t.Context()
	mem := rdmacm.New(y.ID().Manager()).NewMemory(ci.Bytes(make([]byte, 4096)), ci.RemoteRead)
	defer mem.Close()
	r, err := mem.Region(y)
	require.NoError(t, err)
	buf, msg := make([]byte, 4096), make([]byte, 64)
	round := func() {
		if x.Send(ctx, msg) != nil || x.Read(ctx, buf, r) != nil {
			t.Error("failed")
		}
		if _, err := y.RecvInto(ctx, msg); err != nil {
			t.Error(err)
		}
	}
	for range 200 {
		round()
	}
	if n := testing.AllocsPerRun(500, round); n > 2 {
		t.Errorf("%v allocations for a message and a read", n)
	}
}
