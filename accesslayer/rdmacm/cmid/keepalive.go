package cmid

import (
	"math"
	"net"
	"sync"
	"time"

	"ciddk/accesslayer/rdmacm/internal/failure"
	"ciddk/ci"
	"ciddk/clock"
)

// KeepAliveID is the work request ID of keepalive probes. A completion has it only when the connection ends while a
// probe is outstanding: then the probe completes with an error, as all work does.
const KeepAliveID uint64 = math.MaxUint64 - 0x6b61

// Defaults of net.KeepAliveConfig, as in package net.
const (
	keepAliveIdle     = 15 * time.Second
	keepAliveInterval = 15 * time.Second
	keepAliveCount    = 9
)

// keepAlive monitors the peer of one connection. It has neither a goroutine nor a timer of its own: all share the
// Manager's wheel.
type keepAlive struct {
	id    *ID
	cfg   net.KeepAliveConfig
	qp    ci.QP
	peer  ci.PeerActivity
	timer clock.Deadline

	mu      sync.Mutex
	stopped bool
	heard   uint64 // ci.PeerActivity at the last check
	probes  int    // Intervals without a reply since then
}

// newKeepAlive checks a configuration and sets its defaults.
func (i *ID) newKeepAlive(verb string, qp ci.QP, cfg net.KeepAliveConfig) (*keepAlive, error) {
	if i.typ != ci.RC {
		detail := "keepalive is for RC: other services have no acknowledgements"
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidServiceType, Detail: detail}
	}
	if cfg.Idle < 0 || cfg.Interval < 0 || cfg.Count < 0 {
		return nil, failure.Invalid(verb,
			"keepalive: Idle %v, Interval %v and Count %d must not be negative; 0 stands for %v, %v and %d",
			cfg.Idle, cfg.Interval, cfg.Count, keepAliveIdle, keepAliveInterval, keepAliveCount)
	}
	if cfg.Idle == 0 {
		cfg.Idle = keepAliveIdle
	}
	if cfg.Interval == 0 {
		cfg.Interval = keepAliveInterval
	}
	if cfg.Count == 0 {
		cfg.Count = keepAliveCount
	}
	peer, ok := ci.As[ci.PeerActivity](qp)
	if !ok {
		detail := "keepalive: the driver does not implement ci.PeerActivity"
		return nil, &ci.Error{Verb: verb, Status: ci.Unsupported, Detail: detail}
	}
	attr, err := qp.Query()
	if err != nil {
		return nil, err
	}
	if attr.Flags&(ci.QPSignalAll|ci.QPClientSyncSend) != 0 {
		return nil, failure.Invalid(verb, "keepalive: the QP has SignalAll or ClientSyncSend, "+
			"which does not allow unsignaled probes between the application's work requests")
	}
	k := &keepAlive{id: i, cfg: cfg, qp: qp, peer: peer}
	k.timer.Fire = k.check
	return k, nil
}

// SetKeepAliveConfig turns keepalive of a connection on or off. QPConfig.KeepAlive adds an entry for the probe to the
// send queue; without it, the application leaves one entry free. The ID must have a QP. If it is not connected yet,
// keepalive begins when it is. Errors: InvalidState (no QP), net.ErrClosed, and as QPConfig.KeepAlive.
func (i *ID) SetKeepAliveConfig(cfg net.KeepAliveConfig) error {
	return i.fail("set keepalive", i.setKeepAlive("ID.SetKeepAliveConfig", cfg))
}

func (i *ID) setKeepAlive(verb string, cfg net.KeepAliveConfig) error {
	i.mu.Lock()
	s, qp := i.state, i.qp
	i.mu.Unlock()
	switch {
	case s == closed:
		return net.ErrClosed
	case qp == nil:
		return failure.InvalidState(verb, "the ID has no QP")
	}
	var k *keepAlive
	if cfg.Enable {
		var err error
		if k, err = i.newKeepAlive(verb, qp, cfg); err != nil {
			return err
		}
	}
	i.mu.Lock()
	old := i.alive
	i.alive = k
	begins := i.state == established && i.why == nil
	i.mu.Unlock()
	old.stop()
	if begins {
		k.start()
	}
	return nil
}

// watchPeer starts the keepalive of a connection that has been established, if it has one.
func (i *ID) watchPeer() {
	i.mu.Lock()
	k := i.alive
	over := i.why != nil
	i.mu.Unlock()
	if !over {
		k.start()
	}
}

// start begins to monitor the peer. It does nothing if k is nil.
func (k *keepAlive) start() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.stopped {
		k.heard = k.peer.PeerActivity()
		k.in(k.cfg.Idle)
	}
}

// stop ends it. It may be called from check, but not with a lock held that ID.end takes.
func (k *keepAlive) stop() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	k.id.m.wheel.Cancel(&k.timer)
}

// in schedules check after d; k.mu is held.
func (k *keepAlive) in(d time.Duration) { k.id.m.wheel.Set(&k.timer, k.id.m.al.Clock().Elapsed()+d) }

// check runs when the timer fires.
func (k *keepAlive) check() {
	if why := k.examine(); why != nil {
		k.id.end(why)
		k.id.pushDisconnected(nil, why)
	}
}

// examine probes the peer if it was silent. If the connection is over, it returns the reason.
func (k *keepAlive) examine() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return nil
	}
	heard := k.peer.PeerActivity()
	if heard != k.heard {
		idle := k.cfg.Idle
		if k.probes > 0 { // the reply came soon after the probe
			idle = max(idle-time.Duration(k.probes)*k.cfg.Interval, 0)
		}
		k.heard, k.probes = heard, 0
		k.in(idle)
		return nil
	}
	attr, err := k.qp.Query()
	failed := err != nil || attr.State == ci.QPError || attr.State == ci.QPReset
	switch {
	case failed && k.probes == 0: // not because of a probe
		k.stopped = true
		return ErrQPFailed
	case failed || k.probes == k.cfg.Count: // the transport's retries or the probes are used up
		k.stopped = true
		return ErrPeerLost
	case k.probes == 0:
		// A zero-length RDMA WRITE consumes no receive and accesses no memory (IBTA volume 1, 9.4.3). If the send queue
		// is full, it cannot be posted, and the peer has to acknowledge what is in the queue, which serves as well. One
		// probe is enough because the transport repeats it.
		_, _ = k.qp.PostSend([]ci.SendWR{{ID: KeepAliveID, Op: ci.OpWrite}})
	}
	k.probes++
	k.in(k.cfg.Interval)
	return nil
}
