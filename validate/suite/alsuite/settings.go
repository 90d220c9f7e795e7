package alsuite

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/ci/ciwrap/faults"
	"ciddk/clock"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Settings of the access layer and of clients.
var settings = area()

// until waits for a condition that other goroutines establish.
func until(t *validate.T, where string, isTrue func() bool) {
	for !isTrue() {
		if t.Context().Err() != nil {
			t.Fail(validate.Failure{Where: where, Expected: "soon", Got: "not by the deadline"})
		}
		runtime.Gosched()
	}
}

// timed is an access layer with a clock that the case advances.
type timed struct {
	*stage
	t     *validate.T
	clock *clock.Virtual
	inj   *faults.Injector
}

// newTimed returns an access layer with the first adapter registered, and the settings exactly as given.
func newTimed(t *validate.T, cfg accesslayer.Config) *timed {
	x := &timed{t: t, clock: clock.NewVirtual(time.Hour), inj: faults.New(t.Seed())}
	x.stage = newStageOver(t, accesslayer.Config{}, x.inj.Wrap)
	cfg.Clock = x.clock
	cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	x.al = accesslayer.New(cfg)
	x.client = x.newClient("timed")
	al := x.al
	t.Cleanup(func() { kit.OK(t, al.Close(), "AL.Close") })
	kit.True(t, al.Clock() == clock.Clock(x.clock), "AL.Clock", "Config.Clock", "another one")
	kit.True(t, al.Logger() == cfg.Logger, "AL.Logger", "Config.Logger", "another one")
	kit.OK(t, al.Register(x.hcas[0]), "Registrar.Register")
	return x
}

// pending waits until the clock has so many timers.
func (x *timed) pending(n int, where string) {
	until(x.t, where, func() bool { return x.clock.Pending() == n })
}

// after advances the clock by d, of which the last nanosecond makes calls of a verb rise by one.
func (x *timed) after(d time.Duration, verb string) {
	before := x.inj.Calls(verb)
	x.clock.Advance(d - 1)
	x.settle()
	kit.Equal(x.t, fmt.Sprintf("calls of %s before %v have passed", verb, d), x.inj.Calls(verb), before)
	x.clock.Advance(1)
	until(x.t, fmt.Sprintf("%s after %v", verb, d), func() bool { return x.inj.Calls(verb) > before })
	kit.Equal(x.t, fmt.Sprintf("calls of %s after %v", verb, d), x.inj.Calls(verb), before+1)
}

// settle lets the goroutines of the access layer run that an early timer would have started.
func (x *timed) settle() {
	for range 20 {
		runtime.Gosched()
	}
	kit.OK(x.t, x.al.WaitPnP(x.t.Context()), "AL.WaitPnP")
}

var CISetting01 = settings.Must("CI-Setting-01", "CI access layer", "accesslayer, Config",
	"The adapter is queried every PollInterval, a destroy that was refused is repeated DestroyRetries times, first "+
		"after DestroyBackoff and then after twice the time, and blocking calls end after DrainTimeout. The "+
		"defaults are one second, 5, 10 ms and 30 seconds. All times are those of Config.Clock.")

var (
	_ = settings.Case(validate.Case{
		ID:    "al.setting.poll",
		Title: "the time between queries",
		Run:   settingPoll,
	}, CISetting01)
	_ = settings.Case(validate.Case{
		ID:    "al.setting.retries",
		Title: "the times of a destroy that is repeated",
		Run:   settingRetries,
	}, CISetting01)
	_ = settings.Case(validate.Case{
		ID:    "al.setting.drain",
		Title: "the time limit of calls that wait",
		Run:   settingDrain,
	}, CISetting01)
	_ = settings.Case(validate.Case{
		ID:    "al.setting.quarantine",
		Title: "the time that is left of a quarantine",
		Run:   settingQuarantine,
	}, CISetting01)
)

