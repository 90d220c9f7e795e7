package rdmacm

import (
	"math"
	"net"
	"sync"
	"time"

	"ciddk/ci"
	"ciddk/clock"
)

// KeepAliveID is the work request ID of keepalive probes. It is the ID of a completion only when the connection ends while a probe is
// outstanding: then the probe completes with an error, as all work does.
const KeepAliveID uint64 = math.MaxUint64 - 0x6b61

// Defaults of net.KeepAliveConfig, as in package net.
const (
	keepAliveIdle     = 15 * time.Second
	keepAliveInterval = 15 * time.Second
	keepAliveCount    = 9
)

// keepAlive watches the peer of one connection. It has neither a goroutine nor a timer of its own: the Manager has one wheel for all.
type keepAlive struct {
	id    *ID
	cfg   net.KeepAliveConfig
	qp    ci.QP
	peer  ci.PeerActivity
	timer clock.Deadline

	mu      sync.Mutex
	stopped bool
	heard   uint64 // of the peer at the last look
	probes  int    // since then
}

// newKeepAlive checks a configuration, and fills in its defaults.
func (i *ID) newKeepAlive(verb string, qp ci.QP, cfg net.KeepAliveConfig) (*keepAlive, error) {
	if i.typ != ci.RC {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidServiceType, Detail: "keepalive is for RC: other services have no acknowledgements"}
	}
	if cfg.Idle < 0 || cfg.Interval < 0 || cfg.Count < 0 {
		return nil, invalid(verb, "keepalive: Idle %v, Interval %v and Count %d must not be negative; 0 stands for %v, %v and %d",
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
		return nil, &ci.Error{Verb: verb, Status: ci.Unsupported, Detail: "keepalive: the driver does not tell when a QP's peer was heard (ci.PeerActivity)"}
	}
	attr, err := qp.Query()
	if err != nil {
		return nil, err
	}
	if attr.Flags&(ci.QPSignalAll|ci.QPClientSyncSend) != 0 {
		return nil, invalid(verb, "keepalive: the QP has SignalAll or ClientSyncSend: probes are unsignaled, and posted beside the application's work")
	}
	k := &keepAlive{id: i, cfg: cfg, qp: qp, peer: peer}
	k.timer.Fire = k.look
	return k, nil
}

// SetKeepAliveConfig turns keepalive of a connection on or off: see QPConfig.KeepAlive, which makes room for the probe in the send queue.
// Without that, the application leaves one place free. The ID has a QP; if it is not connected yet, keepalive begins when it is.
// Errors: InvalidState (no QP), net.ErrClosed, and as QPConfig.KeepAlive.
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
		return invalidState(verb, "the ID has no QP")
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

// watchPeer begins to watch the peer of a connection that has been established.
func (i *ID) watchPeer() {
	i.mu.Lock()
	k := i.alive
	over := i.why != nil
	i.mu.Unlock()
	if !over {
		k.start()
	}
}

// start begins to watch; nil watches nothing.
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

// stop ends watching. It may be called from look, and by nobody who holds a lock that ID.end takes.
func (k *keepAlive) stop() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	k.id.m.wheel.Cancel(&k.timer)
}

// in has look called after d; k.mu is held.
func (k *keepAlive) in(d time.Duration) { k.id.m.wheel.Set(&k.timer, k.id.m.al.Clock().Now()+d) }

// look is the timer.
func (k *keepAlive) look() {
	if why := k.examine(); why != nil {
		k.id.end(why)
		k.id.tell(nil, why)
	}
}

// examine probes the peer if it was silent, and returns the reason for which the connection is over.
func (k *keepAlive) examine() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return nil
	}
	heard := k.peer.PeerActivity()
	if heard != k.heard {
		idle := k.cfg.Idle
		if k.probes > 0 { // the answer came soon after the probe
			idle = max(idle-time.Duration(k.probes)*k.cfg.Interval, 0)
		}
		k.heard, k.probes = heard, 0
		k.in(idle)
		return nil
	}
	attr, err := k.qp.Query()
	failed := err != nil || attr.State == ci.QPError || attr.State == ci.QPReset
	switch {
	case failed && k.probes == 0: // by itself, or by the application
		k.stopped = true
		return ErrQPFailed
	case failed || k.probes == k.cfg.Count: // the transport has tried as often as it was told, or the time is over
		k.stopped = true
		return ErrPeerLost
	case k.probes == 0:
		// A zero-length RDMA WRITE consumes no receive and touches no memory (IBTA volume 1, 9.4.3). If it cannot be posted since the send queue
		// is full, what is in the queue is as good: the peer has to acknowledge it. One is enough, for the transport repeats it.
		_, _ = k.qp.PostSend([]ci.SendWR{{ID: KeepAliveID, Op: ci.OpWrite}})
	}
	k.probes++
	k.in(k.cfg.Interval)
	return nil
}
