package kit_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/fakehca"
	"ciddk/validate/kit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runCase runs the body of a case over a fake adapter and returns its result.
func runCase(t *testing.T, f fakehca.Faults, link ci.Link, body func(*validate.T)) validate.Result {
	t.Helper()
	c := validate.MustCatalog(validate.Suite{Cases: []validate.Case{{
		ID: "kit.case", Title: "t", Requirements: []string{"SAS-0-01"}, Feature: validate.FeatureCore, Run: body,
		Timeout: 400 * time.Millisecond,
	}}})
	d := validate.Driver{Name: "fake", Open: func(context.Context, validate.Options) (*validate.Target, error) {
		h := fakehca.New(0x42, link, f)
		return &validate.Target{HCAs: []ci.HCA{h}, Live: h.Live}, nil
	}}
	p := validate.Plan{
		Catalog: c, Driver: d, OneAttempt: true,
		Setting: validate.Setting{Profile: "minimal", Options: validate.Options{Seed: 3}},
	}
	r, err := p.Run(t.Context())
	require.NoError(t, err)
	require.Len(t, r.Results, 1)
	return r.Results[0]
}

func TestExpectations(t *testing.T) {
	bad := func(s ci.Status) error { return &ci.Error{Verb: "V", Status: s, Detail: "d"} }
	for name, x := range map[string]struct {
		body     func(*validate.T)
		expected string // "" passes
		got      string
	}{
		"OK":       {body: func(t *validate.T) { kit.OK(t, nil, "v") }},
		"OK fails": {func(t *validate.T) { kit.OK(t, bad(ci.Timeout), "v") }, "success", "timeout (V: timeout: d)"},
		"Want":     {body: func(t *validate.T) { kit.Want(t, bad(ci.NotFound), "v", ci.NotFound) }},
		"Want one of": {
			func(t *validate.T) { kit.Want(t, bad(ci.Timeout), "v", ci.NotFound, ci.InvalidPort) },
			"not found or invalid port", "timeout (V: timeout: d)",
		},
		"Want, no error": {func(t *validate.T) { kit.Want(t, nil, "v", ci.NotFound) }, "not found", "success"},
		"Want, no status": {
			func(t *validate.T) { kit.Want(t, errors.New("boo"), "v", ci.NotFound) },
			"not found", "an error that wraps no ci.Status: boo",
		},
		"exactly": {
			func(t *validate.T) {
				kit.WantExactly(t, bad(ci.InsufficientMemory), "v", ci.InsufficientResources)
			},
			"insufficient resources", "insufficient memory (V: insufficient memory: d)",
		},
		"Equal":         {func(t *validate.T) { kit.Equal(t, "n", 1, 2) }, "2", "1"},
		"AtLeast":       {func(t *validate.T) { kit.AtLeast(t, "n", 1, 2) }, "at least 2", "1"},
		"AtLeast holds": {body: func(t *validate.T) { kit.AtLeast(t, "n", 2, 2) }},
		"True":          {func(t *validate.T) { kit.True(t, false, "w", "x", "y%d", 1) }, "x", "y1"},
		"SameBytes": {
			func(t *validate.T) { kit.SameBytes(t, "w", []byte{1, 2, 9, 9}, []byte{1, 2, 3, 4}) },
			"03 04", "09 09 (2 bytes differ)",
		},
		"length": {func(t *validate.T) { kit.SameBytes(t, "w", []byte{1}, []byte{1, 2}) }, "2 bytes", "1 bytes"},
		"Claim unclaimed": {
			func(t *validate.T) { kit.Claim(t, ci.CapSRQ, nil, "v") },
			"Unsupported, since SRQ is not claimed", "success",
		},
		"Claim agrees": {body: func(t *validate.T) { kit.Claim(t, ci.CapSRQ, bad(ci.Unsupported), "v") }},
		"no error, object": {func(t *validate.T) {
			ca := kit.Open(t)
			pd, err := ca.AllocatePD(ci.PDNormal)
			kit.WantRefused(t, pd, err, "v", ci.NotFound)
		}, "not found", "success"},
		"object beside an error": {func(t *validate.T) {
			kit.WantRefused(t, kit.Open(t).PD(), bad(ci.NotFound), "v", ci.NotFound)
		}, "no object beside the error", "not found (V: not found: d) and an object of type *fakehca.pd"},
		"another object": {func(t *validate.T) {
			ca := kit.Open(t)
			kit.SameObject(t, "w", ca.PD(), ca.PD())
		}, "the object given at creation (*fakehca.pd)", "*fakehca.pd, another object"},
		"event": {func(t *validate.T) { kit.NewEvents(t).Wait(ci.EventQPFatal) }, `the event "QP fatal"`, "no event"},
		"no event": {func(t *validate.T) {
			e := kit.NewEvents(t)
			e.Add(ci.Event{Type: ci.EventPortDown, Port: 2})
			e.Only(ci.EventQPAPM)
		}, "no event but QP path migrated", "port down (port 2)"},
		"state": {func(t *validate.T) {
			ca := kit.Open(t)
			pd := ca.PD()
			cq := ca.CQ(pd, 4)
			ca.QP(pd, cq, cq).WantState(ci.QPRTS, ci.QPSQD)
		}, "RTS or SQD", "Reset"},
		"wait": {
			func(t *validate.T) { ca := kit.Open(t); ca.CQ(ca.PD(), 4).Wait(2) },
			"2 completions", "0 by the deadline: no completion",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := runCase(t, fakehca.Faults{}, ci.LinkEthernet, x.body)
			if x.expected == "" {
				assert.Equal(t, validate.Pass, r.Status, "%+v", r.Failures)
				return
			}
			require.Equal(t, validate.Fail, r.Status)
			require.Len(t, r.Failures, 1, "%+v", r.Failures)
			assert.Equal(t, x.expected, r.Failures[0].Expected)
			assert.Equal(t, x.got, r.Failures[0].Got)
			assert.False(t, r.Failures[0].Setup)
		})
	}
}

