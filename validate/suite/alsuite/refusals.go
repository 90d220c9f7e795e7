package alsuite

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Drivers that refuse to destroy an object.
var refusals = area()

// stubborn stands above the driver. It refuses to destroy regions and the CA.
type stubborn struct {
	mu     sync.Mutex
	left   map[string]int // calls to refuse, by kind of object
	calls  map[string]int
	status ci.Status
	last   ci.MR // the region of the last refused call
}

func newStubborn() *stubborn { return &stubborn{left: map[string]int{}, calls: map[string]int{}} }

func (s *stubborn) over(h ci.HCA) ci.HCA {
	return ciwrap.Wrap(h, ciwrap.Layer{
		CA: func(c ci.CA) ci.CA { return stubbornCA{ciwrap.CA{CA: c}, s} },
		MR: func(m ci.MR, _ ciwrap.MROrigin) ci.MR { return stubbornMR{ciwrap.MR{MR: m}, s} },
	})
}

// refuse sets how many calls are refused, and with which status.
func (s *stubborn) refuse(kind string, n int, status ci.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left, s.calls, s.status = map[string]int{kind: n}, map[string]int{}, status
}

// count returns the number of calls since refuse.
func (s *stubborn) count(kind string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[kind]
}

// call counts a call, and returns the error of one that is refused.
func (s *stubborn) call(kind string) error {
	s.calls[kind]++
	if s.left[kind]--; s.left[kind] < 0 {
		return nil
	}
	return &ci.Error{Verb: kind + ".Destroy", Status: s.status}
}

type stubbornCA struct {
	ciwrap.CA
	s *stubborn
}

func (c stubbornCA) Destroy() error {
	c.s.mu.Lock()
	err := c.s.call("CA")
	c.s.mu.Unlock()
	if err != nil {
		return err
	}
	return c.CA.Destroy()
}

type stubbornMR struct {
	ciwrap.MR
	s *stubborn
}

func (m stubbornMR) Destroy() error {
	m.s.mu.Lock()
	err := m.s.call("MR")
	if err != nil {
		m.s.last = m.MR.MR
	}
	m.s.mu.Unlock()
	if err != nil {
		return err
	}
	return m.MR.Destroy()
}

// numRetries is the number of repetitions of a destroy in these cases.
const numRetries = 2

var CIRefuse01 = refusals.Must("CI-Refuse-01", "CI access layer", "accesslayer, Config.DestroyRetries, OnDestroyError",
	"A destroy that the driver refuses is repeated as often as DestroyRetries, unless the driver does not know the "+
		"object. Then the object is given up, and the program, OnDestroyError and later calls get the error. A region "+
		"in use stays usable instead.")

var _ = refusals.Case(validate.Case{
	ID:    "al.refuse.object",
	Title: "the driver refuses to destroy a region, a few times and always",
	Run:   refuseObject,
}, CIRefuse01)