func settingPoll(t *validate.T) {
	for _, v := range kit.Variants(t, "", []struct{ set, want time.Duration }{{0, time.Second},
		{time.Millisecond, time.Millisecond}, {7 * time.Hour, 7 * time.Hour}, {-1, 0}}) {
		x := newTimed(t, accesslayer.Config{PollInterval: v.set})
		if v.want == 0 {
			x.pending(0, "no timer without queries")
			before := x.inj.Calls("CA.Query")
			x.clock.Advance(24 * time.Hour)
			x.settle()
			kit.Equal(t, "calls of CA.Query without an interval", x.inj.Calls("CA.Query"), before)
		}
		for i := 0; i < 3 && v.want > 0; i++ {
			x.pending(1, "timer of the next query")
			x.after(v.want, "CA.Query")
		}
		kit.OK(t, x.al.Close(), "AL.Close")
		x.pending(0, "no timer after AL.Close")
		before := x.inj.Calls("CA.Query")
		x.clock.Advance(24 * time.Hour)
		kit.Equal(t, "calls of CA.Query after AL.Close", x.inj.Calls("CA.Query"), before)
		x.rec[0].shut(t)
	}
	byDefault := accesslayer.New(accesslayer.Config{})
	kit.True(t, byDefault.Clock() != nil, "AL.Clock by default", "a clock", "none")
	kit.True(t, byDefault.Logger() == slog.Default(), "AL.Logger by default", "slog.Default", "another one")
	kit.OK(t, byDefault.Close(), "AL.Close")
}

func settingRetries(t *validate.T) {
	for _, v := range kit.Variants(t, "", []struct {
		set     int
		backoff time.Duration
		retries int
		first   time.Duration
	}{{0, 0, 5, 10 * time.Millisecond}, {3, 0, 3, 10 * time.Millisecond}, {0, -1, 5, 10 * time.Millisecond},
		{2, time.Minute, 2, time.Minute}, {-1, 0, 0, 0}, {1, 1, 1, 1}, {18, 1, 18, 1}}) {
		lost := make(chan error, 4)
		x := newTimed(t, accesslayer.Config{PollInterval: -1, DestroyRetries: v.set, DestroyBackoff: v.backoff,
			OnDestroyError: func(err error) { lost <- err }})
		ca := made[*accesslayer.CA](t, "Client.OpenCA")(x.client.OpenCA(x.guid(0), nil))
		pd := made[*accesslayer.PD](t, "CA.NewPD")(ca.NewPD(ci.PDNormal))
		cq := made[*accesslayer.CQ](t, "PD.NewCQ")(pd.NewCQ(ci.CQCreate{Size: 4}, accesslayer.CQHandler{}))
		rule := x.inj.MustAdd(faults.Rule{Verb: "CQ.Destroy", Status: ci.ErrorStatus})
		done := make(chan error, 2)
		kit.OK(t, cq.DestroyAsync(func(err error) { done <- err }), "CQ.DestroyAsync")
		until(t, "first CQ.Destroy", func() bool { return rule.Struck() == 1 })
		wait := v.first
		for i := range v.retries {
			x.pending(1, "timer of the next try")
			kit.Equal(t, "objects that are given up before the last try", len(lost)+len(done), 0)
			x.after(wait, "CQ.Destroy")
			if i < 16 {
				wait *= 2
			}
		}
		kit.Want(t, expect(t, lost, "Config.OnDestroyError"), "error of Config.OnDestroyError", ci.ErrorStatus)
		kit.Want(t, expect(t, done, "callback of CQ.DestroyAsync"), "CQ.DestroyAsync", ci.ErrorStatus)
		kit.Equal(t, "tries of CQ.Destroy", rule.Struck(), uint64(v.retries)+1)
		x.pending(0, "no timer after the last try")
		rule.Remove()
		kit.OK(t, typed[ci.CQ](t, cq.Unwrap(), "CQ").Destroy(), "CQ.Destroy of the driver")
		kit.OK(t, x.al.Close(), "AL.Close")
	}
}

