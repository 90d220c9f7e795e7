package accesslayer

import (
	"context"
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
type Pump struct{ object }

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
	p := &Pump{}
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

func (p *Pump) run(ctx context.Context, from Poller, cfg PumpConfig) {
	wc := make([]ci.WC, cfg.Batch)
	for ctx.Err() == nil {
		n, err := from.Next(ctx, wc)
		if n > 0 {
			cfg.Handle(wc[:n])
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
