package alsuite

import (
	"fmt"
	"sync"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// What a driver calls when its device appears and goes. (SAS 2.2.)
var loads = area()

// desk stands between a driver that is loaded and an access layer. It records the driver's calls.
type desk struct {
	al     *accesslayer.AL
	rec    *recorder
	reject error // result of Register, if not nil

	mu    sync.Mutex
	calls []string
	hca   ci.HCA
}

var _ ci.Registrar = (*desk)(nil)

func (d *desk) record(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, fmt.Sprintf(format, args...))
}

// all returns the calls so far.
func (d *desk) all() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fmt.Sprint(d.calls)
}

// Register implements ci.Registrar.
func (d *desk) Register(h ci.HCA) error {
	if ci.IsNil(h) {
		d.record("register nil")
		return &ci.Error{Verb: "Registrar.Register", Status: ci.InvalidParameter}
	}
	d.record("register %016x", uint64(h.Info().GUID))
	d.mu.Lock()
	d.hca = h
	d.mu.Unlock()
	if d.reject != nil {
		return d.reject
	}
	return d.al.Register(d.rec.over(h))
}

// Deregister implements ci.Registrar.
func (d *desk) Deregister(guid ci.GUID) error {
	d.record("deregister %016x", uint64(guid))
	return d.al.Deregister(guid)
}

var _ = loads.With(validate.Case{Checks: []string{req.SAS0_02.ID, req.SAS2_2_09.ID}}).Add("al.load.unload",
	"the driver is loaded and unloaded, and registers and deregisters its adapter",
	func(t *validate.T) { loadAndEnd(t, false) }, req.SAS2_2_05, req.SAS0_02, req.SAS2_2_09)

var _ = loads.With(validate.Case{Checks: []string{req.SAS0_02.ID, req.SAS2_2_09.ID}}).Add("al.load.gone",
	"the device is pulled out while clients use it, and the driver deregisters its adapter",
	func(t *validate.T) { loadAndEnd(t, true) }, req.SAS2_2_05, req.SAS0_02, req.SAS2_2_09)

func loadAndEnd(t *validate.T, gone bool) {
	s := newStage(t)
	changes := make(chan string, 64)
	_, err := s.client.RegisterPnP(accesslayer.PnPConfig{Sync: true,
		Add: func(a *accesslayer.Adapter) (any, error) {
			changes <- fmt.Sprint("added ", a.GUID())
			return nil, nil
		},
		Remove: func(a *accesslayer.Adapter, _ any) { changes <- fmt.Sprint("removed ", a.GUID()) }})
	kit.OK(t, err, "Client.RegisterPnP")
	what := "unloaded"
	if gone {
		what = "pulled out"
	}
	for _, busy := range kit.Variants(t, "in use", []bool{false, true, true}) {
		d := &desk{al: s.al, rec: newRecorder()}
		end, err := t.Load(d)
		kit.OK(t, err, "loading the driver")
		isOver := false
		unload := func(gone bool) error { isOver = true; return end(gone) }
		t.Cleanup(func() { // if the case fails
			if !isOver {
				_ = unload(false)
			}
		})
		adapters := s.al.Adapters()
		t.Charge(req.SAS0_02.ID, func() {
			kit.Equal(t, "adapters after the driver was loaded", len(adapters), 1)
		})
		guid := adapters[0].GUID()
		registered := fmt.Sprintf("register %016x", uint64(guid))
		t.Charge(req.SAS0_02.ID, func() {
			kit.Equal(t, "calls of the driver that was loaded", d.all(), fmt.Sprintf("[%s]", registered))
		})
		kit.Equal(t, "notice of clients", expect(t, changes, "add callback"), fmt.Sprint("added ", guid))
		if busy {
			h, err := s.client.HCA(guid)
			kit.OK(t, err, "Client.HCA")
			ca, err := h.OpenCA(guid, func(ci.Event) {}, nil)
			kit.OK(t, err, "HCA.OpenCA")
			inUse(t, ca)
		}
		kit.OK(t, unload(gone), "end of a driver that is "+what)
		kit.Equal(t, "calls of a driver that was loaded and "+what, d.all(),
			fmt.Sprintf("[%s deregister %016x]", registered, uint64(guid)))
		kit.Equal(t, "notice of clients", expect(t, changes, "remove callback"), fmt.Sprint("removed ", guid))
		kit.Equal(t, "adapters after the driver was "+what, len(s.al.Adapters()), 0)
		t.Charge(req.SAS2_2_09.ID, func() {
			d.rec.shut(t)
			_, err := d.hca.OpenCA(guid, func(ci.Event) {}, nil)
			kit.True(t, err != nil, "HCA.OpenCA of an adapter whose driver was "+what, "an error", "success")
		})
	}
}

// inUse creates objects that nobody destroys.
func inUse(t *validate.T, ca ci.CA) {
	attr, err := ca.Query()
	kit.OK(t, err, "CA.Query")
	pd, err := ca.AllocatePD(ci.PDNormal)
	kit.OK(t, err, "CA.AllocatePD")
	cq, err := pd.CreateCQ(ci.CQCreate{Size: 4})
	kit.OK(t, err, "PD.CreateCQ")
	qp, err := pd.CreateQP(ci.QPCreate{Type: ci.RC, QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1,
		RecvSGE: 1}, SendCQ: cq, RecvCQ: cq})
	kit.OK(t, err, "PD.CreateQP")
	kit.OK(t, qp.Modify(ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: attr.Ports[0].Num}), "QP.Modify")
	mr, err := pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 64)), Access: kit.AllAccess})
	kit.OK(t, err, "PD.RegisterMR")
	_, err = qp.PostRecv([]ci.RecvWR{{ID: 1, SGL: []ci.SGE{mr.Region().SGE(0, 64)}}})
	kit.OK(t, err, "QP.PostRecv")
}

var _ = loads.Add("al.load.rejected",
	"the access layer rejects the adapter of a driver that is loaded", func(t *validate.T) {
		s := newStage(t)
		for _, v := range kit.Variants(t, "", []ci.Status{ci.ResourceBusy, ci.InvalidParameter, ci.Unsupported}) {
			d := &desk{al: s.al, rec: newRecorder(), reject: &ci.Error{Verb: "Registrar.Register", Status: v}}
			unload, err := t.Load(d)
			if err == nil {
				_ = unload(false)
			}
			kit.WantExactly(t, err, "loading a driver whose registration is rejected", v)
			_, err = d.hca.OpenCA(d.hca.Info().GUID, func(ci.Event) {}, nil)
			kit.True(t, err != nil, "HCA.OpenCA of an adapter whose registration was rejected", "an error", "success")
			d = &desk{al: s.al, rec: newRecorder()}
			unload, err = t.Load(d)
			kit.OK(t, err, "loading the driver again")
			kit.OK(t, unload(false), "end of the driver")
			d.rec.shut(t)
		}
	}, loads.Must("CI-Load-01", "CI access layer", "ci, Registrar",
		"A driver whose registration is rejected reports the error and drives the device no more. The device can be "+
			"loaded again."))