func settingDrain(t *validate.T) {
	for _, v := range kit.Variants(t, "", []struct{ set, want time.Duration }{{0, 30 * time.Second},
		{-1, 30 * time.Second}, {time.Minute, time.Minute}, {1, 1}}) {
		x := newTimed(t, accesslayer.Config{PollInterval: -1, DrainTimeout: v.set})
		ca := made[*accesslayer.CA](t, "Client.OpenCA")(x.client.OpenCA(x.guid(0), nil))
		pd := made[*accesslayer.PD](t, "CA.NewPD")(ca.NewPD(ci.PDNormal))
		cq := made[*accesslayer.CQ](t, "PD.NewCQ")(pd.NewCQ(ci.CQCreate{Size: 4}, accesslayer.CQHandler{}))
		made[*accesslayer.QP](t, "PD.NewQP")(pd.NewQP(ci.QPCreate{SendCQ: cq, RecvCQ: cq,
			QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}}, nil))
		held, release := make(chan struct{}, 1), make(chan struct{})
		rule := x.inj.MustAdd(faults.Rule{Verb: "QP.Destroy", Count: 1, Hook: func(uint64) {
			held <- struct{}{}
			<-release
		}})
		for i, f := range []struct {
			name    string
			destroy func() error
			holders string
		}{
			{"PD.Destroy", pd.Destroy, "1 CQ, 1 QP"}, {"PD.Destroy again", pd.Destroy, "1 CQ, 1 QP"},
			{"CQ.Destroy", cq.Destroy, "1 QP"}, {"CA.Destroy", ca.Destroy, "1 CQ, 1 PD, 1 QP"},
			{"Client.Close", x.client.Close, "1 CA, 1 CQ, 1 PD, 1 QP"},
			{"Deregister", func() error { return x.al.Deregister(x.guid(0)) }, "1 CA, 1 CQ, 1 PD, 1 QP"},
		} {
			result := make(chan error, 1)
			t.Go(func() { result <- f.destroy() })
			if i == 0 {
				expect(t, held, "QP.Destroy")
			}
			x.pending(1, "timer of "+f.name)
			x.clock.Advance(v.want - 1)
			x.settle()
			kit.Equal(t, "results of "+f.name+" before the time limit", len(result), 0)
			x.clock.Advance(1)
			err := expect(t, result, f.name+" at the time limit")
			kit.WantExactly(t, err, f.name+" at the time limit", ci.Timeout)
			kit.True(t, strings.Contains(err.Error(), "waiting for "+f.holders+";"), "error of "+f.name,
				"one that names "+f.holders, "%v", err)
		}
		close(release)
		rule.Remove()
		until(t, "end of the destroy", func() bool { return fmt.Sprint(x.client.Objects()) == "map[]" })
		kit.OK(t, x.al.Close(), "AL.Close")
		x.rec[0].clean(t)
	}
}

