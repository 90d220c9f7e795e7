package mads_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/mads"
	"ciddk/mad"
	"ciddk/rvt"
)

var benchWires = []struct {
	name  string
	ports func() [2]rvt.Port
}{{"direct", wires["direct"]}, {"UDP", wires["UDP, IPv4"]}}

// BenchmarkSend sends datagrams that need no response, with at most 256 outstanding, to an agent that ignores them.
func BenchmarkSend(b *testing.B) {
	for _, w := range benchWires {
		b.Run(w.name, func(b *testing.B) {
			p := w.ports()
			x, y := newNode(b, nodeConfig{}, p[0]), newNode(b, nodeConfig{}, p[1])
			const window = 256
			arrived := make(chan struct{}, window)
			y.agent(mads.AgentConfig{Class: mad.ClassCM, Version: 2, Methods: []mad.Method{mad.Send},
				OnReceive: func(*mads.Received) {
					select {
					case arrived <- struct{}{}:
					default: // it had been counted as lost
					}
				}})
			from := x.agent(mads.AgentConfig{})
			m := mads.Message{To: y.address(), MAD: request(mad.ClassCM, 2, mad.Send, 1)}
			b.ReportAllocs()
			lost := 0
			patience := time.NewTimer(time.Hour)
			for i := range b.N {
				if i >= window {
					select {
					case <-arrived:
					default:
						patience.Reset(100 * time.Millisecond)
						select {
						case <-arrived:
						case <-patience.C:
							lost++
						}
					}
				}
				require.NoError(b, from.Send(&m))
			}
			b.ReportMetric(float64(lost), "lost")
		})
	}
}

// BenchmarkDo sends requests and receives the responses, with one goroutine and with 64.
func BenchmarkDo(b *testing.B) {
	for _, w := range benchWires {
		run := func(name string, parallel int) {
			b.Run(w.name+"/"+name, func(b *testing.B) {
				p := w.ports()
				x, y := newNode(b, nodeConfig{}, p[0]), newNode(b, nodeConfig{}, p[1])
				echo(b, y)
				client := x.agent(mads.AgentConfig{})
				to := y.address()
				b.ReportAllocs()
				b.SetParallelism(parallel)
				b.RunParallel(func(pb *testing.PB) {
					m := mads.Message{To: to, MAD: request(vendor, 1, mad.Get, 1), Retries: 10}
					for pb.Next() {
						if _, err := client.Do(b.Context(), &m); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
		run("many", 64)
	}
	b.Run("direct/one", func(b *testing.B) {
		p := wires["direct"]()
		x, y := newNode(b, nodeConfig{}, p[0]), newNode(b, nodeConfig{}, p[1])
		echo(b, y)
		client := x.agent(mads.AgentConfig{})
		m := mads.Message{To: y.address(), MAD: request(vendor, 1, mad.Get, 1), Retries: 10}
		b.ReportAllocs()
		for b.Loop() {
			_, err := client.Do(b.Context(), &m)
			require.NoError(b, err)
		}
	})
}
