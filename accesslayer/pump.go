package accesslayer

import (
	"context"
	"sync"
	"time"

	"ciddk/ci"
)

// PumpConfig describes a pump.
type PumpConfig struct {
	Mode  PollMode
	Spin  time.Duration // as Poller.Spin
	Batch int           // completions handed over at once, at most; 0: 64

	// Handle gets all completions in order; wc is used again when it has returned. It may block: then completions wait in the CQ.
	Handle func(wc []ci.WC)
	// OnStop is called when the pump stops by itself, because the driver answers a poll with an error. May be nil.
	OnStop func(error)
}

// Pump is a goroutine that consumes the completions of a CQ. When Destroy or Close has returned, Handle does not run and will not;
// what was not consumed is still in the CQ. From Handle, use DestroyAsync. The destruction of the CQ ends it.
type Pump struct {
	object
	q    *CQ
	kick chan struct{} // one token: calls wait

	mu    sync.Mutex
	calls []func()
}

// NewPump starts a pump. Status: InvalidParameter (no Handle); InvalidState with ErrClosed.
func (q *CQ) NewPump(cfg PumpConfig) (*Pump, error) {
	const verb = "CQ.NewPump"
	if cfg.Handle == nil {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "Handle is nil"}
	}
	if cfg.Batch <= 0 {
		cfg.Batch = 64
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Pump{q: q, kick: make(chan struct{}, 1)}
	p.n = &node{kind: kindPump, obj: p, dying: cancel}
	// The goroutine holds a reference, from when the pump is alive, so the CQ outlives it.
	p.n.born = func() {
		p.n.refs++
		go func() {
			defer p.n.leave()
			p.run(ctx, Poller{CQ: q, Mode: cfg.Mode, Spin: cfg.Spin}, cfg)
		}()
	}
	if err := p.n.make(q.n, verb, nothing); err != nil {
		cancel()
		return nil, err
	}
	return p, nil
}

// CatchUp makes the pump poll the CQ, which may drive its port (ci.CQ.Poll), and calls f on the pump's goroutine, between calls of Handle,
// when the completions that were there have been handled. If the CQ does not get empty, f is called after catchUpMost completions. It does
// not block. f is not called when the pump ends first.
//
// A timer that waits for a completion, or for a message, uses CatchUp before it counts a timeout: what it waits for may be there already.
func (p *Pump) CatchUp(f func()) {
	p.mu.Lock()
	p.calls = append(p.calls, f)
	p.mu.Unlock()
	select {
	case p.kick <- struct{}{}:
	default: // the pump has not taken the token of another call yet
	}
}

const (
	// catchUpMost bounds the completions that CatchUp waits for.
	catchUpMost = 4096
	// catchUpPolls is how many polls in a row find an empty CQ empty: one receive of a port may return the error of an earlier send instead.
	catchUpPolls = 2
)

func (p *Pump) run(ctx context.Context, from Poller, cfg PumpConfig) {
	wc := make([]ci.WC, cfg.Batch)
	for ctx.Err() == nil {
		var err error
		select { // completions that come all the time must not hold a CatchUp up
		case <-p.kick:
			err = p.settle(ctx, wc, cfg.Handle)
		default:
			var n int
			n, err = from.next(ctx, wc, p.kick)
			if n > 0 {
				cfg.Handle(wc[:n])
			} else if err == nil {
				err = p.settle(ctx, wc, cfg.Handle)
			}
		}
		if err == nil {
			continue
		}
		if ctx.Err() == nil {
			p.n.al.cfg.Logger.Error("accesslayer: a pump cannot poll its CQ and stops", "error", err)
			if cfg.OnStop != nil {
				cfg.OnStop(err)
			}
		}
		return
	}
}

// settle handles what is in the CQ, and makes the calls of CatchUp that had been asked for.
func (p *Pump) settle(ctx context.Context, wc []ci.WC, handle func([]ci.WC)) error {
	p.mu.Lock()
	calls := p.calls
	p.calls = nil
	p.mu.Unlock()
	for handled, empty := 0, 0; handled < catchUpMost && empty < catchUpPolls && ctx.Err() == nil; {
		n, err := p.q.Poll(wc)
		if err != nil {
			return err
		}
		if n == 0 {
			empty++
			continue
		}
		empty = 0
		handled += n
		handle(wc[:n])
	}
	for _, f := range calls {
		if ctx.Err() != nil {
			break
		}
		f()
	}
	return nil
}