func refuseObject(t *validate.T) {
	d, lost := newStubborn(), make(chan error, 16)
	cfg := accesslayer.Config{DestroyRetries: numRetries, OnDestroyError: func(err error) { lost <- err }}
	s := newStageOver(t, cfg, d.over)
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
	ca := s.open(s.client, 0)
	pd := typed[*accesslayer.PD](t, ca.PD(), "PD")
	region := func() *accesslayer.MR {
		mr, err := pd.NewMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 64)), Access: kit.AllAccess})
		kit.OK(t, err, "PD.NewMR")
		return mr
	}
	for _, v := range kit.Variants(t, "", []struct {
		name     string
		refused  int
		status   ci.Status
		calls    int
		isGiven  bool // the object is given up
		isWaited bool // Destroy, and not DestroyAsync
	}{
		{"once", 1, ci.ErrorStatus, 2, false, false},
		{"as often as it is repeated", numRetries, ci.ErrorStatus, numRetries + 1, false, false},
		{"as often as it is repeated, as busy", numRetries, ci.ResourceBusy, numRetries + 1, false, false},
		{"once more", numRetries + 1, ci.ErrorStatus, numRetries + 1, true, false},
		{"once more, to a program that waits", numRetries + 1, ci.InsufficientResources, numRetries + 1, true, true},
		{"because it does not know it", 1, ci.InvalidMRHandle, 1, true, true},
	}) {
		mr := region()
		d.refuse("MR", v.refused, v.status)
		var err error
		if v.isWaited {
			err = mr.Destroy()
		} else {
			done := make(chan error, 4)
			kit.OK(t, mr.DestroyAsync(func(err error) { done <- err }), "MR.DestroyAsync")
			err = expect(t, done, "callback of MR.DestroyAsync")
			none(t, done, "callbacks of MR.DestroyAsync")
		}
		where := "destroy of a region that the driver refuses " + v.name
		kit.Equal(t, "calls of MR.Destroy, "+where, d.count("MR"), v.calls)
		again := mr.Destroy()
		kit.WantExactly(t, again, "second MR.Destroy, "+where, ci.InvalidMRHandle)
		kit.True(t, errors.Is(again, accesslayer.ErrClosed), "second MR.Destroy, "+where, "ErrClosed", "%v", again)
		kit.Equal(t, "ErrGivenUp in the error of the second MR.Destroy, "+where,
			errors.Is(again, accesslayer.ErrGivenUp), v.isGiven)
		if !v.isGiven {
			kit.OK(t, err, where)
			none(t, lost, "Config.OnDestroyError, "+where)
			continue
		}
		kit.Want(t, err, where, v.status)
		kit.Want(t, expect(t, lost, "Config.OnDestroyError"), "error of Config.OnDestroyError, "+where, v.status)
		none(t, lost, "further calls of Config.OnDestroyError, "+where)
		kit.OK(t, d.last.Destroy(), "MR.Destroy of the driver")
	}
	mr := region()
	d.refuse("MR", 1, ci.ResourceBusy)
	kit.Want(t, mr.Destroy(), "MR.Destroy of a region in use", ci.ResourceBusy)
	kit.Equal(t, "calls of MR.Destroy for a region in use", d.count("MR"), 1)
	_, err := mr.Query()
	kit.OK(t, err, "MR.Query after the destroy that failed")
	kit.OK(t, mr.Destroy(), "MR.Destroy of a region that is not in use any more")
	none(t, lost, "Config.OnDestroyError for a region in use")
	kit.OK(t, pd.Destroy(), "PD.Destroy")
	s.rec[0].clean(t)
}

var CIRefuse02 = refusals.Must("CI-Refuse-02", "CI access layer", "accesslayer, AL.Deregister",
	"An adapter whose driver refuses to close it stays registered, and Deregister returns the error. Another "+
		"Deregister closes it, and then it can be registered again.")

var _ = refusals.Case(validate.Case{
	ID:    "al.refuse.adapter",
	Title: "the driver refuses to close the CA",
	Run:   refuseAdapter,
}, CIRefuse02)

