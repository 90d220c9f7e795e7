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
	Spin  time.Duration // see Poller.Spin
	Batch int           // maximum number of completions per call of Handle; 0: 64

	// Handle is called with all completions, in order. wc is reused after Handle returns. Handle may block; completions
	// then stay in the CQ.
	Handle func(wc []ci.WC)
	// OnStop, if not nil, is called when the pump stops because Poll returned an error.
	OnStop func(error)
}

// Pump is a goroutine that consumes the completions of a CQ. When Destroy has returned, Handle does not run and will
// not run; completions that were not consumed are still in the CQ. Use DestroyAsync in Handle. Destroying the CQ
// destroys the pump.
type Pump struct {
	object
	q    *CQ
	kick chan struct{} // holds a token while calls are pending

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
	p.n = &node{kind: kindPump, obj: p, onDestroy: cancel}
	// The goroutine holds a reference, so that the CQ is destroyed after it.
	p.n.onCreated = func() {
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

// CatchUp makes the pump poll the CQ, which may drive its port (ci.CQ.Poll), until the CQ is empty. Then the pump calls
// f on its goroutine, between calls of Handle. If the CQ does not become empty, f is called after maxCatchUp
// completions. CatchUp does not block. f is not called if the pump ends first.
//
// A timer that waits for a completion or a message calls CatchUp before it counts a timeout, since what it waits for
// may have arrived.
func (p *Pump) CatchUp(f func()) {
	p.mu.Lock()
	p.calls = append(p.calls, f)
	p.mu.Unlock()
	select {
	case p.kick <- struct{}{}:
	default: // the pump has not taken the token of an earlier call
	}
}

const (
	// maxCatchUp bounds the completions that CatchUp waits for.
	maxCatchUp = 4096
	// catchUpPolls is the number of consecutive polls without a completion after which the CQ counts as empty. One poll
	// is not enough: a port's receive may return the error of an earlier send instead.
	catchUpPolls = 2
)

func (p *Pump) run(ctx context.Context, from Poller, cfg PumpConfig) {
	from.Kick = p.kick
	wc := make([]ci.WC, cfg.Batch)
	for ctx.Err() == nil {
		var err error
		select { // a steady flow of completions must not delay CatchUp
		case <-p.kick:
			err = p.settle(ctx, wc, cfg.Handle)
		default:
			var n int
			n, err = from.Next(ctx, wc)
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
			p.n.al.cfg.Logger.Error("accesslayer: a pump stops: polling its CQ failed", "error", err)
			if cfg.OnStop != nil {
				cfg.OnStop(err)
			}
		}
		return
	}
}

// settle handles the completions in the CQ, and then makes the calls of CatchUp.
func (p *Pump) settle(ctx context.Context, wc []ci.WC, handle func([]ci.WC)) error {
	p.mu.Lock()
	calls := p.calls
	p.calls = nil
	p.mu.Unlock()
	for handled, empty := 0, 0; handled < maxCatchUp && empty < catchUpPolls && ctx.Err() == nil; {
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
