package cm_test

import (
	"context"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/link/udp"
)

// BenchmarkConnect measures a whole connection, from REQ to DREP, with several in progress at a time. The TCP
// sub-benchmark measures connect, accept and close for comparison.
func BenchmarkConnect(b *testing.B) {
	const workers = 32
	run := func(b *testing.B, x, y *stack) {
		l := must(y.cm.Listen(cm.ListenConfig{Service: service1, Backlog: 2 * workers}))
		var wg sync.WaitGroup
		var passiveQPN atomic.Uint32
		ctx, cancel := context.WithCancel(b.Context())
		for range workers {
			wg.Go(func() {
				for {
					c, err := l.Accept(ctx)
					if err != nil {
						return
					}
					err = c.Accept(ctx, cm.AcceptConfig{QP: cm.QP{Num: ci.QPN(passiveQPN.Add(1) & 0xffffff)},
						OnEvent: func(c cm.Conn, e cm.Event) {
							if e.Type == cm.EventDisconnect {
								_ = c.AnswerDisconnect(nil)
							}
						}})
					if err != nil && ctx.Err() == nil {
						b.Error(err)
					}
				}
			})
		}
		path := x.path(1, y, 1)
		path.LifeTime = 0
		turns := make(chan ci.QPN, workers)
		var active sync.WaitGroup
		b.ResetTimer()
		for range workers {
			active.Go(func() {
				for qpn := range turns {
					c, err := x.cm.Connect(ctx, cm.ConnectConfig{Service: service1, QP: cm.QP{Num: qpn}, Primary: path})
					if err == nil {
						err = c.Confirm(nil)
					}
					if err == nil {
						_, err = c.Disconnect(ctx, nil)
					}
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		for i := range b.N {
			turns <- ci.QPN(i & 0xffffff)
		}
		close(turns)
		active.Wait()
		b.StopTimer()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "connections/s")
		b.ReportMetric(float64(x.cm.Counters().Resent+y.cm.Counters().Resent), "resent")
		cancel()
		wg.Wait()
		require.NoError(b, l.Close())
	}
	b.Run("direct", func(b *testing.B) {
		l := direct.NewLink()
		run(b, newStack(b, testenv.Must(direct.New(l, direct.Config{}))),
			newStack(b, testenv.Must(direct.New(l, direct.Config{}))))
	})
	b.Run("UDP", func(b *testing.B) {
		run(b, newStack(b, testenv.Must(udp.New(udpAddr()))), newStack(b, testenv.Must(udp.New(udpAddr()))))
	})
	b.Run("TCP", func(b *testing.B) {
		l := must(net.Listen("tcp", "127.0.0.1:0"))
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					wg.Go(func() {
						_, _ = c.Read(make([]byte, 1)) // until the peer closes
						_ = c.Close()
					})
				}
			})
		}
		turns := make(chan struct{}, workers)
		var active sync.WaitGroup
		b.ResetTimer()
		for range workers {
			active.Go(func() {
				for range turns {
					c, err := net.Dial("tcp", l.Addr().String())
					if err != nil {
						b.Error(err)
						return
					}
					_ = c.(*net.TCPConn).SetLinger(0)
					_ = c.Close()
				}
			})
		}
		for range b.N {
			turns <- struct{}{}
		}
		close(turns)
		active.Wait()
		b.StopTimer()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "connections/s")
		_ = l.Close()
		wg.Wait()
	})
	runtime.GC()
}