func settingQuarantine(t *validate.T) {
	w := &watched{reject: noState}
	x := newTimed(t, accesslayer.Config{PollInterval: -1})
	kit.OK(t, x.al.Deregister(x.guid(0)), "Registrar.Deregister")
	kit.OK(t, x.al.Register(w.over(x.hcas[0])), "Registrar.Register")
	ca := made[*accesslayer.CA](t, "Client.OpenCA")(x.client.OpenCA(x.guid(0), nil))
	pd := made[*accesslayer.PD](t, "CA.NewPD")(ca.NewPD(ci.PDNormal))
	cq := made[*accesslayer.CQ](t, "PD.NewCQ")(pd.NewCQ(ci.CQCreate{Size: 4}, accesslayer.CQHandler{}))
	for _, typ := range kit.Variants(t, "", []ci.QPType{ci.RC, ci.UC, ci.UD}) {
		if typ == ci.UC && !t.Claims().Has(ci.CapUC) || typ == ci.UD && !t.Claims().Has(ci.CapUD) {
			continue
		}
		create := func() *accesslayer.QP {
			return made[*accesslayer.QP](t, "PD.NewQP")(pd.NewQP(ci.QPCreate{Type: typ, SendCQ: cq, RecvCQ: cq,
				QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}}, nil))
		}
		for _, v := range []struct {
			set, passes, left time.Duration
		}{{10, 0, 10}, {time.Hour, time.Minute, 59 * time.Minute}, {10, 9, 1}, {10, 10, 0}, {10, 11, 0}, {0, 0, 0},
			{-5, 0, 0}} {
			where := fmt.Sprintf("after %v of %v", v.passes, v.set)
			q := create()
			q.TimeWait(v.set)
			x.clock.Advance(v.passes)
			isHeld := typ != ci.UD && v.left > 0
			err := q.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPRTR})
			kit.Equal(t, "QPInTimewait from QP.Modify to RTR "+where, errors.Is(err, ci.QPInTimewait), isHeld)
			for _, s := range []ci.QPState{ci.QPError, ci.QPReset} {
				kit.OK(t, q.Modify(ci.QPFieldState, ci.QPAttr{State: s}), "QP.Modify to "+s.String()+" "+where)
			}
			err = q.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPInit})
			kit.True(t, !errors.Is(err, ci.QPInTimewait), "QP.Modify to Init "+where, "not QPInTimewait", "%v", err)
			w.mu.Lock()
			w.waits = nil
			w.mu.Unlock()
			kit.OK(t, q.Destroy(), "QP.Destroy")
			want := "[]"
			if v.left > 0 {
				want = fmt.Sprint([]time.Duration{v.left})
			}
			w.mu.Lock()
			kit.Equal(t, "quarantine that the driver gets "+where, fmt.Sprint(w.waits), want)
			w.mu.Unlock()
		}
	}
	kit.OK(t, x.al.Close(), "AL.Close")
	x.rec[0].shut(t)
}

var CISetting02 = settings.Must("CI-Setting-02", "CI access layer", "accesslayer, ClientConfig",
	"For a strict client, Destroy of an object with children or users fails with ResourceBusy, a create below a "+
		"destroyed object has the status of that object, and an adapter is opened once. DestroyAsync and Close "+
		"destroy trees all the same. A role is free again when Open fails, and when its client has been closed.")

var (
	_ = settings.Case(validate.Case{
		ID:    "al.setting.strict",
		Title: "objects with children and users, of a strict client and of another one",
		Run:   settingStrict,
	}, CISetting02)
	_ = settings.Case(validate.Case{
		ID:    "al.setting.sole",
		Title: "roles of clients whose Open fails, and of clients that are being closed",
		Run:   settingSole,
	}, CISetting02)
)

