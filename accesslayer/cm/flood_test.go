package cm_test

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/internal/testenv"
	"ciddk/mad"
)

// flood sends REQs with forged senders to a node, several each millisecond.
type flood struct {
	sources int // 0: each REQ has another source address
	rate    int // per second
	rng     *rand.Rand
	n       uint32
	fill    func(*mad.REQ)
}

func (f *flood) gid() ci.GID {
	i := f.n
	if f.sources > 0 {
		i = uint32(f.rng.IntN(f.sources))
	}
	return netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)}).As16()
}

// request returns the next REQ and its forged source address.
func (f *flood) request(to *node) (b []byte, from ci.GID) {
	f.n++
	from = f.gid()
	r := mad.REQ{LocalCommID: f.n, ServiceID: service1, LocalCAGUID: uint64(f.n)<<20 | 0xabcde,
		LocalQPN: f.n & 0xffffff, RemoteTimeout: 20,
		LocalTimeout: 20, StartingPSN: 7, RetryCount: 7, PKey: 0xffff, PathMTU: mad.MTU1024, RNRRetryCount: 6,
		MaxCMRetries: 15, ResponderRes: 4,
		InitiatorDepth: 3}
	p := &r.Primary
	p.LocalLID, p.RemoteLID = 0xffff, 0xffff
	p.LocalGID, p.RemoteGID = from, to.attr(1).GIDs[0].GID
	p.HopLimit, p.AckTimeout = 64, 20
	if f.fill != nil {
		f.fill(&r)
	}
	b = make([]byte, mad.Size)
	h := mad.CMHeader(uint64(f.n), &r)
	h.Put(b)
	r.Put(b[mad.HeaderLen:])
	return b, from
}

// run floods a node until the context ends.
func (f *flood) run(ctx context.Context, to *node) {
	port, gid := to.port(1), to.attr(1).GIDs[0].GID
	for ctx.Err() == nil {
		time.Sleep(time.Millisecond)
		for range f.rate / 1000 {
			b, from := f.request(to)
			to.m.InjectFrom(port, b, from, gid)
		}
	}
}

// serve accepts requests, one every pause, and serves each on a goroutine of its own.
func serve(l cm.Listener, pause time.Duration) (wait func()) {
	var wg sync.WaitGroup
	wg.Go(func() {
		for qpn := ci.QPN(2); ; qpn++ {
			c, err := l.Accept(context.Background())
			if err != nil {
				return
			}
			wg.Go(func() {
				answer := reply()
				answer.QP.Num = qpn & 0xffffff
				if c.Accept(context.Background(), answer) == nil {
					for { // until the peer disconnects
						e, err := c.Next(context.Background())
						if err != nil || e.Type == cm.EventDisconnect {
							break
						}
					}
				}
				_ = c.Close()
			})
			if pause > 0 {
				time.Sleep(pause)
			}
		}
	})
	return wg.Wait
}

// dial starts a connection every 20 ms for the time d. It returns how many were started, how many were established
// within 10 s, and how many of these within one second.
func (p *pair) dial(d time.Duration) (dialed, connected, soon int) {
	var wg sync.WaitGroup
	var all, fast atomic.Int64
	for range d / (20 * time.Millisecond) {
		dialed++
		qpn := ci.QPN(0x1000 + dialed)
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(p.t.Context(), testenv.Patience)
			defer cancel()
			start := time.Now()
			c, err := p.a.m.Connect(ctx,
				p.a.requestTo(p.b, func(c *cm.ConnectConfig) { c.QP.Num = qpn; c.MaxRetries = 15 }))
			if err != nil {
				return
			}
			if c.Confirm(nil) == nil {
				all.Add(1)
				if time.Since(start) < time.Second {
					fast.Add(1)
				}
			}
			time.Sleep(100 * time.Millisecond)
			_ = c.Close()
		})
		time.Sleep(20 * time.Millisecond)
	}
	wg.Wait()
	return dialed, int(all.Load()), int(fast.Load())
}

