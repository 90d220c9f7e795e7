package cm_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
)

// TestLive10000 establishes 10,000 connections between two managers. It checks the memory of each end, and that idle
// connections have no goroutines.
func TestLive10000(t *testing.T) {
	const conns = 10000
	l := direct.NewLink()
	a, b := newStack(t, testenv.Must(direct.New(l, direct.Config{}))),
		newStack(t, testenv.Must(direct.New(l, direct.Config{})))
	listener := must(b.cm.Listen(cm.ListenConfig{Service: service1}))
	const workers = 16
	passives, actives := make(chan cm.Conn, conns), make(chan cm.Conn, conns)
	errs := make(chan error, 2*conns)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, goroutines := heap(), testenv.NumGoroutine()
	start := time.Now()
	turns := make(chan ci.QPN)
	var passiveQPN atomic.Uint32
	for range workers {
		go func() {
			for {
				c, err := listener.Accept(ctx)
				if err != nil {
					return
				}
				errs <- c.Accept(ctx, cm.AcceptConfig{QP: cm.QP{Num: ci.QPN(passiveQPN.Add(1))}})
				passives <- c
			}
		}()
		go func() {
			for qpn := range turns {
				c, err := a.cm.Connect(ctx, cm.ConnectConfig{Service: service1, QP: cm.QP{Num: qpn},
					Primary: a.path(1, b, 1), ResponseTime: 14, RemoteResponseTime: 14})
				if err == nil {
					err = c.Confirm(nil)
					actives <- c
				}
				errs <- err
			}
		}()
	}
	for i := range conns {
		turns <- ci.QPN(0x100000 + i)
	}
	close(turns)
	for range 2 * conns {
		require.NoError(t, <-errs)
	}
	took := time.Since(start)
	require.NoError(t, listener.Close())
	require.Eventually(t, func() bool { return testenv.NumGoroutine() <= goroutines+2 }, testenv.Patience,
		time.Millisecond, "idle connections have no goroutines")
	after := heap()
	assert.Equal(t, conns, a.cm.Counters().Conns)
	assert.Equal(t, uint64(conns), b.cm.Counters().Established)
	per := float64(after-before) / (2 * conns)
	t.Logf("%d connections in %v, %.0f bytes for each end", conns, took.Round(time.Millisecond), per)
	assert.Less(t, per, 4096.0)
	for range conns {
		require.NoError(t, (<-actives).Close())
		require.NoError(t, (<-passives).Close())
	}
	require.Eventually(t, func() bool { return a.cm.Counters().Conns+b.cm.Counters().Conns == 0 }, testenv.Patience,
		10*time.Millisecond, "no connection is left after time-wait")
}
