package bench

import (
	"errors"
	"fmt"
	"net/netip"

	"ciddk/ci"
)

// A half is the part of one process in the rounds of one case entry. Both processes create theirs, exchange addresses,
// join, and then run as often as there are rounds.
type half interface {
	address() address
	// join takes the peer's address. The first half joins before the second.
	join(address) error
	// run performs ops operations. In the first half, w records each of them unless w is nil.
	run(ops int, w *watch) error
	// end follows each run of the first half and is not measured. It wakes a second half that sleeps.
	end() error
	close() error
}

// A role describes a half: the kind of work and the side.
type role struct {
	Kind  string // key of kinds
	First bool   // the measuring side, which begins
	Size  int    // bytes of a message
	Per   int    // streams of messages: every Per-th is signaled
	Depth int    // streams of messages: maximum outstanding
	Own   bool   // through a daemon: memory of the process, and not memory that is shared with the daemon
}

// A host holds what the halves of a process share.
type host struct {
	addr netip.Addr
	side *side // an HCA; each half has a QP of its own on it
	more byte  // HCAs that halves have created for themselves
}

// kinds are the kinds of halves. To time an operation of two processes, add an entry here and cases that name it.
var kinds = map[string]func(*host, role) (half, error){
	"send":       stream(ci.OpSend),
	"write":      stream(ci.OpWrite),
	"read":       stream(ci.OpRead),
	"send-ping":  ping(ci.OpSend),
	"write-ping": ping(ci.OpWrite),
	"trains":     newTrains,
	"udp":        socketStream(newUDPLink),
	"udp-ping":   socketPing(newUDPLink),
	"udp-fetch":  socketFetch(newUDPLink),
	"tcp":        socketStream(newTCPLink),
	"tcp-ping":   socketPing(newTCPLink),
	"tcp-fetch":  socketFetch(newTCPLink),

	"connect":     newConnectHalf(false),
	"connect-qp":  newConnectHalf(true),
	"tcp-connect": newTCPConnectHalf,

	"relay":      newRelayEnd,
	"relay-ping": newRelayEnd,
	"memfd-copy": newMemfdCopy,
	ucxKind:      newUCXHalf,
}

func newHalf(h *host, r role) (half, error) {
	make, ok := kinds[r.Kind]
	if !ok {
		return nil, fmt.Errorf("unknown kind of work %q", r.Kind)
	}
	return make(h, r)
}

// verbsHalf is a half with a QP.
type verbsHalf struct {
	*side
	ready func(to ci.Region) error // creates the work
	work  func(ops int, w *watch) error
	over  *streamer // send end messages, because the other side sleeps
}

func newVerbsHalf(h *host, own bool) (*verbsHalf, error) {
	if h.side == nil {
		return nil, errors.New("this process has no HCA")
	}
	s, err := h.side.another(deep)
	if err != nil {
		return nil, err
	}
	if own {
		if err := s.useOwnMemory(); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return &verbsHalf{side: s}, nil
}

func (v *verbsHalf) join(to address) error {
	if err := v.connect(v.qp, to); err != nil {
		return err
	}
	return v.ready(to.Mem)
}

func (v *verbsHalf) run(ops int, w *watch) error { return v.work(ops, w) }

func (v *verbsHalf) end() error {
	if v.over == nil {
		return nil
	}
	return v.over.run(batch, nil)
}

// recvBatches returns the number of batches that a receiver posts for a flow: several times the maximum outstanding,
// limited by the queue.
func recvBatches(depth int) int { return max(1, min(6*depth/batch, (deep.RecvDepth-batch)/batch)) }

// stream moves messages one way. Its second half polls. With one-sided operations the second half sleeps until the end
// messages, but polls where operations are timed one by one (Depth 1).
func stream(op ci.SendOp) func(*host, role) (half, error) {
	return func(h *host, r role) (half, error) {
		v, err := newVerbsHalf(h, r.Own)
		if err != nil {
			return nil, err
		}
		v.ready = func(to ci.Region) error {
			if r.First {
				s := newStreamer(v.side, flow{op: op, size: r.Size, to: to, per: r.Per, depth: r.Depth})
				v.work = s.run
				if op != ci.OpSend {
					v.over = newStreamer(v.side, flow{op: ci.OpSend, size: small, per: batch, depth: batch})
				}
				return nil
			}
			if op == ci.OpSend {
				x, err := newReceiver(v.side, r.Size, recvBatches(r.Depth), nil)
				v.work = func(ops int, _ *watch) error { return x.run(ops) }
				return err
			}
			x, err := newSleeper(v.side)
			v.work = func(int, *watch) error { return x.run() }
			if r.Depth == 1 && err == nil {
				v.work = func(int, *watch) error { return x.receiver.run(batch) }
			}
			return err
		}
		return v, nil
	}
}

func ping(op ci.SendOp) func(*host, role) (half, error) {
	return func(h *host, r role) (half, error) {
		if 2*r.Size > bufBytes {
			return nil, fmt.Errorf("messages of %d bytes are too large: %d is the most", r.Size, bufBytes/2)
		}
		v, err := newVerbsHalf(h, r.Own)
		if err != nil {
			return nil, err
		}
		v.ready = func(to ci.Region) error {
			b, err := newBouncer(v.side, flow{op: op, size: r.Size, to: to})
			v.work = func(ops int, w *watch) error { return b.run(ops, r.First, w) }
			return err
		}
		return v, nil
	}
}

// socketHalf is a half with a link instead of a QP.
type socketHalf struct {
	link
	work func(ops int, w *watch) error
}

func (s *socketHalf) run(ops int, w *watch) error { return s.work(ops, w) }
func (s *socketHalf) end() error                  { return nil }

type newLink func(*host, role) (link, error)

func socketStream(open newLink) func(*host, role) (half, error) {
	return func(h *host, r role) (half, error) {
		l, err := open(h, r)
		return &socketHalf{l, func(ops int, _ *watch) error {
			if r.First {
				return l.push(ops, true)
			}
			return l.pull(ops, true)
		}}, err
	}
}

func socketPing(open newLink) func(*host, role) (half, error) {
	return func(h *host, r role) (half, error) {
		l, err := open(h, r)
		return &socketHalf{l, func(ops int, w *watch) error {
			for range ops {
				if r.First {
					w.start()
					if err := l.push(1, false); err != nil {
						return err
					}
				}
				if err := l.pull(1, false); err != nil {
					return err
				}
				if !r.First {
					if err := l.push(1, false); err != nil {
						return err
					}
				}
				w.stop(2)
			}
			return nil
		}}, err
	}
}

// socketFetch is the yardstick for READs: a small request, answered with a message.
func socketFetch(open newLink) func(*host, role) (half, error) {
	return func(h *host, r role) (half, error) {
		l, err := open(h, r)
		return &socketHalf{l, func(ops int, w *watch) error {
			for range ops {
				w.start()
				if r.First {
					if err := errors.Join(l.ask(), l.pull(1, false)); err != nil {
						return err
					}
				} else if err := l.asked(); err != nil {
					return err
				} else if err := l.push(1, false); err != nil {
					return err
				}
				w.stop(1)
			}
			return nil
		}}, err
	}
}
