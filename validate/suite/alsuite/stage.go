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

// stage is an access layer over the target's adapters, with a recorder for each adapter and a client.
type stage struct {
	t      *validate.T
	al     *accesslayer.AL
	client *accesslayer.Client
	hcas   []ci.HCA // in the order of registration
	rec    []*recorder
}

// newStage returns an access layer without adapters, and a recorder for each adapter of the target. The access layer is
// closed at the end of the case, which must succeed.
func newStage(t *validate.T) *stage {
	s := &stage{t: t, al: accesslayer.New(accesslayer.Config{
		Logger:         slog.New(slog.NewTextHandler(io.Discard, nil)), // the cases check the results
		PollInterval:   -1,                                             // no queries except those of the case
		DrainTimeout:   t.Remaining() / 2,
		DestroyBackoff: time.Millisecond,
	})}
	t.Cleanup(func() {
		if err := s.al.Close(); err != nil {
			t.Report(validate.Failure{Where: "AL.Close at the end of the case", Expected: "success",
				Got: kit.Describe(err)})
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

// open opens adapter i through the access layer. All objects that package kit creates on it belong to the access layer.
func (s *stage) open(c *accesslayer.Client, i int) *kit.CA {
	h, err := c.HCA(s.guid(i))
	kit.OK(s.t, err, "Client.HCA")
	return kit.OpenHCA(s.t, h)
}

// pair returns a connection between the first two adapters, or within the only one.
func (s *stage) pair() *kit.Pair {
	a := s.open(s.client, 0)
	b := a
	if len(s.hcas) > 1 {
		b = s.open(s.client, 1)
	}
	c := kit.Options(a, b, kit.Type(ci.RC))
	p := &kit.Pair{A: a.End(c), B: b.End(c)}
	kit.Connect(p.A.QP, p.B.QP)
	return p
}

// expect waits for a value that a callback sends.
func expect[V any](t *validate.T, c <-chan V, where string) V {
	timer := time.NewTimer(t.Remaining())
	defer timer.Stop()
	select {
	case v := <-c:
		return v
	case <-timer.C:
		t.Fail(validate.Failure{Where: where, Expected: "a callback", Got: "no callback by the deadline"})
		panic("not reached: Fail ends the case")
	}
}

// none expects that no value is sent within 10 ms.
func none[V any](t *validate.T, c <-chan V, where string) {
	timer := time.NewTimer(10 * time.Millisecond)
	defer timer.Stop()
	select {
	case v := <-c:
		t.Fail(validate.Failure{Where: where, Expected: "no further callback", Got: fmt.Sprint(v)})
	case <-timer.C:
	}
}