func refuseAdapter(t *validate.T) {
	d, lost := newStubborn(), make(chan error, 16)
	cfg := accesslayer.Config{DestroyRetries: numRetries, OnDestroyError: func(err error) { lost <- err }}
	s := newStageOver(t, cfg, d.over)
	removed := make(chan ci.GUID, 8)
	_, err := s.client.RegisterPnP(accesslayer.PnPConfig{Sync: true,
		Remove: func(a *accesslayer.Adapter, _ any) { removed <- a.GUID() }})
	kit.OK(t, err, "Client.RegisterPnP")
	for i := range 2 {
		kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
		kit.OK(t, s.al.WaitPnP(t.Context()), "AL.WaitPnP")
		ca := s.open(s.client, 0)
		ca.CQ(ca.PD(), 4)
		const refused = 2 * (numRetries + 1) // of two calls of Deregister
		d.refuse("CA", refused, ci.ResourceBusy)
		for call := range 2 {
			where := fmt.Sprintf("call %d of Registrar.Deregister while the driver refuses, round %d", call+1, i+1)
			kit.WantExactly(t, s.al.Deregister(s.guid(0)), where, ci.ResourceBusy)
			kit.Equal(t, "calls of CA.Destroy after "+where, d.count("CA"), (call+1)*(numRetries+1))
			kit.Want(t, expect(t, lost, "Config.OnDestroyError"), "error of Config.OnDestroyError", ci.ResourceBusy)
		}
		kit.WantExactly(t, s.al.Register(s.hcas[0]), "Registrar.Register of an adapter that is not closed",
			ci.ResourceBusy)
		_, err := s.al.Adapter(s.guid(0))
		kit.WantExactly(t, err, "AL.Adapter of an adapter that is not closed", ci.NotFound)
		kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister when the driver does not refuse any more")
		kit.Equal(t, "calls of CA.Destroy", d.count("CA"), refused+1)
		kit.Equal(t, "removed adapter", expect(t, removed, "remove callback"), s.guid(0))
		none(t, removed, "remove callbacks of one adapter")
		kit.WantExactly(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister of a removed adapter", ci.NotFound)
	}
	none(t, lost, "Config.OnDestroyError after the last refusal")
	s.rec[0].shut(t)
}

var CIRefuse03 = refusals.Must("CI-Refuse-03", "CI access layer", "accesslayer, Config.DrainTimeout",
	"A destroy that waits for a callback for DrainTimeout returns Timeout. It continues, and ends when the callback "+
		"does.")

var _ = refusals.Case(validate.Case{
	ID:    "al.refuse.callback",
	Title: "a callback blocks while its object is destroyed",
	Run:   refuseCallback,
}, CIRefuse03)

func refuseCallback(t *validate.T) {
	s := newStageOver(t, accesslayer.Config{DrainTimeout: 20 * time.Millisecond}, nil)
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
	if len(s.hcas) > 1 {
		kit.OK(t, s.al.Register(s.hcas[1]), "Registrar.Register")
	}
	p := s.pair()
	pd := typed[*accesslayer.PD](t, p.A.PD, "PD")
	entered, release := make(chan struct{}, 8), make(chan struct{})
	isOpen := false
	open := func() {
		if !isOpen {
			close(release)
		}
		isOpen = true
	}
	defer open()
	c := p.A.QP.Create()
	c.OnEvent = nil
	qp, err := pd.NewQP(c, func(*accesslayer.QP, ci.Event) {
		entered <- struct{}{}
		<-release
	})
	kit.OK(t, err, "PD.NewQP")
	p.A.QP.QP = kit.Own[ci.QP](t, qp, "QP")
	p.B.QP.To(ci.QPReset)
	kit.Connect(p.A.QP, p.B.QP)
	before := s.rec[0].count("QP.Destroy")
	drain(t, qp)
	expect(t, entered, "event callback")
	kit.WantExactly(t, qp.Destroy(), "QP.Destroy while a callback blocks", ci.Timeout)
	kit.WantExactly(t, qp.Destroy(), "second QP.Destroy while a callback blocks", ci.Timeout)
	done := make(chan error, 4)
	kit.OK(t, pd.DestroyAsync(func(err error) { done <- err }), "PD.DestroyAsync")
	none(t, done, "callback of PD.DestroyAsync while a callback of its QP blocks")
	_, err = qp.Query()
	kit.True(t, errors.Is(err, accesslayer.ErrClosed), "QP.Query while its destruction waits", "ErrClosed", "%v", err)
	open()
	kit.OK(t, expect(t, done, "callback of PD.DestroyAsync"), "PD.DestroyAsync")
	err = qp.Destroy()
	kit.WantExactly(t, err, "QP.Destroy after its destruction", ci.InvalidQPHandle)
	kit.True(t, errors.Is(err, accesslayer.ErrClosed) && !errors.Is(err, accesslayer.ErrGivenUp),
		"QP.Destroy after its destruction", "ErrClosed", "%v", err)
	kit.Equal(t, "destroys of both QPs of the PD that reached the driver", s.rec[0].count("QP.Destroy")-before, 2)
	// The rest is destroyed without a limit, which a busy machine may need.
	kit.OK(t, s.client.CloseAsync(func(err error) { done <- err }), "Client.CloseAsync")
	kit.OK(t, expect(t, done, "callback of Client.CloseAsync"), "Client.CloseAsync")
	s.rec[0].clean(t)
}