// TestREQFlood connects through floods of 20,000 REQs per second. At least 95 % of the connections must be established,
// and all of them without a flood. The memory that the flood causes in the server must stay within its limits.
func TestREQFlood(t *testing.T) {
	for _, tt := range []struct {
		name    string
		sources int
		rate    int
		pause   time.Duration // of the server, after each request
	}{
		{"no flood", 200, 0, 0},
		{"one source", 1, 20000, 0},
		{"200 sources", 200, 20000, 0},
		{"2000 sources", 2000, 20000, 0},
		{"each REQ from another address", 0, 20000, 0},
		{"200 sources and a slow server", 200, 20000, time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inPairOn(t, ci.LinkEthernet, 1, cm.Config{}, func(t *testing.T, p *pair) {
				l := p.b.listen()
				done := serve(l, tt.pause)
				f := &flood{sources: tt.sources, rate: tt.rate, rng: rand.New(rand.NewPCG(1, 3))}
				ctx, stop := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() { f.run(ctx, p.b) })
				time.Sleep(300 * time.Millisecond) // the server's backlog is full
				var most cm.Counters
				wg.Go(func() {
					for ctx.Err() == nil {
						c := p.b.m.Counters()
						most.Pending, most.TimeWait = max(most.Pending, c.Pending), max(most.TimeWait, c.TimeWait)
						time.Sleep(10 * time.Millisecond)
					}
				})
				asked, connected, soon := p.dial(time.Second)
				stop()
				wg.Wait()
				t.Logf("%d REQs; %d dials, %d connections, %d of them within a second; at most %d pending, "+
					"%d in time-wait", f.n, asked,
					connected, soon, most.Pending, most.TimeWait)
				assert.GreaterOrEqual(t, connected*100, asked*95)
				if tt.rate == 0 {
					assert.Equal(t, asked, soon)
				}
				assert.LessOrEqual(t, most.Pending, 4096)
				assert.LessOrEqual(t, most.TimeWait, 65536)
				require.NoError(t, l.Close())
				done()
				synctest.Wait()
			})
		})
	}
}

// TestReflection counts the datagrams that a node sends to the forged senders of a flood: of requests for a service
// without a listener, of invalid requests, and of messages for no connection.
func TestReflection(t *testing.T) {
	const rate, seconds = 10000, 3
	const perPeer, total = 256, 4096 // the defaults
	for _, sources := range []int{1, 200} {
		for name, fill := range map[string]func(*mad.REQ){
			"unserved": func(r *mad.REQ) { r.ServiceID++ },
			"invalid":  func(r *mad.REQ) { r.PathMTU = 7 },
			"consumer": nil,
		} {
			t.Run(name, func(t *testing.T) {
				inPairOn(t, ci.LinkEthernet, 1, cm.Config{}, func(t *testing.T, p *pair) {
					l := p.b.listen()
					var wg sync.WaitGroup
					wg.Go(func() {
						for {
							c, err := l.Accept(context.Background())
							if err != nil {
								return
							}
							_ = c.Reject(mad.RejConsumer, nil, nil)
							_ = c.Close()
						}
					})
					var sent atomic.Int64
					p.net.tap = func(d *datagram) {
						if d.from == p.b.port(1) {
							sent.Add(1)
						}
					}
					f := &flood{sources: sources, rate: rate, rng: rand.New(rand.NewPCG(1, 4)), fill: fill}
					ctx, stop := context.WithTimeout(t.Context(), seconds*time.Second)
					f.run(ctx, p.b)
					stop()
					synctest.Wait()
					most := int64(min(sources*perPeer, total) * (seconds + 2))
					t.Logf("%d REQs, %d answers", f.n, sent.Load())
					assert.LessOrEqual(t, sent.Load(), most)
					assert.GreaterOrEqual(t, sent.Load(), min(most, int64(f.n))*8/10,
						"answers are limited, but not stopped")
					assert.Equal(t, uint64(f.n)-uint64(sent.Load()), p.b.m.Counters().Withheld)
					require.NoError(t, l.Close())
					wg.Wait()
				})
			})
		}
	}
}
