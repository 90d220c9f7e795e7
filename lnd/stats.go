package lnd

import (
	"errors"
	"maps"
	"math"
	"net"
	"sync"
	"sync/atomic"

	"ciddk/accesslayer/rdmacm/cmid"
)

// counters count messages by type, and other events by name.
type counters struct {
	sent, received [math.MaxUint8 + 1]atomic.Uint64

	mu sync.Mutex
	m  map[string]uint64
}

func (c *counters) count(name string) {
	c.mu.Lock()
	c.m[name]++
	c.mu.Unlock()
}

// Stats returns what the node has counted since its start, by name: messages sent and received by type, connections
// made, rejected and ended by reason, and operations that were dropped.
func (n *Node) Stats() map[string]uint64 {
	n.counters.mu.Lock()
	defer n.counters.mu.Unlock()
	m := maps.Clone(n.counters.m)
	for t, l := range layouts {
		if k := n.counters.sent[t].Load(); k > 0 {
			m["sent: "+l.name] = k
		}
		if k := n.counters.received[t].Load(); k > 0 {
			m["received: "+l.name] = k
		}
	}
	return m
}

// endings are the names of the reasons for which connections end. The first that matches counts; those that are usual
// are not logged as warnings.
var endings = []struct {
	is    error
	name  string
	usual bool
}{
	{net.ErrClosed, "closed", true},
	{errStale, "stale", true},
	{ErrMessage, "invalid message", false},
	{ErrTimeout, "timeout", false},
	{cmid.ErrPeerDisconnected, "closed by the peer", true},
	{errCanceled, "canceled", true},
}

// ending returns the name of the reason in err.
func ending(err error) (name string, usual bool) {
	for _, e := range endings {
		if errors.Is(err, e.is) {
			return e.name, e.usual
		}
	}
	return "failed", false
}