func TestAliasIsNoted(t *testing.T) {
	r := runCase(t, fakehca.Faults{}, ci.LinkEthernet, func(t *validate.T) {
		kit.Want(t, ci.InsufficientMemory, "v", ci.InsufficientResources)
	})
	assert.Equal(t, validate.Pass, r.Status)
	require.Len(t, r.Notes, 1)
	assert.Contains(t, r.Notes[0].Text, "accepted alias")
}

// TestPair checks that a pair is connected, carries data both ways, and is destroyed after the case, on either link
// layer.
func TestPair(t *testing.T) {
	for _, link := range []ci.Link{ci.LinkEthernet, ci.LinkInfiniBand} {
		r := runCase(t, fakehca.Faults{}, link, func(t *validate.T) {
			p := kit.RC(t, kit.Depth(4), kit.Size(4096))
			p.A.Exchange(p.B, 1000)
			p.B.Exchange(p.A, 0)
			q := p.More(true)
			q.A.Exchange(q.B, 7)
			p.A.WantState(ci.QPRTS)
			kit.Equal(t, "path", p.A.CA.AddressOf(p.B.CA).Global, link == ci.LinkEthernet)
			p.A.RecvCQ.Empty()
			p.A.RecvCQ.Quiet(2 * time.Millisecond)
		})
		assert.Equal(t, validate.Pass, r.Status, "%+v", r.Failures)
	}
}

// TestSetupIsMarked checks that failures of the set-up, and consequences of a failure, are marked.
func TestSetupIsMarked(t *testing.T) {
	r := runCase(t, fakehca.Faults{NoQuery: true}, ci.LinkEthernet, func(t *validate.T) { kit.RC(t) })
	require.NotEmpty(t, r.Failures)
	assert.True(t, r.Failures[0].Setup)
	assert.False(t, r.Blames("SAS-0-01"))

	r = runCase(t, fakehca.Faults{}, ci.LinkEthernet, func(t *validate.T) {
		pd, err := kit.Open(t).AllocatePD(ci.PDNormal) // never destroyed: CA.Destroy fails, and the PD is left
		kit.OK(t, err, "CA.AllocatePD")
		kit.Equal(t, "is nil", pd == nil, true)
	})
	require.Len(t, r.Failures, 3, "%+v", r.Failures)
	assert.False(t, r.Failures[0].Setup)
	assert.Equal(t, "CA.Destroy at the end of the case", r.Failures[1].Where)
	assert.True(t, r.Failures[1].Setup)
	assert.Equal(t, validate.CauseLeak, r.Failures[2].Cause)
	assert.True(t, r.Failures[2].Setup)
}

