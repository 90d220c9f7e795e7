package bench

import (
	"errors"
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/link/direct"
	"ciddk/rvt"
)

// directPair holds two connected HCAs of this process.
type directPair struct{ a, b *side }

func newDirectPair() (*directPair, error) {
	link := direct.NewLink()
	return connectPair(shallow, func() (rvt.Port, error) { return direct.New(link, direct.Config{}) })
}

// connectPair opens two HCAs and connects them.
func connectPair(c ci.QPCaps, open openPort) (p *directPair, err error) {
	p = new(directPair)
	if p.a, err = newSide(open, c); err != nil {
		return nil, err
	}
	if p.b, err = newSide(open, c); err != nil {
		return nil, errors.Join(err, p.a.close())
	}
	if err = errors.Join(p.a.connect(p.a.qp, p.b.address()), p.b.connect(p.b.qp, p.a.address())); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Close closes both sides. Rigs use it, too.
func (p *directPair) Close() error { return errors.Join(p.a.close(), p.b.close()) }

// directWrite measures one WRITE at a time, executed by the posting goroutine.
type directWrite struct {
	*directPair
	w *streamer
}

const directWrites = 200

func openDirectWrite() (Rig, error) {
	p, err := newDirectPair()
	if err != nil {
		return nil, err
	}
	return &directWrite{p, newStreamer(p.a, flow{op: ci.OpWrite, to: p.b.mem, size: mib, per: 1, depth: 1})}, nil
}

func (d *directWrite) Run(entry int) (Sample, error) {
	if entry == 0 {
		return measure(directWrites, func() error { return d.w.run(directWrites, nil) })
	}
	return measure(directWrites, func() error {
		for range directWrites {
			copy(d.b.buf[:mib], d.a.buf[:mib]) // between the same buffers
		}
		return nil
	})
}

// directSend measures SENDs. With apart, one goroutine posts and polls and another polls and posts. Otherwise one
// goroutine does both, so the time is that of all the work.
type directSend struct {
	*directPair
	s     *streamer
	r     *receiver
	apart bool
	hop   int // messages that the yardstick's ring passes on at a time
}

const directSends = 64000

func openDirectSend(apart bool, hop int) (Rig, error) {
	p, err := newDirectPair()
	if err != nil {
		return nil, err
	}
	d := &directSend{directPair: p, apart: apart, hop: hop}
	room := new(atomic.Int64)
	recvs := 3
	if !apart {
		recvs = 1 // the receives are reposted before the next batch
	}
	if d.r, err = newReceiver(p.b, small, recvs, room); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	d.s = newStreamer(p.a, flow{op: ci.OpSend, size: small, per: batch, depth: batch})
	d.s.room, d.s.yield = room, true
	return d, nil
}

func (d *directSend) Run(entry int) (Sample, error) {
	if entry == 1 {
		return measure(directSends, func() error { ringHop(directSends, d.hop); return nil })
	}
	return measure(directSends, func() error {
		if !d.apart {
			for range directSends / batch {
				if err := d.s.run(batch, nil); err != nil {
					return err
				}
				if err := d.r.run(batch); err != nil {
					return err
				}
			}
			return nil
		}
		var wg sync.WaitGroup
		var err error
		wg.Go(func() { err = d.r.run(directSends) })
		e := d.s.run(directSends, nil)
		wg.Wait()
		return errors.Join(e, err)
	})
}