func settingStrict(t *validate.T) {
	v := newVerbStage(t, accesslayer.Config{})
	for _, isStrict := range kit.Variants(t, "strict", []bool{true, false}) {
		v.build(isStrict)
		h, err := v.client.HCA(v.guid(0))
		kit.OK(t, err, "Client.HCA")
		second, err := v.client.OpenCA(v.guid(0), nil)
		third, plain := h.OpenCA(v.guid(0), func(ci.Event) {}, nil)
		if isStrict {
			kit.WantExactly(t, err, "Client.OpenCA of an adapter that the client has open", ci.ResourceBusy)
			kit.WantExactly(t, plain, "HCA.OpenCA of an adapter that the client has open", ci.ResourceBusy)
		} else {
			kit.OK(t, err, "Client.OpenCA of an adapter that the client has open")
			kit.OK(t, plain, "HCA.OpenCA of an adapter that the client has open")
			kit.OK(t, second.Destroy(), "CA.Destroy")
			kit.OK(t, third.Destroy(), "CA.Destroy")
		}
		other := v.newClient("another")
		kit.OK(t, made[*accesslayer.CA](t, "Client.OpenCA of another client")(other.OpenCA(v.guid(0), nil)).Destroy(),
			"CA.Destroy")
		if isStrict {
			for _, x := range []struct {
				name string
				o    ci.Object
			}{{"CA", v.ca}, {"PD", v.pd}, {"CQ", v.cq}} {
				for range 2 {
					kit.WantExactly(t, x.o.Destroy(), x.name+".Destroy with children or users", ci.ResourceBusy)
				}
			}
			_, err := v.pd.NewCQ(ci.CQCreate{Size: 4}, accesslayer.CQHandler{})
			kit.OK(t, err, "PD.NewCQ after a Destroy that was refused")
			for range 2 { // the special case of QPs that are destroyed first
				if v.rc.Destroy() == nil && v.qp != v.rc && v.mcast != nil {
					kit.WantExactly(t, v.qp.Destroy(), "QP.Destroy with a multicast group", ci.ResourceBusy)
					kit.OK(t, v.mcast.Destroy(), "Mcast.Destroy")
				}
			}
			if v.qp != v.rc {
				kit.OK(t, v.qp.Destroy(), "QP.Destroy")
			}
			kit.OK(t, v.cq.Destroy(), "CQ.Destroy without users")
		}
		done := make(chan error, 4)
		kit.OK(t, v.pd.DestroyAsync(func(err error) { done <- err }), "PD.DestroyAsync with children")
		kit.OK(t, expect(t, done, "callback of PD.DestroyAsync"), "PD.DestroyAsync with children")
		want := ci.InvalidState
		if isStrict {
			want = ci.InvalidPDHandle
		}
		_, err = v.pd.NewMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 8))})
		kit.WantExactly(t, err, "PD.NewMR of a destroyed PD", want)
		kit.True(t, errors.Is(err, accesslayer.ErrClosed), "PD.NewMR of a destroyed PD", "ErrClosed", "%v", err)
		kit.OK(t, v.ca.DestroyAsync(func(err error) { done <- err }), "CA.DestroyAsync with children")
		kit.OK(t, expect(t, done, "callback of CA.DestroyAsync"), "CA.DestroyAsync with children")
		if isStrict {
			want = ci.InvalidCAHandle
		}
		_, err = v.ca.NewPD(ci.PDNormal)
		kit.WantExactly(t, err, "CA.NewPD of a destroyed CA", want)
		again := made[*accesslayer.CA](t, "Client.OpenCA after CA.Destroy")(v.client.OpenCA(v.guid(0), nil))
		made[*accesslayer.PD](t, "CA.NewPD")(again.NewPD(ci.PDNormal))
		kit.OK(t, v.client.Close(), "Client.Close with objects")
		_, err = v.client.OpenCA(v.guid(0), nil)
		kit.WantExactly(t, err, "Client.OpenCA of a closed client", ci.InvalidState)
		for _, bad := range []struct {
			guid ci.GUID
			fn   func(ci.Event)
			want ci.Status
		}{{0, func(ci.Event) {}, ci.InvalidParameter}, {v.guid(0), nil, ci.InvalidParameter},
			{v.guid(0) ^ 1, func(ci.Event) {}, ci.NotFound}, {1, func(ci.Event) {}, ci.NotFound}} {
			_, err := h.OpenCA(bad.guid, bad.fn, nil)
			kit.WantExactly(t, err, "HCA.OpenCA with a wrong argument", bad.want)
		}
	}
	_, err := v.ca.NewPD(ci.PDAlias)
	kit.WantExactly(t, err, "CA.NewPD of an alias", ci.InvalidParameter)
	kit.OK(t, v.al.Deregister(v.guid(0)), "Registrar.Deregister")
	v.rec[0].shut(t)
}

