package alsuite

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// stage is an access layer with the target's adapters behind recorders, and a client.
type stage struct {
	t      *validate.T
	al     *accesslayer.AL
	client *accesslayer.Client
	hcas   []ci.HCA // as they are registered
	rec    []*recorder
}

// newStage makes an access layer without adapters. It is closed when the case is over, and must close.
func newStage(t *validate.T) *stage {
	s := &stage{t: t, al: accesslayer.New(accesslayer.Config{
		Logger:         slog.New(slog.NewTextHandler(io.Discard, nil)), // cases check what matters
		PollInterval:   -1,                                             // no query but those that a case causes
		DrainTimeout:   t.Remaining() / 2,
		DestroyBackoff: time.Millisecond,
	})}
	t.Cleanup(func() {
		if err := s.al.Close(); err != nil {
			t.Report(validate.Failure{Where: "AL.Close at the end of the case", Expected: "success", Got: kit.Describe(err)})
		}
	})
	for _, h := range t.HCAs() {
		r := newRecorder()
		s.rec = append(s.rec, r)
		s.hcas = append(s.hcas, r.over(h))
	}
	s.client = s.newClient("certifier")
	return s
}

// registered is newStage with the adapters registered.
func registered(t *validate.T) *stage {
	s := newStage(t)
	for _, h := range s.hcas {
		kit.OK(t, s.al.Register(h), "Registrar.Register")
	}
	return s
}

func (s *stage) newClient(name string) *accesslayer.Client {
	c, err := s.al.Open(accesslayer.ClientConfig{Name: name})
	kit.OK(s.t, err, "AL.Open")
	return c
}

func (s *stage) guid(i int) ci.GUID { return s.hcas[i].Info().GUID }

// open opens the i-th adapter through the access layer, for package kit: all that kit makes on it is the access layer's.
func (s *stage) open(c *accesslayer.Client, i int) *kit.CA {
	h, err := c.HCA(s.guid(i))
	kit.OK(s.t, err, "Client.HCA")
	return kit.OpenHCA(s.t, h)
}

// pair is a connection between the first two adapters, or within the only one.
func (s *stage) pair(opts ...kit.Option) *kit.Pair {
	a := s.open(s.client, 0)
	b := a
	if len(s.hcas) > 1 {
		b = s.open(s.client, 1)
	}
	c := kit.Options(a, b, append(opts, kit.Type(ci.RC))...)
	p := &kit.Pair{A: a.End(c), B: b.End(c)}
	kit.Connect(p.A.QP, p.B.QP)
	return p
}

// expect waits for a value of a channel that a callback fills.
func expect[V any](t *validate.T, c <-chan V, where string) V {
	timer := time.NewTimer(t.Remaining())
	defer timer.Stop()
	select {
	case v := <-c:
		return v
	case <-timer.C:
		t.Fail(validate.Failure{Where: where, Expected: "a callback", Got: "none by the deadline"})
		panic("not reached: Fail ends the case")
	}
}

// none expects that nothing comes for a moment.
func none[V any](t *validate.T, c <-chan V, where string) {
	timer := time.NewTimer(10 * time.Millisecond)
	defer timer.Stop()
	select {
	case v := <-c:
		t.Fail(validate.Failure{Where: where, Expected: "nothing more", Got: fmt.Sprint(v)})
	case <-timer.C:
	}
}