func TestLeakIsAFinding(t *testing.T) {
	r := runCase(t, fakehca.Faults{LeakOn: "CQ.Destroy"}, ci.LinkEthernet, func(t *validate.T) {
		ca := kit.Open(t)
		ca.CQ(ca.PD(), 4)
	})
	require.Len(t, r.Failures, 1)
	assert.Equal(t, "+1 cq", r.Failures[0].Got)
	assert.True(t, r.Blames("SAS-0-01"))
}

func TestOwnAcceptsWhatTheCaseDestroyed(t *testing.T) {
	r := runCase(t, fakehca.Faults{}, ci.LinkEthernet, func(t *validate.T) {
		ca := kit.Open(t)
		pd := ca.PD()
		kit.DestroyTwice(t, ca.Buf(pd, 8, kit.AllAccess), "MR", ci.InvalidMRHandle)
		kit.Destroy(t, pd, "PD")
		kit.OK(t, ca.Destroy(), "CA.Destroy")
	})
	assert.Equal(t, validate.Pass, r.Status, "%+v", r.Failures)
}

// TestStateOfBothEnds checks that a failure shows the states of the QPs of both ends, and the completions of their
// queues.
func TestStateOfBothEnds(t *testing.T) {
	r := runCase(t, fakehca.Faults{}, ci.LinkEthernet, func(t *validate.T) {
		p := kit.RC(t)
		p.A.Exchange(p.B, 10)
		p.B.Recv(p.B.RecvWR(7, 0, 100))
		p.A.Send(p.A.SendWR(8, 0, 5))
		p.A.CQ.WaitOK(8)
		p.B.QP.To(ci.QPError)
		t.Failf("x", "one thing", "another")
	})
	require.Equal(t, validate.Fail, r.Status)
	text := strings.Join(r.State, "\n")
	assert.Regexp(t, `(?m)^A, the driver's end: RC QP 0x[0-9a-f]+: RTS$`, text)
	assert.Regexp(
		t,
		`(?m)^A, the driver's end: send queue: completions taken: request 1702388584: success .*; request 8: success `,
		text,
	)
	assert.Regexp(t, `(?m)^B, the peer: RC QP 0x[0-9a-f]+: Error$`, text)
	assert.Regexp(t, `(?m)^B, the peer: receive queue: completions taken: request 1702388584: .*; `+
		`still in the queue: request 7: success `, text)

	r = runCase(t, fakehca.Faults{}, ci.LinkEthernet, func(t *validate.T) { kit.RC(t) })
	assert.Equal(t, validate.Pass, r.Status)
	assert.Empty(t, r.State, "only for a case that did not pass")
}

// TestStateOfABrokenDriver checks that a failure is reported although the driver hangs or panics when its objects are
// described.
func TestStateOfABrokenDriver(t *testing.T) {
	release := make(chan struct{})
	for _, x := range []struct {
		fault fakehca.Faults
		want  string
	}{
		{fakehca.Faults{PanicOn: "QP.Query"}, "panic: fakehca: panic in QP.Query"},
		{fakehca.Faults{HangOn: "QP.Query", Release: release}, "the driver did not answer within 1s"},
	} {
		r := runCase(t, x.fault, ci.LinkEthernet, func(t *validate.T) {
			kit.RC(t)
			t.Failf("x", "one thing", "another")
		})
		require.Equal(t, validate.Fail, r.Status)
		assert.Equal(t, "another", r.Failures[0].Got)
		assert.Contains(t, strings.Join(r.State, "\n"), x.want)
	}
	close(release)
}