func settingSole(t *validate.T) {
	s := newStage(t)
	open := func(name, role string) (*accesslayer.Client, error) {
		return s.al.Open(accesslayer.ClientConfig{Name: name, Sole: role})
	}
	first, err := open("first", "role")
	kit.OK(t, err, "AL.Open with a role")
	for range 2 {
		c, err := open("second", "role")
		kit.WantExactly(t, err, "AL.Open with a role that is taken", ci.ResourceBusy)
		kit.True(t, c == nil, "client that was not opened", "nil", "%v", c)
		kit.True(t, strings.Contains(err.Error(), `"first"`), "error of AL.Open with a role that is taken",
			"one that names the client", "%v", err)
	}
	_, err = open("without a role", "")
	kit.OK(t, err, "AL.Open without a role")
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
	// The role stays taken until the end of the client.
	entered, release := make(chan struct{}, 1), make(chan struct{})
	_, err = first.RegisterPnP(accesslayer.PnPConfig{Sync: true, Remove: func(*accesslayer.Adapter, any) {
		entered <- struct{}{}
		<-release
	}})
	kit.OK(t, err, "Client.RegisterPnP")
	done := make(chan error, 2)
	kit.OK(t, first.CloseAsync(func(err error) { done <- err }), "Client.CloseAsync")
	expect(t, entered, "remove callback")
	_, err = open("third", "role")
	close(release)
	kit.WantExactly(t, err, "AL.Open with the role of a client that is being closed", ci.ResourceBusy)
	kit.OK(t, expect(t, done, "callback of Client.CloseAsync"), "Client.CloseAsync")
	var last *accesslayer.Client
	until(t, "AL.Open with the role of a client that was closed", func() bool {
		last, err = open("fourth", "role")
		return err == nil
	})
	_, err = open("fifth", "role")
	kit.WantExactly(t, err, "AL.Open with a role that is taken again", ci.ResourceBusy)
	kit.True(t, last.AL() == s.al, "Client.AL", "the access layer of Open", "another one")
	kit.OK(t, s.al.Close(), "AL.Close")
	for range 2 { // a failed Open leaves the role free
		_, err = open("late", "role")
		kit.True(t, errors.Is(err, accesslayer.ErrClosed), "AL.Open with a role after AL.Close", "ErrClosed", "%v", err)
	}
}

var CISetting03 = settings.Must("CI-Setting-03", "CI access layer", "accesslayer, TooDeep, PD.NewSRQ",
	"TooDeep is true of errors that fewer entries may cure, and of no others. An SRQ of no entries, or of more "+
		"than the adapter supports, is rejected.")

var _ = settings.Case(validate.Case{
	ID:    "al.setting.depth",
	Title: "errors of creates that are too deep, and of others",
	Run:   settingDepth,
}, CISetting03)

