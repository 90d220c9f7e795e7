package bench

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"ciddk/bus/local"
	"ciddk/ci"
	"ciddk/hca/mlx4"
	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/fw"
	"ciddk/link/direct"
)

// mlx4Cases compare the ConnectX-3 driver, on a model in the process, with the reference HCA. Both use the direct link.
func mlx4Cases() []Case {
	const yard = "the reference HCA, in the same way"
	ours := func(c Case, what string) Case {
		c.Ours = []Entry{{Name: "ours", What: what}}
		c.Yards = []Entry{{Name: "yardstick", What: yard}}
		return c
	}
	return []Case{
		ours(Case{Name: "mlx4/send-64B", Want: 2, Op: "message", Bytes: small, Open: openMLX4Send},
			"SEND of 64 bytes by the ConnectX-3 driver on a model, in batches of 32, post to poll on both sides"),
		ours(Case{Name: "mlx4/write-1MiB", Want: 0.8, AtLeast: true, Op: "message", Bytes: mib, Open: openMLX4Write},
			"RDMA WRITE of 1 MiB by the ConnectX-3 driver on a model, post to poll"),
	}
}

// newMLX4Side returns a ConnectX-3 on a link, with one QP.
func newMLX4Side(link *direct.Link, guid ci.GUID, c ci.QPCaps) (s *side, err error) {
	s = &side{buf: make([]byte, bufBytes), wake: make(chan struct{}, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	p, err := direct.New(link, direct.Config{})
	if err != nil {
		return s, err
	}
	m, err := model.New(model.Config{Ports: []model.PortConfig{{Link: p}}, GUID: guid})
	if err != nil {
		return s, err
	}
	s.undo = append(s.undo, m.Close)
	f := local.New(m, "model")
	s.undo = append(s.undo, f.Close)
	h, err := mlx4.New(context.Background(), f, mlx4.Config{Firmware: fw.Config{ResetDelay: time.Nanosecond}})
	if err != nil {
		return s, err
	}
	s.undo = append(s.undo, h.Close)
	if err := s.openCA(h, ci.Bytes(s.buf)); err != nil {
		return s, err
	}
	return s, s.equip(c)
}

// newMLX4Pair returns two ConnectX-3 that are connected.
func newMLX4Pair() (p *directPair, err error) {
	const guid = 0x02ddcd0000000100
	link := direct.NewLink()
	p = new(directPair)
	if p.a, err = newMLX4Side(link, guid, shallow); err != nil {
		return nil, err
	}
	if p.b, err = newMLX4Side(link, guid+0x100, shallow); err != nil {
		return nil, errors.Join(err, p.a.close())
	}
	if err = errors.Join(p.a.connect(p.a.qp, p.b.address()), p.b.connect(p.b.qp, p.a.address())); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// adapterPairs are a pair of ConnectX-3 and a pair of reference HCAs, in the order of entries.
type adapterPairs [2]*directPair

func newAdapterPairs() (a adapterPairs, err error) {
	if a[0], err = newMLX4Pair(); err != nil {
		return a, err
	}
	if a[1], err = newDirectPair(); err != nil {
		return a, errors.Join(err, a[0].Close())
	}
	return a, nil
}

// Close closes all adapters.
func (a adapterPairs) Close() error { return errors.Join(a[0].Close(), a[1].Close()) }

// mlx4Write measures one WRITE at a time.
type mlx4Write struct {
	adapterPairs
	w [2]*streamer
}

func openMLX4Write() (Rig, error) {
	pairs, err := newAdapterPairs()
	if err != nil {
		return nil, err
	}
	m := &mlx4Write{adapterPairs: pairs}
	for i, p := range pairs {
		m.w[i] = newStreamer(p.a, flow{op: ci.OpWrite, to: p.b.mem, size: mib, per: 1, depth: 1})
	}
	return m, nil
}

// Run implements Rig.
func (m *mlx4Write) Run(entry int) (Sample, error) {
	return measure(directWrites, func() error { return m.w[entry].run(directWrites, nil) })
}

// mlx4Send measures SENDs in batches. One goroutine posts and polls both sides.
type mlx4Send struct {
	adapterPairs
	s [2]*streamer
	r [2]*receiver
}

func openMLX4Send() (Rig, error) {
	pairs, err := newAdapterPairs()
	if err != nil {
		return nil, err
	}
	m := &mlx4Send{adapterPairs: pairs}
	for i, p := range pairs {
		room := new(atomic.Int64)
		if m.r[i], err = newReceiver(p.b, small, 1, room); err != nil {
			return nil, errors.Join(err, m.Close())
		}
		m.s[i] = newStreamer(p.a, flow{op: ci.OpSend, size: small, per: batch, depth: batch})
		m.s[i].room, m.s[i].yield = room, true
	}
	return m, nil
}

// Run implements Rig.
func (m *mlx4Send) Run(entry int) (Sample, error) {
	return measure(directSends, func() error {
		for range directSends / batch {
			if err := m.s[entry].run(batch, nil); err != nil {
				return err
			}
			if err := m.r[entry].run(batch); err != nil {
				return err
			}
		}
		return nil
	})
}