func settingDepth(t *validate.T) {
	inj := faults.New(t.Seed())
	s := newStageOver(t, accesslayer.Config{}, inj.Wrap)
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
	pd := typed[*accesslayer.PD](t, s.open(s.client, 0).PD(), "PD")
	deep := map[ci.Status]bool{ci.InsufficientResources: true, ci.InsufficientMemory: true, ci.InvalidMaxWRs: true,
		ci.InvalidCQSize: true, ci.InvalidSRQSize: true}
	kit.True(t, !accesslayer.TooDeep(nil), "TooDeep of nil", "false", "true")
	kit.True(t, !accesslayer.TooDeep(errors.New("other")), "TooDeep of an error without a status", "false", "true")
	for st := ci.Status(1); st < 80; st++ {
		rule := inj.MustAdd(faults.Rule{Verb: "PD.CreateCQ", Err: fmt.Errorf("wrapped: %w",
			&ci.Error{Verb: "PD.CreateCQ", Status: st})})
		_, err := pd.NewCQ(ci.CQCreate{Size: 4}, accesslayer.CQHandler{})
		rule.Remove()
		kit.Equal(t, "TooDeep of "+st.String(), accesslayer.TooDeep(err), deep[st])
		with := &ci.Error{Verb: "PD.CreateQP", Status: st, Most: &ci.QPCaps{}}
		kit.Equal(t, "TooDeep of "+st.String()+" with sizes", accesslayer.TooDeep(with),
			deep[st] || st == ci.InvalidSetting)
	}
	_, err := pd.NewCQ(ci.CQCreate{Size: t.Attr().MaxCQEs + 1}, accesslayer.CQHandler{})
	kit.True(t, accesslayer.TooDeep(err), "TooDeep of the error for a CQ that is too large", "true", "false: %v", err)
	if !t.Claims().Has(ci.CapSRQ) {
		return
	}
	attr := t.Attr()
	for _, v := range []struct {
		wrs, sges int
		want      ci.Status
	}{{0, 1, ci.InvalidMaxWRs}, {-1, 1, ci.InvalidMaxWRs}, {attr.MaxSRQWRs + 1, 1, ci.InvalidMaxWRs},
		{1, 0, ci.InvalidMaxSGE}, {1, -1, ci.InvalidMaxSGE}, {1, attr.MaxSRQSGEs + 1, ci.InvalidMaxSGE},
		{1, 1, ci.Success}, {1, attr.MaxSRQSGEs, ci.Success}, {attr.MaxSRQWRs, 1, ci.Success}} {
		calls := inj.Calls("PD.CreateSRQ")
		srq, err := pd.NewSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: v.wrs, MaxSGE: v.sges}}, nil)
		where := fmt.Sprintf("PD.NewSRQ of %d requests and %d entries", v.wrs, v.sges)
		if v.want != ci.Success {
			kit.WantExactly(t, err, where, v.want)
			kit.Equal(t, "calls of the driver by "+where, inj.Calls("PD.CreateSRQ"), calls)
			continue
		}
		kit.OK(t, err, where)
		kit.OK(t, srq.Destroy(), "SRQ.Destroy")
	}
	s.rec[0].clean(t)
}

// reporting stands above the driver. It has reports of datagrams that were not delivered.
type reporting struct {
	ciwrap.HCA
	fn    *func(ci.Undelivered)
	stops *int
}

func (r reporting) OnUndelivered(fn func(ci.Undelivered)) (stop func()) {
	*r.fn = fn
	return func() { *r.stops++ }
}

// unreporting hides the reports of the driver.
type unreporting struct{ ci.HCA }

var CISetting04 = settings.Must("CI-Setting-04", "CI access layer", "accesslayer, Adapter.OnUndelivered",
	"Adapter.OnUndelivered passes on the reports of the adapter until it is stopped, and returns false for an "+
		"adapter without reports.")

var _ = settings.Case(validate.Case{
	ID:    "al.setting.undelivered",
	Title: "adapters with reports of datagrams that were not delivered, and without",
	Run:   settingUndelivered,
}, CISetting04)

func settingUndelivered(t *validate.T) {
	s := newStage(t)
	var fn func(ci.Undelivered)
	stops := 0
	for _, has := range kit.Variants(t, "reports", []bool{true, false}) {
		var h ci.HCA = unreporting{s.hcas[0]}
		if has {
			h = reporting{ciwrap.HCA{HCA: s.hcas[0]}, &fn, &stops}
		}
		kit.OK(t, s.al.Register(h), "Registrar.Register")
		a, err := s.al.Adapter(s.guid(0))
		kit.OK(t, err, "AL.Adapter")
		calls := 0
		stop, ok := a.OnUndelivered(func(ci.Undelivered) { calls++ })
		kit.Equal(t, "second result of Adapter.OnUndelivered", ok, has)
		if has {
			fn(ci.Undelivered{})
			kit.Equal(t, "calls for a report of the adapter", calls, 1)
		}
		stop()
		kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister")
	}
	kit.Equal(t, "reports that were stopped", stops, 1)
	s.rec[0].shut(t)
}
